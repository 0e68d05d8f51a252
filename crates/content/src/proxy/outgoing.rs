//! A request on its way to the upstream.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Method, Request, Uri, Version, header};
use http_body::Body as _;

use super::activity::Activity;
use super::response;
use super::upload::Upload;
use crate::{Interim, RequestBody};

/// A request that can go over a connection of either version.
pub(super) struct Outgoing {
    pub(super) request: Request<Upload>,
    pub(super) route: Arc<Route>,
}

/// The properties of a request that are the same on all connections.
pub(super) struct Route {
    /// The absolute URI, with the host that the upstream is to see.
    pub(super) target: Uri,
    /// Whether it asks for another protocol, which HTTP/1.1 alone has.
    pub(super) is_upgrade: bool,
    pub(super) activity: Arc<Activity>,
    /// The channel for interim responses, if the client can receive them.
    pub(super) interim: Option<Interim>,
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

    /// Makes a copy for a second attempt.
    pub(super) fn second(&self) -> Self {
        let mut request = Request::new(self.request.body().second());
        request.method_mut().clone_from(self.request.method());
        request.headers_mut().clone_from(self.request.headers());
        Self {
            request,
            route: Arc::clone(&self.route),
        }
    }

    /// Whether repeating the request does no harm (RFC 9110 §9.2.2).
    pub(super) fn is_idempotent(&self) -> bool {
        self.request.method().is_idempotent()
    }

    /// Begins the second attempt; `None` if the content cannot be sent again.
    pub(super) fn restart(mut self) -> Option<Self> {
        self.request.body_mut().restart().then_some(self)
    }

    /// Sets the target and connection headers of HTTP/1.1 (RFC 9112 §3.2.1, RFC 9110 §10.1.4).
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
        self.frame_http1();
        if let Some(interim) = self.route.interim.clone() {
            hyper::ext::on_informational(&mut self.request, move |head| {
                if let Some(head) = response::interim(head.status(), head.headers()) {
                    interim.send(head);
                }
            });
        }
    }

    /// Announces the end of the content, also with methods that seldom have any. With methods that
    /// have some by definition, announces that there is none (RFC 9110 §8.6, RFC 9112 §6.1).
    fn frame_http1(&mut self) {
        let body = self.request.body();
        let (is_empty, is_known) = (body.is_end_stream(), body.size_hint().exact().is_some());
        let wants_content = self.wants_content();
        let headers = self.request.headers_mut();
        if headers.contains_key(header::CONTENT_LENGTH) {
            return;
        }
        if !is_empty && !is_known {
            let chunked = HeaderValue::from_static("chunked");
            headers.insert(header::TRANSFER_ENCODING, chunked);
        } else if is_empty && wants_content {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
    }

    /// Sets the target of HTTP/2, whose `:authority` replaces `Host` (RFC 9113 §8.3.1).
    pub(super) fn aim_http2(&mut self) {
        *self.request.uri_mut() = self.route.target.clone();
        let headers = self.request.headers_mut();
        headers.remove(header::HOST);
        headers.remove(header::CONNECTION);
        headers.remove(header::TRANSFER_ENCODING);
        let length = self.request.body().size_hint().exact();
        let length = length.filter(|&length| length > 0 || self.wants_content());
        if let Some(length) = length {
            let headers = self.request.headers_mut();
            headers
                .entry(header::CONTENT_LENGTH)
                .or_insert_with(|| length.into());
        }
    }

    /// Whether the method has content by definition (RFC 9110 §8.6).
    fn wants_content(&self) -> bool {
        matches!(
            *self.request.method(),
            Method::POST | Method::PUT | Method::PATCH
        )
    }
}
