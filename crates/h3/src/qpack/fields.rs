//! The field lines of a decoded section, in one buffer.

use std::fmt;

#[cfg(test)]
use bytes::Bytes;

use super::{FieldRef, field_size};

/// The field lines of a section, in their order. All names and values are in one buffer, which the
/// decoder uses again.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// Each value follows its name, and each line the one before.
    bytes: Vec<u8>,
    lines: Vec<Line>,
}

/// A line of [`Fields`]: positions in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) start: usize,
    /// The end of the name, and the start of the value.
    pub(crate) middle: usize,
    pub(crate) end: usize,
    pub(crate) never_indexed: bool,
}

impl Fields {
    /// The number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The lines. One that an intermediary must not compress with a table is sensitive.
    pub fn iter(&self) -> impl Iterator<Item = FieldRef<'_>> {
        self.lines.iter().map(|line| FieldRef {
            name: self.name(*line),
            value: self.value(*line),
            sensitive: line.never_indexed,
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    pub(crate) fn name(&self, line: Line) -> &[u8] {
        &self.bytes[line.start..line.middle]
    }

    pub(crate) fn value(&self, line: Line) -> &[u8] {
        &self.bytes[line.middle..line.end]
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
    }

    /// The buffer, for a name and a value that [`Fields::push`] makes a line.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Makes a line of the bytes from the end of the last one on. Its value begins at `middle`. Returns
    /// its size (RFC 9114 §4.2.2).
    pub(super) fn push(&mut self, middle: usize, never_indexed: bool) -> u64 {
        let line = Line {
            start: self.lines.last().map_or(0, |line| line.end),
            middle,
            end: self.bytes.len(),
            never_indexed,
        };
        self.lines.push(line);
        field_size(self.name(line), self.value(line))
    }
}

/// A field line of its own, for tests.
#[cfg(test)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The name as it was sent: neither its characters nor their case are checked.
    pub(crate) name: Bytes,
    /// The value as it was sent.
    pub(crate) value: Bytes,
    /// Whether an intermediary must not compress the line with a table (the 'N' bit of
    /// RFC 9204 §4.5.4).
    pub(crate) never_indexed: bool,
}

#[cfg(test)]
impl FromIterator<Field> for Fields {
    fn from_iter<I: IntoIterator<Item = Field>>(lines: I) -> Self {
        let mut fields = Self::default();
        for Field {
            name,
            value,
            never_indexed,
        } in lines
        {
            fields.bytes.extend_from_slice(&name);
            let middle = fields.bytes.len();
            fields.bytes.extend_from_slice(&value);
            fields.push(middle, never_indexed);
        }
        fields
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.iter().map(|field| {
            let (name, value) = (field.name.escape_ascii(), field.value.escape_ascii());
            format!("{name}: {value}")
        });
        f.debug_list().entries(lines).finish()
    }
}
