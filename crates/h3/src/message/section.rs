//! Field sections, checked by the rules for all of them (RFC 9114 §4.2, §4.3).

use bytes::{Bytes, BytesMut};
use hikyaku_http_common::message::{Class, Kind, Lines};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::error::Error;
use crate::qpack::Fields;

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
    pub(super) fn parse(fields: &Fields) -> Result<Self, Error> {
        // All values share one allocation.
        let bytes = Bytes::copy_from_slice(fields.bytes());
        let mut section = Self {
            headers: HeaderMap::with_capacity(fields.len().min(USUAL)),
            ..Self::default()
        };
        let mut cookie: Option<(Bytes, bool)> = None;
        for line in fields.lines() {
            let class = Class::of(fields.name(*line), fields.value(*line));
            let value = bytes.slice(line.middle..line.end);
            section.lines.line(class, &value, &value)?;
            match class.kind {
                kind if kind.is_pseudo() => {}
                Kind::Cookie => cookie = Some(join(cookie, value, line.never_indexed)),
                _ => section.add(fields.name(*line), value, line.never_indexed)?,
            }
        }
        if let Some((cookie, never_indexed)) = cookie {
            section.add(b"cookie", cookie, never_indexed)?;
        }
        Ok(section)
    }

    fn add(&mut self, name: &[u8], value: Bytes, never_indexed: bool) -> Result<(), Error> {
        let name = HeaderName::from_lowercase(name)
            .map_err(|_| Error::malformed("a field name with a forbidden character"))?;
        let mut value = HeaderValue::from_maybe_shared(value)
            .map_err(|_| Error::malformed("a field value with a forbidden character"))?;
        value.set_sensitive(never_indexed);
        match self.headers.try_append(name, value) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::malformed("too many fields")),
        }
    }
}

/// Fields for which there is room at once: more than most messages have.
const USUAL: usize = 32;

/// "If there are multiple cookie fields, these MUST be concatenated into a single byte string
/// using the two-byte delimiter of `; `" (RFC 9114 §4.2.1).
fn join(former: Option<(Bytes, bool)>, crumb: Bytes, never_indexed: bool) -> (Bytes, bool) {
    let Some((former, former_never)) = former else {
        return (crumb, never_indexed);
    };
    let mut value = BytesMut::from(former);
    value.extend_from_slice(b"; ");
    value.extend_from_slice(&crumb);
    (value.freeze(), former_never || never_indexed)
}
