use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{BoundedMap, Change, MAX_ALIASES, MapKey, TableConfig, Target};

impl<K: MapKey + std::fmt::Debug, V> BoundedMap<K, V> {
    /// Asserts that the map is within its bound and that its keys and entries lead to each other.
    pub(crate) fn assert_sound(&self) {
        assert!(self.len() <= self.capacity());
        assert_eq!(self.iter().count(), self.len());
        for (slot, entry) in self.slab.iter() {
            let found = self.find(&entry.key);
            assert_eq!(found, Some(Target::Own(slot)), "{:?}", entry.key);
        }
        for target in self.index.targets() {
            let key = target.key(&self.slab).expect("a target is an entry");
            assert_eq!(self.find(&key), Some(target), "{key:?}");
        }
    }
}

/// A key of the tests: hosts, of which 4 are a home and 16 a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    Host(u8),
    Home(u8),
    Site(u8),
}

impl MapKey for Place {
    fn alias(&self, level: u8) -> Option<Self> {
        match (self, level) {
            (Self::Host(host), 0) => Some(Self::Home(host / 4)),
            (Self::Host(host), 1) => Some(Self::Site(host / 16)),
            (Self::Home(home), 1) => Some(Self::Site(home / 4)),
            _ => None,
        }
    }
}

fn map(max_records: usize) -> BoundedMap<Place, u32> {
    BoundedMap::new(TableConfig {
        max_records,
        hash_key: [1, 2],
        journal: true,
    })
}

/// A map, and beside it the simple things that it must equal.
struct Pair {
    map: BoundedMap<Place, u32>,
    /// The values of the map's entries.
    values: BTreeMap<Place, u32>,
    /// The entries to which aliases lead.
    aliases: BTreeMap<Place, Place>,
    /// The records of a store that applies the changes.
    store: BTreeMap<Place, u32>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Change(Place),
    Insert { key: Place, pinned: Place },
    Use(Place, bool),
    Alias(Place, u8),
    Load(Place),
    Remove(Place),
    Gone(Place),
    Retain(u8),
    Each(u8),
    MarkAll,
    Clear,
    Drain(usize),
}

fn place() -> impl Strategy<Value = Place> {
    let host = any::<u8>().prop_map(Place::Host);
    let home = (0u8..64).prop_map(Place::Home);
    let site = (0u8..16).prop_map(Place::Site);
    prop_oneof![4 => host, 1 => home, 1 => site]
}

fn step() -> impl Strategy<Value = Step> {
    let pinned = (place(), place());
    prop_oneof![
        8 => place().prop_map(Step::Change),
        4 => pinned.prop_map(|(key, pinned)| Step::Insert { key, pinned }),
        8 => (place(), any::<bool>()).prop_map(|(key, returned)| Step::Use(key, returned)),
        4 => (place(), 0..MAX_ALIASES).prop_map(|(key, level)| Step::Alias(key, level)),
        1 => place().prop_map(Step::Load),
        1 => place().prop_map(Step::Remove),
        1 => place().prop_map(Step::Gone),
        1 => (0u8..8).prop_map(Step::Retain),
        1 => (0u8..8).prop_map(Step::Each),
        1 => Just(Step::MarkAll),
        1 => Just(Step::Clear),
        3 => (0usize..6).prop_map(Step::Drain),
    ]
}

impl Pair {
    fn new(max: usize) -> Self {
        Self {
            map: map(max),
            values: BTreeMap::new(),
            aliases: BTreeMap::new(),
            store: BTreeMap::new(),
        }
    }

    fn slot(&self, key: Place) -> Option<super::Slot> {
        match self.map.find(&key)? {
            Target::Own(slot) => Some(slot),
            Target::Alias { .. } => None,
        }
    }

    /// Takes a step with a value that is not used elsewhere.
    fn take(&mut self, step: Step, value: u32) {
        match step {
            Step::Change(key) => {
                *self.map.change_or_insert(key) = value;
                self.put(key, value);
            }
            Step::Insert { key, pinned } => {
                let pin = self.slot(pinned);
                if self.slot(key).is_none() {
                    let slot = self.map.insert(key, value, pin);
                    *self.map.change(slot).unwrap() = value;
                    self.put(key, value);
                    assert_eq!(self.slot(pinned), pin.or(self.slot(pinned)), "it is pinned");
                }
            }
            Step::Use(key, returned) => {
                if let Some(slot) = self.slot(key) {
                    self.map.used(slot, returned);
                }
            }
            Step::Alias(key, level) => self.add_alias(key, level),
            Step::Load(key) => {
                // The records of a store are loaded before there are changes.
                self.drain(usize::MAX);
                self.map.load(key, value);
                self.store.insert(key, value);
                self.put(key, value);
            }
            Step::Remove(key) => {
                let had = self.values.remove(&key).is_some();
                assert_eq!(self.map.remove_key(&key), usize::from(had));
            }
            Step::Gone(key) => self.map.note_gone(key),
            Step::Retain(of_eight) => {
                let keep = |key: &Place| key.number() % 8 != of_eight;
                let before = self.values.len();
                self.values.retain(|key, _| keep(key));
                assert_eq!(self.map.retain(keep), before - self.values.len());
            }
            Step::Each(of_eight) => {
                let change = |value: &mut u32| {
                    let changes = *value % 8 == u32::from(of_eight);
                    *value += if changes { 1_000_000 } else { 0 };
                    changes
                };
                for value in self.values.values_mut() {
                    change(value);
                }
                self.map.each(change);
            }
            Step::MarkAll => {
                self.store.clear();
                self.map.mark_all_changed();
            }
            Step::Clear => assert_eq!(self.map.clear(), std::mem::take(&mut self.values).len()),
            Step::Drain(limit) => self.drain(limit),
        }
    }

    /// Notes a value, and which entry made room for it.
    fn put(&mut self, key: Place, value: u32) {
        let was_full = self.values.len() == self.map.capacity();
        let is_new = self.values.insert(key, value).is_none();
        self.aliases.remove(&key);
        let kept: BTreeSet<Place> = self.map.iter().map(|(key, _)| *key).collect();
        let before = self.values.len();
        self.values.retain(|key, _| kept.contains(key));
        let evicted = before - self.values.len();
        assert_eq!(evicted, usize::from(was_full && is_new), "one for one");
    }

    fn add_alias(&mut self, key: Place, level: u8) {
        let alias = key.alias(level).filter(|alias| self.slot(*alias).is_none());
        if let (Some(slot), Some(alias)) = (self.slot(key), alias) {
            self.map.add_alias(slot, level);
            self.aliases.insert(alias, key);
        }
    }

    fn drain(&mut self, limit: usize) {
        for change in self.map.drain_dirty().take(limit) {
            match change {
                Change::Clear => self.store.clear(),
                Change::Remove(key) => drop(self.store.remove(&key)),
                Change::Put(key, value) => drop(self.store.insert(key, *value)),
            }
        }
    }

    fn check(&mut self) {
        self.map.assert_sound();
        let entries: BTreeMap<Place, u32> = self.map.iter().map(|(k, v)| (*k, *v)).collect();
        assert_eq!(entries, self.values);
        let Self { values, .. } = self;
        self.aliases.retain(|_, key| values.contains_key(key));
        for (alias, key) in &self.aliases {
            let found = self.map.find(alias).expect("it goes with its entry");
            assert!(found.is_alias(), "{alias:?}");
            assert_eq!(self.map.entry(found.slot()).unwrap().0, key, "{alias:?}");
            assert_eq!(self.map.get(alias), None);
        }
    }
}

impl Place {
    fn number(self) -> u8 {
        match self {
            Self::Host(number) | Self::Home(number) | Self::Site(number) => number,
        }
    }
}

proptest! {
    #[test]
    fn it_does_what_a_simple_map_and_its_store_do(
        max in 0usize..40,
        steps in proptest::collection::vec(step(), 0..400),
    ) {
        let mut pair = Pair::new(max);
        for (value, step) in (0..).zip(steps) {
            pair.take(step, value);
            pair.check();
        }
        pair.drain(usize::MAX);
        assert_eq!(pair.store, pair.values, "no change is lost, and each eviction is known");
        assert_eq!(pair.map.drain_dirty().next(), None, "each change is given once");
    }
}

/// The number of entries that come once before one goes that was used so, then at most at each.
#[test]
fn the_more_an_entry_is_used_the_longer_it_stays() {
    let newcomers_until_it_goes = |uses: &[bool]| {
        let mut map = map(16);
        let slot = map.insert(Place::Host(0), 0, None);
        uses.iter().for_each(|returned| map.used(slot, *returned));
        let newcomers = (1..=255).map(Place::Host);
        let stays = |key| {
            map.insert(key, 0, None);
            map.get(&Place::Host(0)).is_some()
        };
        newcomers.map(stays).take_while(|stays| *stays).count()
    };
    // Its uses: whether its user returned.
    let cases: &[(&str, &[bool], usize)] = &[
        ("not used", &[], 15),
        ("used", &[false], 30),
        ("used twice", &[false, false], 30),
        ("used, and back once", &[false, true], 45),
        ("back three times", &[true; 3], 60),
        ("back ever so often", &[true; 9], 60),
    ];
    for (name, uses, want) in cases {
        assert_eq!(newcomers_until_it_goes(uses), *want, "{name}");
    }
}

#[test]
fn the_pinned_entry_stays_though_all_others_are_used() {
    let mut map = map(16);
    let pinned = map.insert(Place::Host(0), 0, None);
    for host in 1..=255 {
        let slot = map.insert(Place::Host(host), 0, Some(pinned));
        (0..9).for_each(|_| map.used(slot, true));
        assert_eq!(
            map.find(&Place::Host(0)),
            Some(Target::Own(pinned)),
            "{host}"
        );
        assert_eq!(map.len(), 16.min(usize::from(host) + 1));
    }
}

#[test]
fn without_a_journal_nothing_is_noted() {
    let mut map: BoundedMap<Place, u32> = BoundedMap::new(TableConfig {
        max_records: 16,
        hash_key: [0, 0],
        journal: false,
    });
    (0..=255).for_each(|host| *map.change_or_insert(Place::Host(host)) = 1);
    map.note_gone(Place::Site(1));
    map.clear();
    assert_eq!(map.drain_dirty().next(), None);
}

#[test]
fn a_journal_that_nobody_reads_stays_small() {
    let mut map = map(16);
    for round in 0..100 {
        (0..=255).for_each(|host| *map.change_or_insert(Place::Host(host)) = round);
    }
    let undrained = map.undrained();
    let changes: Vec<_> = map.drain_dirty().collect();
    assert_eq!(undrained, changes.len());
    assert!(changes.len() <= 1 + 2 * 16, "{}", changes.len());
    assert_eq!(changes[0], Change::Clear, "the store is written anew");
    let there = changes
        .iter()
        .filter(|change| matches!(change, Change::Put(..)));
    assert_eq!(there.count(), 16, "what is there is not lost");
    assert_eq!(map.undrained(), 0);
}
