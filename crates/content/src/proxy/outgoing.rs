//! A request on its way to the upstream.

use std::sync::Arc;

use bytes::Bytes;
use hikyaku_h1::request::{Encoder, LengthMismatch, encode_head};
use hikyaku_h1::response::content_length;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version, header};
use http_body::Body as _;

use super::activity::Activity;
use super::upload::Upload;
use crate::{Interim, RequestBody};

/// A request that can go over a connection of either version, twice.
pub(super) struct Outgoing {
    parts: Parts,
    /// `None` where there is no content, and once an attempt has taken it.
    pub(super) content: Option<Upload>,
    /// The content of a second attempt.
    second: Option<Upload>,
    has_content: bool,
    is_second: bool,
    pub(super) route: Route,
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
        let has_content = !body.is_end_stream();
        let content = has_content.then(|| Upload::new(body, Arc::clone(&route.activity)));
        Self {
            parts,
            second: content.as_ref().map(Upload::second),
            content,
            has_content,
            is_second: false,
            route,
        }
    }

    pub(super) fn method(&self) -> &Method {
        &self.parts.method
    }

    /// Begins the second attempt. Returns `false` after that, and if the content cannot be sent
    /// again.
    pub(super) fn restart(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.is_second, true);
        self.content = self.second.take();
        is_first && self.content.as_mut().is_none_or(Upload::restart)
    }

    /// The head and framing of HTTP/1.1.
    ///
    /// # Errors
    /// If the length that the client announces is no number.
    pub(super) fn http1(&mut self) -> Result<(Bytes, Encoder), LengthMismatch> {
        let authority = self.route.target.authority();
        let host = HeaderValue::from_str(authority.map_or("", |host| host.as_str()));
        let headers = &mut self.parts.headers;
        if let Ok(host) = host {
            headers.insert(header::HOST, host);
        }
        if headers.contains_key(header::TE) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
        }
        let encoder = self.frame_http1()?;
        let target = self.route.target.path_and_query();
        let target = target.map_or("/", |target| target.as_str());
        let mut head = Vec::new();
        encode_head(&mut head, &self.parts.method, target, &self.parts.headers);
        Ok((head.into(), encoder))
    }

    /// Announces the end of the content, also with methods that seldom have any. With methods that
    /// have some by definition, announces that there is none (RFC 9110 §8.6, RFC 9112 §6.1).
    fn frame_http1(&mut self) -> Result<Encoder, LengthMismatch> {
        let announced = self.parts.headers.contains_key(header::CONTENT_LENGTH);
        let length = match announced {
            true => Some(content_length(&self.parts.headers).ok_or(LengthMismatch)?),
            false => self.length(),
        };
        let headers = &mut self.parts.headers;
        let Some(length) = length else {
            let chunked = HeaderValue::from_static("chunked");
            headers.insert(header::TRANSFER_ENCODING, chunked);
            return Ok(Encoder::Chunked);
        };
        headers.remove(header::TRANSFER_ENCODING);
        if announced || length > 0 || self.wants_content() {
            // Replaces equal lengths, which not every server takes for one.
            self.announce(length);
        }
        Ok(Encoder::Length(length))
    }

    /// The head of HTTP/2, whose `:authority` replaces `Host` (RFC 9113 §8.3.1).
    pub(super) fn http2(&self) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = self.route.target.clone();
        let mut headers = self.parts.headers.clone();
        for name in [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING] {
            headers.remove(name);
        }
        let length = self.length();
        let length = length.filter(|&length| length > 0 || self.wants_content());
        if let Some(length) = length {
            headers
                .entry(header::CONTENT_LENGTH)
                .or_insert_with(|| length.into());
        }
        *request.headers_mut() = headers;
        request
    }

    fn announce(&mut self, length: u64) {
        let headers: &mut HeaderMap = &mut self.parts.headers;
        headers.insert(header::CONTENT_LENGTH, length.into());
    }

    /// The length of the content, if it is known.
    fn length(&self) -> Option<u64> {
        match &self.content {
            Some(content) => content.size_hint().exact(),
            None => (!self.has_content).then_some(0),
        }
    }

    /// Whether the method has content by definition (RFC 9110 §8.6).
    fn wants_content(&self) -> bool {
        matches!(
            self.parts.method,
            Method::POST | Method::PUT | Method::PATCH
        )
    }
}
