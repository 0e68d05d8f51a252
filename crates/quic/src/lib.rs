#![doc = include_str!("../README.md")]

mod clock;
mod connection;
mod core;
mod driver;
mod endpoint;
mod error;
mod forwarding;
mod hub;
mod incoming;
mod recv_stream;
mod send_stream;
mod sending;
mod socket;
mod state;
mod steering;
mod sys;
pub mod timers;
mod tls;
mod wakers;

pub use connection::Connection;
pub use driver::Driver;
pub use endpoint::Endpoint;
pub use error::{ReadError, ReadToEndError, StoppedError, WriteError};
pub use forwarding::Group;
pub use incoming::{Connecting, Incoming, ZeroRttAccepted};
pub use quinn_proto as proto;
pub use quinn_udp as udp;
pub use recv_stream::RecvStream;
pub use send_stream::{Backlog, SendStream, Stopped};
pub use socket::{Socket, UdpSocket, refuses_segments};
pub use steering::{STEERED_LEN, Steering};
pub use tls::TlsServer;
