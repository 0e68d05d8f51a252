//! Starts, reloads, stops and crashes, with clients in the middle of it.
#![allow(clippy::unwrap_used)]

mod reload;
mod stop;
mod store;
