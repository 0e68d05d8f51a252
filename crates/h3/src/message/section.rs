//! Field sections, checked by the rules for all of them (RFC 9114 §4.2, §4.3).

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::error::Error;
use crate::qpack::Field;

/// A field section.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(super) pseudo: Pseudo,
    pub(super) headers: HeaderMap,
    pub(super) content_length: Option<u64>,
}

/// Pseudo-header fields (RFC 9114 §4.3, RFC 9220 §3), each at most once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pseudo {
    pub(super) method: Option<Bytes>,
    pub(super) scheme: Option<Bytes>,
    pub(super) authority: Option<Bytes>,
    pub(super) path: Option<Bytes>,
    pub(super) protocol: Option<Bytes>,
    pub(super) status: Option<Bytes>,
}

impl Pseudo {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn set(&mut self, name: &[u8], value: Bytes) -> Result<(), Error> {
        let place = match name {
            b":method" => &mut self.method,
            b":scheme" => &mut self.scheme,
            b":authority" => &mut self.authority,
            b":path" => &mut self.path,
            b":protocol" => &mut self.protocol,
            b":status" => &mut self.status,
            _ => return Err(Error::malformed("an unknown pseudo-header field")),
        };
        match place.replace(value) {
            None => Ok(()),
            Some(_) => Err(Error::malformed("a pseudo-header field is there twice")),
        }
    }
}

impl Section {
    /// Takes a decoded section apart.
    ///
    /// # Errors
    /// `H3_MESSAGE_ERROR` if it is malformed as a section of any kind.
    pub(super) fn parse(fields: Vec<Field>) -> Result<Self, Error> {
        let mut section = Self::default();
        let mut cookies = Vec::new();
        let mut regular = false;
        for field in fields {
            if field.name.first() == Some(&b':') {
                if regular {
                    return Err(Error::malformed("a pseudo-header field after others"));
                }
                section.pseudo.set(&field.name, field.value)?;
                continue;
            }
            regular = true;
            if field.name == "cookie" {
                cookies.push(field);
            } else {
                section.add(field)?;
            }
        }
        if let Some(cookie) = join(cookies) {
            section.add(cookie)?;
        }
        Ok(section)
    }

    fn add(&mut self, field: Field) -> Result<(), Error> {
        let name = HeaderName::from_lowercase(&field.name)
            .map_err(|_| Error::malformed("a field name with a forbidden character"))?;
        check_specific(&name, &field.value)?;
        if name == header::CONTENT_LENGTH {
            let length = content_length(&field.value)?;
            if self.content_length.replace(length).is_some() {
                return Err(Error::malformed("Content-Length is there twice"));
            }
        }
        let value = value(field)?;
        match self.headers.try_append(name, value) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::malformed("too many fields")),
        }
    }
}

/// Reads a field's value (RFC 9110 §5.5; RFC 9114 §4.2, §10.3).
fn value(field: Field) -> Result<HeaderValue, Error> {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    if is_space(field.value.first()) || is_space(field.value.last()) {
        return Err(Error::malformed("a field value with space around it"));
    }
    let mut value = HeaderValue::from_maybe_shared(field.value)
        .map_err(|_| Error::malformed("a field value with a forbidden character"))?;
    value.set_sensitive(field.never_indexed);
    Ok(value)
}

/// Fields of a single HTTP/1.1 connection (RFC 9110 §7.6.1).
pub(super) fn is_connection_specific(name: &HeaderName) -> bool {
    [
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    ]
    .contains(&name.as_str())
}

/// "An endpoint MUST NOT generate an HTTP/3 field section containing connection-specific header
/// fields"; TE "MUST NOT contain any value other than `trailers`" (RFC 9114 §4.2).
fn check_specific(name: &HeaderName, value: &[u8]) -> Result<(), Error> {
    if is_connection_specific(name) {
        return Err(Error::malformed("a connection-specific field"));
    }
    if *name == header::TE && !value.eq_ignore_ascii_case(b"trailers") {
        return Err(Error::malformed("TE other than `trailers`"));
    }
    Ok(())
}

/// Reads Content-Length (RFC 9110 §8.6), which has digits and no other characters.
fn content_length(value: &[u8]) -> Result<u64, Error> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits);
    text.and_then(|text| text.parse().ok())
        .ok_or(Error::malformed("Content-Length is no length"))
}

/// "If there are multiple cookie fields, these MUST be concatenated into a single byte string
/// using the two-byte delimiter of `; `" (RFC 9114 §4.2.1).
fn join(crumbs: Vec<Field>) -> Option<Field> {
    let never_indexed = crumbs.iter().any(|crumb| crumb.never_indexed);
    crumbs.into_iter().reduce(|joined, crumb| {
        let mut value = BytesMut::from(joined.value);
        value.extend_from_slice(b"; ");
        value.extend_from_slice(&crumb.value);
        Field {
            name: joined.name,
            value: value.freeze(),
            never_indexed,
        }
    })
}
