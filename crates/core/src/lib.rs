#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

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
