//! Header and trailer sections of requests (RFC 9113 §8.1, §8.3.1, §8.5; RFC 8441).

use hikyaku_http_common::content::Content;
use hikyaku_http_common::priority::Priority;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Uri, Version, request};

use super::target;
use crate::error::Violation;
use crate::field::{Class, Kind, is_token};
use crate::section::{Fields, Line, Section};

/// The header section of a request, in the memory of its connection.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    section: &'a Section,
    parsed: &'a Parsed,
    /// The priority of the response, by PRIORITY_UPDATE or the priority field (RFC 9218 §5, §7).
    pub priority: Priority,
}

/// The parts of a request's header section that have been checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parsed {
    method: Option<Line>,
    scheme: Option<Line>,
    authority: Option<Line>,
    path: Option<Line>,
    protocol: Option<Line>,
    host: Option<Line>,
    content_length: Option<u64>,
    priority: Option<Line>,
    has_more_priorities: bool,
    /// Lines of pseudo-header fields: the first ones.
    pseudo: usize,
    cookies: usize,
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
        self.text(self.parsed.method).unwrap_or_default()
    }

    /// `:scheme`; `None` for CONNECT.
    pub fn scheme(&self) -> Option<&'a str> {
        self.text(self.parsed.scheme)
    }

    /// `:authority`, or Host without it.
    pub fn authority(&self) -> Option<&'a str> {
        self.text(self.parsed.authority.or(self.parsed.host))
    }

    /// `:path` with its query; `None` for CONNECT.
    pub fn path(&self) -> Option<&'a str> {
        self.text(self.parsed.path)
    }

    /// `:protocol` of an extended CONNECT (RFC 8441 §4), a token.
    pub fn protocol(&self) -> Option<&'a str> {
        self.text(self.parsed.protocol)
    }

    /// Content-Length, in bytes.
    pub fn content_length(&self) -> Option<u64> {
        self.parsed.content_length
    }

    /// All other fields. Cookies are joined to one field, the last (RFC 9113 §8.2.3).
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.section, self.parsed.pseudo)
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
        let authority = self.parsed.authority.or(self.parsed.host);
        if let Some(authority) = authority {
            uri.authority = Some(Authority::from_maybe_shared(slice(authority))?);
        } else {
            // `http` has no URI of a scheme alone.
            uri.scheme = None;
        }
        if let Some(path) = self.parsed.path {
            uri.path_and_query = Some(PathAndQuery::from_maybe_shared(slice(path))?);
        }
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = Method::from_bytes(self.method().as_bytes())?;
        parts.uri = Uri::from_parts(uri)?;
        parts.version = Version::HTTP_2;
        parts.headers = self.headers(&shared);
        Ok(parts)
    }

    fn headers(&self, shared: &bytes::Bytes) -> HeaderMap {
        self.fields().headers_of(shared)
    }

    /// The content that may follow.
    pub(crate) fn content(&self) -> Content {
        if self.method() == "CONNECT" {
            Content::Tunnel
        } else {
            Content::of_length(self.parsed.content_length)
        }
    }
}

impl Parsed {
    /// The priority by the priority field; several are one list (RFC 9651 §4.2).
    pub(crate) fn priority(&self, section: &Section) -> Priority {
        let Some(line) = self.priority else {
            return Priority::default();
        };
        if !self.has_more_priorities {
            return Priority::parse(section.value(line));
        }
        let lines = section.lines().iter();
        let lines = lines.filter(|line| line.class.kind == Kind::Priority);
        let values: Vec<&[u8]> = lines.map(|line| section.value(*line)).collect();
        Priority::parse(&values.join(&b", "[..]))
    }

    pub(crate) fn is_head(&self, section: &Section) -> bool {
        self.method
            .is_some_and(|line| section.value(line) == b"HEAD")
    }
}

/// Checks the header section of a request, and joins its cookies. `connect_protocol` says whether
/// extended CONNECT was offered.
///
/// # Errors
/// If the request is malformed (RFC 9113 §8.1.1).
pub(crate) fn parse(section: &mut Section, connect_protocol: bool) -> Result<Parsed, Violation> {
    let mut parsed = Parsed::default();
    for (position, line) in section.lines().iter().enumerate() {
        check(line.class)?;
        if line.class.kind.is_pseudo() {
            parsed.pseudo_header(position, *line)?;
        } else {
            parsed.field(section, *line)?;
        }
    }
    if parsed.cookies > 1 {
        join_cookies(section);
    }
    parsed.check_target(section, connect_protocol)?;
    Ok(parsed)
}

/// Checks a trailer section: "Trailers MUST NOT include pseudo-header fields" (RFC 9113 §8.1).
///
/// # Errors
/// If the message is malformed.
pub(crate) fn parse_trailers(section: &Section) -> Result<(), Violation> {
    let mut parsed = Parsed::default();
    for line in section.lines() {
        check(line.class)?;
        if line.class.kind.is_pseudo() {
            return Err(malformed("trailers with a pseudo-header field"));
        }
        parsed.field(section, *line)?;
    }
    Ok(())
}

/// Checks what holds for each line (RFC 9113 §8.2.1, §8.2.2).
fn check(class: Class) -> Result<(), Violation> {
    if !class.has_valid_value {
        return Err(malformed("a field value with a forbidden character"));
    }
    match class.kind {
        Kind::Invalid => Err(malformed("a field name with a forbidden character")),
        Kind::ConnectionSpecific => Err(malformed("a connection-specific field")),
        _ => Ok(()),
    }
}

impl Parsed {
    fn pseudo_header(&mut self, position: usize, line: Line) -> Result<(), Violation> {
        if position != self.pseudo {
            return Err(malformed("a pseudo-header field after others"));
        }
        self.pseudo += 1;
        let place = match line.class.kind {
            Kind::Method => &mut self.method,
            Kind::Scheme => &mut self.scheme,
            Kind::Authority => &mut self.authority,
            Kind::Path => &mut self.path,
            Kind::Protocol => &mut self.protocol,
            Kind::Status => return Err(malformed("a request with :status")),
            _ => return Err(malformed("an unknown pseudo-header field")),
        };
        match place.replace(line) {
            None => Ok(()),
            Some(_) => Err(malformed("a pseudo-header field is there twice")),
        }
    }

    fn field(&mut self, section: &Section, line: Line) -> Result<(), Violation> {
        match line.class.kind {
            Kind::Cookie => self.cookies += 1,
            Kind::Host if self.host.is_some() => return Err(malformed("Host is there twice")),
            Kind::Host => self.host = Some(line),
            Kind::ContentLength => {
                let length = super::content_length(section.value(line));
                let length = length.ok_or(malformed("Content-Length is no length"))?;
                if self.content_length.replace(length).is_some() {
                    return Err(malformed("Content-Length is there twice"));
                }
            }
            Kind::Te if !section.value(line).eq_ignore_ascii_case(b"trailers") => {
                return Err(malformed("TE other than `trailers`"));
            }
            Kind::Priority => {
                self.has_more_priorities = self.priority.replace(line).is_some();
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the pseudo-header fields together (RFC 9113 §8.3.1, §8.5; RFC 8441 §4).
    fn check_target(&self, section: &Section, connect_protocol: bool) -> Result<(), Violation> {
        let value = |line: Option<Line>| line.map(|line| section.value(line));
        let method = value(self.method).ok_or(malformed("a request without :method"))?;
        if method.is_empty() || !method.iter().all(|byte| is_token(*byte)) {
            return Err(malformed(":method is no token"));
        }
        self.check_authority(section)?;
        match value(self.protocol) {
            Some(_) if !connect_protocol => {
                return Err(malformed(":protocol, which was not offered"));
            }
            Some(_) if method != b"CONNECT" => {
                return Err(malformed(":protocol with another method than CONNECT"));
            }
            Some(protocol)
                if !protocol.iter().all(|byte| is_token(*byte)) || protocol.is_empty() =>
            {
                return Err(malformed(":protocol is no token"));
            }
            None if method == b"CONNECT" => return self.check_connect(section),
            _ => {}
        }
        let scheme = value(self.scheme).ok_or(malformed("a request without :scheme"))?;
        if !target::is_scheme(scheme) {
            return Err(malformed(":scheme is none"));
        }
        let path = value(self.path).ok_or(malformed("a request without :path"))?;
        let is_http = [&b"http"[..], b"https"]
            .iter()
            .any(|http| scheme.eq_ignore_ascii_case(http));
        if !target::is_path(path, method == b"OPTIONS") {
            return Err(malformed(":path is none"));
        }
        if is_http && self.authority.or(self.host).is_none() {
            return Err(malformed("neither :authority nor Host"));
        }
        Ok(())
    }

    /// "The `:scheme` and `:path` pseudo-header fields MUST be omitted", and `:authority` has host
    /// and port (RFC 9113 §8.5).
    fn check_connect(&self, section: &Section) -> Result<(), Violation> {
        if self.scheme.is_some() || self.path.is_some() {
            return Err(malformed("CONNECT with :scheme or :path"));
        }
        let authority = self.authority;
        let authority = authority.ok_or(malformed("CONNECT without :authority"))?;
        match target::port(section.value(authority)) {
            Some(1..) => Ok(()),
            _ => Err(malformed("CONNECT without a port")),
        }
    }

    /// A request is malformed "if it contains a Host header field that identifies an entity that
    /// differs from the entity in the `:authority`" (RFC 9113 §8.3.1).
    fn check_authority(&self, section: &Section) -> Result<(), Violation> {
        for line in [self.authority, self.host].into_iter().flatten() {
            if !target::is_authority(section.value(line)) {
                return Err(malformed("an invalid authority"));
            }
        }
        if let (Some(authority), Some(host)) = (self.authority, self.host)
            && !section
                .value(authority)
                .eq_ignore_ascii_case(section.value(host))
        {
            return Err(malformed(":authority is not Host"));
        }
        Ok(())
    }
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

const fn malformed(reason: &'static str) -> Violation {
    Violation::malformed(reason)
}
