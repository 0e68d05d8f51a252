//! Header sections of responses (RFC 9114 §4.3.2).

use hikyaku_http_common::content::Content;
use http::{Response, Version, response};

use super::section::Section;
use super::{Context, Head, sealed};
use crate::error::{Code, Error};

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
