//! The responses of the store, and their order of eviction.
//!
//! SIEVE (Zhang et al., NSDI 2024) decides: a queue by the time of arrival, and a hand that goes from old to
//! new. It spares a response that was used since its last visit, and evicts the first other one. So
//! responses of a single use leave soon, and a use is one flag.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::purge::Purge;

/// The facts of a stored response that need no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) key: [u8; 32],
    pub(super) id: u64,
    /// Bytes on disk.
    pub(super) size: u64,
    pub(super) url: Box<str>,
    pub(super) tags: Box<[Box<str>]>,
    /// Whether its body is known to be whole.
    pub(super) is_checked: bool,
}

/// The records, each at a position that stays.
#[derive(Debug, Default)]
pub(super) struct Index {
    hasher: DefaultHashBuilder,
    by_key: HashTable<usize>,
    places: Vec<Place>,
    free: Vec<usize>,
    newest: Option<usize>,
    oldest: Option<usize>,
    hand: Option<usize>,
    bytes: u64,
}

#[derive(Debug)]
struct Place {
    record: Option<Record>,
    is_used: bool,
    newer: Option<usize>,
    older: Option<usize>,
}

/// The end of the queue at which a record comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Newest,
    Oldest,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Bytes on disk of all records.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn get(&self, key: &[u8; 32]) -> Option<&Record> {
        self.places[self.find(key)?].record.as_ref()
    }

    pub(super) fn get_mut(&mut self, key: &[u8; 32]) -> Option<&mut Record> {
        let at = self.find(key)?;
        self.places[at].record.as_mut()
    }

    /// Returns a record that is used now.
    pub(super) fn touch(&mut self, key: &[u8; 32]) -> Option<&Record> {
        let at = self.find(key)?;
        let place = &mut self.places[at];
        place.is_used = true;
        place.record.as_ref()
    }

    /// Takes a record in, in the place of another one of its key.
    pub(super) fn insert(&mut self, record: Record, end: End) {
        self.remove(&record.key);
        let hash = self.hasher.hash_one(record.key);
        self.bytes += record.size;
        let place = Place {
            record: Some(record),
            is_used: false,
            newer: None,
            older: None,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.places[at] = place;
                at
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        };
        self.link(at, end);
        let (places, hasher) = (&self.places, &self.hasher);
        let hash_of = |&at: &usize| match &places[at].record {
            Some(record) => hasher.hash_one(record.key),
            None => 0,
        };
        self.by_key.insert_unique(hash, at, hash_of);
    }

    pub(super) fn remove(&mut self, key: &[u8; 32]) -> Option<Record> {
        let at = self.find(key)?;
        self.take(at)
    }

    /// Takes out the record that is the least worth.
    pub(super) fn evict(&mut self) -> Option<Record> {
        let mut at = self.hand.or(self.oldest)?;
        while std::mem::take(&mut self.places[at].is_used) {
            at = self.places[at].newer.or(self.oldest)?;
        }
        self.hand = Some(at);
        self.take(at)
    }

    /// Takes out the records that a purge hits, among `count` positions from `from` on. Returns `None`
    /// for the records if there are no such positions any more.
    pub(super) fn purge(&mut self, what: &Purge, from: usize, count: usize) -> Option<Vec<Record>> {
        let to = self.places.len().min(from.saturating_add(count));
        let hit = |&at: &usize| {
            let record = self.places[at].record.as_ref();
            record.is_some_and(|record| what.hits(&record.url, &record.tags))
        };
        let hits: Vec<usize> = (from..to).filter(hit).collect();
        (from < to).then(|| hits.into_iter().filter_map(|at| self.take(at)).collect())
    }

    fn find(&self, key: &[u8; 32]) -> Option<usize> {
        let is_key = |&at: &usize| {
            let record = self.places[at].record.as_ref();
            record.is_some_and(|record| record.key == *key)
        };
        let hash = self.hasher.hash_one(key);
        self.by_key.find(hash, is_key).copied()
    }

    fn take(&mut self, at: usize) -> Option<Record> {
        let record = self.places[at].record.take()?;
        let hash = self.hasher.hash_one(record.key);
        if let Ok(entry) = self.by_key.find_entry(hash, |&found| found == at) {
            entry.remove();
        }
        self.bytes -= record.size;
        self.unlink(at);
        self.free.push(at);
        Some(record)
    }

    fn link(&mut self, at: usize, end: End) {
        match end {
            End::Newest => {
                self.places[at].older = self.newest;
                match self.newest.replace(at) {
                    Some(before) => self.places[before].newer = Some(at),
                    None => self.oldest = Some(at),
                }
            }
            End::Oldest => {
                self.places[at].newer = self.oldest;
                match self.oldest.replace(at) {
                    Some(before) => self.places[before].older = Some(at),
                    None => self.newest = Some(at),
                }
            }
        }
    }

    fn unlink(&mut self, at: usize) {
        let (newer, older) = (self.places[at].newer, self.places[at].older);
        match newer {
            Some(newer) => self.places[newer].older = older,
            None => self.newest = older,
        }
        match older {
            Some(older) => self.places[older].newer = newer,
            None => self.oldest = newer,
        }
        if self.hand == Some(at) {
            self.hand = newer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(key: u8, size: u64) -> Record {
        Record {
            key: [key; 32],
            id: 0,
            size,
            url: format!("https://a/{key}").into(),
            tags: [format!("t{}", key % 3).into()].into(),
            is_checked: true,
        }
    }

    fn evicted(index: &mut Index) -> Vec<u8> {
        std::iter::from_fn(|| index.evict().map(|record| record.key[0])).collect()
    }

    #[test]
    fn the_oldest_that_was_not_used_leaves_first() {
        let mut index = Index::default();
        for key in 1..=4 {
            index.insert(record(key, 1), End::Newest);
        }
        index.insert(record(9, 1), End::Oldest);
        index.touch(&[1; 32]);
        index.touch(&[3; 32]);
        assert_eq!(evicted(&mut index), [9, 2, 4, 1, 3]);
        assert_eq!((index.len(), index.bytes()), (0, 0));
    }

    #[test]
    fn what_is_used_outlives_a_scan() {
        let mut index = Index::default();
        for key in 0..8 {
            index.insert(record(key, 1), End::Newest);
        }
        for once in 100..200 {
            index.touch(&[3; 32]);
            index.evict();
            index.insert(record(once, 1), End::Newest);
        }
        assert!(index.get(&[3; 32]).is_some());
        assert_eq!(index.len(), 8);
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(
            steps in prop::collection::vec((0_u8..5, any::<u8>(), 1_u64..99), 0..400),
        ) {
            let mut index = Index::default();
            let mut model = std::collections::BTreeMap::new();
            for (action, key, size) in steps {
                match action {
                    0 => {
                        index.insert(record(key, size), End::Newest);
                        model.insert(key, size);
                    }
                    1 => {
                        index.insert(record(key, size), End::Oldest);
                        model.insert(key, size);
                    }
                    2 => {
                        let removed = index.remove(&[key; 32]).map(|record| record.size);
                        prop_assert_eq!(removed, model.remove(&key));
                    }
                    3 => {
                        let touched = index.touch(&[key; 32]).map(|record| record.size);
                        prop_assert_eq!(touched, model.get(&key).copied());
                    }
                    _ => {
                        let gone = index.evict().map(|record| (record.key[0], record.size));
                        let known = gone.and_then(|(key, _)| model.remove_entry(&key));
                        prop_assert_eq!(gone, known);
                        prop_assert!(gone.is_some() || model.is_empty());
                    }
                }
                prop_assert_eq!(index.len(), model.len());
                prop_assert_eq!(index.bytes(), model.values().sum::<u64>());
            }
            let tag = Purge::Tag("t1".into());
            let hit = index.purge(&tag, 0, usize::MAX).unwrap_or_default().len();
            prop_assert_eq!(hit, model.keys().filter(|&key| key % 3 == 1).count());
            prop_assert_eq!(evicted(&mut index).len(), model.len() - hit);
        }
    }
}
