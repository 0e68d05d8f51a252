//! HTTP/3 (RFC 9114) without I/O: a server's and a client's side of a connection.
//!
//! A [`connection::Connection`] holds what the streams of a connection share. Messages are read
//! and written by [`stream::Reader`]s and [`stream::Writer`]s, one of each for a request, which
//! need it for header and trailer sections alone. Who drives them moves bytes between them and
//! QUIC's streams. There is no socket, task, clock or type of a QUIC implementation in them.
//!
//! The adaptor of the `h3` crate to quinn is here as well, at the root.

mod adaptor;
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

pub use adaptor::{BidiStream, Connection, FinishObserver, FrameGuard, FrameTooLarge};
pub use adaptor::{OpenStreams, Payload, RecvStream, SendStream};
