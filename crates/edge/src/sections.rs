//! Sections of the configuration. Each part of the server gets those that it needs.

mod address;
mod beacon;
mod http;
mod site;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hikyaku_units::{ByteSize, Rate};
use serde::Deserialize;

use crate::uploads::FIRST_WINDOW;
pub(crate) use address::addresses;
pub use address::{ListenAddress, ParseAddressError};
pub use beacon::{BeaconConfig, BeaconPath, Share};
pub use hikyaku_content::TlsVersion;
pub use http::{HttpConfig, InClear};
pub use site::{SiteSection, SiteTls};

/// Certificate and TLS versions.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file of the certificate chain, leaf first, or a list of them, for the same names and
    /// with keys of different kinds. Default: none, a self-signed certificate is made at each
    /// start. Re-read when they change and on SIGHUP.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub cert: Vec<PathBuf>,
    /// PEM file of the certificate's private key, or a list of them in the order of `cert`.
    /// Default: none.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub key: Vec<PathBuf>,
    /// Names of a certificate that is got by ACME, or one name. Default: none.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub acme: Vec<String>,
    /// Names and addresses of a self-signed certificate, besides localhost. Default `[]`.
    pub names: Vec<String>,
    /// Oldest TLS version on TCP; QUIC always has 1.3. Default `"1.2"`.
    pub min_version: TlsVersion,
    /// Take 0-RTT requests on HTTP/3 (RFC 8470). An attacker can replay them, so only
    /// GET, HEAD and OPTIONS are answered before the handshake is complete, others
    /// get 425. Default `false`.
    pub early_data: bool,
    /// Ask the OCSP responders that certificates name, and send their responses with the certificates (RFC
    /// 6066 §8). Default `true`.
    pub ocsp: bool,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            cert: Vec::new(),
            key: Vec::new(),
            acme: Vec::new(),
            names: Vec::new(),
            min_version: TlsVersion::default(),
            early_data: false,
            ocsp: true,
        }
    }
}

/// The model that predictions come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Model file (`docs/model.md`). Default: none, the built-in one.
    pub file: Option<PathBuf>,
}

/// Resources that one client, and all of them, may use.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections at once, TCP and QUIC together. Default 100000.
    pub connections: usize,
    /// Connections at once from one address. Default 1024.
    pub connections_per_address: usize,
    /// QUIC handshakes under way from which on new clients must prove their address
    /// by a Retry (RFC 9000 §8.1.2). Default 500.
    pub quic_retry_above: usize,
    /// Requests at once on one connection of HTTP/2 or HTTP/3. Default 100, the least that RFC 9113
    /// §6.5.2 and RFC 9114 §6.1 recommend: QUIC keeps room for each.
    pub streams: u32,
    /// Size of a header section, of requests and of upstreams' responses: name, value and
    /// 32 bytes for each field (RFC 9113 §6.5.2). Default `64KiB`.
    pub header_size: ByteSize,
    /// Size of a request's body. Default `1GiB`.
    pub body_size: ByteSize,
    /// Responses' content that one connection may hold in memory. Default `12MiB`, what QUIC keeps
    /// until it is acknowledged; on TCP 128 KiB are enough.
    pub memory_per_connection: ByteSize,
    /// The same for all connections of an address; and what the windows of its requests' bodies may take
    /// beyond 64 KiB each. Default `64MiB`.
    pub memory_per_address: ByteSize,
    /// The same for all connections. Default `512MiB`.
    pub memory: ByteSize,
    /// Bytes of requests' bodies that one connection of HTTP/2 or HTTP/3 may have in flight, at
    /// least and at first 64 KiB. They are buffered while nobody reads them. Default
    /// `16MiB`; at most 1 GiB counts.
    pub upload_window: ByteSize,
    /// Bytes that the windows of all connections may take beyond 64 KiB each. Default `256MiB`.
    pub upload_memory: ByteSize,
    /// Rate at which a client takes content at least, averaged over `timeouts.send_max`.
    /// Default `8kbps`, which is 1 kB/s.
    pub min_send_rate: Rate,
    /// Clients that are remembered; the ones not seen for longest are forgotten.
    /// Default 1000000 (at most 256 bytes each).
    pub clients: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 100_000,
            connections_per_address: 1024,
            quic_retry_above: 500,
            streams: 100,
            header_size: ByteSize::from_kib(64),
            body_size: ByteSize::from_mib(1024),
            memory_per_connection: ByteSize::from_mib(12),
            memory_per_address: ByteSize::from_mib(64),
            memory: ByteSize::from_mib(512),
            upload_window: ByteSize::from_mib(16),
            upload_memory: ByteSize::from_mib(256),
            min_send_rate: Rate::from_bits_per_sec(8000),
            clients: 1_000_000,
        }
    }
}

impl Limits {
    /// `upload_window` in bytes, within what HTTP/2 can express (RFC 9113 §6.9.1).
    pub(crate) fn upload_window(&self) -> u32 {
        let bytes = self.upload_window.bytes().min(1 << 30);
        u32::try_from(bytes).unwrap_or(1 << 30).max(FIRST_WINDOW)
    }
}

/// How long things may take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// From the connection's first packet to the end of the TLS handshake. Default `10s`.
    #[serde(with = "hikyaku_units::duration")]
    pub handshake: Duration,
    /// For a request's header section to arrive. Default `15s`.
    #[serde(with = "hikyaku_units::duration")]
    pub header: Duration,
    /// Without a byte of a request's body. Default `30s`.
    #[serde(with = "hikyaku_units::duration")]
    pub body: Duration,
    /// Without the client taking a byte of content, when it has taken none before. Default
    /// `30s`.
    #[serde(with = "hikyaku_units::duration")]
    pub send: Duration,
    /// Without the client taking a byte of content, however much it has taken before: each
    /// byte buys the time in which `limits.min_send_rate` carries it. Never below `send`.
    /// Default `10m`.
    #[serde(with = "hikyaku_units::duration")]
    pub send_max: Duration,
    /// For the rest of a request's body after an early answer. It is read and discarded so that the
    /// client gets the answer (RFC 9112 §9.6). Default `30s`.
    #[serde(with = "hikyaku_units::duration")]
    pub linger: Duration,
    /// For a connection without requests. Default `75s` on TCP; QUIC closes after 30 s
    /// at most, since NATs forget UDP flows by then.
    #[serde(with = "hikyaku_units::duration")]
    pub idle: Duration,
    /// For the requests in flight when the server stops. Default `30s`.
    #[serde(with = "hikyaku_units::duration")]
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(15),
            body: Duration::from_secs(30),
            send: Duration::from_secs(30),
            send_max: Duration::from_secs(600),
            linger: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            drain: Duration::from_secs(30),
        }
    }
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Where the access log goes: `off`, `stdout`, or a file, which is opened anew on
    /// SIGHUP. Default `stdout`.
    pub access: AccessTarget,
    /// Its form: `json`, `combined` (as nginx and Apache, with the transport's figures at the
    /// end of the line) or `short` (for people). Default: `short` on a terminal, else `json`.
    pub format: Option<AccessFormat>,
    /// Level of other messages, to standard error: `error`, `warn`, `info`, `debug`, or a
    /// filter such as `info,hikyaku_edge::quic=debug`. Default `info`.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            access: AccessTarget::Stdout,
            format: None,
            level: "info".to_owned(),
        }
    }
}

/// Where the access log goes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum AccessTarget {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// Appended to a file.
    File(PathBuf),
}

impl From<String> for AccessTarget {
    fn from(text: String) -> Self {
        match text.as_str() {
            "off" => Self::Off,
            "stdout" => Self::Stdout,
            _ => Self::File(text.into()),
        }
    }
}

/// Form of an access log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessFormat {
    /// A JSON object a line (`docs/logs.md`).
    Json,
    /// The combined log format.
    Combined,
    /// A short line, for people.
    Short,
}

/// Admin page, API and metrics.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// Address of the admin page and API; empty for none. Default `"127.0.0.1:8440"`.
    pub listen: AdminAddress,
    /// Token that clients must send as `Authorization: Bearer`. Needed for any address that
    /// is not loopback. Default: none.
    pub token: Option<String>,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            listen: AdminAddress(Some(SocketAddr::from(([127, 0, 0, 1], 8440)).into())),
            token: None,
        }
    }
}

/// An address, or none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AdminAddress(
    #[serde(deserialize_with = "address::address_or_none")] pub Option<ListenAddress>,
);

/// Where the estimates of clients are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StateConfig {
    /// Directory for the store; made if it is not there. Default: none, and the estimates are lost when
    /// the server stops.
    pub dir: Option<PathBuf>,
}
