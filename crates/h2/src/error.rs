//! Error codes, and the scope of errors.

use std::fmt;

use hikyaku_http_common::content::Mismatch;
use hikyaku_http_common::floods::Excess;
use hikyaku_http_common::message::Malformed;

/// An error code of HTTP/2 (RFC 9113 §7).
///
/// Any value may come from a peer: those without a name "MUST NOT trigger any special behavior".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(u32);

impl Code {
    /// There is no error.
    pub const NO_ERROR: Self = Self(0x0);
    /// A violation without a code of its own.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// A fault of the code's sender.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// More bytes than a flow control window allows.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// SETTINGS without an acknowledgement in time.
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    /// A frame on a stream that its sender had ended.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame of the wrong size.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The request was not processed and may be sent again.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The request or its response is not wanted any more.
    pub const CANCEL: Self = Self(0x8);
    /// A field block that cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The connection behind a CONNECT request broke.
    pub const CONNECT_ERROR: Self = Self(0xa);
    /// The peer causes work without use.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// The transport is not secure enough.
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    /// The request is to be sent over HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    /// The code with this value on the wire.
    pub const fn from_value(value: u32) -> Self {
        Self(value)
    }

    /// The code's value on the wire.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The code's name in RFC 9113 §7; `None` for a value without one.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NO_ERROR => "NO_ERROR",
            Self::PROTOCOL_ERROR => "PROTOCOL_ERROR",
            Self::INTERNAL_ERROR => "INTERNAL_ERROR",
            Self::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
            Self::SETTINGS_TIMEOUT => "SETTINGS_TIMEOUT",
            Self::STREAM_CLOSED => "STREAM_CLOSED",
            Self::FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR",
            Self::REFUSED_STREAM => "REFUSED_STREAM",
            Self::CANCEL => "CANCEL",
            Self::COMPRESSION_ERROR => "COMPRESSION_ERROR",
            Self::CONNECT_ERROR => "CONNECT_ERROR",
            Self::ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
            Self::INADEQUATE_SECURITY => "INADEQUATE_SECURITY",
            Self::HTTP_1_1_REQUIRED => "HTTP_1_1_REQUIRED",
            _ => return None,
        })
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

/// A violation by the peer that ends the connection (RFC 9113 §5.4.1).
///
/// GOAWAY with the code is in the output already. After that has been sent, the connection is to be
/// closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reason}")]
pub struct Error {
    /// The code in GOAWAY.
    pub code: Code,
    /// The violation, for logs.
    pub reason: &'static str,
}

/// A violation by the peer, and its scope (RFC 9113 §5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// The connection has to be closed.
    Connection(Error),
    /// The frame's stream has to be reset. Other streams go on.
    Stream(Error),
}

impl Violation {
    pub(crate) const fn connection(code: Code, reason: &'static str) -> Self {
        Self::Connection(Error { code, reason })
    }

    pub(crate) const fn stream(code: Code, reason: &'static str) -> Self {
        Self::Stream(Error { code, reason })
    }

    /// A malformed message: "stream errors of type `PROTOCOL_ERROR`" (RFC 9113 §8.1.1).
    pub(crate) const fn malformed(reason: &'static str) -> Self {
        Self::stream(Code::PROTOCOL_ERROR, reason)
    }

    /// `PROTOCOL_ERROR` of the connection.
    pub(crate) const fn protocol(reason: &'static str) -> Self {
        Self::connection(Code::PROTOCOL_ERROR, reason)
    }

    /// `FRAME_SIZE_ERROR` of the connection.
    pub(crate) const fn frame_size(reason: &'static str) -> Self {
        Self::connection(Code::FRAME_SIZE_ERROR, reason)
    }
}

impl From<Mismatch> for Violation {
    fn from(Mismatch(reason): Mismatch) -> Self {
        Self::malformed(reason)
    }
}

impl From<Malformed> for Violation {
    fn from(Malformed(reason): Malformed) -> Self {
        Self::malformed(reason)
    }
}

impl From<Excess> for Violation {
    fn from(Excess(reason): Excess) -> Self {
        Self::connection(Code::ENHANCE_YOUR_CALM, reason)
    }
}

/// Why a part of a response cannot be sent. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// The stream is over: it was reset, or its response is complete, or the connection is closed.
    #[error("a stream that is over")]
    Over,
    /// The section is larger than the peer takes (RFC 9113 §6.5.2).
    #[error("a section of {size} bytes, where the peer takes {limit}")]
    TooLarge {
        /// Size of the section, in bytes.
        size: u64,
        /// `SETTINGS_MAX_HEADER_LIST_SIZE` of the peer.
        limit: u64,
    },
    /// The message would be malformed: content is forbidden, or has another length than
    /// Content-Length.
    #[error("content that is not as the header section says")]
    Content,
    /// The order is header section, content and trailer section, each but content once.
    #[error("a part of the message out of its order")]
    Order,
    /// 101 is no status of HTTP/2 (RFC 9113 §8.6).
    #[error("a response that switches protocols")]
    SwitchesProtocols,
}

impl From<Mismatch> for Unsent {
    fn from(_: Mismatch) -> Self {
        Self::Content
    }
}
