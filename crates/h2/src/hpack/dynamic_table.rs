//! The dynamic table (RFC 7541 §2.3.2, §4).

use std::collections::VecDeque;

/// Entries in the order of their insertion, each with an `M` that its user knows of it.
#[derive(Debug)]
pub(super) struct DynamicTable<M> {
    /// Names and values. Each entry's value follows its name; evicted ones come first.
    bytes: Vec<u8>,
    /// Bytes that were inserted before the first one of `bytes`.
    dropped: usize,
    entries: VecDeque<Entry<M>>,
    size: usize,
    capacity: usize,
}

/// An entry. Its position counts from the first byte that was ever inserted, and may wrap.
#[derive(Clone, Copy, Debug)]
struct Entry<M> {
    start: usize,
    name_len: u32,
    value_len: u32,
    meaning: M,
}

impl<M> Entry<M> {
    fn len(&self) -> usize {
        self.name_len as usize + self.value_len as usize
    }
}

/// An entry as its users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found<'a, M> {
    /// The name, and after it the value.
    pub(super) line: &'a [u8],
    pub(super) name_len: usize,
    pub(super) meaning: M,
}

impl<M: Copy> DynamicTable<M> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            bytes: Vec::new(),
            dropped: 0,
            entries: VecDeque::new(),
            size: 0,
            capacity,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Sets the capacity in bytes, and evicts what exceeds it (RFC 7541 §4.3).
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.evict_to(capacity);
    }

    /// The entry before which `newer` others were inserted last.
    pub(super) fn get(&self, newer: usize) -> Option<Found<'_, M>> {
        let position = self.entries.len().checked_sub(newer)?.checked_sub(1)?;
        let entry = self.entries.get(position)?;
        let start = entry.start.wrapping_sub(self.dropped);
        Some(Found {
            line: &self.bytes[start..start + entry.len()],
            name_len: entry.name_len as usize,
            meaning: entry.meaning,
        })
    }

    /// Inserts an entry: `line` has the name, and after it the value. Evicts as many of the oldest as
    /// it needs. An entry larger than the capacity empties the table (RFC 7541 §4.4).
    pub(super) fn insert(&mut self, line: &[u8], name_len: usize, meaning: M) {
        let size = line.len() + ENTRY_OVERHEAD;
        let Some(room) = self.capacity.checked_sub(size) else {
            self.evict_to(0);
            return;
        };
        self.evict_to(room);
        self.compact();
        self.entries.push_back(Entry {
            start: self.dropped.wrapping_add(self.bytes.len()),
            name_len: name_len as u32,
            value_len: (line.len() - name_len) as u32,
            meaning,
        });
        self.bytes.extend_from_slice(line);
        self.size += size;
    }

    fn evict_to(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.len() + ENTRY_OVERHEAD;
        }
        if self.entries.is_empty() {
            self.dropped = self.dropped.wrapping_add(self.bytes.len());
            self.bytes.clear();
        }
    }

    /// Drops the evicted bytes once they are as many as the table may have: each byte is moved once
    /// at most, on average.
    fn compact(&mut self) {
        let Some(oldest) = self.entries.front() else {
            return;
        };
        let evicted = oldest.start.wrapping_sub(self.dropped);
        if evicted >= self.capacity {
            self.bytes.drain(..evicted);
            self.dropped = oldest.start;
        }
    }
}

/// Bytes of an entry beyond its name and value (RFC 7541 §4.1).
const ENTRY_OVERHEAD: usize = hikyaku_http_common::compression::ENTRY_OVERHEAD as usize;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(table: &DynamicTable<()>) -> Vec<String> {
        let found = (0..).map_while(|newer| table.get(newer));
        found
            .map(|Found { line, name_len, .. }| {
                let (name, value) = line.split_at(name_len);
                format!("{}={}", name.escape_ascii(), value.escape_ascii())
            })
            .collect()
    }

    fn insert(table: &mut DynamicTable<()>, name: &str, value: &str) {
        table.insert(format!("{name}{value}").as_bytes(), name.len(), ());
    }

    #[test]
    fn the_oldest_entries_leave_first() {
        let mut table = DynamicTable::new(100);
        insert(&mut table, "a", "1");
        insert(&mut table, "b", "2");
        assert_eq!(lines(&table), ["b=2", "a=1"]);
        insert(&mut table, "c", "3");
        assert_eq!(lines(&table), ["c=3", "b=2"], "102 bytes are too many");
        table.set_capacity(67);
        assert_eq!(lines(&table), ["c=3"], "§4.3");
        insert(&mut table, "name", &"x".repeat(31));
        assert_eq!(lines(&table), ["name=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]);
        insert(&mut table, "name", &"x".repeat(32));
        assert!(lines(&table).is_empty(), "§4.4: larger than the table");
        table.set_capacity(0);
        insert(&mut table, "", "");
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut table = DynamicTable::new(200);
        for count in 0..10_000 {
            insert(&mut table, "name", &count.to_string());
            assert_eq!(lines(&table)[0], format!("name={count}"));
            assert!(table.bytes.len() <= 400 && table.size <= 200);
        }
    }
}
