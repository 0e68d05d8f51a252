#![doc = include_str!("../README.md")]

mod client;
mod driver;
mod error;
mod order;
mod outlet;
mod receiving;
mod sending;
mod server;
mod shared;

pub use client::{Client, Driver};
pub use error::StreamError;
pub use hikyaku_h3::connection::{Config, Shutdown};
pub use hikyaku_h3::error::Code;
pub use hikyaku_h3::message::{Prepared, Protocol, RequestHead};
pub use hikyaku_h3::priority::Priority;
pub use receiving::Receiving;
pub use sending::{Acknowledged, Sending};
pub use server::{Request, Server};
