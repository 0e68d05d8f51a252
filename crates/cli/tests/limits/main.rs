//! Clients that are slow, greedy or hostile, while others are served.
#![allow(clippy::unwrap_used)]

mod admission;
mod floods;
mod idle;
mod memory;
mod sizes;
mod support;
mod timeouts;
