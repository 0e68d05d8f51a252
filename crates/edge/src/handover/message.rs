//! The messages of a hand-over.
//!
//! Both processes can be of different releases. Fields that a process does not know are ignored, and
//! those that are missing have a default. A change that would be misunderstood changes [`VERSION`].

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::pool::Role;

/// The version of the messages. Processes of different versions don't hand anything over.
pub(super) const VERSION: u32 = 1;

/// From the process that serves.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromFormer {
    Hello(Hello),
    /// With the socket, and behind it the way for datagrams of the process's connections.
    Socket(Described),
    /// All sockets have come.
    End,
    /// Connection ids of handshakes under way, in hexadecimal digits.
    Handshakes(Vec<String>),
    /// Serve now.
    Go,
}

/// Keys and ways that connections of the former process and of the new one share.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    /// Counts processes, modulo 256.
    #[serde(default)]
    pub(super) generation: u8,
    /// Workers of QUIC, and the key by which connections are distributed among them.
    #[serde(default)]
    pub(super) workers: usize,
    #[serde(default)]
    pub(super) steering: u64,
    /// The server's keys, as its file has them.
    #[serde(default)]
    pub(super) keys: String,
}

/// A socket.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Described {
    pub(super) role: Role,
    /// Sockets of one listener have the same.
    pub(super) group: usize,
    /// The address that the configuration has asked for; its port may be 0.
    pub(super) asked: SocketAddr,
    /// Clients of this TCP socket have asked for MPTCP, and get TCP.
    #[serde(default)]
    pub(super) refused: bool,
    /// Another socket receives the datagrams that come to this one's address.
    #[serde(default)]
    pub(super) only_sends: bool,
}

/// From the process that is to serve.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromNew {
    /// It can serve.
    Ready,
    /// It can't, for this reason.
    Failed(String),
    /// It stops, as somebody has asked it to.
    Stopping,
}
