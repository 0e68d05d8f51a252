//! Lines that are encoded before they are sent.

use hikyaku_http_common::compression::recent_lines::hash;

use super::encoder::is_credential;
use super::{FieldRef, Index, field_line, static_table};

/// Lines that are encoded once and sent many times, on any connection.
///
/// Each is a literal or an entry of the static table, so that it can be decoded whatever the dynamic
/// table holds. An encoder replaces those by an index that its dynamic table has.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreparedLines {
    /// Names and values; each value follows its name.
    text: Vec<u8>,
    encoded: Vec<u8>,
    lines: Vec<Line>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    /// Start of the name, start of the value, and its end in `text`.
    text: [usize; 3],
    /// Start and end in `encoded`.
    encoded: [usize; 2],
    /// The hash of a line that a dynamic table may have.
    hash: Option<u32>,
}

/// One of [`PreparedLines`].
#[derive(Clone, Copy, Debug)]
pub(super) struct PreparedLine<'a> {
    pub(super) field: FieldRef<'a>,
    /// The line as a literal, or as an entry of the static table.
    pub(super) encoded: &'a [u8],
    /// The hash of a line that a dynamic table may have.
    pub(super) hash: Option<u32>,
}

impl PreparedLines {
    /// Adds a line.
    pub(crate) fn push(&mut self, field: FieldRef<'_>) {
        let FieldRef {
            name,
            value,
            sensitive,
        } = field;
        let start = self.text.len();
        self.text.extend_from_slice(name);
        let middle = self.text.len();
        self.text.extend_from_slice(value);
        let begin = self.encoded.len();
        let sensitive = sensitive || is_credential(name);
        let (fixed, out) = (static_table::find(name, value), &mut self.encoded);
        let mut may_be_stored = false;
        match fixed {
            Some(found) if found.exact && !sensitive => {
                field_line::write_indexed(out, Index::Static(found.index));
            }
            Some(found) => {
                let name = Index::Static(found.index);
                field_line::write_name_reference(out, name, value, sensitive);
                may_be_stored = !sensitive;
            }
            None => {
                field_line::write_literal_name(out, name, value, sensitive);
                may_be_stored = !sensitive;
            }
        }
        self.lines.push(Line {
            text: [start, middle, self.text.len()],
            encoded: [begin, self.encoded.len()],
            hash: may_be_stored.then(|| hash(name, value)),
        });
    }

    /// Size of the lines as of a section (RFC 9114 §4.2.2), in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.text.len() as u64 + 32 * self.lines.len() as u64
    }

    /// All lines without a use of a dynamic table.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = PreparedLine<'_>> {
        self.lines.iter().map(|line| {
            let ([start, middle, end], [begin, until]) = (line.text, line.encoded);
            PreparedLine {
                field: FieldRef {
                    name: &self.text[start..middle],
                    value: &self.text[middle..end],
                    sensitive: false,
                },
                encoded: &self.encoded[begin..until],
                hash: line.hash,
            }
        })
    }
}
