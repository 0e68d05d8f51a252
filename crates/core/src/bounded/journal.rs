//! The changes since a store last took them.

use std::collections::VecDeque;

use super::slab::{Slab, Slot};
use super::slots::SlotSet;

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

/// Changed slots, and removed keys.
#[derive(Debug)]
pub(super) struct Journal<K> {
    dirty: SlotSet,
    removed: VecDeque<K>,
    max_removed: usize,
    cleared: bool,
}

impl<K: Copy> Journal<K> {
    pub(super) const fn new(max_removed: usize) -> Self {
        let removed = VecDeque::new();
        Self {
            dirty: SlotSet::new(),
            removed,
            max_removed,
            cleared: false,
        }
    }

    pub(super) fn changed(&mut self, slot: Slot) {
        self.dirty.insert(slot);
    }

    /// The entry in a slot was removed.
    pub(super) fn removed(&mut self, slot: Slot) {
        self.dirty.remove(slot);
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

    /// Changes that a store has not taken.
    pub(super) fn len(&self) -> usize {
        usize::from(self.cleared) + self.removed.len() + self.dirty.len()
    }

    /// The next change. Removals go first: a key that was removed and came back is put after it.
    pub(super) fn next<'a, V>(&mut self, slab: &'a Slab<K, V>) -> Option<Change<K, &'a V>> {
        if std::mem::take(&mut self.cleared) {
            return Some(Change::Clear);
        }
        if let Some(key) = self.removed.pop_front() {
            return Some(Change::Remove(key));
        }
        while let Some(slot) = self.dirty.pop() {
            if let Some(entry) = slab.get(slot) {
                return Some(Change::Put(entry.key, &entry.value));
            }
        }
        None
    }
}
