//! The connection of a request, and its client.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hikyaku_units::arm::Version;
use serde::Deserialize;

use crate::Scheme;

/// The connection of a request, and its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Address and port of the client; the port is 0 where a proxy has not named it.
    pub remote: SocketAddr,
    /// Address and port of the server to which the client connected.
    pub local: SocketAddr,
    /// HTTP version of the connection.
    pub version: Version,
    /// TLS version of the connection; `None` in the clear.
    pub tls: Option<TlsVersion>,
    /// Server name of the TLS handshake (RFC 6066 §3), if the client sent one.
    pub server_name: Option<Arc<str>>,
    /// Scheme of the request: the one that a trusted proxy has named, else that of the connection.
    pub scheme: Scheme,
    /// The trusted proxy that has sent the request, and has named the client in its fields; `None` where
    /// the client has sent it.
    pub via: Option<Via>,
}

/// A trusted proxy between a client and this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via {
    /// Address of the proxy.
    pub address: IpAddr,
    /// Scheme of its connection to this server, whatever that of the client's request is.
    pub scheme: Scheme,
}

/// A TLS version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    #[serde(rename = "1.3")]
    Tls13,
}
