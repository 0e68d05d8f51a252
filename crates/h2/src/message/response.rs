//! Header sections of responses (RFC 9113 §8.3.2).

use hikyaku_http_common::message::{is_sent, length_of};
use hikyaku_http_common::priority::Parameters;
use http::StatusCode;
use http::header::HeaderMap;

use crate::hpack::PreparedLines;

/// A response's header section that is encoded once and sent many times, on any connection.
///
/// It has what does not vary, such as the fields of a file. Fields that vary, such as Date, come with
/// each use.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) status: StatusCode,
    pub(crate) content_length: Option<u64>,
    pub(crate) priority: Parameters,
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
            priority: Parameters::of(headers),
            lines,
        }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }
}
