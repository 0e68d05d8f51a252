//! Results of former lookups, by request path.
//!
//! The number of entries is bounded. Stripes, by path, have a lock each, and a hit takes it shared
//! for one hash lookup. So cores seldom wait for each other, whether they serve one file or
//! several.

use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::RwLock;

/// A bounded map from request paths to `V`, with the age of each value.
///
/// Times are milliseconds since any fixed moment.
#[derive(Debug)]
pub(super) struct Cache<V> {
    hasher: DefaultHashBuilder,
    /// Made at the first use: most of thousands of sites may rest for long.
    stripes: OnceLock<Box<[RwLock<Stripe<V>>]>>,
    number_of_stripes: usize,
    capacity_of_stripe: usize,
    revalidate_ms: u64,
}

/// The cached value of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup<V> {
    /// There is none.
    Absent,
    /// The value is young enough to be used.
    Fresh(V),
    /// The value is due, and this caller is to compare it with the file system. Other callers use
    /// it until it is due again.
    Due(V),
}

impl<V: Clone> Cache<V> {
    /// Makes a cache of about `capacity` paths (none for 0), whose values are due after
    /// `revalidate`.
    pub(super) fn new(capacity: usize, revalidate: Duration) -> Self {
        let stripes = if capacity < 8 * STRIPES { 1 } else { STRIPES };
        Self {
            hasher: DefaultHashBuilder::default(),
            stripes: OnceLock::new(),
            number_of_stripes: stripes,
            capacity_of_stripe: capacity.div_ceil(stripes),
            revalidate_ms: u64::try_from(revalidate.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn lookup(&self, path: &str, now_ms: u64) -> Lookup<V> {
        let hash = self.hasher.hash_one(path);
        let stripe = self.stripe(hash).read();
        let Some(slot) = stripe.find(hash, path) else {
            return Lookup::Absent;
        };
        let Some(value) = slot.value.clone() else {
            return Lookup::Absent;
        };
        slot.mark_used();
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

    /// Returns the value of a path if it need not be compared with the file system now.
    pub(super) fn fresh(&self, path: &str, now_ms: u64) -> Option<V> {
        let hash = self.hasher.hash_one(path);
        let stripe = self.stripe(hash).read();
        let slot = stripe.find(hash, path)?;
        let age = now_ms.saturating_sub(slot.checked_ms.load(Relaxed));
        if age >= self.revalidate_ms {
            return None;
        }
        slot.mark_used();
        slot.value.clone()
    }

    /// Sets the value of a path that had none at `now_ms`, and returns it. If another caller has set one since,
    /// that one stays and is returned.
    pub(super) fn insert_first(&self, path: &str, value: V, now_ms: u64) -> V {
        self.put(path, value, now_ms, true)
    }

    /// Sets the value of a path.
    pub(super) fn insert(&self, path: &str, value: V, now_ms: u64) {
        self.put(path, value, now_ms, false);
    }

    /// Sets the value of a path, unless it has a young one that stays. Returns the value of the path.
    fn put(&self, path: &str, value: V, now_ms: u64, young_stays: bool) -> V {
        if self.capacity_of_stripe == 0 {
            return value;
        }
        let hash = self.hasher.hash_one(path);
        let mut stripe = self.stripe(hash).write();
        if let Some(slot) = stripe.find_mut(hash, path) {
            let age = now_ms.saturating_sub(*slot.checked_ms.get_mut());
            if let Some(there) = &slot.value
                && young_stays
                && age < self.revalidate_ms
            {
                return there.clone();
            }
            slot.value = Some(value.clone());
            slot.checked_ms = AtomicU64::new(now_ms);
            return value;
        }
        let slot = Slot {
            hash,
            path: path.into(),
            value: Some(value.clone()),
            is_used: AtomicBool::new(false),
            checked_ms: AtomicU64::new(now_ms),
        };
        stripe.insert(slot, self.capacity_of_stripe);
        value
    }

    /// Removes the value of a path that is no file any more.
    pub(super) fn remove(&self, path: &str) {
        let hash = self.hasher.hash_one(path);
        if let Some(slot) = self.stripe(hash).write().find_mut(hash, path) {
            slot.value = None;
            slot.is_used = AtomicBool::new(false);
        }
    }

    fn stripe(&self, hash: u64) -> &RwLock<Stripe<V>> {
        // The table takes the low and the highest bits of the hash.
        let bits = usize::try_from((hash >> 32) & 0xffff).unwrap_or(0);
        let number = self.number_of_stripes;
        let made = || (0..number).map(|_| RwLock::default()).collect();
        &self.stripes.get_or_init(made)[bits % number]
    }
}

/// The paths of one stripe. A full stripe evicts by the clock algorithm. The hand skips slots that
/// were used since its last visit, and takes the first other one.
#[derive(Debug)]
struct Stripe<V> {
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

impl<V> Slot<V> {
    /// Does not write a flag that is set already, so that cores keep sharing its cache line.
    fn mark_used(&self) {
        if !self.is_used.load(Relaxed) {
            self.is_used.store(true, Relaxed);
        }
    }
}

impl<V> Default for Stripe<V> {
    fn default() -> Self {
        Self {
            index: HashTable::new(),
            slots: Vec::new(),
            hand: 0,
        }
    }
}

impl<V> Stripe<V> {
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

    /// Takes a slot out of the index and returns its position.
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

const STRIPES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cache(capacity: usize) -> Cache<u32> {
        Cache::new(capacity, Duration::from_millis(1000))
    }

    #[test]
    fn one_caller_compares_and_the_others_go_on() {
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
    fn the_first_of_several_values_stays_while_it_is_young() {
        let cache = cache(16);
        assert_eq!(cache.insert_first("/a", 1, 0), 1);
        assert_eq!(cache.insert_first("/a", 2, 999), 1);
        assert_eq!(cache.lookup("/a", 999), Lookup::Fresh(1));
        assert_eq!(cache.insert_first("/a", 3, 1000), 3);
        cache.remove("/a");
        assert_eq!(cache.insert_first("/a", 4, 1001), 4);
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
            let stripes = cache.stripes.get().map_or(&[][..], |made| made);
            let held: usize = stripes.iter().map(|stripe| stripe.read().slots.len()).sum();
            let number = cache.number_of_stripes;
            prop_assert!(held <= capacity.div_ceil(number) * number);
            for stripe in stripes {
                prop_assert_eq!(stripe.read().index.len(), stripe.read().slots.len());
            }
        }
    }
}
