//! A map of bounded size, with a journal of its changes for a store.
//!
//! A full map evicts by a generalised CLOCK: an entry goes that was not used since the hand last passed.
//! An entry whose user returned goes only later. The sources are Corbato, "A paging experiment with the
//! Multics system", 1968, and Smith, "Sequentiality and prefetching in database systems", TODS 1978.
//!
//! An entry may have aliases, further keys that lead to it. They take five bytes each and go with it.

mod index;
mod journal;
mod slab;
mod slots;

use std::hash::Hash;

use index::Index;
use journal::Journal;
use slab::Slab;

pub(crate) use index::Target;
pub use journal::Change;
pub(crate) use slab::Slot;
pub(crate) use slots::SlotSet;

/// How large a table is, and whether its changes are kept for a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// Most records that it holds; from 16 to 2^30, else the nearer of these.
    pub max_records: usize,
    /// Secret that keeps clients from choosing addresses that collide in the index.
    pub hash_key: [u64; 2],
    /// Whether changes are noted, to be drained for a store.
    pub journal: bool,
}

/// A key of a [`BoundedMap`].
pub(crate) trait MapKey: Copy + Eq + Hash {
    /// The key that is this one's alias of a level; `None` from [`MAX_ALIASES`] on.
    fn alias(&self, level: u8) -> Option<Self>;
}

/// A hash map that holds at most so many entries.
#[derive(Debug)]
pub(crate) struct BoundedMap<K, V> {
    slab: Slab<K, V>,
    index: Index,
    journal: Option<Journal<K>>,
    max: usize,
}

impl<K: MapKey, V> BoundedMap<K, V> {
    /// Memory of an entry without its part of the index, in bytes.
    #[cfg(test)]
    pub(crate) const ENTRY_LEN: usize = size_of::<Option<slab::Entry<K, V>>>();

    /// An empty map. Memory grows with its entries.
    pub(crate) fn new(config: TableConfig) -> Self {
        let max = config.max_records.clamp(MIN_ENTRIES, MAX_ENTRIES);
        Self {
            slab: Slab::default(),
            index: Index::new(config.hash_key),
            journal: config.journal.then(|| Journal::new(max)),
            max,
        }
    }

    /// Number of entries.
    pub(crate) const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Most entries that the map holds.
    pub(crate) const fn capacity(&self) -> usize {
        self.max
    }

    /// The entry that a key leads to, as its own or as an alias.
    pub(crate) fn find(&self, key: &K) -> Option<Target> {
        self.index.find(key, &self.slab)
    }

    /// The key and the value in a slot.
    pub(crate) fn entry(&self, slot: Slot) -> Option<(&K, &V)> {
        let entry = self.slab.get(slot)?;
        Some((&entry.key, &entry.value))
    }

    /// The value of a key that has an entry of its own.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        match self.find(key)? {
            Target::Own(slot) => Some(&self.slab.get(slot)?.value),
            Target::Alias { .. } => None,
        }
    }

    /// All keys with their values, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let entries = self.slab.iter();
        entries.map(|(_, entry)| (&entry.key, &entry.value))
    }

    /// The slots of all entries, in no order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slab.iter().map(|(slot, _)| slot)
    }

    /// A value to be changed, which counts as a change and not as a use.
    pub(crate) fn change(&mut self, slot: Slot) -> Option<&mut V> {
        let entry = self.slab.get_mut(slot)?;
        if let Some(journal) = &mut self.journal {
            journal.changed(slot);
        }
        Some(&mut entry.value)
    }

    /// Counts a use of an entry, which outlives a pass of the hand for it. Each time that its user has
    /// `returned`, it outlives one more, three at most.
    pub(crate) fn used(&mut self, slot: Slot, returned: bool) {
        if let Some(entry) = self.slab.get_mut(slot) {
            entry.used(returned);
        }
    }

    /// A key's value, which is used and changed, or made.
    pub(crate) fn change_or_insert(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let slot = match self.find(&key) {
            Some(Target::Own(slot)) => {
                self.used(slot, false);
                slot
            }
            _ => self.insert(key, V::default(), None),
        };
        self.change(slot).expect("the slot of a key is taken")
    }

    /// Puts a value that comes from the store, which is no change, and returns its slot.
    pub(crate) fn load(&mut self, key: K, value: V) -> Slot {
        let Some(Target::Own(slot)) = self.find(&key) else {
            return self.insert(key, value, None);
        };
        if let Some(entry) = self.slab.get_mut(slot) {
            entry.value = value;
        }
        slot
    }

    /// Makes an entry for a key that has none of its own, and returns its slot. In a full map another
    /// goes, but never the `pinned` one. A new entry counts as neither used nor changed.
    pub(crate) fn insert(&mut self, key: K, value: V, pinned: Option<Slot>) -> Slot {
        while self.slab.len() >= self.max {
            let Some(victim) = self.slab.victim(pinned) else {
                break;
            };
            self.remove(victim);
        }
        let slot = self.slab.insert(key, value);
        self.index.point(Target::Own(slot), &self.slab);
        slot
    }

    /// Lets an entry's alias of a level lead to it. The alias must have no entry of its own.
    pub(crate) fn add_alias(&mut self, slot: Slot, level: u8) {
        self.index.point(Target::Alias { slot, level }, &self.slab);
    }

    /// Removes an entry and its aliases; the store removes it, too.
    pub(crate) fn remove(&mut self, slot: Slot) {
        let Some((key, _)) = self.entry(slot) else {
            return;
        };
        let key = *key;
        self.index.remove(Target::Own(slot), &self.slab);
        for level in 0..MAX_ALIASES {
            self.index.remove(Target::Alias { slot, level }, &self.slab);
        }
        self.slab.remove(slot);
        if let Some(journal) = &mut self.journal {
            journal.removed(slot);
        }
        self.gone(key);
    }

    /// Removes the entry of a key, and returns how many went: one or none.
    pub(crate) fn remove_key(&mut self, key: &K) -> usize {
        let Some(Target::Own(slot)) = self.find(key) else {
            return 0;
        };
        self.remove(slot);
        1
    }

    /// Notes that a key without an entry is to leave the store.
    pub(crate) fn note_gone(&mut self, key: K) {
        if !matches!(self.find(&key), Some(Target::Own(_))) {
            self.gone(key);
        }
    }

    /// Lets a key leave the store. A store that has not kept up with as many is to be written anew.
    fn gone(&mut self, key: K) {
        if let Some(journal) = &mut self.journal
            && !journal.gone(key)
        {
            journal.clear();
            self.mark_all_changed();
        }
    }

    /// Keeps the entries for whose keys `keep` holds, and returns how many went.
    pub(crate) fn retain(&mut self, keep: impl Fn(&K) -> bool) -> usize {
        let gone = self.slab.iter().filter(|(_, entry)| !keep(&entry.key));
        let gone: Vec<Slot> = gone.map(|(slot, _)| slot).collect();
        for slot in &gone {
            self.remove(*slot);
        }
        gone.len()
    }

    /// Empties it, and returns how many entries went.
    pub(crate) fn clear(&mut self) -> usize {
        self.index.clear();
        if let Some(journal) = &mut self.journal {
            journal.clear();
        }
        std::mem::take(&mut self.slab).len()
    }

    /// Changes values; `change` returns whether it changed one.
    pub(crate) fn each(&mut self, mut change: impl FnMut(&mut V) -> bool) {
        for (slot, entry) in self.slab.iter_mut() {
            if change(&mut entry.value)
                && let Some(journal) = &mut self.journal
            {
                journal.changed(slot);
            }
        }
    }

    /// Notes all entries as changed, for a store that has lost them.
    pub(crate) fn mark_all_changed(&mut self) {
        self.each(|_| true);
    }

    /// The number of changes since they were last drained.
    pub(crate) fn undrained(&self) -> usize {
        self.journal.as_ref().map_or(0, Journal::len)
    }

    /// The changes since they were last drained, in the order in which a store applies them. Changes
    /// that the iterator has not given when it is dropped come with the next one.
    pub(crate) fn drain_dirty(&mut self) -> impl Iterator<Item = Change<K, &V>> {
        let Self { slab, journal, .. } = self;
        let slab = &*slab;
        std::iter::from_fn(move || journal.as_mut()?.next(slab))
    }
}

/// Room for a client with its prefixes and their probes of each other.
const MIN_ENTRIES: usize = 16;
/// Slots are numbered in 30 bits.
const MAX_ENTRIES: usize = 1 << 30;
/// Most aliases of an entry.
const MAX_ALIASES: u8 = 2;

#[cfg(test)]
mod tests;
