//! Encoding of field blocks.

use std::collections::VecDeque;

use hikyaku_http_common::compression::recent_lines::{RecentLines, hash};
use hikyaku_http_common::compression::{integer, string};

use super::dynamic_table::DynamicTable;
use super::{INITIAL_CAPACITY, pattern, static_table};

/// Encodes the field blocks of one connection.
///
/// A line enters the dynamic table when it is sent for the second time, if it is neither sensitive
/// nor large.
#[derive(Debug)]
pub(crate) struct Encoder {
    table: DynamicTable<()>,
    /// The hash of each entry, the oldest first.
    hashes: VecDeque<u32>,
    recent: RecentLines,
    /// The largest capacity to use, in bytes.
    max_capacity: u32,
    /// The smallest capacity since the last block, if it changed (RFC 7541 §4.2).
    smallest: Option<u32>,
}

impl Encoder {
    /// Makes an encoder whose table has `max_capacity` bytes at most.
    pub(crate) fn new(max_capacity: u32) -> Self {
        let mut encoder = Self {
            table: DynamicTable::new(INITIAL_CAPACITY as usize),
            hashes: VecDeque::new(),
            recent: RecentLines::new(),
            max_capacity,
            smallest: None,
        };
        encoder.set_peer_capacity(INITIAL_CAPACITY);
        encoder
    }

    /// Takes the peer's `SETTINGS_HEADER_TABLE_SIZE`, in bytes.
    pub(crate) fn set_peer_capacity(&mut self, capacity: u32) {
        let capacity = capacity.min(self.max_capacity);
        if capacity as usize != self.table.capacity() {
            self.smallest = Some(self.smallest.unwrap_or(capacity).min(capacity));
            self.table.set_capacity(capacity as usize);
            self.drop_evicted();
        }
    }

    /// Begins a block: changes of the table's size come first.
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>) {
        let Some(smallest) = self.smallest.take() else {
            return;
        };
        let capacity = self.table.capacity() as u64;
        let (update, bits) = pattern::SIZE_UPDATE;
        if u64::from(smallest) < capacity {
            integer::write(out, update, bits, smallest.into());
        }
        integer::write(out, update, bits, capacity);
    }

    /// Appends a line. A `sensitive` one never enters a table, here or at the next hop.
    pub(crate) fn line(&mut self, name: &[u8], value: &[u8], sensitive: bool, out: &mut Vec<u8>) {
        let sensitive = sensitive || is_credential(name);
        let fixed = static_table::find(name, value);
        match fixed {
            Some(found) if found.exact && !sensitive => indexed(found.index, out),
            _ if sensitive => literal(pattern::NEVER_INDEXED, fixed, name, value, out),
            _ => {
                let hash = hash(name, value);
                let is_same = |line: &[u8], name_len: usize| {
                    let (other_name, other_value) = line.split_at(name_len);
                    other_name == name && other_value == value
                };
                match self.find(hash, is_same) {
                    Some(index) => indexed(index, out),
                    None if self.is_due(hash, name, value) => self.insert(hash, name, value, out),
                    None => literal(pattern::NOT_INDEXED, fixed, name, value, out),
                }
            }
        }
    }

    /// Appends prepared lines.
    pub(crate) fn prepared(&mut self, prepared: &PreparedLines, out: &mut Vec<u8>) {
        for line in &prepared.lines {
            let encoded = &prepared.encoded[line.encoded.0..line.encoded.1];
            let Some(hash) = line.hash else {
                out.extend_from_slice(encoded);
                continue;
            };
            let (name, value) = prepared.line(line);
            let [start, _, end] = line.text;
            let text = &prepared.text[start..end];
            let is_same = |other: &[u8], name_len| name_len == name.len() && other == text;
            match self.find(hash, is_same) {
                Some(index) => indexed(index, out),
                None if self.is_due(hash, name, value) => self.insert(hash, name, value, out),
                None => out.extend_from_slice(encoded),
            }
        }
    }

    /// The index of a line in the dynamic table. `is_same` gets the line that has the hash, and the
    /// length of its name.
    fn find(&self, hash: u32, is_same: impl Fn(&[u8], usize) -> bool) -> Option<usize> {
        let (older, newer) = self.hashes.as_slices();
        let has_hash = |other: &u32| *other == hash;
        let position = match older.iter().position(has_hash) {
            Some(position) => position,
            None => older.len() + newer.iter().position(has_hash)?,
        };
        let newer = self.hashes.len() - 1 - position;
        let found = self.table.get(newer)?;
        // Another line may have the hash: this one is then sent as a literal.
        is_same(found.line, found.name_len).then_some(static_table::LEN + 1 + newer)
    }

    /// Whether the line enters the table now.
    fn is_due(&mut self, hash: u32, name: &[u8], value: &[u8]) -> bool {
        let size = name.len() + value.len() + 32;
        size <= self.table.capacity() / MAX_SHARE && self.recent.remember(hash)
    }

    fn insert(&mut self, hash: u32, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let fixed = static_table::find(name, value);
        literal(pattern::INCREMENTAL, fixed, name, value, out);
        let line = [name, value].concat();
        self.table.insert(&line, name.len(), ());
        self.hashes.push_back(hash);
        self.drop_evicted();
    }

    fn drop_evicted(&mut self) {
        let evicted = self.hashes.len() - self.table.len();
        self.hashes.drain(..evicted);
    }
}

/// Lines that are encoded once and sent many times, on any connection.
///
/// Each is a literal or an entry of the static table, so that it can be decoded whatever the dynamic
/// table holds. An encoder replaces those by an index that its dynamic table has.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreparedLines {
    /// Names and values.
    text: Vec<u8>,
    encoded: Vec<u8>,
    lines: Vec<PreparedLine>,
}

#[derive(Clone, Copy, Debug)]
struct PreparedLine {
    /// Start of the name, start of the value, and its end in `text`.
    text: [usize; 3],
    /// Start and end in `encoded`.
    encoded: (usize, usize),
    /// The hash of a line that a dynamic table may have.
    hash: Option<u32>,
}

impl PreparedLines {
    /// Adds a line.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8], sensitive: bool) {
        let start = self.text.len();
        self.text.extend_from_slice(name);
        let middle = self.text.len();
        self.text.extend_from_slice(value);
        let text = [start, middle, self.text.len()];
        let begin = self.encoded.len();
        let sensitive = sensitive || is_credential(name);
        let fixed = static_table::find(name, value);
        let mut line_hash = None;
        match fixed {
            Some(found) if found.exact && !sensitive => indexed(found.index, &mut self.encoded),
            _ => {
                let pattern = match sensitive {
                    true => pattern::NEVER_INDEXED,
                    false => pattern::NOT_INDEXED,
                };
                literal(pattern, fixed, name, value, &mut self.encoded);
                line_hash = (!sensitive).then(|| hash(name, value));
            }
        }
        self.lines.push(PreparedLine {
            text,
            encoded: (begin, self.encoded.len()),
            hash: line_hash,
        });
    }

    /// Size of the lines as of a section (RFC 9113 §6.5.2), in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.text.len() as u64 + 32 * self.lines.len() as u64
    }

    fn line(&self, line: &PreparedLine) -> (&[u8], &[u8]) {
        let [start, middle, end] = line.text;
        (&self.text[start..middle], &self.text[middle..end])
    }
}

fn indexed(index: usize, out: &mut Vec<u8>) {
    let (pattern, bits) = pattern::INDEXED;
    integer::write(out, pattern, bits, index as u64);
}

fn literal(
    (pattern, bits): (u8, u8),
    fixed: Option<static_table::Match>,
    name: &[u8],
    value: &[u8],
    out: &mut Vec<u8>,
) {
    match fixed {
        Some(found) => integer::write(out, pattern, bits, found.index as u64),
        None => {
            out.push(pattern);
            string::write(out, 0, 8, name);
        }
    }
    string::write(out, 0, 8, value);
}

/// Whether fields of this name carry secrets at which an attacker may guess (RFC 7541 §7.1.3).
fn is_credential(name: &[u8]) -> bool {
    matches!(
        name,
        b"authorization" | b"cookie" | b"proxy-authorization" | b"set-cookie"
    )
}

/// A line is inserted only if it is no larger than the capacity divided by this.
const MAX_SHARE: usize = 2;
