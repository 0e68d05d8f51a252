//! Translation between messages of `http` and field sections (RFC 9114 §4.1 to §4.5).

mod encode;
mod request;
mod response;
mod section;
#[cfg(test)]
mod tests;

use hikyaku_http_common::content::Content;
use http::{HeaderMap, Method};

use crate::error::{Code, Error};
use crate::priority::Priority;
use crate::qpack::Fields;

pub(crate) use encode::{Encoded, request, response, trailers};
pub use request::{Protocol, RequestHead};
pub use response::Prepared;
use section::Section;

/// The header section that a [`Reader`](crate::stream::Reader) returns: [`RequestHead`] on a
/// server, [`http::response::Parts`] on a client.
pub trait Head: Sized + sealed::Head {}

pub(crate) mod sealed {
    use super::{Code, Content, Context, Error, Section};

    /// The differences between requests and responses.
    pub trait Head: Sized {
        /// The code for a stream that ends before its message (RFC 9114 §4.1).
        const INCOMPLETE: Code;
        /// The code for a PUSH_PROMISE, since no push was allowed (RFC 9114 §7.2.5).
        const PUSH_PROMISE: Code;

        /// Reads a header section.
        ///
        /// # Errors
        /// `H3_MESSAGE_ERROR` if it is malformed (RFC 9114 §4.1.2).
        #[allow(private_interfaces)]
        fn decode(section: Section, context: &Context) -> Result<Self, Error>;

        /// Whether another header section follows (RFC 9114 §4.1).
        fn is_interim(&self) -> bool;

        /// The content that may follow the header section. `length` is its Content-Length.
        #[allow(private_interfaces)]
        fn content(&self, length: Option<u64>, context: &Context) -> Content;
    }
}

/// The conditions for reading a header section.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// Server: extended CONNECT was offered (RFC 9220 §3).
    pub(crate) connect_protocol: bool,
    /// Server: the request's priority by PRIORITY_UPDATE.
    pub(crate) priority: Option<Priority>,
    /// Client: the request's method.
    pub(crate) method: Option<Method>,
}

/// Reads a header section. Also returns the content that may follow it.
///
/// # Errors
/// `H3_MESSAGE_ERROR` if it is malformed.
pub(crate) fn head<H: Head>(fields: &Fields, context: &Context) -> Result<(H, Content), Error> {
    let section = Section::parse(fields)?;
    let length = section.lines.content_length;
    let head = H::decode(section, context)?;
    let content = head.content(length, context);
    Ok((head, content))
}

/// Reads a trailer section.
///
/// # Errors
/// `H3_MESSAGE_ERROR` if it is malformed: "Pseudo-header fields MUST NOT appear in trailer
/// sections" (RFC 9114 §4.3).
pub(crate) fn trailer_section(fields: &Fields) -> Result<HeaderMap, Error> {
    let section = Section::parse(fields)?;
    section.lines.check_trailers()?;
    Ok(section.headers)
}
