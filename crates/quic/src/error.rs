//! Errors of streams.

use quinn_proto::{ConnectionError, ReadableError, VarInt};

/// Why bytes can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer gave the stream up with this code.
    #[error("the peer reset the stream: code {0}")]
    Reset(VarInt),
    /// The connection has ended.
    #[error("the connection has ended")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was stopped, or read to its end.
    #[error("the stream is closed")]
    ClosedStream,
    /// The stream was read out of order before, and cannot be read in order any more.
    #[error("an ordered read after one that was not")]
    IllegalOrderedRead,
    /// The stream was opened as early data, which the server refused.
    #[error("the server refused early data")]
    ZeroRttRejected,
}

impl From<ReadableError> for ReadError {
    fn from(error: ReadableError) -> Self {
        match error {
            ReadableError::ClosedStream => Self::ClosedStream,
            ReadableError::IllegalOrderedRead => Self::IllegalOrderedRead,
        }
    }
}

/// Why a stream can't be read to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// The stream failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It has more bytes than the caller takes.
    #[error("the stream is too long")]
    TooLong,
}

/// Why bytes can't be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer wants no more of the stream, with this code.
    #[error("the peer stopped the stream: code {0}")]
    Stopped(VarInt),
    /// The connection has ended.
    #[error("the connection has ended")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was finished or reset.
    #[error("the stream is closed")]
    ClosedStream,
    /// The stream was opened as early data, which the server refused.
    #[error("the server refused early data")]
    ZeroRttRejected,
}

/// Why it can't be seen whether the peer takes a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoppedError {
    /// The connection has ended.
    #[error("the connection has ended")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was opened as early data, which the server refused.
    #[error("the server refused early data")]
    ZeroRttRejected,
}
