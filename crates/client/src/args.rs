//! The options of `hikyaku get`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::units;

/// Measure how a server delivers.
///
/// Fetches each URL and reports the time of every phase, from name resolution to the
/// last byte. Bodies are read, counted and dropped unless `--output` is given.
#[derive(Clone, Debug, clap::Args)]
pub struct GetArgs {
    /// URLs to fetch, in this order; `https://` or `http://`
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,

    /// HTTP version. `auto` lets the server choose between 1.1 and 2 (ALPN) and move the
    /// client to 3 (Alt-Svc)
    #[arg(long, value_name = "VERSION", value_enum, default_value = "auto")]
    pub http: HttpChoice,

    /// Reaction to an Alt-Svc header that offers HTTP/3. `follow` waits for the QUIC handshake and
    /// sends the following requests there. `race` connects in the background and switches when it
    /// is up, as browsers do. `ignore` stays on TCP. The client sends `sec-fetch-site: none`, as
    /// browsers do, unless it ignores the header. Only with `--http auto` [default: follow]
    #[arg(long, value_name = "MODE", value_enum)]
    pub alt_svc: Option<AltSvcMode>,

    /// Keep advertised alternatives in this file, so that the next run starts as a returning
    /// client: on HTTP/3 while the advertisement is fresh
    #[arg(long, value_name = "FILE")]
    pub alt_svc_cache: Option<PathBuf>,

    /// Keep TLS sessions until the process ends: every further connection to a host resumes one, as
    /// those of browsers do. Without it every handshake is a full one
    #[arg(long, conflicts_with_all = ["requests", "crowd"])]
    pub resume: bool,

    /// Connections to each origin, each with a socket of its own [default: 1; with --page on
    /// HTTP/1.1: 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub connections: Option<u16>,

    /// Requests at once on each HTTP/2 or HTTP/3 connection [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub parallel: Option<u16>,

    /// Treat each URL as a page: fetch the resources of its HTML and style sheets in a browser's
    /// order, and report the page's load time
    #[arg(long)]
    pub page: bool,

    /// Measure everything this many times, on fresh connections each time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,

    /// Keep the connections from one repeat to the next
    #[arg(long)]
    pub warm: bool,

    /// Pause between two repeats, such as 500ms or 2s
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0s")]
    pub interval: Duration,

    /// Load mode: send this many requests for the one URL as fast as the server answers and
    /// report requests per second and latency percentiles
    #[arg(long, value_name = "N", conflicts_with_all = ["page", "repeat", "output", "alt_svc"],
          value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,

    /// Crowd mode: many clients at once, each from a local address of its own, that load the URLs
    /// one after the other, over and over. The JSON file lists the clients and the duration; a line
    /// for each client reports its result
    #[arg(long, value_name = "FILE", requires = "json",
          conflicts_with_all = ["page", "repeat", "requests", "output", "http", "local", "alt_svc_cache"])]
    pub crowd: Option<PathBuf>,

    /// Worker threads of the client; 1 costs the least CPU per request [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Give a request up after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "60s")]
    pub timeout: Duration,

    /// Give the opening of a connection up after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "10s")]
    pub connect_timeout: Duration,

    /// Request method [default: GET; with --data: POST]
    #[arg(long, value_name = "METHOD")]
    pub method: Option<String>,

    /// Add a request header field, `Name: value`
    #[arg(long = "header", short = 'H', value_name = "FIELD")]
    pub headers: Vec<String>,

    /// Send this as the request's body; `@FILE` sends a file
    #[arg(long, value_name = "DATA")]
    pub data: Option<String>,

    /// Write the body to a file (one URL)
    #[arg(long, short = 'o', value_name = "FILE", conflicts_with = "page")]
    pub output: Option<PathBuf>,

    /// Count an HTTP status of 400 or more as a failure
    #[arg(long)]
    pub fail: bool,

    /// Trust the certificates of this PEM file instead of the system's
    #[arg(long, value_name = "PEM", conflicts_with = "insecure")]
    pub cacert: Option<PathBuf>,

    /// Accept any certificate
    #[arg(long)]
    pub insecure: bool,

    /// Use this address for a host and port instead of resolving the name. With `@N` behind it, it
    /// counts from repeat N on, counted from 0: the host has moved
    #[arg(long, value_name = "HOST:PORT:ADDR[@N]")]
    pub resolve: Vec<String>,

    /// IPv4 only
    #[arg(long, short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,

    /// IPv6 only
    #[arg(long, short = '6')]
    pub ipv6: bool,

    /// Connect from this local address
    #[arg(long, value_name = "ADDR")]
    pub local: Option<IpAddr>,

    /// Use Multipath TCP sockets
    #[arg(long)]
    pub mptcp: bool,

    /// Congestion control of the client's sending: on TCP any that the kernel has, on QUIC cubic,
    /// newreno or bbr [default: the kernel's; on QUIC cubic]
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,

    /// Flow control window for receiving, of each stream and connection (HTTP/2, HTTP/3)
    #[arg(long, value_name = "BYTES", value_parser = units::window, default_value = "16MiB")]
    pub receive_window: u32,

    /// Print JSON lines instead of tables
    #[arg(long)]
    pub json: bool,
}

/// The requested HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HttpChoice {
    /// HTTP/1.1.
    #[value(name = "1.1")]
    Http1,
    /// HTTP/2.
    #[value(name = "2")]
    Http2,
    /// HTTP/3.
    #[value(name = "3")]
    Http3,
    /// The server's choice: ALPN on TCP, Alt-Svc to QUIC.
    Auto,
}

/// The client's reaction to an alternative service (RFC 7838) over HTTP/3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AltSvcMode {
    /// Wait for the handshake and send the following requests over HTTP/3.
    Follow,
    /// Connect in the background and switch once the connection is up.
    Race,
    /// Stay on TCP.
    Ignore,
}
