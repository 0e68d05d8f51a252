//! Errors of requests.

use hikyaku_h3::error::{Code, Error};
use hikyaku_h3::stream::Unsent;
use hikyaku_quic::proto::ConnectionError;
use hikyaku_quic::{ReadError, WriteError};

/// Why a message was not received or sent to its end.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The peer broke the protocol, which ended the stream or the connection.
    #[error("HTTP/3: {0}")]
    Protocol(#[from] Error),
    /// The peer gave its message up with this code (RFC 9114 §8.1).
    #[error("the peer reset the stream: code {0:#x}")]
    Reset(u64),
    /// The peer wants no more of the message, with this code (RFC 9114 §8.1).
    #[error("the peer stopped the stream: code {0:#x}")]
    Stopped(u64),
    /// A header or trailer section is larger than this endpoint takes.
    #[error("a field section is too large")]
    TooLarge,
    /// The message can't be sent.
    #[error("the message can't be sent: {0}")]
    Unsent(#[from] Unsent),
    /// The server takes no more requests on the connection.
    #[error("the server takes no more requests on this connection")]
    GoingAway,
    /// The connection has ended.
    #[error("the connection has ended: {0}")]
    Connection(#[from] ConnectionError),
    /// The stream was used after its end, or the server refused early data.
    #[error("the stream is closed")]
    Closed,
}

impl StreamError {
    /// The code of the peer's reset, stop or violation (RFC 9114 §8.1).
    pub fn code(&self) -> Option<u64> {
        match self {
            Self::Reset(code) | Self::Stopped(code) => Some(*code),
            Self::Protocol(error) => Some(error.code().value()),
            _ => None,
        }
    }

    /// Whether the peer caused the error, rather than this endpoint or the network.
    pub(crate) const fn is_of_peer(&self) -> bool {
        matches!(self, Self::Protocol(_) | Self::Reset(_) | Self::Stopped(_))
    }

    /// The code with which to end the stream after a violation by the peer.
    pub const fn fault(&self) -> Option<Code> {
        match self {
            Self::Protocol(error) => Some(error.code()),
            _ => None,
        }
    }
}

impl From<ReadError> for StreamError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset(code) => Self::Reset(code.into_inner()),
            ReadError::ConnectionLost(error) => Self::Connection(error),
            _ => Self::Closed,
        }
    }
}

impl From<WriteError> for StreamError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(code) => Self::Stopped(code.into_inner()),
            WriteError::ConnectionLost(error) => Self::Connection(error),
            _ => Self::Closed,
        }
    }
}
