//! The cache of upstreams' responses, on real sockets.
#![allow(clippy::unwrap_used)]

mod collapse;
#[allow(dead_code, reason = "of the socket, which these tests do not need")]
#[path = "../common/mod.rs"]
mod common;
mod disk;
mod places;
mod purge;
mod reuse;
mod stale;
mod stored;
mod support;
