//! HTTP/3 over quinn: moves bytes between [`hikyaku_h3`]'s engine and QUIC's streams.
//!
//! A [`Server`] accepts requests, and a [`Client`] sends them. Each request has a [`Receiving`] and
//! a [`Sending`] side. Content is not copied on its way. No byte of a stream is read before the
//! caller asks for it, so that QUIC's flow control holds the peer back.

mod client;
mod driver;
mod error;
mod outlet;
mod receiving;
mod sending;
mod server;
mod shared;

pub use client::{Client, Driver};
pub use error::StreamError;
pub use hikyaku_h3::connection::{Config, Shutdown};
pub use hikyaku_h3::error::Code;
pub use hikyaku_h3::message::{Protocol, RequestHead};
pub use hikyaku_h3::priority::Priority;
pub use receiving::Receiving;
pub use sending::{Acknowledged, Sending};
pub use server::{Request, Server};
