#![doc = include_str!("../README.md")]

mod body;
pub mod files;
mod globs;
mod header_size;
mod hosts;
mod interim;
mod omit;
mod protocol;
pub mod proxy;
mod routes;
mod sites;
mod stopping;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hikyaku_units::arm::Version;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;

pub use body::Body;
pub use files::{Files, FilesConfig, FilesError, ReadError, WholeFile};
pub use globs::path_glob;
pub use header_size::HeaderSize;
pub use hosts::Hosts;
pub use interim::{Interim, InterimHeads};
pub use omit::omit_content;
pub use protocol::Protocol;
pub use proxy::{Proxy, ProxyConfig, ProxyError};
pub use routes::{AnswerConfig, HeadersConfig, RedirectConfig, RouteConfig, SiteConfig, SiteError};
pub use sites::Content;
pub use stopping::Stopping;

/// Why a body ended early.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request of any HTTP version.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// The connection of a request.
///
/// Every listener speaks TLS, so that the scheme is always `https`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Address and port of the client.
    pub remote: SocketAddr,
    /// Address and port of the server to which the client connected.
    pub local: SocketAddr,
    /// HTTP version of the connection.
    pub version: Version,
    /// Server name of the TLS handshake (RFC 6066 §3), if the client sent one.
    pub server_name: Option<Arc<str>>,
}

/// Why a response is an error. For the log only, since it may name files, addresses and causes that
/// do not concern the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReason(Arc<str>);

impl ErrorReason {
    /// Joins the error and its causes as `error: cause: cause`.
    pub fn from_error(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        Self(text.into())
    }
}

impl From<&str> for ErrorReason {
    fn from(reason: &str) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for ErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A response of its status in words alone: `404 Not Found`.
fn status_response(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{status}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}
