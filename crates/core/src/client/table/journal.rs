//! What changed since the store last heard.

use std::collections::VecDeque;

use super::slab::Slab;
use crate::client::estimate::ENCODED_LEN;
use crate::client::key::Key;

/// A change for the store. Apply changes in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Everything was forgotten.
    Clear,
    /// A record was evicted or forgotten.
    Remove(Key),
    /// A record is new or has changed.
    Put {
        /// Its key.
        key: Key,
        /// Its estimate, for [`ClientTable::insert_encoded`](super::ClientTable::insert_encoded).
        estimate: [u8; ENCODED_LEN],
    },
}

/// Changed slots as one bit each, and removed keys.
#[derive(Debug)]
pub(super) struct Journal {
    dirty: Vec<u64>,
    /// Word of `dirty` to look at next, so that no slot waits for ever.
    cursor: usize,
    removed: VecDeque<Key>,
    max_removed: usize,
    cleared: bool,
}

impl Journal {
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

    pub(super) fn changed(&mut self, slot: u32) {
        let word = slot as usize / 64;
        if word >= self.dirty.len() {
            self.dirty.resize(word + 1, 0);
        }
        self.dirty[word] |= 1 << (slot % 64);
    }

    pub(super) fn removed(&mut self, slot: u32, key: Key) {
        if let Some(word) = self.dirty.get_mut(slot as usize / 64) {
            *word &= !(1 << (slot % 64));
        }
        // A store that does not keep up keeps a record too many, and loses it again when it is loaded
        // into a full table.
        if self.removed.len() >= self.max_removed {
            self.removed.pop_front();
        }
        self.removed.push_back(key);
    }

    pub(super) fn clear(&mut self) {
        *self = Self {
            cleared: true,
            ..Self::new(self.max_removed)
        };
    }

    /// The next change. Removals go first: a key that was removed and came back is put after it.
    pub(super) fn next(&mut self, slab: &Slab) -> Option<Change> {
        if std::mem::take(&mut self.cleared) {
            return Some(Change::Clear);
        }
        if let Some(key) = self.removed.pop_front() {
            return Some(Change::Remove(key));
        }
        while let Some(slot) = self.next_slot() {
            if let Some(record) = slab.get(slot) {
                return Some(Change::Put {
                    key: record.key,
                    estimate: record.estimate().encode(),
                });
            }
        }
        None
    }

    fn next_slot(&mut self) -> Option<u32> {
        let words = self.dirty.len();
        for _ in 0..words {
            let word = self.dirty.get_mut(self.cursor)?;
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(self.cursor as u32 * 64 + bit);
            }
            self.cursor = (self.cursor + 1) % words;
        }
        None
    }
}
