//! The reverse proxy between real sockets.
#![allow(clippy::unwrap_used)]

mod allocations;
mod bodies;
#[path = "../common/mod.rs"]
mod common;
mod connections;
mod failures;
mod fields;
mod http1;
mod reuse;
mod support;
mod versions;
mod websocket;
