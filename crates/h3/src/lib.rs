#![doc = include_str!("../README.md")]

mod budget;
pub mod connection;
pub mod error;
mod frame;
pub mod message;
pub mod priority;
pub mod qpack;
pub mod settings;
pub mod stream;
mod varint;
