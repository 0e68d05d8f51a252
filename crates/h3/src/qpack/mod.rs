//! QPACK (RFC 9204): the compression of HTTP/3 field sections.
//!
//! An [`Encoder`] and a [`Decoder`] turn bytes into bytes: they read no socket and no clock. A
//! connection owns one of each. It hands them the bytes of the peer's encoder and decoder streams
//! (§4.2), and sends the bytes of `take_output` on its own two.
//!
//! Whatever the peer sends, memory is bounded on both sides:
//!
//! - by the capacity of each dynamic table,
//! - by one incomplete instruction,
//! - by the blocked streams that the decoder permits,
//! - by the sections whose acknowledgment the encoder waits for.

mod decoder;
mod dynamic_table;
mod encoder;
mod field_line;
mod fields;
mod instruction;
mod prefix;
mod prepared;
mod static_table;

use bytes::{Bytes, BytesMut};
use hikyaku_http_common::compression::{ENTRY_OVERHEAD, Malformed, field_size, integer, string};

pub use decoder::{Decoded, Decoder, DecoderConfig};
pub use encoder::{Encoder, EncoderConfig};
#[cfg(test)]
pub(crate) use fields::Field;
pub use fields::Fields;
pub(crate) use prepared::PreparedLines;

/// A field line: to encode, or as it was decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRef<'a> {
    /// The name: to encode, in lower case (RFC 9114 §4.2). That of a decoded line is as it was sent,
    /// and neither its characters nor their case are checked.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Whether the value must never enter a table, here or at the next hop (RFC 9204 §7.1.3).
    /// Credentials and cookies are sensitive in any case.
    pub sensitive: bool,
}

/// A violation of RFC 9204 by the peer; each is an error of the whole connection (§6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QpackError {
    /// An encoded field section cannot be decoded: `QPACK_DECOMPRESSION_FAILED`.
    #[error("decoding a field section: {0}")]
    DecompressionFailed(&'static str),
    /// An instruction on the peer's encoder stream is invalid:
    /// `QPACK_ENCODER_STREAM_ERROR`.
    #[error("reading the encoder stream: {0}")]
    EncoderStream(&'static str),
    /// An instruction on the peer's decoder stream is invalid:
    /// `QPACK_DECODER_STREAM_ERROR`.
    #[error("reading the decoder stream: {0}")]
    DecoderStream(&'static str),
}

impl QpackError {
    /// The application error code for closing the connection (RFC 9204 §6).
    pub const fn code(self) -> u64 {
        match self {
            Self::DecompressionFailed(_) => 0x200,
            Self::EncoderStream(_) => 0x201,
            Self::DecoderStream(_) => 0x202,
        }
    }
}

/// Takes all bytes. Splitting an empty buffer would allocate memory.
pub(crate) fn take(buffer: &mut BytesMut) -> Bytes {
    match buffer.is_empty() {
        true => Bytes::new(),
        false => buffer.split().freeze(),
    }
}

/// The position of an entry in a field line or an instruction (RFC 9204 §3.2.4 to §3.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Index {
    /// The index in the static table.
    Static(u64),
    /// The entries between this one and the Base, or the newest entry in an instruction.
    Relative(u64),
    /// The entries between the Base and this one.
    PostBase(u64),
}

#[cfg(test)]
mod tests;
