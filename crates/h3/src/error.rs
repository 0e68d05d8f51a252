//! Error codes, and the scope of errors.

use std::fmt;

use hikyaku_http_common::content::Mismatch;
use hikyaku_http_common::floods::Excess;
use hikyaku_http_common::message::Malformed;

use crate::qpack::QpackError;

/// An error code of HTTP/3 (RFC 9114 §8.1) or QPACK (RFC 9204 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Code {
    /// `H3_NO_ERROR`: there is no error.
    NoError = 0x100,
    /// `H3_GENERAL_PROTOCOL_ERROR`: a violation without a code of its own.
    GeneralProtocolError = 0x101,
    /// `H3_INTERNAL_ERROR`: a fault of the code's sender.
    InternalError = 0x102,
    /// `H3_STREAM_CREATION_ERROR`: a stream that the peer may not open.
    StreamCreationError = 0x103,
    /// `H3_CLOSED_CRITICAL_STREAM`: the end of a stream that the connection needs.
    ClosedCriticalStream = 0x104,
    /// `H3_FRAME_UNEXPECTED`: a frame where it may not be.
    FrameUnexpected = 0x105,
    /// `H3_FRAME_ERROR`: a frame of the wrong layout or size.
    FrameError = 0x106,
    /// `H3_EXCESSIVE_LOAD`: the peer causes work without use.
    ExcessiveLoad = 0x107,
    /// `H3_ID_ERROR`: an identifier that is too large, too small or of the wrong kind.
    IdError = 0x108,
    /// `H3_SETTINGS_ERROR`: a setting that is not permitted.
    SettingsError = 0x109,
    /// `H3_MISSING_SETTINGS`: a control stream that does not begin with SETTINGS.
    MissingSettings = 0x10a,
    /// `H3_REQUEST_REJECTED`: the request was not processed and may be sent again.
    RequestRejected = 0x10b,
    /// `H3_REQUEST_CANCELLED`: the request or its response is not wanted any more.
    RequestCancelled = 0x10c,
    /// `H3_REQUEST_INCOMPLETE`: the stream ended before the request did.
    RequestIncomplete = 0x10d,
    /// `H3_MESSAGE_ERROR`: a malformed message.
    MessageError = 0x10e,
    /// `H3_CONNECT_ERROR`: the connection behind a CONNECT request broke.
    ConnectError = 0x10f,
    /// `H3_VERSION_FALLBACK`: the request is to be sent over HTTP/1.1.
    VersionFallback = 0x110,
    /// `QPACK_DECOMPRESSION_FAILED`: a field section that cannot be decoded.
    QpackDecompressionFailed = 0x200,
    /// `QPACK_ENCODER_STREAM_ERROR`: a wrong instruction of an encoder.
    QpackEncoderStreamError = 0x201,
    /// `QPACK_DECODER_STREAM_ERROR`: a wrong instruction of a decoder.
    QpackDecoderStreamError = 0x202,
}

impl Code {
    /// The code's value in QUIC.
    pub const fn value(self) -> u64 {
        self as u64
    }

    /// The code's name in the RFCs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoError => "H3_NO_ERROR",
            Self::GeneralProtocolError => "H3_GENERAL_PROTOCOL_ERROR",
            Self::InternalError => "H3_INTERNAL_ERROR",
            Self::StreamCreationError => "H3_STREAM_CREATION_ERROR",
            Self::ClosedCriticalStream => "H3_CLOSED_CRITICAL_STREAM",
            Self::FrameUnexpected => "H3_FRAME_UNEXPECTED",
            Self::FrameError => "H3_FRAME_ERROR",
            Self::ExcessiveLoad => "H3_EXCESSIVE_LOAD",
            Self::IdError => "H3_ID_ERROR",
            Self::SettingsError => "H3_SETTINGS_ERROR",
            Self::MissingSettings => "H3_MISSING_SETTINGS",
            Self::RequestRejected => "H3_REQUEST_REJECTED",
            Self::RequestCancelled => "H3_REQUEST_CANCELLED",
            Self::RequestIncomplete => "H3_REQUEST_INCOMPLETE",
            Self::MessageError => "H3_MESSAGE_ERROR",
            Self::ConnectError => "H3_CONNECT_ERROR",
            Self::VersionFallback => "H3_VERSION_FALLBACK",
            Self::QpackDecompressionFailed => "QPACK_DECOMPRESSION_FAILED",
            Self::QpackEncoderStreamError => "QPACK_ENCODER_STREAM_ERROR",
            Self::QpackDecoderStreamError => "QPACK_DECODER_STREAM_ERROR",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A violation by a peer, and its scope (RFC 9114 §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The connection has to be closed with `code`.
    #[error("{code}: {reason}")]
    Connection {
        /// The code for the closure.
        code: Code,
        /// The violation, for logs and the reason phrase.
        reason: &'static str,
    },
    /// The stream has to be reset, and its reading stopped, both with `code`. Other streams go on.
    #[error("{code}: {reason}")]
    Stream {
        /// The code for the reset.
        code: Code,
        /// The violation, for logs.
        reason: &'static str,
    },
}

impl Error {
    /// The code for the closure or the reset.
    pub const fn code(&self) -> Code {
        match self {
            Self::Connection { code, .. } | Self::Stream { code, .. } => *code,
        }
    }

    /// The violation.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Connection { reason, .. } | Self::Stream { reason, .. } => reason,
        }
    }

    /// Whether the error ends the whole connection.
    pub const fn is_of_connection(&self) -> bool {
        matches!(self, Self::Connection { .. })
    }

    pub(crate) const fn connection(code: Code, reason: &'static str) -> Self {
        Self::Connection { code, reason }
    }

    pub(crate) const fn stream(code: Code, reason: &'static str) -> Self {
        Self::Stream { code, reason }
    }

    /// The error of a malformed message (RFC 9114 §4.1.2).
    pub(crate) const fn malformed(reason: &'static str) -> Self {
        Self::stream(Code::MessageError, reason)
    }
}

impl From<QpackError> for Error {
    fn from(error: QpackError) -> Self {
        match error {
            QpackError::DecompressionFailed(reason) => {
                Self::connection(Code::QpackDecompressionFailed, reason)
            }
            QpackError::EncoderStream(reason) => {
                Self::connection(Code::QpackEncoderStreamError, reason)
            }
            QpackError::DecoderStream(reason) => {
                Self::connection(Code::QpackDecoderStreamError, reason)
            }
        }
    }
}

impl From<Mismatch> for Error {
    fn from(Mismatch(reason): Mismatch) -> Self {
        Self::malformed(reason)
    }
}

impl From<Malformed> for Error {
    fn from(Malformed(reason): Malformed) -> Self {
        Self::malformed(reason)
    }
}

impl From<Excess> for Error {
    fn from(Excess(reason): Excess) -> Self {
        Self::connection(Code::ExcessiveLoad, reason)
    }
}
