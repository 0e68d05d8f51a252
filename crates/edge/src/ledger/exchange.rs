//! A request and its response, as the access log and the meter see them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::uri::Authority;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};

use crate::clock;
use crate::pages::Seen;
use crate::spans::Begun;
use hikyaku_content::{CacheOutcome, ErrorReason, RequestId, User};

/// A request and its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// When the request's header section was complete.
    pub(crate) started: Instant,
    /// When the transport had the response's last byte; equal to `started` until then.
    pub(crate) written: Instant,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) host: String,
    /// The client, as a trusted proxy names it; `None` for the connection's.
    pub(crate) client: Option<SocketAddr>,
    pub(crate) referer: Option<HeaderValue>,
    pub(crate) user_agent: Option<HeaderValue>,
    pub(crate) user: Option<User>,
    /// `None` when the client gave up before there was a response.
    pub(crate) status: Option<StatusCode>,
    pub(crate) reason: Option<ErrorReason>,
    /// The outcome at the cache, where there is one.
    pub(crate) cache: Option<CacheOutcome>,
    /// Its number, where the operator gives it to clients or upstreams.
    pub(crate) id: Option<RequestId>,
    /// The times of a page in a browser, where this is its report.
    pub(crate) page: Option<Arc<Seen>>,
    /// Whether it is the connection's first.
    pub(crate) is_first: bool,
    /// Its span, where requests are traced.
    pub(crate) span: Option<Box<Begun>>,
    /// Whether the access log has it.
    pub(crate) is_logged: bool,
    /// Bytes of the response's body that went to the transport.
    pub(crate) bytes: u64,
    /// The transport has the whole response.
    pub(crate) complete: bool,
}

/// Exchanges in boxes: they are passed on several times, and room for some would take a kilobyte of each
/// idle connection.
pub(crate) type Exchanges = Vec<Box<Exchange>>;

impl Exchange {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let headers = request.headers();
        let now = clock::now();
        Self {
            started: now,
            written: now,
            method: request.method().clone(),
            uri: request.uri().clone(),
            host: host(request).to_owned(),
            client: None,
            referer: headers.get(header::REFERER).cloned(),
            user_agent: headers.get(header::USER_AGENT).cloned(),
            user: None,
            status: None,
            reason: None,
            cache: None,
            id: None,
            page: None,
            is_first: false,
            span: None,
            is_logged: true,
            bytes: 0,
            complete: false,
        }
    }
}

/// The host that a request is for: `:authority`, or `Host` (RFC 9110 §7.2).
pub(crate) fn host<B>(request: &Request<B>) -> &str {
    let host = || request.headers().get(header::HOST)?.to_str().ok();
    let authority = request.uri().authority().map(Authority::as_str);
    authority.or_else(host).unwrap_or_default()
}
