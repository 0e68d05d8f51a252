//! A map of bounded size.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

/// A hash map that holds at most so many entries. Of a full one, a new entry replaces one that was not
/// used since the hand last passed (CLOCK: Corbato, "A paging experiment with the Multics system", 1968).
#[derive(Debug)]
pub(super) struct Store<K, V> {
    /// Places in `entries`.
    index: HashTable<u32>,
    entries: Vec<Entry<K, V>>,
    /// The entry that eviction looks at next.
    hand: usize,
    hash_key: [u64; 2],
    max: usize,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    value: V,
    /// Since the hand passed. A new one is not: a flood of keys that come once evicts itself first.
    used: bool,
}

impl<K: Copy + Eq + Hash, V: Default> Store<K, V> {
    /// `hash_key` is a secret that keeps clients from choosing keys that collide. `max` is at least 1 and
    /// below 2^32.
    pub(super) const fn new(max: usize, hash_key: [u64; 2]) -> Self {
        Self {
            index: HashTable::new(),
            entries: Vec::new(),
            hand: 0,
            hash_key,
            max,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) const fn capacity(&self) -> usize {
        self.max
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let place = self.place(key)?;
        Some(&self.entries[place].value)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.place(key)?;
        Some(&mut self.entries[place].value)
    }

    /// A key's value, which counts as a use, or is made.
    pub(super) fn entry(&mut self, key: K) -> &mut V {
        let place = match self.place(&key) {
            Some(place) => {
                self.entries[place].used = true;
                place
            }
            None => self.insert(key),
        };
        &mut self.entries[place].value
    }

    /// Keeps the entries for which `keep` holds, and returns how many went.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) -> usize {
        let before = self.entries.len();
        self.entries
            .retain_mut(|entry| keep(&entry.key, &mut entry.value));
        if self.entries.len() < before {
            self.hand = 0;
            self.index = HashTable::new();
            for place in 0..self.entries.len() {
                self.point_to(place);
            }
        }
        before - self.entries.len()
    }

    fn place(&self, key: &K) -> Option<usize> {
        let same = |place: &u32| self.entries[*place as usize].key == *key;
        let place = self.index.find(hash(key, self.hash_key), same)?;
        Some(*place as usize)
    }

    fn insert(&mut self, key: K) -> usize {
        let entry = Entry {
            key,
            value: V::default(),
            used: false,
        };
        let place = if self.entries.len() < self.max {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let victim = self.victim();
            self.forget(victim);
            self.entries[victim] = entry;
            victim
        };
        self.point_to(place);
        place
    }

    /// An entry that was not used for a turn of the hand.
    fn victim(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (place + 1) % self.entries.len();
            if !std::mem::take(&mut self.entries[place].used) {
                return place;
            }
        }
    }

    fn forget(&mut self, place: usize) {
        let hash = hash(&self.entries[place].key, self.hash_key);
        let same = |other: &u32| *other as usize == place;
        if let Ok(entry) = self.index.find_entry(hash, same) {
            entry.remove();
        }
    }

    fn point_to(&mut self, place: usize) {
        let Self {
            index,
            entries,
            hash_key,
            ..
        } = self;
        let hash_of = |place: &u32| hash(&entries[*place as usize].key, *hash_key);
        let place = place as u32;
        index.insert_unique(hash_of(&place), place, hash_of);
    }
}

fn hash<K: Hash>(key: &K, [k0, k1]: [u64; 2]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(k0, k1);
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::Store;

    #[test]
    fn a_full_one_keeps_what_is_used() {
        let mut store: Store<u32, u32> = Store::new(8, [1, 2]);
        for key in 0..8 {
            *store.entry(key) = key + 1;
        }
        for key in 8..1000 {
            // Two that are used all the time, among keys that come once.
            for used in [0, 1] {
                assert_eq!(*store.entry(used), used + 1);
            }
            *store.entry(key) = key + 1;
            assert_eq!(store.len(), 8);
            assert_eq!(store.get(&key), Some(&(key + 1)));
        }
        assert_eq!(store.get(&2), None);
    }

    #[test]
    fn what_is_not_retained_is_gone_and_the_rest_is_found() {
        let mut store: Store<u32, u32> = Store::new(100, [1, 2]);
        for key in 0..150 {
            *store.entry(key) = key;
        }
        let odd = store.retain(|key, _| key % 2 == 0);
        assert_eq!(odd + store.len(), 100);
        for key in 50..150 {
            let kept = store.get(&key).copied();
            assert_eq!(kept, (key % 2 == 0).then_some(key), "{key}");
        }
    }
}
