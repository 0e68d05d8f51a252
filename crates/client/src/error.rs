//! Errors of the client, with hints on their repair.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_h3_quic::StreamError;
use hikyaku_quic::proto::ConnectionError;

/// The reason why a measurement could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GetError {
    /// A URL that cannot be fetched.
    #[error("`{url}` is not a URL that can be fetched: {reason}")]
    Url {
        /// The URL as given.
        url: String,
        /// The mistake, and the correct form.
        reason: String,
    },
    /// An option's value, or a combination of options, is invalid.
    #[error("{0}")]
    Usage(String),
    /// A file from the command line could not be used.
    #[error("{doing} `{}`", path.display())]
    File {
        /// The attempted operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// TLS could not be set up.
    #[error("setting up TLS: {0}")]
    Tls(String),
    /// The asynchronous runtime could not be started.
    #[error("starting the client's threads")]
    Runtime(#[source] io::Error),
    /// The results could not be written.
    #[error("writing the results")]
    Output(#[source] io::Error),
}

/// The reason why a request failed. Requests that waited for the same connection share it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The name has no address.
    #[error("resolving `{host}`")]
    Resolve {
        /// The name.
        host: String,
        /// The cause.
        #[source]
        source: Arc<io::Error>,
    },
    /// The socket could not be set up as asked.
    #[error("setting up a {what}")]
    Socket {
        /// The kind of socket, or one of its options.
        what: String,
        /// The cause.
        #[source]
        source: Arc<io::Error>,
    },
    /// TCP did not connect.
    #[error("connecting to {remote}")]
    Connect {
        /// The server's address.
        remote: SocketAddr,
        /// The cause.
        #[source]
        source: Arc<io::Error>,
    },
    /// The TLS handshake on TCP failed.
    #[error("TLS handshake with {remote}")]
    Tls {
        /// The server's address.
        remote: SocketAddr,
        /// The cause.
        #[source]
        source: Arc<io::Error>,
    },
    /// The QUIC handshake failed.
    #[error("QUIC handshake with {remote}")]
    Quic {
        /// The server's address.
        remote: SocketAddr,
        /// The cause.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// No connection was established in time.
    #[error("no {over} connection to `{host}` within {after:?}")]
    ConnectTimeout {
        /// The requested host.
        host: String,
        /// `TCP` or `QUIC`.
        over: &'static str,
        /// The limit.
        after: Duration,
    },
    /// The server does not speak the requested version.
    #[error("the server at {remote} does not speak {wanted} (ALPN)")]
    Alpn {
        /// The server's address.
        remote: SocketAddr,
        /// The requested version.
        wanted: &'static str,
    },
    /// The exchange of request and response failed.
    #[error("{doing}")]
    Exchange {
        /// The attempted operation.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The request took too long.
    #[error("not complete within {0:?}")]
    Timeout(Duration),
    /// The body could not be written to its file.
    #[error("writing the body to `{}`", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Arc<io::Error>,
    },
    /// The status counts as a failure (`--fail`).
    #[error("the server answered {0}")]
    Status(u16),
}

impl FetchError {
    pub(super) fn exchange(
        doing: &'static str,
        source: impl Error + Send + Sync + 'static,
    ) -> Self {
        let source = Arc::new(source);
        Self::Exchange { doing, source }
    }

    /// A stable name for programs; `docs/get.md` lists them.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Resolve { .. } => "resolve",
            Self::Socket { .. } => "socket",
            Self::Connect { source, .. } if is_refused(source) => "refused",
            Self::Connect { .. } => "connect",
            Self::ConnectTimeout { .. } | Self::Timeout(_) => "timeout",
            Self::Tls { .. } | Self::Quic { .. } if self.is_certificate() => "certificate",
            Self::Tls { .. } => "tls",
            Self::Quic { .. } => "quic",
            Self::Alpn { .. } => "alpn",
            Self::Exchange { .. } => "exchange",
            Self::Output { .. } => "output",
            Self::Status(_) => "status",
        }
    }

    /// Whether a time limit was the reason.
    pub fn is_timeout(&self) -> bool {
        self.kind() == "timeout"
    }

    /// Whether the whole connection is useless, rather than one request having failed.
    pub(super) fn breaks_connection(&self) -> bool {
        let Self::Exchange { source, .. } = self else {
            return false;
        };
        if let Some(error) = source.downcast_ref::<h2::Error>() {
            return !error.is_reset();
        }
        if let Some(error) = source.downcast_ref::<StreamError>() {
            return match error {
                StreamError::Connection(_) | StreamError::GoingAway => true,
                StreamError::Protocol(error) => error.is_of_connection(),
                _ => false,
            };
        }
        source.is::<hyper::Error>()
    }

    /// Returns the user's remedy, if one is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Tls { .. } | Self::Quic { .. } if self.is_certificate() => Some(
                "the certificate is not trusted: give it with --cacert PEM, or accept any with --insecure",
            ),
            Self::ConnectTimeout { over: "QUIC", .. } => Some(
                "no answer over UDP: the network may block it, or the server has no HTTP/3; try --http 2",
            ),
            Self::Resolve { .. } => {
                Some("check the name, or give its address with --resolve HOST:PORT:ADDR")
            }
            Self::Connect { source, .. } if is_refused(source) => {
                Some("nothing listens there: check the port, and that the server runs")
            }
            Self::Socket { what, .. } if what.starts_with("MPTCP") => Some(
                "the kernel has no Multipath TCP, or it is off (net.mptcp.enabled): leave --mptcp out",
            ),
            Self::Alpn { .. } => Some("let the server choose with --http auto"),
            _ => None,
        }
    }

    /// Returns the error and its causes in one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let words = error.to_string();
            // Some libraries repeat their cause in their own words.
            if !text.ends_with(&words) {
                text.push_str(": ");
                text.push_str(&words);
            }
            cause = error.source();
        }
        text
    }

    /// Whether the server's certificate was rejected.
    fn is_certificate(&self) -> bool {
        match self {
            Self::Tls { source, .. } => source
                .get_ref()
                .and_then(|error| error.downcast_ref::<rustls::Error>())
                .is_some_and(|error| matches!(error, rustls::Error::InvalidCertificate(_))),
            Self::Quic { source, .. } => matches!(
                source.downcast_ref::<ConnectionError>(),
                // TLS alerts 42 to 48 are about certificates (RFC 8446 §6), QUIC adds 0x100.
                Some(ConnectionError::TransportError(error))
                    if (0x100 + 42..=0x100 + 48).contains(&u64::from(error.code))
            ),
            _ => false,
        }
    }
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}
