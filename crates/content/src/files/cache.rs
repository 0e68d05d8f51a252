//! Files by request path, as they were found last.
//!
//! Bounded in entries. Sharded by path, and a hit takes a shared lock for the
//! length of one hash lookup, so that cores that serve different files, and
//! mostly those that serve the same one, do not wait for each other.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::RwLock;

/// A bounded map from request paths to `V`, with the age of what it holds.
///
/// Times are milliseconds since any fixed moment.
#[derive(Debug)]
pub(super) struct Cache<V> {
    hasher: DefaultHashBuilder,
    shards: Box<[RwLock<Shard<V>>]>,
    capacity_of_shard: usize,
    revalidate_ms: u64,
}

/// What is known of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup<V> {
    /// Nothing.
    Absent,
    /// Known and young enough to be used.
    Fresh(V),
    /// Known, and for this caller to compare with the file system: until it is
    /// due again everybody else uses what is there.
    Due(V),
}

impl<V: Clone> Cache<V> {
    /// Holds about `capacity` paths (none for 0), to be compared again after `revalidate`.
    pub(super) fn new(capacity: usize, revalidate: Duration) -> Self {
        let shards = if capacity < 8 * SHARDS { 1 } else { SHARDS };
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: (0..shards).map(|_| RwLock::default()).collect(),
            capacity_of_shard: capacity.div_ceil(shards),
            revalidate_ms: u64::try_from(revalidate.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn lookup(&self, path: &str, now_ms: u64) -> Lookup<V> {
        let hash = self.hasher.hash_one(path);
        let shard = self.shard(hash).read();
        let Some(slot) = shard.find(hash, path) else {
            return Lookup::Absent;
        };
        let Some(value) = slot.value.clone() else {
            return Lookup::Absent;
        };
        // Not written where it is set already: the line stays shared between cores.
        if !slot.is_used.load(Relaxed) {
            slot.is_used.store(true, Relaxed);
        }
        let checked = slot.checked_ms.load(Relaxed);
        if now_ms.saturating_sub(checked) < self.revalidate_ms {
            return Lookup::Fresh(value);
        }
        let claim = slot
            .checked_ms
            .compare_exchange(checked, now_ms, Relaxed, Relaxed);
        match claim {
            Ok(_) => Lookup::Due(value),
            Err(_) => Lookup::Fresh(value),
        }
    }

    /// Keeps what a path is now, in place of what was known of it.
    pub(super) fn insert(&self, path: &str, value: V, now_ms: u64) {
        if self.capacity_of_shard == 0 {
            return;
        }
        let hash = self.hasher.hash_one(path);
        let mut shard = self.shard(hash).write();
        if let Some(slot) = shard.find_mut(hash, path) {
            slot.value = Some(value);
            slot.checked_ms = AtomicU64::new(now_ms);
            return;
        }
        let slot = Slot {
            hash,
            path: path.into(),
            value: Some(value),
            is_used: AtomicBool::new(false),
            checked_ms: AtomicU64::new(now_ms),
        };
        shard.insert(slot, self.capacity_of_shard);
    }

    /// Forgets a path that is no file any more.
    pub(super) fn remove(&self, path: &str) {
        let hash = self.hasher.hash_one(path);
        if let Some(slot) = self.shard(hash).write().find_mut(hash, path) {
            slot.value = None;
            slot.is_used = AtomicBool::new(false);
        }
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard<V>> {
        // The table takes the low and the highest bits.
        let bits = usize::try_from((hash >> 32) & 0xffff).unwrap_or(0);
        &self.shards[bits % self.shards.len()]
    }
}

/// Paths of one shard. A full one evicts by the clock algorithm: the hand passes
/// over slots that were used since it came by, and takes the first that was not.
#[derive(Debug)]
struct Shard<V> {
    /// Positions in `slots`.
    index: HashTable<usize>,
    slots: Vec<Slot<V>>,
    hand: usize,
}

#[derive(Debug)]
struct Slot<V> {
    hash: u64,
    path: Box<str>,
    /// Empty once the path was no file any more.
    value: Option<V>,
    is_used: AtomicBool,
    checked_ms: AtomicU64,
}

impl<V> Default for Shard<V> {
    fn default() -> Self {
        Self {
            index: HashTable::new(),
            slots: Vec::new(),
            hand: 0,
        }
    }
}

impl<V> Shard<V> {
    fn find(&self, hash: u64, path: &str) -> Option<&Slot<V>> {
        let is_path = |&position: &usize| *self.slots[position].path == *path;
        let position = self.index.find(hash, is_path)?;
        Some(&self.slots[*position])
    }

    fn find_mut(&mut self, hash: u64, path: &str) -> Option<&mut Slot<V>> {
        let is_path = |&position: &usize| *self.slots[position].path == *path;
        let position = *self.index.find(hash, is_path)?;
        Some(&mut self.slots[position])
    }

    fn insert(&mut self, slot: Slot<V>, capacity: usize) {
        let hash = slot.hash;
        let position = if self.slots.len() < capacity {
            self.slots.push(slot);
            self.slots.len() - 1
        } else {
            let position = self.evict();
            self.slots[position] = slot;
            position
        };
        let slots = &self.slots;
        self.index
            .insert_unique(hash, position, |&position| slots[position].hash);
    }

    /// Takes a slot out of the index and gives its position.
    fn evict(&mut self) -> usize {
        loop {
            let position = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[position];
            if std::mem::take(slot.is_used.get_mut()) {
                continue;
            }
            if let Ok(entry) = self.index.find_entry(slot.hash, |&found| found == position) {
                entry.remove();
            }
            return position;
        }
    }
}

const SHARDS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cache(capacity: usize) -> Cache<u32> {
        Cache::new(capacity, Duration::from_millis(1000))
    }

    #[test]
    fn one_caller_is_told_to_compare_and_the_others_go_on() {
        let cache = cache(16);
        cache.insert("/a", 1, 5000);
        let cases = [
            ("young", 5999, Lookup::Fresh(1)),
            ("due", 6000, Lookup::Due(1)),
            ("claimed by the one before", 6001, Lookup::Fresh(1)),
            ("due again", 7000, Lookup::Due(1)),
            ("clock behind", 100, Lookup::Fresh(1)),
        ];
        for (name, now, want) in cases {
            assert_eq!(cache.lookup("/a", now), want, "{name}");
        }
        assert_eq!(cache.lookup("/b", 0), Lookup::Absent);
    }

    #[test]
    fn a_changed_path_is_replaced_and_a_vanished_one_forgotten() {
        let cache = cache(16);
        cache.insert("/a", 1, 0);
        cache.insert("/a", 2, 500);
        assert_eq!(cache.lookup("/a", 1499), Lookup::Fresh(2));
        cache.remove("/a");
        assert_eq!(cache.lookup("/a", 1499), Lookup::Absent);
        cache.insert("/a", 3, 2000);
        assert_eq!(cache.lookup("/a", 2000), Lookup::Fresh(3));
    }

    #[test]
    fn used_paths_outlive_unused_ones() {
        let cache = cache(4);
        for (path, value) in [("/a", 1), ("/b", 2), ("/c", 3), ("/d", 4)] {
            cache.insert(path, value, 0);
        }
        for round in 0..100 {
            assert_eq!(cache.lookup("/a", 0), Lookup::Fresh(1), "round {round}");
            cache.insert(&format!("/once/{round}"), 0, 0);
        }
        assert_eq!(cache.lookup("/b", 0), Lookup::Absent);
    }

    #[test]
    fn no_capacity_keeps_nothing() {
        let cache = cache(0);
        cache.insert("/a", 1, 0);
        assert_eq!(cache.lookup("/a", 0), Lookup::Absent);
    }

    proptest! {
        #[test]
        fn it_never_lies_and_never_grows(
            capacity in 1_usize..2000,
            steps in prop::collection::vec((0_u8..3, 0_u32..300), 0..2000),
        ) {
            let cache = cache(capacity);
            let mut model = std::collections::HashMap::new();
            for (step, (action, key)) in steps.into_iter().enumerate() {
                let path = format!("/{key}");
                match action {
                    0 => {
                        cache.insert(&path, step as u32, 0);
                        model.insert(key, step as u32);
                    }
                    1 => {
                        cache.remove(&path);
                        model.remove(&key);
                    }
                    _ => if let Lookup::Fresh(value) = cache.lookup(&path, 0) {
                        prop_assert_eq!(model.get(&key), Some(&value));
                    },
                }
            }
            let held: usize = cache.shards.iter().map(|shard| shard.read().slots.len()).sum();
            prop_assert!(held <= capacity.div_ceil(cache.shards.len()) * cache.shards.len());
            for shard in &cache.shards {
                prop_assert_eq!(shard.read().index.len(), shard.read().slots.len());
            }
        }
    }
}
