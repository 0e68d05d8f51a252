//! The pure core of hikyaku: what is known of a client's path, and which transport serves it fastest.
//!
//! [`Observation`](client::sample::Observation)s go in with the time, [`Decision`](transport::Decision)s come out
//! as data with their reasons. There is no clock, socket, thread or file here, and all randomness
//! comes from seeds that callers give: a recorded trace replays bit for bit.
#![forbid(unsafe_code)]

pub mod choice;
pub mod client;
pub mod codec;
pub mod egress;
pub mod explain;
pub mod model;
pub mod page;
pub mod policy;
mod stat;
pub mod transport;
