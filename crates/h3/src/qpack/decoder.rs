//! The decoder of the peer's field sections (RFC 9204 §2.2).

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use bytes::{Buf, Bytes, BytesMut};

use super::dynamic_table::{DynamicTable, Entry};
use super::field_line::FieldLine;
use super::instruction::{DecoderInstruction, EncoderInstruction};
use super::prefix::Prefix;
use super::string::Literal;
use super::{Fields, Index, Malformed, QpackError, static_table, take};

/// The limits that a decoder sets the peer's encoder.
///
/// The first two are to be sent to the peer in SETTINGS (RFC 9204 §5), unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecoderConfig {
    /// `SETTINGS_QPACK_MAX_TABLE_CAPACITY`, in bytes; 0 forbids the dynamic table.
    pub max_table_capacity: u64,
    /// `SETTINGS_QPACK_BLOCKED_STREAMS`; 0 lets no stream wait for the encoder stream.
    pub max_blocked_streams: u64,
    /// Largest decoded section in bytes, each line counted with 32 bytes beside its name and value
    /// (`SETTINGS_MAX_FIELD_SECTION_SIZE`, RFC 9114 §4.2.2).
    pub max_section_size: u64,
}

/// The result of decoding a field section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The field lines, in their order.
    Fields(Fields),
    /// The section waits for insertions; [`Decoder::poll_unblocked`] returns it later.
    Blocked,
    /// The section exceeds [`DecoderConfig::max_section_size`]. It has been processed and is
    /// acknowledged, so that the connection can go on; its lines are discarded.
    TooLarge,
}

/// Decodes the field sections of one connection.
///
/// After an error the connection has to be closed, and the decoder is of no more use.
#[derive(Debug)]
pub struct Decoder {
    config: DecoderConfig,
    table: DynamicTable,
    /// The start of an instruction whose end has not arrived.
    partial: Vec<u8>,
    /// Sections that wait for insertions, by stream, in the order of their arrival.
    blocked: BTreeMap<u64, VecDeque<Section>>,
    /// The peer's Known Received Count once it has all of `output` (RFC 9204 §2.1.4).
    acknowledged: u64,
    output: BytesMut,
    /// Memory for the next section.
    spare: Fields,
}

/// An encoded field section without its prefix.
#[derive(Debug)]
struct Section {
    prefix: Prefix,
    lines: Bytes,
}

impl Decoder {
    /// Makes a decoder for a new connection.
    pub fn new(config: DecoderConfig) -> Self {
        Self {
            config,
            table: DynamicTable::default(),
            partial: Vec::new(),
            blocked: BTreeMap::new(),
            acknowledged: 0,
            output: BytesMut::new(),
            spare: Fields::default(),
        }
    }

    /// Takes bytes of the peer's encoder stream, cut anywhere. They may unblock sections: see
    /// [`Self::poll_unblocked`].
    ///
    /// An incomplete instruction that can only be invalid is refused before it is complete. So at
    /// most about eight times the table's capacity is kept.
    ///
    /// # Errors
    ///
    /// [`QpackError::EncoderStream`] for an invalid instruction.
    pub fn on_encoder_stream(&mut self, data: &[u8]) -> Result<(), QpackError> {
        self.partial.extend_from_slice(data);
        let mut input = mem::take(&mut self.partial);
        let mut consumed = 0;
        loop {
            let mut rest = &input[consumed..];
            match EncoderInstruction::read(&mut rest, self.table.capacity()) {
                Ok(instruction) => self.execute(instruction)?,
                Err(Malformed::Incomplete) => break,
                Err(Malformed::Invalid(reason)) => return Err(QpackError::EncoderStream(reason)),
            }
            consumed = input.len() - rest.len();
        }
        input.drain(..consumed);
        self.partial = input;
        Ok(())
    }

    /// Decodes a field section of a request stream: the whole content of a HEADERS or PUSH_PROMISE
    /// frame.
    ///
    /// The caller should not read on in a stream while a section of it is [`Decoded::Blocked`] (RFC
    /// 9204 §2.2.1). If it does, a further section waits behind the first.
    ///
    /// # Errors
    ///
    /// [`QpackError::DecompressionFailed`] for an invalid section, or if more streams are
    /// blocked than [`DecoderConfig::max_blocked_streams`] permits.
    pub fn decode(&mut self, stream_id: u64, block: Bytes) -> Result<Decoded, QpackError> {
        let section = self.section(block).map_err(decompression_failed)?;
        if let Some(waiting) = self.blocked.get_mut(&stream_id) {
            waiting.push_back(section);
            return Ok(Decoded::Blocked);
        }
        if section.prefix.required_insert_count <= self.table.inserted() {
            return self.decode_section(stream_id, &section);
        }
        if self.blocked.len() as u64 >= self.config.max_blocked_streams {
            return Err(QpackError::DecompressionFailed(
                "more streams are blocked than permitted",
            ));
        }
        self.blocked.insert(stream_id, VecDeque::from([section]));
        Ok(Decoded::Blocked)
    }

    /// Decodes a section that is no longer blocked, and returns it with its stream. To be called
    /// after each [`Self::on_encoder_stream`], until it returns `None`.
    ///
    /// The `Result` is like that of [`Self::decode`], but never [`Decoded::Blocked`].
    pub fn poll_unblocked(&mut self) -> Option<(u64, Result<Decoded, QpackError>)> {
        let inserted = self.table.inserted();
        let is_ready = |section: &Section| section.prefix.required_insert_count <= inserted;
        let (&stream_id, waiting) = self
            .blocked
            .iter_mut()
            .find(|(_, waiting)| waiting.front().is_some_and(is_ready))?;
        let section = waiting.pop_front()?;
        if waiting.is_empty() {
            self.blocked.remove(&stream_id);
        }
        Some((stream_id, self.decode_section(stream_id, &section)))
    }

    /// Abandons a stream (RFC 9204 §2.2.2.2). To be called when the peer has reset it, or when this
    /// endpoint stops reading it before its end.
    ///
    /// Each call may add up to 10 bytes of output. The caller has to bound the streams that the
    /// peer resets while it takes no output.
    pub fn cancel(&mut self, stream_id: u64) {
        self.blocked.remove(&stream_id);
        if self.config.max_table_capacity > 0 {
            DecoderInstruction::StreamCancellation(stream_id).write(&mut self.output);
        }
    }

    /// Takes back the memory of a section, for the next one.
    pub fn recycle(&mut self, fields: Fields) {
        self.spare = fields;
    }

    /// Gives memory back that only further sections would need.
    pub fn release_memory(&mut self) {
        self.spare = Fields::default();
    }

    /// Takes the bytes to send on this endpoint's decoder stream, in this order. May be empty.
    pub fn take_output(&mut self) -> Bytes {
        let increment = self.table.inserted() - self.acknowledged;
        if increment > 0 {
            DecoderInstruction::InsertCountIncrement(increment).write(&mut self.output);
            self.acknowledged = self.table.inserted();
        }
        take(&mut self.output)
    }

    /// Whether [`Self::take_output`] has bytes.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty() || self.acknowledged < self.table.inserted()
    }

    fn execute(&mut self, instruction: EncoderInstruction<'_>) -> Result<(), QpackError> {
        let entry = match instruction {
            EncoderInstruction::SetCapacity(capacity) => return self.set_capacity(capacity),
            EncoderInstruction::InsertWithNameReference { name, value } => Entry {
                name: self.inserted_name(name)?,
                value: inserted_string(value)?,
            },
            EncoderInstruction::InsertWithLiteralName { name, value } => Entry {
                name: inserted_string(name)?,
                value: inserted_string(value)?,
            },
            EncoderInstruction::Duplicate(relative) => self.inserted_entry(relative)?.clone(),
        };
        if self.table.insert(entry) {
            Ok(())
        } else {
            Err(QpackError::EncoderStream(
                "an entry is larger than the table's capacity",
            ))
        }
    }

    fn set_capacity(&mut self, capacity: u64) -> Result<(), QpackError> {
        if capacity > self.config.max_table_capacity {
            return Err(QpackError::EncoderStream(
                "the table's capacity exceeds its maximum",
            ));
        }
        self.table.set_capacity(capacity);
        Ok(())
    }

    fn inserted_name(&self, index: Index) -> Result<Bytes, QpackError> {
        match index {
            Index::Static(index) => static_table::entry(index)
                .map(|(name, _)| Bytes::from_static(name.as_bytes()))
                .ok_or(QpackError::EncoderStream(
                    "no such entry in the static table",
                )),
            Index::Relative(index) | Index::PostBase(index) => {
                self.inserted_entry(index).map(|entry| entry.name.clone())
            }
        }
    }

    fn inserted_entry(&self, relative: u64) -> Result<&Entry, QpackError> {
        let index = self.table.absolute_index(relative);
        index
            .and_then(|index| self.table.entry(index))
            .ok_or(QpackError::EncoderStream(
                "no such entry in the dynamic table",
            ))
    }

    fn section(&self, mut block: Bytes) -> Result<Section, Malformed> {
        let mut input = &block[..];
        let prefix = Prefix::read(
            &mut input,
            self.config.max_table_capacity,
            self.table.inserted(),
        )?;
        let read = block.len() - input.len();
        block.advance(read);
        Ok(Section {
            prefix,
            lines: block,
        })
    }

    fn decode_section(&mut self, stream_id: u64, section: &Section) -> Result<Decoded, QpackError> {
        let decoded = self.fields(section).map_err(decompression_failed)?;
        let required = section.prefix.required_insert_count;
        if required > 0 {
            DecoderInstruction::SectionAcknowledgment(stream_id).write(&mut self.output);
            self.acknowledged = self.acknowledged.max(required);
        }
        Ok(decoded)
    }

    fn fields(&mut self, section: &Section) -> Result<Decoded, Malformed> {
        let mut input = &section.lines[..];
        let mut fields = mem::take(&mut self.spare);
        fields.clear();
        let mut size = 0u64;
        while !input.is_empty() {
            let line = FieldLine::read(&mut input)?;
            size = size.saturating_add(self.append(line, section.prefix, &mut fields)?);
            if size > self.config.max_section_size {
                // The rest is still checked, but not kept.
                fields.clear();
            }
        }
        if size <= self.config.max_section_size {
            Ok(Decoded::Fields(fields))
        } else {
            Ok(Decoded::TooLarge)
        }
    }

    /// Appends a line. Returns its size.
    fn append(
        &self,
        line: FieldLine<'_>,
        prefix: Prefix,
        fields: &mut Fields,
    ) -> Result<u64, Malformed> {
        let buffer = fields.buffer();
        let (never_indexed, value) = match line {
            FieldLine::Indexed(index) => {
                let (name, value) = self.entry(index, prefix)?;
                buffer.extend_from_slice(name);
                let middle = buffer.len();
                buffer.extend_from_slice(value);
                return Ok(fields.push(middle, false));
            }
            FieldLine::NameReference {
                never_indexed,
                name,
                value,
            } => {
                buffer.extend_from_slice(self.entry(name, prefix)?.0);
                (never_indexed, value)
            }
            FieldLine::LiteralName {
                never_indexed,
                name,
                value,
            } => {
                name.append_to(buffer)?;
                (never_indexed, value)
            }
        };
        let middle = buffer.len();
        value.append_to(buffer)?;
        Ok(fields.push(middle, never_indexed))
    }

    fn entry(&self, index: Index, prefix: Prefix) -> Result<(&[u8], &[u8]), Malformed> {
        let absolute = match index {
            Index::Static(index) => {
                let entry = static_table::entry(index);
                let entry = entry.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
                return entry.ok_or(Malformed::Invalid("no such entry in the static table"));
            }
            Index::Relative(index) => prefix
                .base
                .checked_sub(index)
                .and_then(|i| i.checked_sub(1)),
            Index::PostBase(index) => prefix.base.checked_add(index),
        };
        let entry = absolute
            .filter(|&index| index < prefix.required_insert_count)
            .and_then(|index| self.table.entry(index))
            .ok_or(Malformed::Invalid("no such entry in the dynamic table"))?;
        Ok((&entry.name, &entry.value))
    }
}

fn inserted_string(literal: Literal<'_>) -> Result<Bytes, QpackError> {
    literal
        .to_bytes()
        .map_err(|error| QpackError::EncoderStream(error.reason()))
}

fn decompression_failed(error: Malformed) -> QpackError {
    QpackError::DecompressionFailed(error.reason())
}

#[cfg(test)]
mod tests;
