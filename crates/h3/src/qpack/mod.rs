//! QPACK (RFC 9204): the compression of HTTP/3 field sections.
//!
//! An [`Encoder`] and a [`Decoder`] turn bytes into bytes: they read no socket and no
//! clock. A connection owns one of each. It passes on what arrives on the peer's encoder
//! and decoder streams (§4.2), and sends what `take_output` hands out on its own two.
//!
//! Memory is bounded on both sides whatever the peer sends: by the capacity of each
//! dynamic table, by one incomplete instruction, by the blocked streams that the decoder
//! permits, and by the sections whose acknowledgment the encoder waits for.

mod decoder;
mod dynamic_table;
mod encoder;
mod field_line;
mod huffman;
mod instruction;
mod integer;
mod prefix;
mod recent_lines;
mod static_table;
mod string;

use bytes::Bytes;

pub use decoder::{Decoded, Decoder, DecoderConfig};
pub use encoder::{Encoder, EncoderConfig};

/// A decoded field line: a name and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name, as it was sent: neither its characters nor their case are checked.
    pub name: Bytes,
    /// Value, as it was sent.
    pub value: Bytes,
    /// Whether an intermediary must not compress the line with a table (the 'N' bit of
    /// RFC 9204 §4.5.4).
    pub never_indexed: bool,
}

impl Field {
    /// Size in bytes for the limit of a section: name, value, and 32 (RFC 9114 §4.2.2).
    pub fn size(&self) -> u64 {
        field_size(&self.name, &self.value)
    }
}

/// A field line to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRef<'a> {
    /// Name, in lower case (RFC 9114 §4.2).
    pub name: &'a [u8],
    /// Value.
    pub value: &'a [u8],
    /// Whether the value must never enter a table, here or at the next hop (RFC 9204
    /// §7.1.3). Credentials and cookies are treated as sensitive whatever this says.
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
    /// Application error code with which the connection is closed (RFC 9204 §6).
    pub const fn code(self) -> u64 {
        match self {
            Self::DecompressionFailed(_) => 0x200,
            Self::EncoderStream(_) => 0x201,
            Self::DecoderStream(_) => 0x202,
        }
    }
}

/// Why bytes are no integer, string, instruction or field line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Malformed {
    /// The bytes end before the item does.
    Incomplete,
    /// The item is invalid whatever follows.
    Invalid(&'static str),
}

impl Malformed {
    /// The error of an item that nothing can follow.
    const fn reason(self) -> &'static str {
        match self {
            Self::Incomplete => "it is truncated",
            Self::Invalid(reason) => reason,
        }
    }
}

/// Where a field line or an instruction finds an entry (RFC 9204 §3.2.4 to §3.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Index {
    /// Index into the static table.
    Static(u64),
    /// Entries between this one and the Base, or the newest entry in an instruction.
    Relative(u64),
    /// Entries between the Base and this one.
    PostBase(u64),
}

/// Size in bytes of an entry (RFC 9204 §3.2.1) or a field line (RFC 9114 §4.2.2).
const fn field_size(name: &[u8], value: &[u8]) -> u64 {
    name.len() as u64 + value.len() as u64 + ENTRY_OVERHEAD
}

/// What an entry counts beyond its name and value, in bytes.
const ENTRY_OVERHEAD: u64 = 32;

#[cfg(test)]
mod tests;
