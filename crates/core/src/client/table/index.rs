//! From keys to slots, in five bytes an entry.

use std::hash::Hasher;
use std::net::IpAddr;

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use super::slab::Slab;
use crate::client::key::{Key, prefixes};

/// What a key leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The key's own record.
    Record(u32),
    /// The record of the only client, or the only smaller prefix, in a prefix.
    Alias {
        /// The record's slot.
        slot: u32,
        /// Which of the record's prefixes the key is: 0 for the nearest.
        level: u8,
    },
}

impl Target {
    pub(super) const fn slot(self) -> u32 {
        match self {
            Self::Record(slot) | Self::Alias { slot, .. } => slot,
        }
    }

    pub(super) const fn is_alias(self) -> bool {
        matches!(self, Self::Alias { .. })
    }

    const fn packed(self) -> u32 {
        match self {
            Self::Record(slot) => slot,
            Self::Alias { slot, level } => slot | (level as u32 + 1) << SLOT_BITS,
        }
    }

    const fn unpacked(packed: u32) -> Self {
        let slot = packed & ((1 << SLOT_BITS) - 1);
        match packed >> SLOT_BITS {
            0 => Self::Record(slot),
            level => Self::Alias {
                slot,
                level: level as u8 - 1,
            },
        }
    }

    /// The key that leads here.
    pub(super) fn key(self, slab: &Slab) -> Option<Key> {
        let key = slab.get(self.slot())?.key;
        match self {
            Self::Record(_) => Some(key),
            Self::Alias { level, .. } => prefixes(key.first()).nth(level.into()).map(Key::Prefix),
        }
    }
}

/// A hash table of packed [`Target`]s. Keys are read from the records.
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

    pub(super) fn find(&self, key: &Key, slab: &Slab) -> Option<Target> {
        let same = |packed: &u32| Target::unpacked(*packed).key(slab).as_ref() == Some(key);
        self.targets
            .find(hash(key, self.hash_key), same)
            .map(|packed| Target::unpacked(*packed))
    }

    /// Adds a target whose key is not in the table. Its record must be in its slot.
    pub(super) fn insert(&mut self, target: Target, slab: &Slab) {
        let hash_key = self.hash_key;
        // A target without a key cannot be found again and is not inserted.
        let hash_of = |target: Target| target.key(slab).map(|key| hash(&key, hash_key));
        if let Some(hash) = hash_of(target) {
            let rehash = |packed: &u32| hash_of(Target::unpacked(*packed)).unwrap_or_default();
            self.targets.insert_unique(hash, target.packed(), rehash);
        }
    }

    /// Removes a target. Its record must still be in its slot.
    pub(super) fn remove(&mut self, target: Target, slab: &Slab) {
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
fn hash(key: &Key, [k0, k1]: [u64; 2]) -> u64 {
    let (addr, len) = match key {
        Key::Address(addr) => (*addr, u8::MAX),
        Key::Prefix(prefix) => (prefix.network(), prefix.prefix_len()),
    };
    let mut hasher = SipHasher13::new_with_keys(k0, k1);
    match addr {
        IpAddr::V4(addr) => hasher.write_u32(addr.to_bits()),
        IpAddr::V6(addr) => hasher.write(&addr.octets()),
    }
    hasher.write_u8(len);
    hasher.finish()
}

const SLOT_BITS: u32 = 30;
