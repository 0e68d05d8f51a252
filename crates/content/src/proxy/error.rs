//! Errors of the reverse proxy and its upstream.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hikyaku_h1::response::HeadError;
use http::StatusCode;
use http_body_util::LengthLimitError;

use super::http1::Http1Error;
use crate::BoxError;

/// Why a reverse proxy cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The upstream's URL cannot be used.
    #[error("reading the upstream's URL `{url}`: {problem}")]
    Url {
        /// The URL as it was given.
        url: String,
        /// The reason.
        problem: &'static str,
    },
    /// A setting of `[proxy]` cannot be used.
    #[error("reading the setting `proxy.{key}`: {problem}")]
    Setting {
        /// The setting.
        key: &'static str,
        /// The reason.
        problem: &'static str,
    },
    /// The file of certificate authorities cannot be read.
    #[error("reading certificate authorities from `{}`", path.display())]
    Ca {
        /// The setting `ca`.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// No certificate authority is known for an `https` upstream.
    #[error("no usable certificate authority in {place}; name a PEM file with `ca`")]
    NoCa {
        /// The place that was searched.
        place: String,
    },
    /// TLS cannot be set up for this host.
    #[error("setting up TLS towards `{host}`")]
    Tls {
        /// The setting `tls_server_name`, or the host of the upstream's URL.
        host: String,
        /// The cause, from rustls.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Why a request got no response from the upstream.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("connecting")]
    Connect(#[source] io::Error),
    #[error("connecting: no connection within {0:?}")]
    ConnectTimeout(Duration),
    #[error("TLS handshake")]
    Tls(#[source] io::Error),
    #[error("starting HTTP")]
    Handshake(#[source] ExchangeError),
    #[error("waiting for the response: none within {0:?}")]
    ResponseTimeout(Duration),
    #[error("exchanging request and response")]
    Exchange(#[source] ExchangeError),
    #[error("switching protocols: it was not asked to")]
    UnaskedUpgrade,
    #[error("switching protocols: its answer is not that of a WebSocket server")]
    NoWebSocket,
    #[error("reading the response's headers: they are larger than limits.header_size")]
    HeadersTooLarge,
    #[error("reading the response: malformed, or its headers larger than limits.header_size")]
    Malformed(#[source] ExchangeError),
    #[error("reading the response: it has a transfer coding other than chunked")]
    TransferCoding,
    #[error("answering: the status is {0}")]
    Status(StatusCode),
    #[error("making the target of the request")]
    Target(#[source] http::uri::InvalidUriParts),
}

impl SendError {
    /// Classifies the failure of an exchange.
    pub(super) fn exchange(error: ExchangeError) -> Self {
        // h2 has this reason for headers that are too large, too.
        let is_malformed = |error: &h2::Error| {
            error.is_library() && error.reason() == Some(h2::Reason::PROTOCOL_ERROR)
        };
        match &error {
            ExchangeError::Http1(Http1Error::Head(HeadError::TooLarge)) => Self::HeadersTooLarge,
            ExchangeError::Http1(Http1Error::Head(HeadError::TransferCoding)) => {
                Self::TransferCoding
            }
            ExchangeError::Http2(http2) if is_malformed(http2) => Self::Malformed(error),
            _ => Self::Exchange(error),
        }
    }

    /// Whether the client's own request ended early, so that the upstream could not answer.
    pub(super) fn is_of_client(&self) -> bool {
        self.status().is_client_error()
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::ConnectTimeout(_) | Self::ResponseTimeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Exchange(error) if is_too_large(error) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Exchange(error) if error.is_of_content() => StatusCode::BAD_REQUEST,
            _ => StatusCode::BAD_GATEWAY,
        }
    }
}

/// Why the exchange of a request and its response failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    #[error(transparent)]
    Http1(#[from] Http1Error),
    #[error(transparent)]
    Http2(#[from] h2::Error),
    #[error("reading the request's content")]
    Content(#[source] BoxError),
}

impl ExchangeError {
    /// Whether the upstream may have closed a kept connection meanwhile.
    pub(super) fn may_be_stale(&self) -> bool {
        match self {
            Self::Http1(error) => matches!(error, Http1Error::Io(_) | Http1Error::Closed),
            Self::Http2(error) => error.is_io() || error.is_go_away(),
            Self::Content(_) => false,
        }
    }

    /// Whether an HTTP/2 upstream has refused the request before processing it (RFC 9113 §8.7).
    pub(super) fn is_refused(&self) -> bool {
        match self {
            Self::Http2(error) => {
                error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM)
            }
            Self::Http1(_) | Self::Content(_) => false,
        }
    }

    /// Whether the client's own content ended in an error.
    fn is_of_content(&self) -> bool {
        match self {
            Self::Http1(error) => matches!(error, Http1Error::Length(_)),
            Self::Http2(_) => false,
            Self::Content(_) => true,
        }
    }
}

fn is_too_large(error: &ExchangeError) -> bool {
    let mut causes = std::iter::successors(error.source(), |error| (*error).source());
    causes.any(<dyn Error>::is::<LengthLimitError>)
}

/// Why a response's body from the upstream ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The connection failed, or its data was malformed.
    #[error("reading the upstream's response")]
    Upstream(#[source] BoxError),
    /// No data came for too long.
    #[error("reading the upstream's response: nothing came for {limit:?}")]
    Idle {
        /// The setting `idle_timeout`.
        limit: Duration,
    },
}
