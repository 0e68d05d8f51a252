//! Representations of field lines in an encoded section (RFC 9204 §4.5.2 to §4.5.6).

use bytes::BufMut;

use super::string::{self, Literal};
use super::{Index, Malformed, integer};

/// A field line in an encoded section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldLine<'a> {
    /// Name and value of an entry.
    Indexed(Index),
    /// The name of an entry, and a literal value.
    NameReference {
        never_indexed: bool,
        name: Index,
        value: Literal<'a>,
    },
    /// A literal name and value.
    LiteralName {
        never_indexed: bool,
        name: Literal<'a>,
        value: Literal<'a>,
    },
}

impl<'a> FieldLine<'a> {
    /// Takes a field line off `input`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it is truncated or has an invalid integer.
    pub(super) fn read(input: &mut &'a [u8]) -> Result<Self, Malformed> {
        let first = *input.first().ok_or(Malformed::Incomplete)?;
        if first & INDEXED != 0 {
            let index = integer::read(input, 6)?;
            return Ok(Self::Indexed(static_or_relative(
                first & INDEXED_STATIC != 0,
                index,
            )));
        }
        if first & NAME_REFERENCE != 0 {
            let index = integer::read(input, 4)?;
            return Ok(Self::NameReference {
                never_indexed: first & NAME_REFERENCE_NEVER != 0,
                name: static_or_relative(first & NAME_REFERENCE_STATIC != 0, index),
                value: read_value(input)?,
            });
        }
        if first & LITERAL_NAME != 0 {
            return Ok(Self::LiteralName {
                never_indexed: first & LITERAL_NAME_NEVER != 0,
                name: Literal::read(input, 4, u64::MAX)?,
                value: read_value(input)?,
            });
        }
        if first & POST_BASE != 0 {
            return Ok(Self::Indexed(Index::PostBase(integer::read(input, 4)?)));
        }
        Ok(Self::NameReference {
            never_indexed: first & POST_BASE_NAME_NEVER != 0,
            name: Index::PostBase(integer::read(input, 3)?),
            value: read_value(input)?,
        })
    }
}

/// Appends a line whose name and value are those of an entry.
pub(super) fn write_indexed(out: &mut impl BufMut, index: Index) {
    match index {
        Index::Static(index) => integer::write(out, INDEXED | INDEXED_STATIC, 6, index),
        Index::Relative(index) => integer::write(out, INDEXED, 6, index),
        Index::PostBase(index) => integer::write(out, POST_BASE, 4, index),
    }
}

/// Appends a line whose name is that of an entry.
pub(super) fn write_name_reference(
    out: &mut impl BufMut,
    name: Index,
    value: &[u8],
    never_indexed: bool,
) {
    let never = |flag| if never_indexed { flag } else { 0 };
    let pattern = NAME_REFERENCE | never(NAME_REFERENCE_NEVER);
    match name {
        Index::Static(index) => integer::write(out, pattern | NAME_REFERENCE_STATIC, 4, index),
        Index::Relative(index) => integer::write(out, pattern, 4, index),
        Index::PostBase(index) => integer::write(out, never(POST_BASE_NAME_NEVER), 3, index),
    }
    string::write(out, 0, 8, value);
}

/// Appends a line that refers to no entry.
pub(super) fn write_literal_name(
    out: &mut impl BufMut,
    name: &[u8],
    value: &[u8],
    never_indexed: bool,
) {
    let never = if never_indexed { LITERAL_NAME_NEVER } else { 0 };
    string::write(out, LITERAL_NAME | never, 4, name);
    string::write(out, 0, 8, value);
}

fn static_or_relative(is_static: bool, index: u64) -> Index {
    if is_static {
        Index::Static(index)
    } else {
        Index::Relative(index)
    }
}

fn read_value<'a>(input: &mut &'a [u8]) -> Result<Literal<'a>, Malformed> {
    Literal::read(input, 8, u64::MAX)
}

const INDEXED: u8 = 0b1000_0000;
const INDEXED_STATIC: u8 = 0b0100_0000;
const NAME_REFERENCE: u8 = 0b0100_0000;
const NAME_REFERENCE_NEVER: u8 = 0b0010_0000;
const NAME_REFERENCE_STATIC: u8 = 0b0001_0000;
const LITERAL_NAME: u8 = 0b0010_0000;
const LITERAL_NAME_NEVER: u8 = 0b0001_0000;
const POST_BASE: u8 = 0b0001_0000;
const POST_BASE_NAME_NEVER: u8 = 0b0000_1000;
