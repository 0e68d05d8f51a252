//! WebSocket over HTTP/2 (RFC 8441) and HTTP/3 (RFC 9220), towards an upstream of HTTP/1.1.
#![allow(clippy::unwrap_used)]

mod ends;
mod messages;
mod refusals;
mod upstream;
