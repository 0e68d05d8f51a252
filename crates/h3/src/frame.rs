//! Frames (RFC 9114 §7).

use bytes::{Buf, Bytes, BytesMut};

use crate::error::{Code, Error};
use crate::varint;

/// Types of frames (RFC 9114 §11.2.1, RFC 9218 §7.1).
pub(crate) mod kind {
    pub(crate) const DATA: u64 = 0x00;
    pub(crate) const HEADERS: u64 = 0x01;
    pub(crate) const CANCEL_PUSH: u64 = 0x03;
    pub(crate) const SETTINGS: u64 = 0x04;
    pub(crate) const PUSH_PROMISE: u64 = 0x05;
    pub(crate) const GOAWAY: u64 = 0x07;
    pub(crate) const MAX_PUSH_ID: u64 = 0x0d;
    pub(crate) const PRIORITY_UPDATE_REQUEST: u64 = 0xf0700;
    pub(crate) const PRIORITY_UPDATE_PUSH: u64 = 0xf0701;
}

/// The beginning of a frame (RFC 9114 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u64,
    /// The bytes of content that follow.
    pub(crate) length: u64,
}

impl Header {
    /// Whether the type is one of HTTP/2's without a counterpart.
    ///
    /// "These frame types MUST NOT be sent, and their receipt MUST be treated as a connection error
    /// of type H3_FRAME_UNEXPECTED" (RFC 9114 §7.2.8).
    pub(crate) fn is_reserved(&self) -> bool {
        matches!(self.kind, 0x02 | 0x06 | 0x08 | 0x09)
    }

    /// Whether the type has a meaning here, on any stream.
    pub(crate) fn is_known(&self) -> bool {
        use kind::{CANCEL_PUSH, DATA, GOAWAY, HEADERS, MAX_PUSH_ID, PUSH_PROMISE, SETTINGS};
        use kind::{PRIORITY_UPDATE_PUSH, PRIORITY_UPDATE_REQUEST};
        let base = [
            DATA,
            HEADERS,
            CANCEL_PUSH,
            SETTINGS,
            PUSH_PROMISE,
            GOAWAY,
            MAX_PUSH_ID,
        ];
        base.contains(&self.kind)
            || matches!(self.kind, PRIORITY_UPDATE_REQUEST | PRIORITY_UPDATE_PUSH)
    }

    /// Appends the header to `out`.
    pub(crate) fn encode(self, out: &mut BytesMut) {
        varint::encode(self.kind, out);
        varint::encode(self.length, out);
    }
}

/// Decodes headers of frames that arrive in pieces.
#[derive(Debug, Default)]
pub(crate) struct HeaderDecoder {
    kind: Option<u64>,
    integer: varint::Decoder,
}

impl HeaderDecoder {
    /// Takes a header from `input`, or the bytes of it that are there.
    pub(crate) fn decode(&mut self, input: &mut Bytes) -> Option<Header> {
        let kind = match self.kind {
            Some(kind) => kind,
            None => *self.kind.insert(self.integer.decode(input)?),
        };
        let length = self.integer.decode(input)?;
        self.kind = None;
        Some(Header { kind, length })
    }

    /// Whether the decoder is between headers.
    pub(crate) fn is_idle(&self) -> bool {
        self.kind.is_none() && self.integer.is_idle()
    }
}

/// The content of a frame that is read as a whole.
#[derive(Debug)]
pub(crate) struct Content {
    left: usize,
    gathered: BytesMut,
}

impl Content {
    /// Begins to gather `length` bytes. Memory is taken as they arrive, not as a peer announces
    /// them.
    ///
    /// # Errors
    /// `H3_EXCESSIVE_LOAD` if they are more than `max`.
    pub(crate) fn new(length: u64, max: u64) -> Result<Self, Error> {
        match usize::try_from(length) {
            Ok(left) if length <= max => Ok(Self {
                left,
                gathered: BytesMut::new(),
            }),
            _ => Err(Error::connection(
                Code::ExcessiveLoad,
                "a frame is too large",
            )),
        }
    }

    /// Takes the content's bytes from `input`. Returns the content once it is complete, without a
    /// copy if it came in one piece.
    pub(crate) fn gather(&mut self, input: &mut Bytes) -> Option<Bytes> {
        let piece = input.split_to(self.left.min(input.len()));
        self.left -= piece.len();
        if self.left > 0 {
            self.gathered.extend_from_slice(&piece);
            None
        } else if self.gathered.is_empty() {
            Some(piece)
        } else {
            self.gathered.extend_from_slice(&piece);
            Some(self.gathered.split().freeze())
        }
    }
}

/// Takes up to `left` bytes from `input`; `None` if there are none.
pub(crate) fn take(input: &mut Bytes, left: &mut u64) -> Option<Bytes> {
    if input.is_empty() {
        return None;
    }
    let length = (*left).min(input.len() as u64);
    *left -= length;
    // It is at most the input's own length.
    Some(input.split_to(length as usize))
}

/// Reads a frame's content that is one integer (RFC 9114 §7.2.3, §7.2.6, §7.2.7).
///
/// # Errors
/// `H3_FRAME_ERROR` if it has fewer or more bytes (§7.1).
pub(crate) fn only_integer(mut content: Bytes) -> Result<u64, Error> {
    match varint::decode(&mut content) {
        Some(value) if !content.has_remaining() => Ok(value),
        _ => Err(Error::connection(
            Code::FrameError,
            "a frame holds other than its fields",
        )),
    }
}
