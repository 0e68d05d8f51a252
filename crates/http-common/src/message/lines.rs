//! The lines of a section that rules are about.

use http::StatusCode;

use super::field::{Class, Kind, is_token};
use super::{Malformed, content_length, target};

/// The lines of a section that rules are about, as the caller's handles `V`.
#[derive(Clone, Copy, Debug)]
pub struct Lines<V> {
    /// `:method`.
    pub method: Option<V>,
    /// `:scheme`.
    pub scheme: Option<V>,
    /// `:authority`.
    pub authority: Option<V>,
    /// `:path`.
    pub path: Option<V>,
    /// `:protocol` (RFC 8441 §4, RFC 9220 §3).
    pub protocol: Option<V>,
    /// `:status`.
    pub status: Option<V>,
    /// The first Host.
    pub host: Option<V>,
    /// Content-Length, in bytes.
    pub content_length: Option<u64>,
    /// Lines of pseudo-header fields: the first ones.
    pub pseudo: usize,
    /// Whether another field has come, after which no pseudo-header field may.
    has_regular: bool,
    has_two_hosts: bool,
}

impl<V> Default for Lines<V> {
    fn default() -> Self {
        Self {
            method: None,
            scheme: None,
            authority: None,
            path: None,
            protocol: None,
            status: None,
            host: None,
            content_length: None,
            pseudo: 0,
            has_regular: false,
            has_two_hosts: false,
        }
    }
}

impl<V: Clone> Lines<V> {
    /// Takes the next line of a section: its class, and its value as a handle and as bytes.
    ///
    /// # Errors
    /// If a section of any kind is malformed by the line (RFC 9113 §8.2, §8.3; RFC 9114 §4.2, §4.3).
    pub fn line(&mut self, class: Class, value: &V, bytes: &[u8]) -> Result<(), Malformed> {
        if !class.has_valid_value {
            return Err(Malformed("a field value with a forbidden character"));
        }
        if class.kind.is_pseudo() {
            return self.pseudo_header(class.kind, value);
        }
        self.has_regular = true;
        match class.kind {
            Kind::Invalid => return Err(Malformed("a field name with a forbidden character")),
            Kind::ConnectionSpecific => return Err(Malformed("a connection-specific field")),
            Kind::Host if self.host.is_some() => self.has_two_hosts = true,
            Kind::Host => self.host = Some(value.clone()),
            Kind::ContentLength => {
                let length = content_length(bytes);
                let length = length.ok_or(Malformed("Content-Length is no length"))?;
                if self.content_length.replace(length).is_some() {
                    return Err(Malformed("Content-Length is there twice"));
                }
            }
            Kind::Te if !bytes.eq_ignore_ascii_case(b"trailers") => {
                return Err(Malformed("TE other than `trailers`"));
            }
            _ => {}
        }
        Ok(())
    }

    fn pseudo_header(&mut self, kind: Kind, value: &V) -> Result<(), Malformed> {
        if self.has_regular {
            return Err(Malformed("a pseudo-header field after others"));
        }
        self.pseudo += 1;
        let place = match kind {
            Kind::Method => &mut self.method,
            Kind::Scheme => &mut self.scheme,
            Kind::Authority => &mut self.authority,
            Kind::Path => &mut self.path,
            Kind::Protocol => &mut self.protocol,
            Kind::Status => &mut self.status,
            _ => return Err(Malformed("an unknown pseudo-header field")),
        };
        match place.replace(value.clone()) {
            None => Ok(()),
            Some(_) => Err(Malformed("a pseudo-header field is there twice")),
        }
    }

    /// Checks a request's header section that is complete (RFC 9113 §8.3.1, RFC 9114 §4.3.1). `bytes`
    /// returns a line's value. `connect_protocol` says whether extended CONNECT was offered.
    ///
    /// # Errors
    /// If the request is malformed.
    pub fn check_request<'a>(
        &'a self,
        bytes: impl Fn(&'a V) -> &'a [u8],
        connect_protocol: bool,
    ) -> Result<(), Malformed> {
        let value = |line: &'a Option<V>| line.as_ref().map(&bytes);
        if self.status.is_some() {
            return Err(Malformed("a request with :status"));
        }
        let method = value(&self.method).ok_or(Malformed("a request without :method"))?;
        if !is_whole_token(method) {
            return Err(Malformed(":method is no token"));
        }
        let (authority, host) = (value(&self.authority), value(&self.host));
        self.check_authority(authority, host)?;
        match value(&self.protocol) {
            Some(_) if !connect_protocol => {
                return Err(Malformed(":protocol, which was not offered"));
            }
            Some(_) if method != b"CONNECT" => {
                return Err(Malformed(":protocol with another method than CONNECT"));
            }
            Some(protocol) if !is_whole_token(protocol) => {
                return Err(Malformed(":protocol is no token"));
            }
            None if method == b"CONNECT" => return self.check_connect(authority),
            _ => {}
        }
        let scheme = value(&self.scheme).ok_or(Malformed("a request without :scheme"))?;
        if !target::is_scheme(scheme) {
            return Err(Malformed(":scheme is none"));
        }
        let path = value(&self.path).ok_or(Malformed("a request without :path"))?;
        if !target::is_path(path, method == b"OPTIONS") {
            return Err(Malformed(":path is none"));
        }
        // "If the scheme has a mandatory authority component (including `http` and `https`), the
        // request MUST contain either an `:authority` pseudo-header field or a Host header field".
        let is_http = [&b"http"[..], b"https"]
            .iter()
            .any(|http| scheme.eq_ignore_ascii_case(http));
        if is_http && authority.or(host).is_none() {
            return Err(Malformed("neither :authority nor Host"));
        }
        Ok(())
    }

    /// "If both fields are present, they MUST contain the same value" (RFC 9114 §4.3.1, RFC 9113
    /// §8.3.1), and there is one host (RFC 9112 §3.2).
    fn check_authority(
        &self,
        authority: Option<&[u8]>,
        host: Option<&[u8]>,
    ) -> Result<(), Malformed> {
        if self.has_two_hosts {
            return Err(Malformed("Host is there twice"));
        }
        for value in [authority, host].into_iter().flatten() {
            if !target::is_authority(value) {
                return Err(Malformed("an invalid authority"));
            }
        }
        match (authority, host) {
            (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
                Err(Malformed(":authority is not Host"))
            }
            _ => Ok(()),
        }
    }

    /// "The `:scheme` and `:path` pseudo-header fields MUST be omitted", and `:authority` has host
    /// and port (RFC 9113 §8.5, RFC 9114 §4.4).
    fn check_connect(&self, authority: Option<&[u8]>) -> Result<(), Malformed> {
        if self.scheme.is_some() || self.path.is_some() {
            return Err(Malformed("CONNECT with :scheme or :path"));
        }
        let authority = authority.ok_or(Malformed("CONNECT without :authority"))?;
        // RFC 9110 §9.3.6: the port is part of the target.
        match target::port(authority) {
            Some(1..) => Ok(()),
            _ => Err(Malformed("CONNECT without a port")),
        }
    }

    /// Checks a response's header section that is complete (RFC 9113 §8.3.2, RFC 9114 §4.3.2).
    /// Returns its status.
    ///
    /// # Errors
    /// If the response is malformed.
    pub fn check_response<'a>(
        &'a self,
        bytes: impl Fn(&'a V) -> &'a [u8],
    ) -> Result<StatusCode, Malformed> {
        let status = self.status.as_ref();
        let status = status.ok_or(Malformed("a response without :status"))?;
        if self.pseudo > 1 {
            return Err(Malformed("a response with a request's field"));
        }
        let status = StatusCode::from_bytes(bytes(status));
        let status = status.map_err(|_| Malformed(":status is no status"))?;
        // RFC 9113 §8.6, RFC 9114 §4.5: "101 (Switching Protocols)" is none here.
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Malformed("a response switches protocols"));
        }
        Ok(status)
    }

    /// Checks a trailer section: "Trailers MUST NOT include pseudo-header fields" (RFC 9113 §8.1, RFC
    /// 9114 §4.3).
    ///
    /// # Errors
    /// If the message is malformed.
    pub const fn check_trailers(&self) -> Result<(), Malformed> {
        match self.pseudo {
            0 => Ok(()),
            _ => Err(Malformed("trailers with a pseudo-header field")),
        }
    }
}

fn is_whole_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| is_token(*byte))
}
