//! The changes since a store last took them.

use std::collections::VecDeque;

use super::slab::{Slab, Slot};

/// A change for a store. Apply changes in the order given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<K, V> {
    /// Everything was forgotten.
    Clear,
    /// A record was evicted or forgotten.
    Remove(K),
    /// A record is new or has changed.
    Put(K, V),
}

impl<K, V> Change<K, V> {
    /// The same change with another form of the value.
    pub(crate) fn map<W>(self, form: impl FnOnce(V) -> W) -> Change<K, W> {
        match self {
            Self::Clear => Change::Clear,
            Self::Remove(key) => Change::Remove(key),
            Self::Put(key, value) => Change::Put(key, form(value)),
        }
    }
}

/// Changed slots as one bit each, and removed keys.
#[derive(Debug)]
pub(super) struct Journal<K> {
    dirty: Vec<u64>,
    /// Word of `dirty` to look at next, so that no slot waits for ever.
    cursor: usize,
    removed: VecDeque<K>,
    max_removed: usize,
    cleared: bool,
}

impl<K: Copy> Journal<K> {
    pub(super) const fn new(max_removed: usize) -> Self {
        let removed = VecDeque::new();
        Self {
            dirty: Vec::new(),
            cursor: 0,
            removed,
            max_removed,
            cleared: false,
        }
    }

    pub(super) fn changed(&mut self, slot: Slot) {
        let (word, bit) = slot.bit();
        if word >= self.dirty.len() {
            self.dirty.resize(word + 1, 0);
        }
        self.dirty[word] |= bit;
    }

    /// The entry in a slot was removed.
    pub(super) fn removed(&mut self, slot: Slot) {
        let (word, bit) = slot.bit();
        if let Some(word) = self.dirty.get_mut(word) {
            *word &= !bit;
        }
    }

    /// A key is to leave the store. Returns whether there is room to note it.
    pub(super) fn gone(&mut self, key: K) -> bool {
        let has_room = self.removed.len() < self.max_removed;
        if has_room {
            self.removed.push_back(key);
        }
        has_room
    }

    pub(super) fn clear(&mut self) {
        *self = Self {
            cleared: true,
            ..Self::new(self.max_removed)
        };
    }

    /// The next change. Removals go first: a key that was removed and came back is put after it.
    pub(super) fn next<'a, V>(&mut self, slab: &'a Slab<K, V>) -> Option<Change<K, &'a V>> {
        if std::mem::take(&mut self.cleared) {
            return Some(Change::Clear);
        }
        if let Some(key) = self.removed.pop_front() {
            return Some(Change::Remove(key));
        }
        while let Some(slot) = self.next_slot() {
            if let Some(entry) = slab.get(slot) {
                return Some(Change::Put(entry.key, &entry.value));
            }
        }
        None
    }

    fn next_slot(&mut self) -> Option<Slot> {
        let words = self.dirty.len();
        for _ in 0..words {
            let word = self.dirty.get_mut(self.cursor)?;
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(Slot(self.cursor as u32 * 64 + bit));
            }
            self.cursor = (self.cursor + 1) % words;
        }
        None
    }
}
