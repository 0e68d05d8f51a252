#![doc = include_str!("../README.md")]

pub mod connection;
pub mod error;
mod frame;
mod hpack;
pub mod message;
pub mod output;
mod scheduler;
pub mod section;
pub mod settings;
mod stream;

pub use hikyaku_http_common::priority;
