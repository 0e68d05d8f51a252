//! The content that may follow a header section.

use http::{Method, StatusCode};

/// Content that is not as its header section says: the message is malformed (RFC 9113 §8.1.1, RFC
/// 9114 §4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mismatch(pub &'static str);

/// The content that may follow a header section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Any number of bytes.
    Open,
    /// Content-Length without the bytes that have come.
    Length(u64),
    /// None, whatever Content-Length announces (RFC 9110 §6.4.1).
    None,
    /// The data of a tunnel, without trailers (RFC 9114 §4.4).
    Tunnel,
}

impl Content {
    /// The content of a request, or of a response that may have any, by its Content-Length.
    pub fn of_length(length: Option<u64>) -> Self {
        length.map_or(Self::Open, Self::Length)
    }

    /// The content that may follow a response's header section, by its status and its request's
    /// method (RFC 9110 §6.4.1; RFC 9113 §8.5, RFC 9114 §4.4).
    pub fn of_response(status: StatusCode, method: &Method, length: Option<u64>) -> Self {
        if *method == Method::CONNECT && status.is_success() {
            return Self::Tunnel;
        }
        let is_empty = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if *method == Method::HEAD || is_empty || status.is_informational() {
            return Self::None;
        }
        Self::of_length(length)
    }

    /// Counts `length` bytes of DATA.
    ///
    /// # Errors
    /// [`Mismatch`] if they are more than may follow. That is the case when "the value of the
    /// Content-Length header field does not equal the sum of the DATA frame lengths" (RFC 9114
    /// §4.1.2).
    pub fn on_data(&mut self, length: u64) -> Result<(), Mismatch> {
        match self {
            Self::Open | Self::Tunnel => Ok(()),
            Self::None if length == 0 => Ok(()),
            Self::None => Err(Mismatch("content where there is none")),
            Self::Length(left) => {
                *left = left
                    .checked_sub(length)
                    .ok_or(Mismatch("more content than Content-Length says"))?;
                Ok(())
            }
        }
    }

    /// Ends the content.
    ///
    /// # Errors
    /// [`Mismatch`] if Content-Length announces more.
    pub fn on_end(&self) -> Result<(), Mismatch> {
        match self {
            Self::Length(1..) => Err(Mismatch("less content than Content-Length says")),
            _ => Ok(()),
        }
    }
}
