//! Decoding of field blocks.

use hikyaku_http_common::compression::string::Literal;
use hikyaku_http_common::compression::{Malformed, integer};

use super::dynamic_table::DynamicTable;
use super::{INITIAL_CAPACITY, pattern, static_table};
use crate::section::Section;
use hikyaku_http_common::message::{Class, Kind};

/// Decodes the field blocks of one connection.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: DynamicTable<Class>,
    /// The largest capacity that the peer may choose, in bytes.
    max_capacity: u32,
    /// Whether the next block has to begin with a smaller capacity (RFC 7541 §4.2).
    must_shrink: bool,
    /// Largest section that is kept.
    max_section_size: u64,
}

impl Decoder {
    pub(crate) fn new(max_section_size: u64) -> Self {
        Self {
            table: DynamicTable::new(INITIAL_CAPACITY as usize),
            max_capacity: INITIAL_CAPACITY,
            must_shrink: false,
            max_section_size,
        }
    }

    /// Takes the `SETTINGS_HEADER_TABLE_SIZE` that the peer has acknowledged, in bytes.
    pub(crate) fn set_max_capacity(&mut self, max_capacity: u32) {
        self.max_capacity = max_capacity;
        self.must_shrink = self.table.capacity() > max_capacity as usize;
    }

    /// Decodes `block` into `section`, whose former content is dropped. Returns whether the section
    /// was kept: one that is too large changes the table, and has no lines.
    ///
    /// # Errors
    /// `COMPRESSION_ERROR` of the connection.
    pub(crate) fn decode(
        &mut self,
        mut block: &[u8],
        section: &mut Section,
    ) -> Result<bool, Malformed> {
        section.clear();
        let input = &mut block;
        self.size_updates(input)?;
        while let Some(&first) = input.first() {
            if first & pattern::INDEXED.0 != 0 {
                let index = integer::read(input, pattern::INDEXED.1)?;
                self.indexed(index, section)?;
            } else if first & pattern::INCREMENTAL.0 != 0 {
                self.literal(input, pattern::INCREMENTAL.1, section)?;
            } else if first & pattern::SIZE_UPDATE.0 != 0 {
                return Err(Malformed::Invalid("a table's size changes within a block"));
            } else {
                self.literal(input, pattern::NOT_INDEXED.1, section)?;
            }
        }
        Ok(section.size() <= self.max_section_size)
    }

    /// Takes the changes of the table's size, which come first (RFC 7541 §4.2).
    fn size_updates(&mut self, input: &mut &[u8]) -> Result<(), Malformed> {
        let (update, bits) = pattern::SIZE_UPDATE;
        while let Some(first) = input.first()
            && first & !(update - 1) == update
        {
            let capacity = integer::read(input, bits)?;
            if capacity > u64::from(self.max_capacity) {
                return Err(Malformed::Invalid("a table larger than the settings allow"));
            }
            self.must_shrink = false;
            self.table.set_capacity(capacity as usize);
        }
        if self.must_shrink && !input.is_empty() {
            return Err(Malformed::Invalid(
                "a table that was to shrink has its size",
            ));
        }
        Ok(())
    }

    fn indexed(&mut self, index: u64, section: &mut Section) -> Result<(), Malformed> {
        let start = section.position();
        if let Some(entry) = static_table::entry(index) {
            if self.has_room(section, entry.name.len() + entry.value.len()) {
                let buffer = section.buffer();
                buffer.extend_from_slice(entry.name.as_bytes());
                buffer.extend_from_slice(entry.value.as_bytes());
                section.push(start, entry.name.len(), entry.class, false);
            }
            return Ok(());
        }
        let found = self.table.get(dynamic(index)?).ok_or(NO_ENTRY)?;
        if self.has_room(section, found.line.len()) {
            section.buffer().extend_from_slice(found.line);
            section.push(start, found.name_len, found.meaning, false);
        }
        Ok(())
    }

    /// Decodes a literal whose index has `bits` bits; six of them stand for incremental indexing.
    fn literal(
        &mut self,
        input: &mut &[u8],
        bits: u8,
        section: &mut Section,
    ) -> Result<(), Malformed> {
        let is_incremental = bits == pattern::INCREMENTAL.1;
        let never = !is_incremental && input[0] & pattern::NEVER_INDEXED.0 != 0;
        let start = section.position();
        let index = integer::read(input, bits)?;
        let kind = self.name(index, input, section)?;
        let name_len = section.position() - start;
        Literal::read(input, 8, u64::MAX)?.append_to(section.buffer())?;
        let line = section.since(start);
        let class = match kind {
            Some(kind) => Class::with_kind(kind, &line[name_len..]),
            None => Class::of(&line[..name_len], &line[name_len..]),
        };
        if is_incremental {
            self.table.insert(line, name_len, class);
        }
        let length = line.len();
        if self.has_room(section, length) {
            section.push(start, name_len, class, never);
        }
        Ok(())
    }

    /// Appends the name of a literal. Returns its kind, if that is known.
    fn name(
        &self,
        index: u64,
        input: &mut &[u8],
        section: &mut Section,
    ) -> Result<Option<Kind>, Malformed> {
        if index == 0 {
            Literal::read(input, 8, u64::MAX)?.append_to(section.buffer())?;
            return Ok(None);
        }
        if let Some(entry) = static_table::entry(index) {
            section.buffer().extend_from_slice(entry.name.as_bytes());
            return Ok(Some(entry.class.kind));
        }
        let found = self.table.get(dynamic(index)?).ok_or(NO_ENTRY)?;
        let name = &found.line[..found.name_len];
        section.buffer().extend_from_slice(name);
        Ok(Some(found.meaning.kind))
    }

    /// Whether the section keeps a line of `length` bytes. If not, its bytes are taken back.
    fn has_room(&self, section: &mut Section, length: usize) -> bool {
        if section.size() + length as u64 + 32 <= self.max_section_size {
            return true;
        }
        section.drop_line(0, length);
        false
    }
}

/// The position in the dynamic table of an index (RFC 7541 §2.3.3).
fn dynamic(index: u64) -> Result<usize, Malformed> {
    let newer = index.checked_sub(static_table::LEN as u64 + 1);
    newer
        .and_then(|newer| usize::try_from(newer).ok())
        .ok_or(NO_ENTRY)
}

const NO_ENTRY: Malformed = Malformed::Invalid("no such entry in the tables");
