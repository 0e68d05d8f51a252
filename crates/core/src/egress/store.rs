//! A map of bounded size, and its changes.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

/// A hash map that holds at most so many entries. In a full one, a new entry replaces one that was not
/// used since the hand last passed. See CLOCK: Corbato, "A paging experiment with the Multics system",
/// 1968.
#[derive(Debug)]
pub(super) struct Store<K, V> {
    /// Places in `entries`.
    index: HashTable<u32>,
    entries: Vec<Entry<K, V>>,
    /// The entry that eviction looks at next.
    hand: usize,
    hash_key: [u64; 2],
    max: usize,
    journal: Option<Journal<K>>,
}

/// The changes since they were last asked for.
#[derive(Debug)]
struct Journal<K> {
    /// Everything went before the following changes.
    cleared: bool,
    /// Keys that came, changed or went.
    keys: VecDeque<K>,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    value: V,
    /// Since the hand passed. A new one is not: a flood of keys that come once evicts itself first.
    used: bool,
    /// Among the journal's keys.
    noted: bool,
}

impl<K: Copy + Eq + Hash, V: Default> Store<K, V> {
    /// `hash_key` is a secret that keeps clients from choosing keys that collide. `max` is at least 1 and
    /// below 2^32. With a `journal` changes are noted for [`Store::next_change`].
    pub(super) fn new(max: usize, hash_key: [u64; 2], journal: bool) -> Self {
        Self {
            index: HashTable::new(),
            entries: Vec::new(),
            hand: 0,
            hash_key,
            max,
            journal: journal.then(|| Journal {
                cleared: false,
                keys: VecDeque::new(),
            }),
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

    /// All keys with their values, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|entry| (&entry.key, &entry.value))
    }

    /// A key's value, which is used and changed, or made.
    pub(super) fn entry(&mut self, key: K) -> &mut V {
        let place = match self.place(&key) {
            Some(place) => {
                self.entries[place].used = true;
                place
            }
            None => self.insert(key),
        };
        self.note(place);
        &mut self.entries[place].value
    }

    /// Puts a value that is no change.
    pub(super) fn load(&mut self, key: K, value: V) {
        let place = self.place(&key).unwrap_or_else(|| self.insert(key));
        self.entries[place].value = value;
    }

    /// Notes that a key which has no entry is to go.
    pub(super) fn note_gone(&mut self, key: K) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        journal.keys.push_back(key);
        if journal.keys.len() > 2 * self.max {
            // Who does not keep up keeps a record too many, and loses it when it is loaded into a full
            // table.
            let noted = self.entries.iter().filter(|entry| entry.noted);
            journal.keys = noted.map(|entry| entry.key).collect();
        }
    }

    fn note(&mut self, place: usize) {
        let entry = &mut self.entries[place];
        if let Some(journal) = &mut self.journal
            && !std::mem::replace(&mut entry.noted, true)
        {
            journal.keys.push_back(entry.key);
        }
    }

    /// Whether everything went since this was last asked, which comes before all other changes.
    pub(super) fn was_cleared(&mut self) -> bool {
        let journal = self.journal.as_mut();
        journal.is_some_and(|journal| std::mem::take(&mut journal.cleared))
    }

    /// A key that came, changed or, without a value, went.
    pub(super) fn next_change(&mut self) -> Option<(K, Option<&V>)> {
        loop {
            let key = self.journal.as_mut()?.keys.pop_front()?;
            let Some(place) = self.place(&key) else {
                return Some((key, None));
            };
            // It may be there twice: it went and came again.
            if std::mem::take(&mut self.entries[place].noted) {
                return Some((key, Some(&self.entries[place].value)));
            }
        }
    }

    /// Empties it, and returns how many went.
    pub(super) fn clear(&mut self) -> usize {
        if let Some(journal) = &mut self.journal {
            journal.keys.clear();
            journal.cleared = true;
        }
        self.hand = 0;
        self.index = HashTable::new();
        std::mem::take(&mut self.entries).len()
    }

    /// Changes values; `change` returns whether it changed one.
    pub(super) fn each(&mut self, mut change: impl FnMut(&mut V) -> bool) {
        for place in 0..self.entries.len() {
            if change(&mut self.entries[place].value) {
                self.note(place);
            }
        }
    }

    /// Keeps the entries for which `keep` holds, and returns how many went.
    pub(super) fn retain(&mut self, keep: impl Fn(&K) -> bool) -> usize {
        let gone = self.entries.extract_if(.., |entry| !keep(&entry.key));
        let gone: Vec<K> = gone.map(|entry| entry.key).collect();
        if !gone.is_empty() {
            self.hand = 0;
            self.index = HashTable::new();
            for place in 0..self.entries.len() {
                self.point_to(place);
            }
        }
        for key in &gone {
            self.note_gone(*key);
        }
        gone.len()
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
            noted: false,
        };
        let place = if self.entries.len() < self.max {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let victim = self.victim();
            self.forget(victim);
            let evicted = std::mem::replace(&mut self.entries[victim], entry);
            self.note_gone(evicted.key);
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
    fn a_full_one_keeps_used_entries() {
        let mut store: Store<u32, u32> = Store::new(8, [1, 2], false);
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

    /// All changes: whether everything went, then keys with their values.
    fn changes(store: &mut Store<u32, u32>) -> (bool, Vec<(u32, Option<u32>)>) {
        let cleared = store.was_cleared();
        let mut keys = Vec::new();
        while let Some((key, value)) = store.next_change() {
            keys.push((key, value.copied()));
        }
        (cleared, keys)
    }

    #[test]
    fn changes_are_noted_once() {
        let mut store: Store<u32, u32> = Store::new(2, [1, 2], true);
        *store.entry(1) = 10;
        *store.entry(1) = 11;
        store.load(2, 20);
        assert_eq!(changes(&mut store), (false, vec![(1, Some(11))]));
        *store.entry(3) = 30;
        let (_, changed) = changes(&mut store);
        assert_eq!(changed.len(), 2, "one made room: {changed:?}");
        assert_eq!(changed[0].1, None);
        assert_eq!(changed[1], (3, Some(30)));
        store.retain(|_| false);
        *store.entry(3) = 31;
        assert_eq!(changes(&mut store).1.last(), Some(&(3, Some(31))));
        store.clear();
        *store.entry(4) = 40;
        assert_eq!(changes(&mut store), (true, vec![(4, Some(40))]));
        assert_eq!(changes(&mut store), (false, vec![]));
    }

    #[test]
    fn a_journal_that_nobody_reads_stays_small() {
        let mut store: Store<u32, u32> = Store::new(8, [1, 2], true);
        for key in 0..1000 {
            *store.entry(key) = key;
        }
        let (_, changed) = changes(&mut store);
        assert!(changed.len() <= 17, "{}", changed.len());
        let there = changed.iter().filter(|(_, value)| value.is_some());
        assert_eq!(there.count(), 8, "what is there is not lost");
    }

    #[test]
    fn entries_not_retained_are_gone_and_the_rest_is_found() {
        let mut store: Store<u32, u32> = Store::new(100, [1, 2], false);
        for key in 0..150 {
            *store.entry(key) = key;
        }
        let odd = store.retain(|key| key % 2 == 0);
        assert_eq!(odd + store.len(), 100);
        for key in 50..150 {
            let kept = store.get(&key).copied();
            assert_eq!(kept, (key % 2 == 0).then_some(key), "{key}");
        }
    }
}
