//! Upgrades of a running server: its sockets go to another process, and no client notices.
#![allow(clippy::unwrap_used)]

mod activation;
mod clients;
mod failures;
mod load;
mod manager;
mod state;
mod support;
mod transfers;
