//! Header sections of responses (RFC 9114 §4.3.2).

use hikyaku_http_common::content::Content;
use hikyaku_http_common::message::length_of;
use hikyaku_http_common::priority::Parameters;
use http::{HeaderMap, Response, StatusCode, Version, response};

use super::section::Section;
use super::{Context, Head, sealed};
use crate::error::{Code, Error};
use crate::qpack::PreparedLines;

/// A response's header section that is encoded once and sent many times, on any connection.
///
/// It has what does not vary, such as the fields of a file. Fields that vary, such as Date, come with
/// each use.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) status: StatusCode,
    pub(crate) content_length: Option<u64>,
    priority: Parameters,
    pub(crate) lines: PreparedLines,
}

impl Prepared {
    /// Encodes a header section. Fields that HTTP/3 must not have, such as Connection, are left out
    /// (RFC 9114 §4.2).
    pub fn new(status: StatusCode, headers: &HeaderMap) -> Self {
        let mut lines = PreparedLines::default();
        for field in super::response(&status, headers).fields() {
            lines.push(field);
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

    /// The parameters of its priority field.
    pub fn priority(&self) -> Parameters {
        self.priority
    }
}

impl Head for response::Parts {}

#[allow(private_interfaces)]
impl sealed::Head for response::Parts {
    /// RFC 9114 §4.1.2: an incomplete response is malformed.
    const INCOMPLETE: Code = Code::MessageError;
    /// RFC 9114 §7.2.5: the Push ID is beyond the largest one, since none was allowed.
    const PUSH_PROMISE: Code = Code::IdError;

    fn decode(section: Section, _: &Context) -> Result<Self, Error> {
        let Section { lines, headers } = section;
        let status = lines.check_response(|line| line)?;
        let (mut parts, ()) = Response::new(()).into_parts();
        parts.status = status;
        parts.version = Version::HTTP_3;
        parts.headers = headers;
        Ok(parts)
    }

    fn is_interim(&self) -> bool {
        self.status.is_informational()
    }

    fn content(&self, length: Option<u64>, context: &Context) -> Content {
        match &context.method {
            Some(method) => Content::of_response(self.status, method, length),
            None => Content::of_length(length),
        }
    }
}
