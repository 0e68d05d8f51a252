//! The primitives of HPACK (RFC 7541 §5), which QPACK uses as well (RFC 9204 §4.1).

pub mod huffman;
pub mod integer;
pub mod recent_lines;
pub mod string;

/// Why bytes are no integer, string, instruction or field line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes end before the item does.
    Incomplete,
    /// The item is invalid whatever follows.
    Invalid(&'static str),
}

impl Malformed {
    /// The error of an item that no byte can follow.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Incomplete => "it is truncated",
            Self::Invalid(reason) => reason,
        }
    }
}

/// Size in bytes of a table's entry (RFC 7541 §4.1, RFC 9204 §3.2.1) or of a field line (RFC 9113
/// §6.5.2, RFC 9114 §4.2.2).
pub const fn field_size(name: &[u8], value: &[u8]) -> u64 {
    name.len() as u64 + value.len() as u64 + ENTRY_OVERHEAD
}

/// The bytes of an entry beyond its name and value.
pub const ENTRY_OVERHEAD: u64 = 32;
