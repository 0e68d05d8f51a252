//! A request on its way to the upstream.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Request, Uri, Version, header};
use http_body::Body as _;
use http_body_util::{BodyExt, Empty};

use super::activity::{Activity, Upload};
use crate::content::RequestBody;

/// A request that can go over a connection of either version.
pub(super) struct Outgoing {
    pub(super) request: Request<Upload>,
    pub(super) route: Arc<Route>,
}

/// What stays the same of a request whichever connection it goes over.
pub(super) struct Route {
    /// Absolute, with the host that the upstream shall see.
    pub(super) target: Uri,
    /// Whether it asks for another protocol, which HTTP/1.1 alone has.
    pub(super) is_upgrade: bool,
    pub(super) activity: Arc<Activity>,
}

impl Outgoing {
    /// Takes a client's request whose headers have been prepared.
    pub(super) fn new(mut parts: Parts, body: RequestBody, route: Route) -> Self {
        parts.version = Version::HTTP_11;
        parts.extensions.clear();
        let body = Upload::new(body, Arc::clone(&route.activity));
        Self {
            request: Request::from_parts(parts, body),
            route: Arc::new(route),
        }
    }

    /// A copy, where doing the request twice does no harm.
    pub(super) fn repeatable(&self) -> Option<Self> {
        let is_safe = self.request.method().is_safe() && self.request.body().is_end_stream();
        if !is_safe || self.route.is_upgrade {
            return None;
        }
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let body = Upload::new(body, Arc::clone(&self.route.activity));
        let mut request = Request::new(body);
        request.method_mut().clone_from(self.request.method());
        request.headers_mut().clone_from(self.request.headers());
        Some(Self {
            request,
            route: Arc::clone(&self.route),
        })
    }

    /// Target and connection headers of HTTP/1.1 (RFC 9112 §3.2.1, RFC 9110 §10.1.4).
    pub(super) fn aim_http1(&mut self) {
        let path = self.route.target.path_and_query().cloned();
        *self.request.uri_mut() = path.map(Uri::from).unwrap_or_default();
        let host = self
            .route
            .target
            .authority()
            .map_or("", |host| host.as_str());
        let headers = self.request.headers_mut();
        if let Ok(host) = HeaderValue::from_str(host) {
            headers.insert(header::HOST, host);
        }
        if headers.contains_key(header::TE) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
        }
    }

    /// Target of HTTP/2, whose `:authority` stands for `Host` (RFC 9113 §8.3.1).
    pub(super) fn aim_http2(&mut self) {
        *self.request.uri_mut() = self.route.target.clone();
        let headers = self.request.headers_mut();
        headers.remove(header::HOST);
        headers.remove(header::CONNECTION);
    }
}
