//! The server behind balancers and proxies of other projects, and behind a mapped port.
#![allow(clippy::unwrap_used, reason = "tests")]

mod haproxy;
mod headers;
mod mapped;
mod proxies;
mod quic_lb;
mod tcp;
