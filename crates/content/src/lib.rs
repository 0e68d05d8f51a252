#![doc = include_str!("../README.md")]

mod access;
mod body;
mod cache;
mod compress;
pub mod files;
mod globs;
mod header_size;
mod hosts;
mod interim;
mod omit;
mod peer;
mod protocol;
pub mod proxy;
mod refused;
mod routes;
mod scheme;
mod sites;
mod stopping;
mod trace;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;

pub use access::{
    AccessConfig, BasicAuthConfig, ForwardAuthConfig, ParseRateKeyError, RateKey, RateLimitConfig,
    Satisfy, User,
};
pub use body::Body;
pub use cache::disk;
pub use cache::{CacheConfig, CacheOutcome, CacheStatus, Caches, ParsePurgeError, Purge};
pub use compress::{
    CompressionConfig, CompressionCount, CompressionLevels, Recoding, compression_counts,
};
pub use files::{Directories, Files, FilesConfig, FilesError, ReadError, WholeFile};
pub use globs::path_glob;
pub use header_size::HeaderSize;
pub use hosts::Hosts;
pub use interim::{Interim, InterimHeads};
pub use omit::omit_content;
pub use peer::{Peer, TlsVersion, Via};
pub use protocol::Protocol;
pub use proxy::{
    LatencySnapshot, Proxy, ProxyConfig, ProxyError, UpstreamConfig, UpstreamError, UpstreamStatus,
    Upstreams, UpstreamsConfig,
};
pub use refused::Refused;
pub use routes::{
    AnswerConfig, HeadersConfig, NoServer, RedirectConfig, RequestId, RouteConfig, SERVER,
    SiteConfig, SiteError,
};
pub use scheme::Scheme;
pub use sites::Content;
pub use stopping::Stopping;
pub use trace::{Spans, TRACEPARENT, TRACESTATE, Trace, TraceContext, UpstreamSpan};

/// Why a body ended early.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request of any HTTP version.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

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

/// Marks a response whose content is its status in words, which a page may take the place of.
#[derive(Clone, Copy, Debug)]
struct InWords;

/// A response of its status in words alone: `404 Not Found`.
fn status_response(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{status}\n")));
    *response.status_mut() = status;
    response.extensions_mut().insert(InWords);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}
