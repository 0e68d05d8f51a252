//! Rules for the header and trailer sections of messages (RFC 9113 §8, RFC 9114 §4).
//!
//! HTTP/2 and HTTP/3 have the same ones. [`Lines`] notes the lines that rules are about, and checks
//! them together at the end of a section. Each version keeps lines in its own way, as a handle `V`.

mod field;
mod lines;
mod target;
#[cfg(test)]
mod tests;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

pub use field::{Class, Kind, is_token};
pub use lines::Lines;

/// The violation that makes a message malformed (RFC 9113 §8.1.1, RFC 9114 §4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// Whether a field of a message is sent: connection-specific ones are not (RFC 9113 §8.2.2, RFC 9114
/// §4.2).
pub fn is_sent(name: &HeaderName, value: &HeaderValue) -> bool {
    match name.as_str() {
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => false,
        "te" => value.as_bytes().eq_ignore_ascii_case(b"trailers"),
        _ => true,
    }
}

/// Content-Length of a message to send, in bytes; `None` if it has none, or no valid one.
pub fn length_of(headers: &HeaderMap) -> Option<u64> {
    content_length(headers.get(header::CONTENT_LENGTH)?.as_bytes())
}

/// Reads Content-Length (RFC 9110 §8.6), which has digits and no other characters.
fn content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    })
}
