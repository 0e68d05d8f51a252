//! The reverse proxy between real sockets.
#![allow(clippy::unwrap_used)]

mod allocations;
mod bodies;
mod checks;
#[path = "../common/mod.rs"]
mod common;
mod connections;
mod failures;
mod fields;
mod groups;
mod http1;
mod mortal;
mod nginx;
mod places;
mod repeats;
mod reuse;
mod support;
mod versions;
mod websocket;
