//! The dynamic table (RFC 9204 §3.2) of both the encoder and the decoder.

use std::collections::VecDeque;

use bytes::Bytes;

use super::field_size;

/// An entry; names and values are shared with its duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Bytes,
    pub(super) value: Bytes,
}

impl Entry {
    fn size(&self) -> u64 {
        field_size(&self.name, &self.value)
    }
}

/// Entries in the order of their insertion. Absolute indices count from the first entry
/// that was ever inserted (RFC 9204 §3.2.4).
#[derive(Debug, Default)]
pub(super) struct DynamicTable {
    entries: VecDeque<Entry>,
    inserted: u64,
    size: u64,
    capacity: u64,
}

impl DynamicTable {
    /// The number of entries inserted since the connection began; the absolute index of the next
    /// one.
    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// The sum of the sizes of all entries, in bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The largest sum of sizes, in bytes.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Sets the capacity in bytes, and evicts entries that no longer fit.
    pub(super) fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.evict_to(capacity);
    }

    /// Adds an entry and evicts the oldest ones for it. Returns `false`, and leaves the table
    /// unchanged, if the entry is larger than the capacity (RFC 9204 §3.2.2).
    #[must_use]
    pub(super) fn insert(&mut self, entry: Entry) -> bool {
        let Some(room) = self.capacity.checked_sub(entry.size()) else {
            return false;
        };
        self.evict_to(room);
        self.size += entry.size();
        self.inserted += 1;
        self.entries.push_back(entry);
        debug_assert!(self.size <= self.capacity, "RFC 9204 §3.2.2");
        true
    }

    /// The entry with this absolute index; `None` if it is evicted or still to come.
    pub(super) fn entry(&self, index: u64) -> Option<&Entry> {
        let position = index.checked_sub(self.oldest())?;
        self.entries.get(usize::try_from(position).ok()?)
    }

    /// The absolute index of the entry `relative` entries before the newest one, as
    /// instructions count (RFC 9204 §3.2.5).
    pub(super) fn absolute_index(&self, relative: u64) -> Option<u64> {
        self.inserted.checked_sub(relative)?.checked_sub(1)
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether an entry of `size` bytes can be inserted without the eviction of an entry
    /// whose absolute index is `pinned` or larger.
    pub(super) fn has_room(&self, size: u64, pinned: u64) -> bool {
        let evictable = usize::try_from(pinned.saturating_sub(self.oldest())).unwrap_or(usize::MAX);
        let reclaimable: u64 = self.entries.iter().take(evictable).map(Entry::size).sum();
        self.size - reclaimable + size <= self.capacity
    }

    /// The absolute index of the oldest entry that, with all newer ones, takes `size` bytes at most.
    pub(super) fn first_of_newest(&self, size: u64) -> u64 {
        let mut left = size;
        let newest = self.entries.iter().rev().take_while(|entry| {
            let rest = left.checked_sub(entry.size());
            left = rest.unwrap_or(0);
            rest.is_some()
        });
        self.inserted - newest.count() as u64
    }

    fn oldest(&self) -> u64 {
        self.inserted - self.entries.len() as u64
    }

    fn evict_to(&mut self, size: u64) {
        while self.size > size
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.size();
        }
        debug_assert!(self.size <= self.capacity, "RFC 9204 §3.2.2");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_leave_first() {
        let mut table = table(100, &[("a", "1"), ("b", "2")]);
        assert_eq!((table.inserted(), table.size()), (2, 68));
        assert!(table.insert(entry("c", "3")), "34 + 34 bytes stay, 34 come");
        assert_eq!(
            (table.inserted(), table.size()),
            (3, 68),
            "of 102 bytes 34 had to go"
        );
        assert_eq!(table.entry(0), None, "evicted");
        assert_eq!(table.entry(1), Some(&entry("b", "2")));
        assert_eq!(table.entry(3), None, "still to come");
        table.set_capacity(67);
        assert_eq!(
            (table.entry(1), table.entry(2)),
            (None, Some(&entry("c", "3")))
        );
        table.set_capacity(0);
        assert_eq!((table.inserted(), table.size()), (3, 0));
    }

    #[test]
    fn an_entry_larger_than_the_capacity_changes_nothing() {
        let mut table = table(40, &[("a", "1")]);
        assert!(!table.insert(entry("name", "value")));
        assert_eq!((table.inserted(), table.size()), (1, 34));
        assert!(table.insert(entry("four", "four")), "exactly the capacity");
        assert_eq!((table.inserted(), table.size()), (2, 40));
    }

    #[test]
    fn pinned_entries_take_room() {
        let table = table(110, &[("a", "1"), ("b", "2"), ("c", "3")]);
        let cases: &[(&str, u64, u64, bool)] = &[
            // name, size, first pinned entry, has room
            ("what is free", 8, 0, true),
            ("more than is free", 9, 0, false),
            ("after one eviction", 42, 1, true),
            ("more than one eviction frees", 43, 1, false),
            ("after the eviction of all", 110, 3, true),
            ("more than the capacity", 111, u64::MAX, false),
        ];
        for &(name, size, pinned, want) in cases {
            assert_eq!(table.has_room(size, pinned), want, "{name}");
        }
        let firsts = [0, 33, 34, 67, 68, 102, 110].map(|size| table.first_of_newest(size));
        assert_eq!(firsts, [3, 3, 2, 2, 1, 0, 0]);
    }

    fn table(capacity: u64, entries: &[(&str, &str)]) -> DynamicTable {
        let mut table = DynamicTable::default();
        table.set_capacity(capacity);
        for &(name, value) in entries {
            assert!(table.insert(entry(name, value)));
        }
        table
    }

    fn entry(name: &str, value: &str) -> Entry {
        Entry {
            name: Bytes::copy_from_slice(name.as_bytes()),
            value: Bytes::copy_from_slice(value.as_bytes()),
        }
    }
}
