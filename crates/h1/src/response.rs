//! Heads of responses, and the framing of the content that follows them.

use bytes::{Buf, Bytes};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use httparse::{EMPTY_HEADER, Status};

/// Bounds on a header or trailer section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the section, with the line before it.
    pub size: usize,
    /// Fields. A [`HeaderMap`] has room for 24,000.
    pub fields: usize,
}

/// A response's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Status, which may be an interim one.
    pub status: StatusCode,
    /// HTTP/1.1 or 1.0.
    pub version: Version,
    /// Fields, whose values are slices of the bytes that were parsed.
    pub headers: HeaderMap,
}

/// The end of a response's content (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes; 0 where there can be no content.
    Length(u64),
    /// A chunk of no bytes.
    Chunked,
    /// The end of the connection.
    UntilClose,
}

impl Head {
    /// Takes a head from the front of `input`. Returns `None` as long as it is incomplete.
    ///
    /// # Errors
    /// If the head is malformed (RFC 9112 §4, §5), or larger than the limits.
    pub fn parse(input: &mut Bytes, limits: &Limits) -> Result<Option<Self>, HeadError> {
        let mut few = [EMPTY_HEADER; FEW];
        let fields = limits.fields.min(FEW);
        let parsed = match read(input, limits, &mut few[..fields]) {
            Err(HeadError::TooLarge) if limits.fields > FEW => {
                read(input, limits, &mut vec![EMPTY_HEADER; limits.fields])
            }
            parsed => parsed,
        };
        Ok(parsed?.map(|(head, length)| {
            input.advance(length);
            head
        }))
    }

    /// The framing of the content that follows this head in answer to a request of `method`.
    ///
    /// # Errors
    /// If the framing is faulty, so that the connection has to be closed.
    pub fn framing(&self, method: &Method) -> Result<Framing, HeadError> {
        let has_none = self.status.is_informational()
            || matches!(
                self.status,
                StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
            )
            || *method == Method::HEAD;
        if has_none {
            return Ok(Framing::Length(0));
        }
        if self.headers.contains_key(TRANSFER_ENCODING) {
            let mut codings = elements(&self.headers, &TRANSFER_ENCODING);
            let is_chunked = codings
                .next()
                .is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked"));
            return match is_chunked && codings.next().is_none() {
                true if self.version == Version::HTTP_11 => Ok(Framing::Chunked),
                _ => Err(HeadError::TransferCoding),
            };
        }
        if !self.headers.contains_key(CONTENT_LENGTH) {
            return Ok(Framing::UntilClose);
        }
        let length = content_length(&self.headers).ok_or(HeadError::ContentLength)?;
        Ok(Framing::Length(length))
    }

    /// Whether the connection can take another request after the content (RFC 9112 §9.3), if that
    /// does not end with the connection.
    pub fn is_persistent(&self) -> bool {
        let lists = |wanted: &[u8]| {
            elements(&self.headers, &CONNECTION).any(|option| option.eq_ignore_ascii_case(wanted))
        };
        // The fields disagree on where the next response begins (RFC 9112 §6.3).
        let is_doubtful = self.headers.contains_key(TRANSFER_ENCODING)
            && self.headers.contains_key(CONTENT_LENGTH);
        match self.version {
            Version::HTTP_10 => lists(b"keep-alive") && !lists(b"close"),
            _ => !lists(b"close") && !is_doubtful,
        }
    }
}

/// The length that a message announces; `None` if it announces none, or several, or no number
/// (RFC 9110 §8.6).
pub fn content_length(headers: &HeaderMap) -> Option<u64> {
    let mut lengths = elements(headers, &CONTENT_LENGTH).map(decimal);
    let length = lengths.next()??;
    lengths.all(|other| other == Some(length)).then_some(length)
}

fn decimal(text: &[u8]) -> Option<u64> {
    let is_digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_digits)?;
    text.parse().ok()
}

/// Elements of a list, of which empty ones count for none but the only one (RFC 9110 §5.6.1).
fn elements<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let fields = headers.get_all(name).iter();
    fields.flat_map(|field| {
        field
            .as_bytes()
            .split(|&byte| byte == b',')
            .map(<[u8]>::trim_ascii)
    })
}

/// Reads a head and its length.
fn read<'b>(
    input: &'b Bytes,
    limits: &Limits,
    fields: &mut [httparse::Header<'b>],
) -> Result<Option<(Head, usize)>, HeadError> {
    let mut response = httparse::Response::new(fields);
    let length = match response.parse(input)? {
        Status::Complete(length) if length <= limits.size => length,
        Status::Partial if input.len() <= limits.size => return Ok(None),
        _ => return Err(HeadError::TooLarge),
    };
    let status = StatusCode::from_u16(response.code.unwrap_or_default());
    let head = Head {
        status: status.map_err(|_| HeadError::Malformed(httparse::Error::Status))?,
        version: match response.version {
            Some(0) => Version::HTTP_10,
            _ => Version::HTTP_11,
        },
        headers: collect(input, response.headers)?,
    };
    Ok(Some((head, length)))
}

/// Collects fields, whose values become slices of `input`.
pub(crate) fn collect(
    input: &Bytes,
    fields: &[httparse::Header<'_>],
) -> Result<HeaderMap, HeadError> {
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let name = name.map_err(|_| HeadError::Malformed(httparse::Error::HeaderName))?;
        let value = HeaderValue::from_maybe_shared(input.slice_ref(field.value));
        let value = value.map_err(|_| HeadError::Malformed(httparse::Error::HeaderValue))?;
        headers
            .try_append(name, value)
            .map_err(|_| HeadError::TooLarge)?;
    }
    Ok(headers)
}

/// Why a response's head cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// The head or the trailers are not HTTP/1.1.
    #[error("the response's head or trailers are malformed")]
    Malformed(#[source] httparse::Error),
    /// The section is larger than the limits.
    #[error("the response's head or trailers are larger than the limit")]
    TooLarge,
    /// The transfer coding is not `chunked` alone, or an HTTP/1.0 response has one (RFC 9112 §6.1).
    #[error("the response has a transfer coding other than chunked")]
    TransferCoding,
    /// The length is no number, or there are several (RFC 9112 §6.3).
    #[error("the response's Content-Length is not one number")]
    ContentLength,
}

impl From<httparse::Error> for HeadError {
    fn from(error: httparse::Error) -> Self {
        match error {
            httparse::Error::TooManyHeaders => Self::TooLarge,
            error => Self::Malformed(error),
        }
    }
}

/// The number of fields for which there is room without an allocation.
const FEW: usize = 48;

#[cfg(test)]
mod tests;
