//! A request on its way to the upstream.

use std::sync::Arc;

use bytes::Bytes;
use hikyaku_h1::request::{Encoder, HeadEncoder, LengthMismatch};
use hikyaku_h1::response::content_length;
use http::request::Parts;
use http::uri::{Authority, InvalidUriParts};
use http::{Method, Request, Uri, header};
use http_body::Body as _;

use super::activity::Activity;
use super::description::Description;
use super::upload::{Replay, Upload};
use super::upstream::Upstream;
use crate::{Interim, RequestBody, TRACEPARENT, TraceContext};

/// A request that can go over a connection of either version, and over another one after that.
pub(super) struct Outgoing {
    parts: Parts,
    /// The description of the client, unless that is among the parts' fields.
    description: Option<Description>,
    /// `None` where there is no content, and once an attempt has taken it.
    pub(super) content: Option<Upload>,
    /// The content of further attempts.
    replay: Option<Replay>,
    pub(super) route: Route,
}

/// The properties of a request that are the same on all connections.
pub(super) struct Route {
    /// The absolute URI, with the host that the upstream is to see. It is made by [`Outgoing::aim`].
    pub(super) target: Uri,
    /// The host that the upstream is to see, if that is not its own.
    pub(super) host: Option<Authority>,
    /// Whether it asks for another protocol, which HTTP/1.1 alone has.
    pub(super) is_upgrade: bool,
    pub(super) activity: Arc<Activity>,
    /// The channel for interim responses, if the client can receive them.
    pub(super) interim: Option<Interim>,
}

impl Outgoing {
    /// Takes a client's request whose headers have been prepared.
    pub(super) fn new(
        mut parts: Parts,
        description: Option<Description>,
        body: RequestBody,
        route: Route,
    ) -> Self {
        parts.extensions.clear();
        let has_content = !body.is_end_stream();
        let content = has_content.then(|| Upload::new(body, Arc::clone(&route.activity)));
        Self {
            parts,
            description,
            replay: content.as_ref().map(Upload::replay),
            content,
            route,
        }
    }

    /// Makes the target for an upstream.
    ///
    /// # Errors
    /// If the client's target has no path, as that of CONNECT.
    pub(super) fn aim(&mut self, upstream: &Upstream) -> Result<(), InvalidUriParts> {
        let host = self.route.host.as_ref().unwrap_or(&upstream.authority);
        let mut target = http::uri::Parts::default();
        target.scheme = Some(upstream.scheme());
        target.authority = Some(host.clone());
        target.path_and_query = upstream.path_of(&self.parts.uri);
        self.route.target = Uri::from_parts(target)?;
        Ok(())
    }

    pub(super) fn method(&self) -> &Method {
        &self.parts.method
    }

    /// Names the span of the request to the upstream.
    pub(super) fn is_traced(&mut self, context: &TraceContext) {
        self.parts
            .headers
            .insert(TRACEPARENT, context.traceparent());
    }

    /// The URL at an upstream, without its query. The host is the upstream's, whatever it sees.
    pub(super) fn url(&self, upstream: &Upstream) -> String {
        let (scheme, host) = (upstream.scheme(), &upstream.authority);
        format!("{scheme}://{host}{}", self.route.target.path())
    }

    /// Begins another attempt. Returns `false` if the content cannot be sent again.
    pub(super) fn restart(&mut self) -> bool {
        let Some(replay) = &self.replay else {
            return true;
        };
        self.content = replay.restart();
        self.content.is_some()
    }

    /// The head and framing of HTTP/1.1.
    ///
    /// # Errors
    /// If the length that the client announces is no number.
    pub(super) fn http1(&self) -> Result<(Bytes, Encoder), LengthMismatch> {
        let (encoder, announced) = self.framing()?;
        let target = &self.route.target;
        let path = target.path_and_query().map_or("/", |path| path.as_str());
        let mut out = Vec::with_capacity(USUAL_HEAD);
        let mut head = HeadEncoder::new(&mut out, &self.parts.method, path);
        let host = target.authority().map_or("", |host| host.as_str());
        head.field(b"host", host.as_bytes());
        let mut has_te = false;
        for (name, value) in &self.parts.headers {
            // Those are written here.
            let is_own = [
                header::HOST,
                header::CONNECTION,
                header::CONTENT_LENGTH,
                header::TRANSFER_ENCODING,
            ]
            .contains(name);
            has_te |= *name == header::TE;
            if !is_own {
                head.field(name.as_str().as_bytes(), value.as_bytes());
            }
        }
        if let Some(description) = &self.description {
            description.encode(&mut head);
        }
        encode_framing(&mut head, encoder, announced);
        if let Some(options) = self.connection_options(has_te) {
            head.field(b"connection", options);
        }
        head.finish();
        Ok((out.into(), encoder))
    }

    /// The options for one connection (RFC 9110 §7.8, §10.1.4).
    fn connection_options(&self, has_te: bool) -> Option<&'static [u8]> {
        match (self.route.is_upgrade, has_te) {
            (true, true) => Some(b"upgrade, te"),
            (true, false) => Some(b"upgrade"),
            (false, true) => Some(b"te"),
            (false, false) => None,
        }
    }

    /// The framing of HTTP/1.1, and whether a length is announced. The end of the content is also
    /// announced with methods that seldom have any. With methods that have some by definition it is
    /// announced that there is none (RFC 9110 §8.6, RFC 9112 §6.1).
    fn framing(&self) -> Result<(Encoder, bool), LengthMismatch> {
        let headers = &self.parts.headers;
        let is_announced = headers.contains_key(header::CONTENT_LENGTH);
        let length = match is_announced {
            // Replaces equal lengths, which not every server takes for one.
            true => Some(content_length(headers).ok_or(LengthMismatch)?),
            false => self.length(),
        };
        Ok(match length {
            None => (Encoder::Chunked, false),
            Some(length) => {
                let announces = is_announced || length > 0 || self.wants_content();
                (Encoder::Length(length), announces)
            }
        })
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
        if let Some(description) = &self.description {
            description.add_to(&mut headers);
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

    /// The length of the content, if it is known.
    fn length(&self) -> Option<u64> {
        match &self.content {
            Some(content) => content.size_hint().exact(),
            None => self.replay.is_none().then_some(0),
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

fn encode_framing(head: &mut HeadEncoder<'_>, encoder: Encoder, announced: bool) {
    match encoder {
        Encoder::Chunked => head.field(b"transfer-encoding", b"chunked"),
        Encoder::Length(length) if announced => {
            head.field(b"content-length", length.to_string().as_bytes());
        }
        Encoder::Length(_) => {}
    }
}

/// Room for a head of usual size, in bytes.
const USUAL_HEAD: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn head(request: http::request::Builder, is_upgrade: bool, description: bool) -> String {
        let (parts, ()) = request
            .uri("https://a.example/x")
            .body(())
            .unwrap()
            .into_parts();
        let peer = crate::Peer {
            remote: "192.0.2.1:1".parse().unwrap(),
            local: "192.0.2.2:443".parse().unwrap(),
            version: hikyaku_units::arm::Version::H3,
            tls: None,
            server_name: None,
            scheme: crate::Scheme::Https,
            via: None,
        };
        let description = description.then(|| Description::new(&peer, None, true));
        let route = Route {
            target: "http://up.example:8080/x?y".parse().unwrap(),
            host: None,
            is_upgrade,
            activity: Activity::new(),
            interim: None,
        };
        let mut outgoing = Outgoing::new(parts, description, RequestBody::default(), route);
        let (first, _) = outgoing.http1().unwrap();
        outgoing.restart();
        let (second, _) = outgoing.http1().unwrap();
        assert_eq!(first, second, "a second attempt");
        String::from_utf8(first.to_vec()).unwrap()
    }

    #[test]
    fn a_head_has_one_host_framing_and_connection() {
        let get = || Request::get("/").header(header::HOST, "a.example");
        let te = || get().header(header::TE, "trailers");
        // name, request, whether it asks for an upgrade, lines after the one of Host
        let cases: [(&str, http::request::Builder, bool, &str); 6] = [
            ("nothing", get(), false, ""),
            ("a field", get().header("x", "1"), false, "x: 1\r\n"),
            ("TE", te(), false, "te: trailers\r\nconnection: te\r\n"),
            (
                "an upgrade",
                get().header(header::CONNECTION, "upgrade"),
                true,
                "connection: upgrade\r\n",
            ),
            (
                "an upgrade with TE",
                te(),
                true,
                "te: trailers\r\nconnection: upgrade, te\r\n",
            ),
            (
                "a POST of nothing",
                get().method(Method::POST),
                false,
                "content-length: 0\r\n",
            ),
        ];
        for (name, request, is_upgrade, want) in cases {
            let got = head(request, is_upgrade, false);
            let (line, fields) = got.split_once("\r\n").unwrap();
            assert!(line.ends_with(" /x?y HTTP/1.1"), "{name}: {line}");
            let want = format!("host: up.example:8080\r\n{want}\r\n");
            assert_eq!(fields, want, "{name}");
        }
        let described = head(get(), false, true);
        assert!(described.contains("\r\nforwarded: for=192.0.2.1;proto=https\r\n"));
    }
}
