//! Header sections of requests (RFC 9114 §4.3.1, §4.4; RFC 9220).

use bytes::Bytes;
use hikyaku_http_common::content::Content;
use hikyaku_http_common::message::Lines;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Uri, Version, request};

use super::section::Section;
use super::{Context, Head, sealed};
use crate::error::{Code, Error};
use crate::priority::{self, Priority};

/// The header section of a request.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// Method, URI and fields. The URI has `:scheme`, `:path` and `:authority`, or Host instead of
    /// the last. The URI of CONNECT has the authority alone.
    pub parts: request::Parts,
    /// `:protocol` of an extended CONNECT (RFC 9220 §3): the protocol of the stream.
    pub protocol: Option<Protocol>,
    /// The priority of the response, by PRIORITY_UPDATE or the priority field (RFC 9218 §7).
    pub priority: Priority,
}

impl From<request::Parts> for RequestHead {
    fn from(parts: request::Parts) -> Self {
        Self {
            priority: priority_of(&parts.headers),
            protocol: None,
            parts,
        }
    }
}

/// A protocol of extended CONNECT, such as `websocket` (RFC 8441 §4): a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Protocol(http::HeaderValue);

impl Protocol {
    /// Makes a protocol of its name; `None` if that is no token (RFC 9110 §5.6.2).
    pub fn new(name: Bytes) -> Option<Self> {
        // A method is a token, too.
        Method::from_bytes(&name).ok()?;
        http::HeaderValue::from_maybe_shared(name).ok().map(Self)
    }

    /// The protocol's name.
    pub fn as_str(&self) -> &str {
        // Tokens are ASCII.
        self.0.to_str().unwrap_or_default()
    }
}

impl Head for RequestHead {}

#[allow(private_interfaces)]
impl sealed::Head for RequestHead {
    const INCOMPLETE: Code = Code::RequestIncomplete;
    const PUSH_PROMISE: Code = Code::FrameUnexpected;

    fn decode(section: Section, context: &Context) -> Result<Self, Error> {
        let Section { lines, headers } = section;
        lines.check_request(|line| line, context.connect_protocol)?;
        let method = Method::from_bytes(lines.method.as_deref().unwrap_or_default())
            .map_err(|_| Error::malformed(":method is no token"))?;
        let protocol = lines.protocol.clone().and_then(Protocol::new);
        let uri =
            target(lines).map_err(|_| Error::malformed("a request without a valid target"))?;
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = method;
        parts.uri = uri;
        parts.version = Version::HTTP_3;
        parts.headers = headers;
        let priority = context
            .priority
            .unwrap_or_else(|| priority_of(&parts.headers));
        Ok(Self {
            parts,
            protocol,
            priority,
        })
    }

    fn is_interim(&self) -> bool {
        false
    }

    fn content(&self, length: Option<u64>, _: &Context) -> Content {
        if self.parts.method == Method::CONNECT {
            Content::Tunnel
        } else {
            Content::of_length(length)
        }
    }
}

/// The target of a request that has been checked. That of CONNECT has the authority alone.
fn target(lines: Lines<Bytes>) -> Result<Uri, http::Error> {
    let mut parts = http::uri::Parts::default();
    if let Some(authority) = lines.authority.or(lines.host) {
        parts.authority = Some(Authority::from_maybe_shared(authority)?);
        // `http` has no URI of a scheme alone.
        let scheme = lines.scheme.as_deref();
        parts.scheme = scheme.map(Scheme::try_from).transpose()?;
    }
    if let Some(path) = lines.path {
        parts.path_and_query = Some(PathAndQuery::from_maybe_shared(path)?);
    }
    Ok(Uri::from_parts(parts)?)
}

fn priority_of(headers: &HeaderMap) -> Priority {
    let values = headers.get_all(priority::FIELD).iter();
    Priority::of_fields(values.map(http::HeaderValue::as_bytes))
}
