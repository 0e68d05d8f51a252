//! Header sections of requests (RFC 9114 §4.3.1, §4.4; RFC 9220).

use bytes::Bytes;
use hikyaku_http_common::content::Content;
use http::header;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Uri, Version, request};

use super::section::{Pseudo, Section};
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
        let Section {
            pseudo, headers, ..
        } = section;
        if pseudo.status.is_some() {
            return Err(Error::malformed("a request with :status"));
        }
        let protocol = protocol(&pseudo, context)?;
        let method = method(&pseudo)?;
        let uri = if protocol.is_none() && method == Method::CONNECT {
            connect_target(pseudo, &headers)?
        } else if protocol.is_some() && method != Method::CONNECT {
            return Err(Error::malformed(
                ":protocol with another method than CONNECT",
            ));
        } else {
            target(pseudo, &headers, &method)?
        };
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

fn protocol(pseudo: &Pseudo, context: &Context) -> Result<Option<Protocol>, Error> {
    match &pseudo.protocol {
        None => Ok(None),
        Some(_) if !context.connect_protocol => {
            Err(Error::malformed(":protocol, which was not offered"))
        }
        Some(name) => match Protocol::new(name.clone()) {
            Some(protocol) => Ok(Some(protocol)),
            None => Err(Error::malformed(":protocol is no token")),
        },
    }
}

fn method(pseudo: &Pseudo) -> Result<Method, Error> {
    let method = pseudo.method.as_ref();
    let method = method.ok_or(Error::malformed("a request without :method"))?;
    Method::from_bytes(method).map_err(|_| Error::malformed(":method is no token"))
}

/// The target of CONNECT: "The `:scheme` and `:path` pseudo-header fields are omitted", and
/// `:authority` has host and port (RFC 9114 §4.4).
fn connect_target(pseudo: Pseudo, headers: &HeaderMap) -> Result<Uri, Error> {
    if pseudo.scheme.is_some() || pseudo.path.is_some() {
        return Err(Error::malformed("CONNECT with :scheme or :path"));
    }
    let authority = pseudo
        .authority
        .ok_or(Error::malformed("CONNECT without :authority"))?;
    let authority = authority_of(authority)?;
    check_host(&authority, headers)?;
    // RFC 9110 §9.3.6: the port is part of the target.
    if authority.port_u16().is_none_or(|port| port == 0) {
        return Err(Error::malformed("CONNECT without a port"));
    }
    Ok(Uri::from(authority))
}

/// The target of all other methods: exactly one `:scheme` and `:path` (RFC 9114 §4.3.1).
fn target(pseudo: Pseudo, headers: &HeaderMap, method: &Method) -> Result<Uri, Error> {
    let scheme = pseudo
        .scheme
        .ok_or(Error::malformed("a request without :scheme"))?;
    let scheme = Scheme::try_from(&*scheme).map_err(|_| Error::malformed(":scheme is none"))?;
    let path = pseudo
        .path
        .ok_or(Error::malformed("a request without :path"))?;
    let is_http = scheme == Scheme::HTTP || scheme == Scheme::HTTPS;
    let path = path_of(path, is_http, method)?;
    let authority = pseudo.authority.map(authority_of).transpose()?;
    let authority = match authority {
        Some(authority) => {
            check_host(&authority, headers)?;
            Some(authority)
        }
        None => host(headers)?,
    };
    let mut parts = http::uri::Parts::default();
    match authority {
        Some(authority) => {
            parts.scheme = Some(scheme);
            parts.authority = Some(authority);
        }
        // "If the scheme has a mandatory authority component (including `http` and `https`), the
        // request MUST contain either an `:authority` pseudo-header field or a Host header field".
        None if is_http => return Err(Error::malformed("neither :authority nor Host")),
        None => {}
    }
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).map_err(|_| Error::malformed("a request without a valid target"))
}

/// Reads `:path`. "This pseudo-header field MUST NOT be empty for `http` or `https` URIs" (RFC 9114
/// §4.3.1). It begins with a slash, except for `OPTIONS *`.
fn path_of(path: Bytes, is_http: bool, method: &Method) -> Result<PathAndQuery, Error> {
    let is_asterisk = *method == Method::OPTIONS && path == "*";
    // `http` would drop the part after a number sign.
    if is_http && !path.starts_with(b"/") && !is_asterisk || path.contains(&b'#') {
        return Err(Error::malformed(":path is none"));
    }
    PathAndQuery::from_maybe_shared(path).map_err(|_| Error::malformed(":path is none"))
}

/// "The authority MUST NOT include the deprecated userinfo subcomponent" (RFC 9114 §4.3.1).
fn authority_of(authority: Bytes) -> Result<Authority, Error> {
    if authority.contains(&b'@') {
        return Err(Error::malformed("an authority with userinfo"));
    }
    let authority = Authority::from_maybe_shared(authority)
        .map_err(|_| Error::malformed("an invalid authority"))?;
    if authority.host().is_empty() {
        return Err(Error::malformed("an empty authority"));
    }
    Ok(authority)
}

/// "If both fields are present, they MUST contain the same value" (RFC 9114 §4.3.1).
fn check_host(authority: &Authority, headers: &HeaderMap) -> Result<(), Error> {
    match host(headers)? {
        Some(host) if host != *authority => Err(Error::malformed(":authority is not Host")),
        _ => Ok(()),
    }
}

fn host(headers: &HeaderMap) -> Result<Option<Authority>, Error> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let Some(host) = hosts.next() else {
        return Ok(None);
    };
    if hosts.next().is_some() {
        return Err(Error::malformed("Host is there twice"));
    }
    authority_of(Bytes::copy_from_slice(host.as_bytes())).map(Some)
}

/// The priority by the priority field; several fields are one list (RFC 9651 §4.2).
fn priority_of(headers: &HeaderMap) -> Priority {
    let mut values = headers.get_all(priority::FIELD).iter();
    let Some(first) = values.next() else {
        return Priority::default();
    };
    let mut joined = first.as_bytes().to_vec();
    for value in values {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(value.as_bytes());
    }
    Priority::parse(&joined)
}
