//! Instructions on the encoder and decoder streams (RFC 9204 §4.3, §4.4).

use bytes::BufMut;

use super::string::{self, Literal};
use super::{Index, Malformed, integer};

/// An instruction of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EncoderInstruction<'a> {
    /// Set Dynamic Table Capacity (§4.3.1), in bytes.
    SetCapacity(u64),
    /// Insert with Name Reference (§4.3.2).
    InsertWithNameReference { name: Index, value: Literal<'a> },
    /// Insert with Literal Name (§4.3.3).
    InsertWithLiteralName {
        name: Literal<'a>,
        value: Literal<'a>,
    },
    /// Duplicate (§4.3.4); the index is relative.
    Duplicate(u64),
}

impl<'a> EncoderInstruction<'a> {
    /// Takes an instruction off `input`. Its strings have at most `max_len` bytes.
    ///
    /// # Errors
    ///
    /// [`Malformed::Incomplete`], or [`Malformed::Invalid`] as soon as the instruction is invalid
    /// whatever follows.
    pub(super) fn read(input: &mut &'a [u8], max_len: u64) -> Result<Self, Malformed> {
        let first = *input.first().ok_or(Malformed::Incomplete)?;
        if first & INSERT_NAME_REFERENCE != 0 {
            let index = integer::read(input, 6)?;
            let is_static = first & INSERT_STATIC != 0;
            let name = if is_static {
                Index::Static(index)
            } else {
                Index::Relative(index)
            };
            let value = Literal::read(input, 8, max_len)?;
            return Ok(Self::InsertWithNameReference { name, value });
        }
        if first & INSERT_LITERAL_NAME != 0 {
            let name = Literal::read(input, 6, max_len)?;
            let value = Literal::read(input, 8, max_len)?;
            return Ok(Self::InsertWithLiteralName { name, value });
        }
        let value = integer::read(input, 5)?;
        if first & SET_CAPACITY != 0 {
            Ok(Self::SetCapacity(value))
        } else {
            Ok(Self::Duplicate(value))
        }
    }
}

/// Appends Set Dynamic Table Capacity, in bytes.
pub(super) fn write_set_capacity(out: &mut impl BufMut, capacity: u64) {
    integer::write(out, SET_CAPACITY, 5, capacity);
}

/// Appends Insert with Name Reference; with `name` in the static table, or relative to
/// the newest entry.
pub(super) fn write_insert_with_name_reference(
    out: &mut impl BufMut,
    is_static: bool,
    name: u64,
    value: &[u8],
) {
    let flag = if is_static { INSERT_STATIC } else { 0 };
    integer::write(out, INSERT_NAME_REFERENCE | flag, 6, name);
    string::write(out, 0, 8, value);
}

/// Appends Insert with Literal Name.
pub(super) fn write_insert_with_literal_name(out: &mut impl BufMut, name: &[u8], value: &[u8]) {
    string::write(out, INSERT_LITERAL_NAME, 6, name);
    string::write(out, 0, 8, value);
}

/// Appends Duplicate of the entry `relative` entries before the newest one.
pub(super) fn write_duplicate(out: &mut impl BufMut, relative: u64) {
    integer::write(out, 0, 5, relative);
}

/// An instruction of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecoderInstruction {
    /// Section Acknowledgment (§4.4.1) of a stream.
    SectionAcknowledgment(u64),
    /// Stream Cancellation (§4.4.2) of a stream.
    StreamCancellation(u64),
    /// Insert Count Increment (§4.4.3).
    InsertCountIncrement(u64),
}

impl DecoderInstruction {
    /// Takes an instruction off `input`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it is incomplete or its integer invalid.
    pub(super) fn read(input: &mut &[u8]) -> Result<Self, Malformed> {
        let first = *input.first().ok_or(Malformed::Incomplete)?;
        if first & SECTION_ACKNOWLEDGMENT != 0 {
            integer::read(input, 7).map(Self::SectionAcknowledgment)
        } else if first & STREAM_CANCELLATION != 0 {
            integer::read(input, 6).map(Self::StreamCancellation)
        } else {
            integer::read(input, 6).map(Self::InsertCountIncrement)
        }
    }

    /// Appends the instruction.
    pub(super) fn write(self, out: &mut impl BufMut) {
        match self {
            Self::SectionAcknowledgment(stream_id) => {
                integer::write(out, SECTION_ACKNOWLEDGMENT, 7, stream_id);
            }
            Self::StreamCancellation(stream_id) => {
                integer::write(out, STREAM_CANCELLATION, 6, stream_id);
            }
            Self::InsertCountIncrement(increment) => integer::write(out, 0, 6, increment),
        }
    }
}

const INSERT_NAME_REFERENCE: u8 = 0b1000_0000;
const INSERT_STATIC: u8 = 0b0100_0000;
const INSERT_LITERAL_NAME: u8 = 0b0100_0000;
const SET_CAPACITY: u8 = 0b0010_0000;

const SECTION_ACKNOWLEDGMENT: u8 = 0b1000_0000;
const STREAM_CANCELLATION: u8 = 0b0100_0000;
