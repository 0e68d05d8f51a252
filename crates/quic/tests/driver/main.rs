//! Endpoints over sockets of the system, and over a network inside the test.
#![allow(clippy::unwrap_used)]

mod common;
mod connections;
mod early_data;
mod memory;
mod migration;
mod network;
mod sockets;
mod steering;
mod streams;
