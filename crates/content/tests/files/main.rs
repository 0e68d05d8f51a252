//! The file server against a real directory, and through hyper on a real socket.
#![allow(clippy::unwrap_used)]

mod changes;
mod codings;
#[path = "../common/mod.rs"]
mod common;
mod conditions;
mod listing;
mod ranges;
mod sockets;
mod status;
mod support;
