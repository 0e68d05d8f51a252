//! From keys to slots, in five bytes an entry.

use std::hash::Hash;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use siphasher::sip::SipHasher13;

use super::MapKey;
use super::slab::{Slab, Slot};

/// The entry that a key leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The key's own entry.
    Own(Slot),
    /// The entry of another key.
    Alias {
        /// The entry's slot.
        slot: Slot,
        /// Which of the entry's aliases the key is.
        level: u8,
    },
}

impl Target {
    pub(crate) const fn slot(self) -> Slot {
        match self {
            Self::Own(slot) | Self::Alias { slot, .. } => slot,
        }
    }

    pub(crate) const fn is_alias(self) -> bool {
        matches!(self, Self::Alias { .. })
    }

    const fn packed(self) -> u32 {
        match self {
            Self::Own(Slot(slot)) => slot,
            Self::Alias {
                slot: Slot(slot),
                level,
            } => slot | (level as u32 + 1) << SLOT_BITS,
        }
    }

    const fn unpacked(packed: u32) -> Self {
        let slot = Slot(packed & ((1 << SLOT_BITS) - 1));
        match packed >> SLOT_BITS {
            0 => Self::Own(slot),
            level => Self::Alias {
                slot,
                level: level as u8 - 1,
            },
        }
    }

    /// The key that leads here.
    pub(super) fn key<K: MapKey, V>(self, slab: &Slab<K, V>) -> Option<K> {
        let key = slab.get(self.slot())?.key;
        match self {
            Self::Own(_) => Some(key),
            Self::Alias { level, .. } => key.alias(level),
        }
    }
}

/// A hash table of packed [`Target`]s. Keys are read from the entries.
#[derive(Debug)]
pub(super) struct Index {
    targets: HashTable<u32>,
    hash_key: [u64; 2],
}

impl Index {
    pub(super) const fn new(hash_key: [u64; 2]) -> Self {
        Self {
            targets: HashTable::new(),
            hash_key,
        }
    }

    pub(super) fn find<K: MapKey, V>(&self, key: &K, slab: &Slab<K, V>) -> Option<Target> {
        let same = |packed: &u32| Target::unpacked(*packed).key(slab).as_ref() == Some(key);
        self.targets
            .find(hash(key, self.hash_key), same)
            .map(|packed| Target::unpacked(*packed))
    }

    /// Lets the key of a target lead to it, and no longer anywhere else. Its entry must be in its slot.
    pub(super) fn point<K: MapKey, V>(&mut self, target: Target, slab: &Slab<K, V>) {
        let hash_key = self.hash_key;
        let Some(key) = target.key(slab) else { return };
        let same = |packed: &u32| Target::unpacked(*packed).key(slab) == Some(key);
        // A target without a key cannot be found again, wherever it is.
        let rehash = |packed: &u32| {
            let key = Target::unpacked(*packed).key(slab);
            key.map_or(0, |key| hash(&key, hash_key))
        };
        match self.targets.entry(hash(&key, hash_key), same, rehash) {
            Entry::Occupied(mut entry) => *entry.get_mut() = target.packed(),
            Entry::Vacant(entry) => drop(entry.insert(target.packed())),
        }
    }

    /// Removes a target, if any key leads to it. Its entry must still be in its slot.
    pub(super) fn remove<K: MapKey, V>(&mut self, target: Target, slab: &Slab<K, V>) {
        let Some(key) = target.key(slab) else { return };
        let same = |packed: &u32| *packed == target.packed();
        if let Ok(entry) = self.targets.find_entry(hash(&key, self.hash_key), same) {
            entry.remove();
        }
    }

    #[cfg(test)]
    pub(super) fn targets(&self) -> impl Iterator<Item = Target> {
        self.targets.iter().map(|packed| Target::unpacked(*packed))
    }

    pub(super) fn clear(&mut self) {
        self.targets = HashTable::new();
    }
}

/// SipHash-1-3: clients choose their addresses within a prefix, and must not find collisions.
fn hash(key: &impl Hash, [k0, k1]: [u64; 2]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(k0, k1);
    key.hash(&mut hasher);
    std::hash::Hasher::finish(&hasher)
}

const SLOT_BITS: u32 = 30;
