//! The bound on header sections, in the terms of each HTTP version.

use hikyaku_units::ByteSize;
use http::HeaderMap;

/// `limits.header_size`: the bytes of a header section, in either direction.
///
/// Bytes are counted as in HTTP/2 and 3: name, value and 32 bytes for each field (RFC 9113 §6.5.2,
/// RFC 9114 §4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderSize(u64);

impl From<ByteSize> for HeaderSize {
    fn from(size: ByteSize) -> Self {
        Self(size.bytes())
    }
}

impl HeaderSize {
    /// `SETTINGS_MAX_HEADER_LIST_SIZE` of HTTP/2.
    pub fn list_size(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// The bytes of an HTTP/1.1 head that are read.
    pub fn head_size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// The number of fields that an HTTP/1.1 head of permitted size can have.
    pub fn fields(self) -> usize {
        let fields = self.0 / (FIELD_OVERHEAD as u64 + 1);
        usize::try_from(fields).map_or(MAX_FIELDS, |fields| fields.min(MAX_FIELDS))
    }

    /// The bytes of a connection that HTTP/1.1 may buffer: room for a head.
    pub fn buffer(self) -> usize {
        self.head_size().max(BUFFER)
    }

    /// Whether fields, and `other` bytes of the section, are too large.
    pub fn is_exceeded(self, headers: &HeaderMap, other: usize) -> bool {
        let fields = headers.iter();
        let size = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            name.as_str().len() + value.len() + FIELD_OVERHEAD
        };
        (fields.map(size).sum::<usize>() + other) as u64 > self.0
    }
}

const FIELD_OVERHEAD: usize = 32;
/// The largest number of fields in a [`HeaderMap`], which panics beyond it.
const MAX_FIELDS: usize = 24_000;
/// The bytes that hyper buffers by default, at most.
const BUFFER: usize = 408 * 1024;

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn fields_are_counted_with_their_overhead() {
        let mut headers = HeaderMap::new();
        headers.append("host", HeaderValue::from_static("a"));
        headers.append("x", HeaderValue::from_static("abc"));
        headers.append("x", HeaderValue::from_static(""));
        // The fields have 4 + 1 + 32, 1 + 3 + 32 and 1 + 32 bytes, and 3 bytes come besides.
        for (size, exceeded) in [(109, false), (108, true), (0, true)] {
            let got = HeaderSize(size).is_exceeded(&headers, 3);
            assert_eq!(got, exceeded, "{size}");
        }
    }

    #[test]
    fn as_many_fields_as_are_taken_fit_into_a_map() {
        let fields = HeaderSize(u64::MAX).fields();
        let mut headers = HeaderMap::new();
        headers.reserve(fields);
        for number in 0..fields {
            let name = HeaderName::try_from(format!("x-{number}")).unwrap();
            headers.append(name, HeaderValue::from_static(""));
        }
        assert_eq!(headers.len(), fields);
        assert_eq!(HeaderSize(64 << 10).fields(), 1985);
    }
}
