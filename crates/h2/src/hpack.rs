//! HPACK (RFC 7541): the compression of HTTP/2 field sections.
//!
//! A [`Decoder`] and an [`Encoder`] turn bytes into bytes. Memory is bounded by the capacity of each
//! dynamic table, and by the section that is decoded.

mod decoder;
mod dynamic_table;
mod encoder;
mod static_table;
#[cfg(test)]
mod tests;

pub(crate) use decoder::Decoder;
pub(crate) use encoder::Encoder;
pub(crate) use encoder::PreparedLines;

/// The capacity of both tables at the beginning of a connection, in bytes (RFC 9113 §6.5.2,
/// `SETTINGS_HEADER_TABLE_SIZE`).
pub(crate) const INITIAL_CAPACITY: u32 = 4_096;

/// First bytes of field lines (RFC 7541 §6), and the bits of the integers that follow the patterns.
mod pattern {
    /// Indexed Header Field (§6.1).
    pub(super) const INDEXED: (u8, u8) = (0x80, 7);
    /// Literal Header Field with Incremental Indexing (§6.2.1).
    pub(super) const INCREMENTAL: (u8, u8) = (0x40, 6);
    /// Dynamic Table Size Update (§6.3).
    pub(super) const SIZE_UPDATE: (u8, u8) = (0x20, 5);
    /// Literal Header Field Never Indexed (§6.2.3).
    pub(super) const NEVER_INDEXED: (u8, u8) = (0x10, 4);
    /// Literal Header Field without Indexing (§6.2.2).
    pub(super) const NOT_INDEXED: (u8, u8) = (0x00, 4);
}
