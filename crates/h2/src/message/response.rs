//! Header sections of responses (RFC 9113 §8.3.2).

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::hpack::PreparedLines;

/// A response's header section that is encoded once and sent many times, on any connection.
///
/// It has what does not vary, such as the fields of a file. Fields that vary, such as Date, come with
/// each use.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) status: StatusCode,
    pub(crate) content_length: Option<u64>,
    pub(crate) lines: PreparedLines,
}

impl Prepared {
    /// Encodes a header section. Fields that HTTP/2 must not have, such as Connection, are left out
    /// (RFC 9113 §8.2.2).
    pub fn new(status: StatusCode, headers: &HeaderMap) -> Self {
        let mut lines = PreparedLines::default();
        lines.push(b":status", status.as_str().as_bytes(), false);
        for (name, value) in headers {
            if is_sent(name, value) {
                let name = name.as_str().as_bytes();
                lines.push(name, value.as_bytes(), value.is_sensitive());
            }
        }
        Self {
            status,
            content_length: length_of(headers),
            lines,
        }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }
}

/// Whether a field of a message is sent: connection-specific ones are not (RFC 9113 §8.2.2).
pub(crate) fn is_sent(name: &HeaderName, value: &HeaderValue) -> bool {
    match name.as_str() {
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => false,
        "te" => value.as_bytes().eq_ignore_ascii_case(b"trailers"),
        _ => true,
    }
}

/// Content-Length of a message to send.
pub(crate) fn length_of(headers: &HeaderMap) -> Option<u64> {
    content_length(headers.get(header::CONTENT_LENGTH)?.as_bytes())
}

/// Reads Content-Length (RFC 9110 §8.6), which has digits and no other characters.
pub(crate) fn content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    })
}
