#![doc = include_str!("../README.md")]

pub mod connection;
pub mod error;
mod frame;
pub mod message;
pub mod qpack;
pub mod settings;
pub mod stream;
mod varint;

pub use hikyaku_http_common::priority;
