//! Decoded field sections: all lines in one buffer.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, MaxSizeReached};

use hikyaku_http_common::message::Class;

/// A field section as it was decoded, in memory that the next section uses again.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// Names and values; each line's value follows its name.
    bytes: Vec<u8>,
    lines: Vec<Line>,
    /// Size of the section: each line has 32 bytes beside its name and value (RFC 9113 §6.5.2).
    size: u64,
}

/// A line of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    start: u32,
    name_len: u32,
    value_len: u32,
    pub(crate) class: Class,
    pub(crate) never_indexed: bool,
}

impl Section {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        self.size = 0;
    }

    /// Gives memory back that no line needs.
    pub(crate) fn release(&mut self) {
        self.bytes = Vec::new();
        self.lines = Vec::new();
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The position at which the next line begins.
    pub(crate) fn position(&self) -> usize {
        self.bytes.len()
    }

    /// The buffer, for a name and a value that [`Section::push`] makes a line.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The bytes from `start` on.
    pub(crate) fn since(&self, start: usize) -> &[u8] {
        &self.bytes[start..]
    }

    /// Makes a line of the bytes from `start` on.
    pub(crate) fn push(&mut self, start: usize, name_len: usize, class: Class, never: bool) {
        let length = self.bytes.len() - start;
        self.size += length as u64 + 32;
        self.lines.push(Line {
            start: start as u32,
            name_len: name_len as u32,
            value_len: (length - name_len) as u32,
            class,
            never_indexed: never,
        });
    }

    /// Counts a line that is not kept, and takes its bytes back.
    pub(crate) fn drop_line(&mut self, start: usize, length: usize) {
        self.bytes.truncate(start);
        self.lines.clear();
        self.size = self.size.saturating_add(length as u64 + 32);
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Appends the value of a line to the buffer.
    pub(crate) fn append_value(&mut self, line: Line) {
        let start = (line.start + line.name_len) as usize;
        self.bytes
            .extend_from_within(start..start + line.value_len as usize);
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&Line) -> bool) {
        self.lines.retain(keep);
    }

    pub(crate) fn name(&self, line: Line) -> &[u8] {
        let start = line.start as usize;
        &self.bytes[start..start + line.name_len as usize]
    }

    pub(crate) fn value(&self, line: Line) -> &[u8] {
        let start = (line.start + line.name_len) as usize;
        &self.bytes[start..start + line.value_len as usize]
    }
}

/// A field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name: a token in lower case.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Whether an intermediary must not compress the line with a table (RFC 7541 §6.2.3).
    pub never_indexed: bool,
}

/// The fields of a header or trailer section, without pseudo-header fields.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    section: &'a Section,
    lines: &'a [Line],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(section: &'a Section, skipped: usize) -> Self {
        let lines = section.lines.get(skipped..).unwrap_or_default();
        Self { section, lines }
    }

    /// The first value of a field, whose name is in lower case.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.clone()
            .find(|field| field.name == name.as_bytes())
            .map(|field| field.value)
    }

    /// The fields as a map. All values share one allocation.
    ///
    /// # Errors
    /// If they are more than a map of the crate `http` takes.
    pub fn to_headers(&self) -> Result<HeaderMap, MaxSizeReached> {
        self.headers_of(&self.section.shared())
    }

    pub(crate) fn headers_of(&self, shared: &Bytes) -> Result<HeaderMap, MaxSizeReached> {
        let mut headers = HeaderMap::try_with_capacity(self.lines.len())?;
        for line in self.lines {
            let name = HeaderName::from_bytes(self.section.name(*line));
            let value = HeaderValue::from_maybe_shared(self.section.slice(shared, *line));
            // Both were checked when the line was decoded.
            if let (Ok(name), Ok(mut value)) = (name, value) {
                value.set_sensitive(line.never_indexed);
                headers.try_append(name, value)?;
            }
        }
        Ok(headers)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let (line, rest) = self.lines.split_first()?;
        self.lines = rest;
        Some(Field {
            name: self.section.name(*line),
            value: self.section.value(*line),
            never_indexed: line.never_indexed,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.lines.len(), Some(self.lines.len()))
    }
}

impl ExactSizeIterator for Fields<'_> {}

impl Section {
    /// A copy of all names and values.
    pub(crate) fn shared(&self) -> Bytes {
        Bytes::copy_from_slice(&self.bytes)
    }

    /// The value of a line, as a part of [`Section::shared`].
    pub(crate) fn slice(&self, shared: &Bytes, line: Line) -> Bytes {
        let start = (line.start + line.name_len) as usize;
        shared.slice(start..start + line.value_len as usize)
    }
}
