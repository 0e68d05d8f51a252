//! Header sections of responses (RFC 9114 §4.3.2).

use hikyaku_http_common::content::Content;
use http::{Response, StatusCode, Version, response};

use super::section::{Pseudo, Section};
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
        let Section {
            pseudo, headers, ..
        } = section;
        let status = status(pseudo)?;
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

fn status(pseudo: Pseudo) -> Result<StatusCode, Error> {
    let status = pseudo
        .status
        .clone()
        .ok_or(Error::malformed("a response without :status"))?;
    let others = Pseudo {
        status: None,
        ..pseudo
    };
    if !others.is_empty() {
        return Err(Error::malformed("a response with a request's field"));
    }
    let status =
        StatusCode::from_bytes(&status).map_err(|_| Error::malformed(":status is no status"))?;
    // "HTTP/3 does not support [...] the 101 (Switching Protocols) informational status code"
    // (RFC 9114 §4.5).
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Error::malformed("a response switches protocols"));
    }
    Ok(status)
}
