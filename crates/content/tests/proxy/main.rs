//! The reverse proxy between real sockets.
#![allow(clippy::unwrap_used)]

mod bodies;
mod connections;
mod failures;
mod fields;
mod reuse;
mod support;
mod versions;
mod websocket;
