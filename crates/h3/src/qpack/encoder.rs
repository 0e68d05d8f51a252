//! The encoder of this endpoint's field sections (RFC 9204 §2.1).

mod feedback;

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use hikyaku_http_common::compression::recent_lines::{RecentLines, hash};

use super::dynamic_table::{DynamicTable, Entry};
use super::instruction;
use super::prefix::Prefix;
use super::prepared::PreparedLines;
use super::{FieldRef, Index, field_line, field_size, static_table, take};

/// The limits of an encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncoderConfig {
    /// Capacity of the dynamic table in bytes, if the peer permits as much; 0 for none.
    pub max_table_capacity: u64,
    /// Streams whose sections may refer to insertions without acknowledgment (RFC 9204 §2.1.2), if the
    /// peer permits as many. With 0 no section ever waits for the encoder stream.
    pub max_blocked_streams: u64,
}

/// Encodes the field sections of one connection.
///
/// A line enters the dynamic table when it is sent for the second time, if it is neither sensitive
/// nor large. The table is used only as far as the peer's settings permit.
///
/// A stream that this endpoint resets needs no call. The peer's Stream Cancellation ends its
/// references (RFC 9204 §2.2.2.2). Before that, the peer may still acknowledge.
#[derive(Debug)]
pub struct Encoder {
    config: EncoderConfig,
    table: DynamicTable,
    /// The hashes of each entry, the oldest first: of the line, and of its name.
    hashes: VecDeque<[u32; 2]>,
    /// The absolute index of the first entry that is not draining (RFC 9204 §2.1.1.1).
    undrained: u64,
    /// The peer's `SETTINGS_QPACK_MAX_TABLE_CAPACITY`, in bytes.
    peer_max_capacity: u64,
    /// The smaller of the own limit and the peer's `SETTINGS_QPACK_BLOCKED_STREAMS`.
    max_blocked_streams: u64,
    /// The number of insertions that the peer has acknowledged (RFC 9204 §2.1.4).
    known_received: u64,
    /// Sections with references, in the order in which they were encoded.
    unacknowledged: VecDeque<Unacknowledged>,
    recent: RecentLines,
    /// The start of an instruction whose end has not arrived.
    partial: Vec<u8>,
    /// The lines of the section that is being encoded; kept for its memory.
    lines: Vec<u8>,
    output: BytesMut,
}

/// References of a section to the dynamic table.
#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    stream_id: u64,
    /// The Base while the section is being encoded.
    base: u64,
    required_insert_count: u64,
    /// Smallest absolute index that the section refers to.
    oldest: u64,
}

impl Encoder {
    /// Makes an encoder for a new connection. It uses no dynamic table before
    /// [`Self::set_peer_settings`].
    pub fn new(config: EncoderConfig) -> Self {
        Self {
            config,
            table: DynamicTable::default(),
            hashes: VecDeque::new(),
            undrained: 0,
            peer_max_capacity: 0,
            max_blocked_streams: 0,
            known_received: 0,
            unacknowledged: VecDeque::new(),
            recent: RecentLines::new(),
            partial: Vec::new(),
            lines: Vec::new(),
            output: BytesMut::new(),
        }
    }

    /// Takes the peer's `SETTINGS_QPACK_MAX_TABLE_CAPACITY`, in bytes, and
    /// `SETTINGS_QPACK_BLOCKED_STREAMS` (RFC 9204 §5). To be called once, since a peer
    /// sends SETTINGS once.
    pub fn set_peer_settings(&mut self, max_table_capacity: u64, max_blocked_streams: u64) {
        self.peer_max_capacity = max_table_capacity;
        self.max_blocked_streams = self.config.max_blocked_streams.min(max_blocked_streams);
        let capacity = self.config.max_table_capacity.min(max_table_capacity);
        if capacity > 0 {
            self.table.set_capacity(capacity);
            instruction::write_set_capacity(&mut self.output, capacity);
        }
    }

    /// Appends the encoded section of `fields`, the content of a HEADERS or PUSH_PROMISE
    /// frame on `stream_id`, to `out`.
    ///
    /// The bytes that it adds to [`Self::take_output`] should be sent no later than the section,
    /// lest the stream is blocked at the peer.
    pub fn encode<'a>(
        &mut self,
        stream_id: u64,
        fields: impl IntoIterator<Item = FieldRef<'a>>,
        out: &mut impl BufMut,
    ) {
        let mut section = self.begin(stream_id);
        for field in fields {
            self.encode_line(field, &mut section);
        }
        self.complete(section, out);
    }

    /// Appends the encoded section of prepared lines, with `more` after them, to `out`; see
    /// [`Self::encode`].
    pub(crate) fn encode_prepared<'a>(
        &mut self,
        stream_id: u64,
        prepared: &PreparedLines,
        more: impl IntoIterator<Item = FieldRef<'a>>,
        out: &mut impl BufMut,
    ) {
        let mut section = self.begin(stream_id);
        if self.table.capacity() == 0 {
            self.lines.extend_from_slice(prepared.encoded());
        } else {
            for line in prepared.lines() {
                let index = line.hash.and_then(|hash| {
                    let index = self.stored(line.field, hash, &section)?;
                    self.reference(index, &mut section)
                });
                match index {
                    Some(index) => field_line::write_indexed(&mut self.lines, index),
                    None => self.lines.extend_from_slice(line.encoded),
                }
            }
        }
        for field in more {
            self.encode_line(field, &mut section);
        }
        self.complete(section, out);
    }

    fn begin(&mut self, stream_id: u64) -> Unacknowledged {
        self.lines.clear();
        Unacknowledged {
            stream_id,
            base: self.table.inserted(),
            required_insert_count: 0,
            oldest: u64::MAX,
        }
    }

    /// Appends the section's prefix and its lines.
    fn complete(&mut self, section: Unacknowledged, out: &mut impl BufMut) {
        let prefix = Prefix {
            required_insert_count: section.required_insert_count,
            base: section.base,
        };
        prefix.write(out, self.peer_max_capacity);
        out.put_slice(&self.lines);
        if section.required_insert_count > 0 {
            self.unacknowledged.push_back(section);
        }
    }

    /// Takes the bytes to send on this endpoint's encoder stream, in this order. May be empty.
    ///
    /// Entries that are not acknowledged are not evicted for others. So without acknowledgments the
    /// bytes are little more than the table's capacity.
    pub fn take_output(&mut self) -> Bytes {
        take(&mut self.output)
    }

    /// Whether [`Self::take_output`] has bytes.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    fn encode_line(&mut self, field: FieldRef<'_>, section: &mut Unacknowledged) {
        let FieldRef {
            name,
            value,
            sensitive,
        } = field;
        let sensitive = sensitive || is_credential(name);
        let fixed = static_table::find(name, value);
        if let Some(found) = fixed
            && found.exact
            && !sensitive
        {
            return field_line::write_indexed(&mut self.lines, Index::Static(found.index));
        }
        if self.table.capacity() > 0
            && !sensitive
            && let Some(index) = self.stored(field, hash(name, value), section)
            && let Some(index) = self.reference(index, section)
        {
            return field_line::write_indexed(&mut self.lines, index);
        }
        let name_index = match fixed {
            Some(found) => Some(Index::Static(found.index)),
            None if sensitive => None,
            None => self
                .find_name(name)
                .and_then(|index| self.reference(index, section)),
        };
        match name_index {
            Some(index) => {
                field_line::write_name_reference(&mut self.lines, index, value, sensitive);
            }
            None => field_line::write_literal_name(&mut self.lines, name, value, sensitive),
        }
    }

    /// Returns the absolute index of an entry for the line, which is inserted if that is due. `hash`
    /// is the line's.
    fn stored(&mut self, field: FieldRef<'_>, hash: u32, section: &Unacknowledged) -> Option<u64> {
        if let Some(index) = self.find(field, hash) {
            return if self.is_draining(index) {
                self.duplicate(index, section)
            } else {
                Some(index)
            };
        }
        let size = field_size(field.name, field.value);
        let is_due = size <= self.table.capacity() / MAX_SHARE
            && self.recent.remember(hash)
            && self.has_room(size, section);
        if is_due {
            self.insert(field, hash)
        } else {
            None
        }
    }

    /// The absolute index of the newest entry that is the line.
    fn find(&self, field: FieldRef<'_>, hash: u32) -> Option<u64> {
        let is_line = |entry: &Entry| entry.name == field.name && entry.value == field.value;
        self.newest(|[line, _]| line == hash, is_line)
    }

    /// The absolute index of the newest entry with the name.
    fn find_name(&self, name: &[u8]) -> Option<u64> {
        if self.hashes.is_empty() {
            return None;
        }
        let hash = hash(name, b"");
        self.newest(|[_, name]| name == hash, |entry| entry.name == name)
    }

    /// The newest entry whose hashes and whose text are the right ones.
    fn newest(
        &self,
        has_hash: impl Fn([u32; 2]) -> bool,
        is_right: impl Fn(&Entry) -> bool,
    ) -> Option<u64> {
        let mut newer = self.hashes.iter().rev().zip(1..);
        newer.find_map(|(hashes, age)| {
            let index = self.table.inserted() - age;
            let is_found = has_hash(*hashes) && self.table.entry(index).is_some_and(&is_right);
            is_found.then_some(index)
        })
    }

    fn insert(&mut self, FieldRef { name, value, .. }: FieldRef<'_>, hash: u32) -> Option<u64> {
        let same_name = self.find_name(name);
        let (out, inserted) = (&mut self.output, self.table.inserted());
        match (static_table::find(name, value), same_name) {
            (Some(found), _) => {
                instruction::write_insert_with_name_reference(out, true, found.index, value);
            }
            (None, Some(index)) => {
                let relative = inserted - index - 1;
                instruction::write_insert_with_name_reference(out, false, relative, value);
            }
            (None, None) => instruction::write_insert_with_literal_name(out, name, value),
        }
        let entry = Entry {
            name: Bytes::copy_from_slice(name),
            value: Bytes::copy_from_slice(value),
        };
        self.store(entry, hash)
    }

    fn duplicate(&mut self, index: u64, section: &Unacknowledged) -> Option<u64> {
        let entry = self.table.entry(index)?.clone();
        if !self.has_room(field_size(&entry.name, &entry.value), section) {
            return None;
        }
        let inserted = self.table.inserted();
        instruction::write_duplicate(&mut self.output, inserted - index - 1);
        let hash = hash(&entry.name, &entry.value);
        self.store(entry, hash)
    }

    /// Adds an entry to the table. Returns its absolute index.
    fn store(&mut self, entry: Entry, line: u32) -> Option<u64> {
        let (hashes, inserted) = ([line, hash(&entry.name, b"")], self.table.inserted());
        if !self.table.insert(entry) {
            return None;
        }
        self.hashes.push_back(hashes);
        self.hashes.drain(..self.hashes.len() - self.table.len());
        let kept = self.table.capacity() - self.table.capacity() / DRAINING_SHARE;
        self.undrained = self.table.first_of_newest(kept);
        Some(inserted)
    }

    /// Refers to an entry. `None` if that could block one stream too many, or if the entry is
    /// evicted or about to be (RFC 9204 §2.1.1.1).
    fn reference(&self, index: u64, section: &mut Unacknowledged) -> Option<Index> {
        let permitted = self.unacknowledged.len() < MAX_UNACKNOWLEDGED
            && (index < self.known_received || self.may_block(section.stream_id))
            && !self.is_draining(index)
            // The insertion of the line may have evicted the entry with its name.
            && self.table.entry(index).is_some();
        if !permitted {
            return None;
        }
        section.required_insert_count = section.required_insert_count.max(index + 1);
        section.oldest = section.oldest.min(index);
        Some(match index.checked_sub(section.base) {
            Some(post_base) => Index::PostBase(post_base),
            None => Index::Relative(section.base - index - 1),
        })
    }

    /// Whether a section of the stream may refer to entries that the peer may not have received
    /// (RFC 9204 §2.1.2). Sections are counted instead of streams, which are never more.
    fn may_block(&self, stream_id: u64) -> bool {
        let at_risk = self
            .unacknowledged
            .iter()
            .filter(|section| section.required_insert_count > self.known_received);
        at_risk
            .clone()
            .any(|section| section.stream_id == stream_id)
            || (at_risk.count() as u64) < self.max_blocked_streams
    }

    /// Whether an entry of `size` bytes can be inserted although entries that are not
    /// acknowledged, or referred to, must stay (RFC 9204 §2.1.1).
    fn has_room(&self, size: u64, section: &Unacknowledged) -> bool {
        let referenced = self
            .unacknowledged
            .iter()
            .chain([section])
            .map(|section| section.oldest);
        let pinned = referenced.fold(self.known_received, u64::min);
        self.table.has_room(size, pinned)
    }

    /// Whether the entry is in the oldest part of the table, which is to become free.
    fn is_draining(&self, index: u64) -> bool {
        index < self.undrained
    }
}

/// Whether fields of this name carry secrets at which an attacker may guess (RFC 9204 §7.1.3).
pub(super) fn is_credential(name: &[u8]) -> bool {
    matches!(
        name,
        b"authorization" | b"cookie" | b"proxy-authorization" | b"set-cookie"
    )
}

/// Sections that may wait for their acknowledgment. Further sections do not refer to the dynamic
/// table, so that a peer that acknowledges nothing costs little memory and time.
const MAX_UNACKNOWLEDGED: usize = 256;

/// A line is inserted only if it is no larger than the capacity divided by this.
const MAX_SHARE: u64 = 2;

/// The oldest part of the table is draining: the capacity divided by this.
const DRAINING_SHARE: u64 = 4;

#[cfg(test)]
mod tests;
