//! The content that may follow a header section.

use crate::error::Error;

/// The content that may follow a header section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
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
    pub(crate) fn of_length(length: Option<u64>) -> Self {
        length.map_or(Self::Open, Self::Length)
    }

    /// Counts `length` bytes of DATA.
    ///
    /// # Errors
    /// `H3_MESSAGE_ERROR` if they are more than may follow. That is the case when "the value of the
    /// Content-Length header field does not equal the sum of the DATA frame lengths" (RFC 9114
    /// §4.1.2).
    pub(crate) fn on_data(&mut self, length: u64) -> Result<(), Error> {
        match self {
            Self::Open | Self::Tunnel => Ok(()),
            Self::None if length == 0 => Ok(()),
            Self::None => Err(Error::malformed("content where there is none")),
            Self::Length(left) => {
                *left = left
                    .checked_sub(length)
                    .ok_or(Error::malformed("more content than Content-Length says"))?;
                Ok(())
            }
        }
    }

    /// Ends the content.
    ///
    /// # Errors
    /// `H3_MESSAGE_ERROR` if Content-Length announces more.
    pub(crate) fn on_end(&self) -> Result<(), Error> {
        match self {
            Self::Length(1..) => Err(Error::malformed("less content than Content-Length says")),
            _ => Ok(()),
        }
    }
}
