//! Field sections, checked by the rules for all of them (RFC 9114 §4.2, §4.3).

use bytes::{Bytes, BytesMut};
use hikyaku_http_common::message::{Class, Lines};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::error::Error;
use crate::qpack::Field;

/// A field section.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// The lines that rules are about.
    pub(super) lines: Lines<Bytes>,
    /// All fields that are no pseudo-header fields.
    pub(super) headers: HeaderMap,
}

impl Section {
    /// Takes a decoded section apart.
    ///
    /// # Errors
    /// `H3_MESSAGE_ERROR` if it is malformed as a section of any kind.
    pub(super) fn parse(fields: Vec<Field>) -> Result<Self, Error> {
        let mut section = Self::default();
        let mut cookies = Vec::new();
        for field in fields {
            let class = Class::of(&field.name, &field.value);
            section.lines.line(class, &field.value, &field.value)?;
            if class.kind.is_pseudo() {
                continue;
            }
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
        let mut value = HeaderValue::from_maybe_shared(field.value)
            .map_err(|_| Error::malformed("a field value with a forbidden character"))?;
        value.set_sensitive(field.never_indexed);
        match self.headers.try_append(name, value) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::malformed("too many fields")),
        }
    }
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
