#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod bounded;
pub mod choice;
pub mod client;
pub mod codec;
pub mod egress;
pub mod explain;
pub mod fleet;
pub mod gain;
pub mod model;
pub mod page;
pub mod policy;
mod stat;
pub mod transport;
pub mod what_if;
