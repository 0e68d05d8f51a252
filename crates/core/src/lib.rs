//! The pure core of hikyaku: what is known of a client's path, and which transport serves it fastest.
//!
//! [`Observation`](sample::Observation)s go in with the time, [`Decision`](decide::Decision)s come out
//! as data with their reasons. There is no clock, socket, thread or file here, and all randomness
//! comes from seeds that callers give: a recorded trace replays bit for bit.
#![forbid(unsafe_code)]

pub mod choice;
pub mod codec;
pub mod connections;
pub mod decide;
pub mod egress;
pub mod estimate;
pub mod explain;
pub mod key;
pub mod model;
pub mod policy;
pub mod sample;
mod saved_path;
mod stat;
pub mod table;
pub mod udp;
pub mod view;
