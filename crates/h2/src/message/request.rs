//! Header and trailer sections of requests (RFC 9113 §8.1, §8.3.1, §8.5; RFC 8441).

use hikyaku_http_common::content::Content;
use hikyaku_http_common::message::{Kind, Lines};
use hikyaku_http_common::priority::Priority;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Uri, Version, request};

use crate::error::Violation;
use crate::section::{Fields, Line, Section};

/// The header section of a request, in the memory of its connection.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    section: &'a Section,
    parsed: &'a Parsed,
    /// The priority of the response, by PRIORITY_UPDATE or the priority field (RFC 9218 §5, §7).
    pub priority: Priority,
}

/// A request's header section that has been checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parsed {
    lines: Lines<Line>,
    has_priority: bool,
}

impl<'a> RequestHead<'a> {
    pub(crate) fn new(section: &'a Section, parsed: &'a Parsed, priority: Priority) -> Self {
        Self {
            section,
            parsed,
            priority,
        }
    }

    fn text(&self, line: Option<Line>) -> Option<&'a str> {
        std::str::from_utf8(self.section.value(line?)).ok()
    }

    /// `:method`, a token.
    pub fn method(&self) -> &'a str {
        self.text(self.parsed.lines.method).unwrap_or_default()
    }

    /// `:scheme`; `None` for CONNECT.
    pub fn scheme(&self) -> Option<&'a str> {
        self.text(self.parsed.lines.scheme)
    }

    /// `:authority`, or Host without it.
    pub fn authority(&self) -> Option<&'a str> {
        self.text(self.parsed.lines.authority.or(self.parsed.lines.host))
    }

    /// `:path` with its query; `None` for CONNECT.
    pub fn path(&self) -> Option<&'a str> {
        self.text(self.parsed.lines.path)
    }

    /// `:protocol` of an extended CONNECT (RFC 8441 §4), a token.
    pub fn protocol(&self) -> Option<&'a str> {
        self.text(self.parsed.lines.protocol)
    }

    /// Content-Length, in bytes.
    pub fn content_length(&self) -> Option<u64> {
        self.parsed.lines.content_length
    }

    /// All other fields. Cookies are joined to one field, the last (RFC 9113 §8.2.3).
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.section, self.parsed.lines.pseudo)
    }

    /// The request without its content. All values share one allocation.
    ///
    /// The URI has scheme, authority and path; that of CONNECT has the authority alone.
    ///
    /// # Errors
    /// If the crate `http` has no such URI, for example of more than 65,534 bytes.
    pub fn to_parts(&self) -> Result<request::Parts, http::Error> {
        let shared = self.section.shared();
        let slice = |line| self.section.slice(&shared, line);
        let mut uri = http::uri::Parts::default();
        if let Some(scheme) = self.scheme() {
            uri.scheme = Some(Scheme::try_from(scheme)?);
        }
        let authority = self.parsed.lines.authority.or(self.parsed.lines.host);
        if let Some(authority) = authority {
            uri.authority = Some(Authority::from_maybe_shared(slice(authority))?);
        } else {
            // `http` has no URI of a scheme alone.
            uri.scheme = None;
        }
        if let Some(path) = self.parsed.lines.path {
            uri.path_and_query = Some(PathAndQuery::from_maybe_shared(slice(path))?);
        }
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = Method::from_bytes(self.method().as_bytes())?;
        parts.uri = Uri::from_parts(uri)?;
        parts.version = Version::HTTP_2;
        parts.headers = self.fields().headers_of(&shared)?;
        Ok(parts)
    }

    /// The content that may follow.
    pub(crate) fn content(&self) -> Content {
        if self.method() == "CONNECT" {
            Content::Tunnel
        } else {
            Content::of_length(self.parsed.lines.content_length)
        }
    }
}

impl Parsed {
    /// The priority by the priority field.
    pub(crate) fn priority(&self, section: &Section) -> Priority {
        if !self.has_priority {
            return Priority::default();
        }
        let lines = section.lines().iter();
        let lines = lines.filter(|line| line.class.kind == Kind::Priority);
        Priority::of_fields(lines.map(|line| section.value(*line)))
    }

    pub(crate) fn is_head(&self, section: &Section) -> bool {
        let method = self.lines.method;
        method.is_some_and(|line| section.value(line) == b"HEAD")
    }
}

/// Checks the header section of a request, and joins its cookies. `connect_protocol` says whether
/// extended CONNECT was offered.
///
/// # Errors
/// If the request is malformed (RFC 9113 §8.1.1).
pub(crate) fn parse(section: &mut Section, connect_protocol: bool) -> Result<Parsed, Violation> {
    let mut parsed = Parsed::default();
    let mut cookies = 0;
    for line in section.lines() {
        parsed.lines.line(line.class, line, section.value(*line))?;
        match line.class.kind {
            Kind::Cookie => cookies += 1,
            Kind::Priority => parsed.has_priority = true,
            _ => {}
        }
    }
    if cookies > 1 {
        join_cookies(section);
    }
    let value = |line: &Line| section.value(*line);
    parsed.lines.check_request(value, connect_protocol)?;
    Ok(parsed)
}

/// Checks a trailer section.
///
/// # Errors
/// If the message is malformed.
pub(crate) fn parse_trailers(section: &Section) -> Result<(), Violation> {
    let mut lines = Lines::default();
    for line in section.lines() {
        lines.line(line.class, line, section.value(*line))?;
    }
    Ok(lines.check_trailers()?)
}

/// Joins the crumbs of cookies, "using the two-octet delimiter of 0x3b, 0x20" (RFC 9113 §8.2.3).
fn join_cookies(section: &mut Section) {
    let start = section.position();
    section.buffer().extend_from_slice(b"cookie");
    let name_len = section.position() - start;
    let is_cookie = |line: &&Line| line.class.kind == Kind::Cookie;
    let crumbs: Vec<Line> = section.lines().iter().filter(is_cookie).copied().collect();
    for (position, crumb) in crumbs.iter().enumerate() {
        if position > 0 {
            section.buffer().extend_from_slice(b"; ");
        }
        section.append_value(*crumb);
    }
    section.retain(|line| line.class.kind != Kind::Cookie);
    let never = crumbs.iter().any(|crumb| crumb.never_indexed);
    section.push(start, name_len, crumbs[0].class, never);
}
