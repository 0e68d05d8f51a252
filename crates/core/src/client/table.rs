//! The estimates of all clients and their prefixes, in bounded memory.
//!
//! A prefix gets a record of its own with its second client. Until then the index leads from the prefix
//! to its only client's record, which holds the very same knowledge, and likewise from a /48 to its only
//! /56; so a million clients of a million prefixes cost a million records.
//!
//! When the table is full, a generalised CLOCK (Smith, "Sequentiality and prefetching in database
//! systems", TODS 1978) evicts a record that was not used since the hand last passed, and only later one
//! whose client returned. A table belongs to one thread; [`stripe_of`](crate::client::key::stripe_of) spreads
//! clients over several.

mod index;
mod journal;
mod lesson;
mod slab;

use std::net::IpAddr;
use std::sync::Arc;

use crate::client::estimate::Estimate;
use crate::client::key::{Key, Prefix, prefixes};
use crate::client::sample::{Observation, Outcome};
use crate::client::view::{ClientView, Knowledge};
use crate::codec::DecodeError;
use crate::model::Model;
use crate::policy::PolicyConfig;
use hikyaku_units::Timestamp;
use hikyaku_units::arm::Version;
use index::{Index, Target};
use journal::Journal;
use lesson::Lesson;
use slab::{Record, Slab};

pub use journal::Change;

/// How large a table is, and whether its changes are kept for a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// Most records (addresses and prefixes) that it holds; from 16 to 2^30, else the nearer of these.
    pub max_records: usize,
    /// Secret that keeps clients from choosing addresses that collide in the index.
    pub hash_key: [u64; 2],
    /// Whether changes are noted for [`ClientTable::drain_dirty`].
    pub journal: bool,
}

/// Estimates by client address and prefix.
#[derive(Debug)]
pub struct ClientTable {
    slab: Slab,
    index: Index,
    journal: Option<Journal>,
    max_records: usize,
    policy: Arc<PolicyConfig>,
    model: Arc<Model>,
}

/// What to forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One address. What its prefixes learnt from it stays.
    Address(IpAddr),
    /// A prefix, and all addresses and prefixes in it.
    Prefix(Prefix),
    /// Everything.
    All,
}

impl ClientTable {
    /// An empty table. Memory grows with its records.
    #[must_use]
    pub fn new(config: TableConfig, policy: Arc<PolicyConfig>, model: Arc<Model>) -> Self {
        let max_records = config.max_records.clamp(MIN_RECORDS, MAX_RECORDS);
        Self {
            slab: Slab::default(),
            index: Index::new(config.hash_key),
            journal: config.journal.then(|| Journal::new(max_records)),
            max_records,
            policy,
            model,
        }
    }

    /// Other settings or another model from now on. What was learnt is kept.
    pub fn reconfigure(&mut self, policy: Arc<PolicyConfig>, model: Arc<Model>) {
        self.policy = policy;
        self.model = model;
    }

    /// Takes what was seen of a client, for its address and its prefixes.
    pub fn observe(&mut self, addr: IpAddr, now: Timestamp, observation: &Observation) {
        let addr = addr.to_canonical();
        let log_ratio = match observation {
            Observation::Outcome(outcome) => self.log_ratio(addr, now, outcome),
            Observation::Path(_) | Observation::Udp(_) | Observation::Decided(_) => None,
        };
        let lesson = Lesson {
            observation,
            log_ratio,
        };
        let slot = self.record(addr);
        let policy = Arc::clone(&self.policy);
        let Some(effect) = self.update(slot, |estimate| lesson.teach(estimate, now, &policy))
        else {
            return;
        };
        self.each_prefix(addr, slot, |table, slot| {
            table.update(slot, |estimate| {
                lesson.teach_prefix(estimate, &effect, now, &policy);
            });
        });
    }

    /// What is known of a client at `now`, for [`decide`](crate::transport::decide()).
    #[must_use]
    pub fn view(&self, addr: IpAddr, now: Timestamp) -> ClientView {
        self.knowledge(addr).view(now, &self.policy)
    }

    /// What is known of a client, by level.
    #[must_use]
    pub fn knowledge(&self, addr: IpAddr) -> Knowledge {
        let addr = addr.to_canonical();
        let own = self.find(&Key::Address(addr));
        let mut knowledge = Knowledge::none(addr);
        knowledge.own = own.and_then(|target| self.estimate(target));
        let mut below = own.map(Target::slot);
        for (known, prefix) in knowledge.prefixes.iter_mut().zip(prefixes(addr)) {
            let Some(target) = self.find(&Key::Prefix(prefix)) else {
                continue;
            };
            // A level that holds only the one below knows nothing more.
            if below.replace(target.slot()) != Some(target.slot()) {
                *known = self.estimate(target).map(|estimate| (prefix, estimate));
            }
        }
        knowledge
    }

    fn estimate(&self, target: Target) -> Option<Estimate> {
        let estimate = self.slab.get(target.slot())?.estimate();
        Some(if target.is_alias() {
            estimate.as_prefix()
        } else {
            estimate
        })
    }

    /// Forgets, and returns how many records went.
    pub fn forget(&mut self, scope: Scope) -> usize {
        let before = self.slab.len();
        match scope {
            Scope::Address(addr) => {
                if let Some(target) = self.find(&Key::address(addr)) {
                    self.remove(target.slot());
                }
            }
            Scope::Prefix(prefix) => {
                let inside =
                    |(_, record): &(u32, &Record)| Key::Prefix(prefix).contains(&record.key);
                let slots: Vec<u32> = self
                    .slab
                    .iter()
                    .filter(inside)
                    .map(|(slot, _)| slot)
                    .collect();
                for slot in slots {
                    self.remove(slot);
                }
            }
            Scope::All => {
                self.slab = Slab::default();
                self.index.clear();
                if let Some(journal) = &mut self.journal {
                    journal.clear();
                }
            }
        }
        before - self.slab.len()
    }

    /// All records, as of their last observation, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, Estimate)> {
        self.slab
            .iter()
            .map(|(_, record)| (record.key, record.estimate()))
    }

    /// Up to `limit` changes since they were last drained, for the store. What the iterator has not given
    /// when it is dropped comes with the next one. Empty without [`TableConfig::journal`].
    pub fn drain_dirty(&mut self, limit: usize) -> impl Iterator<Item = Change> {
        let Self { journal, slab, .. } = self;
        let next = move || journal.as_mut().and_then(|journal| journal.next(slab));
        std::iter::from_fn(next).take(limit)
    }

    /// Notes all records as changed, for a store that has lost them.
    pub fn mark_all_changed(&mut self) {
        if let Some(journal) = &mut self.journal {
            self.slab.iter().for_each(|(slot, _)| journal.changed(slot));
        }
    }

    /// Takes a record from the store. Does not count as a change; in a full table another record goes.
    ///
    /// # Errors
    /// When the bytes are no estimate of this release's format.
    pub fn insert_encoded(&mut self, key: Key, bytes: &[u8]) -> Result<(), DecodeError> {
        let estimate = Estimate::decode(bytes)?;
        let slot = match key {
            Key::Address(addr) => {
                let addr = addr.to_canonical();
                let slot = self.record(addr);
                self.each_prefix(addr, slot, |_, _| {});
                slot
            }
            Key::Prefix(prefix) => match self.find(&Key::Prefix(prefix)) {
                Some(Target::Record(slot)) => slot,
                Some(alias) => {
                    self.index.remove(alias, &self.slab);
                    self.insert(key, estimate, None)
                }
                None => self.insert(key, estimate, None),
            },
        };
        if let Some(record) = self.slab.get_mut(slot) {
            record.set_estimate(&estimate);
        }
        Ok(())
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most records that the table holds.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.max_records
    }

    fn find(&self, key: &Key) -> Option<Target> {
        self.index.find(key, &self.slab)
    }

    /// The slot of an address's record, which is made if need be.
    fn record(&mut self, addr: IpAddr) -> u32 {
        let key = Key::Address(addr);
        match self.find(&key) {
            Some(target) => target.slot(),
            None => self.insert(key, Estimate::default(), None),
        }
    }

    /// Visits the records of an address's prefixes, which are made where more than the level below is
    /// in them.
    fn each_prefix(&mut self, addr: IpAddr, client: u32, mut visit: impl FnMut(&mut Self, u32)) {
        let mut below = client;
        for (level, prefix) in (0..).zip(prefixes(addr)) {
            if let Some(slot) = self.prefix_record(prefix, level, below, client) {
                visit(self, slot);
                below = slot;
            }
        }
    }

    /// The slot of a prefix's own record; `None` while all in it is in the record `below`.
    fn prefix_record(&mut self, prefix: Prefix, level: u8, below: u32, client: u32) -> Option<u32> {
        let alone = Target::Alias { slot: below, level };
        let Some(alias) = self.find(&Key::Prefix(prefix)) else {
            self.index.insert(alone, &self.slab);
            return None;
        };
        if let Target::Record(slot) = alias {
            return Some(slot);
        }
        if alias == alone {
            return None;
        }
        let known = self.slab.get(alias.slot())?;
        let (key, estimate) = (known.key, known.estimate().as_prefix());
        self.index.remove(alias, &self.slab);
        // The only client so far may have become one of several in the prefix below.
        if self
            .slab
            .get(below)
            .is_some_and(|record| record.key.contains(&key))
        {
            self.index.insert(alone, &self.slab);
            return None;
        }
        Some(self.insert(Key::Prefix(prefix), estimate, Some(client)))
    }

    fn insert(&mut self, key: Key, estimate: Estimate, pinned: Option<u32>) -> u32 {
        while self.slab.len() >= self.max_records {
            let Some(victim) = self.slab.victim(pinned) else {
                break;
            };
            self.remove(victim);
        }
        let slot = self.slab.insert(Record::new(key, &estimate));
        self.index.insert(Target::Record(slot), &self.slab);
        slot
    }

    fn remove(&mut self, slot: u32) {
        let Some(record) = self.slab.get(slot) else {
            return;
        };
        let key = record.key;
        self.index.remove(Target::Record(slot), &self.slab);
        for (level, prefix) in (0..).zip(prefixes(key.first())) {
            let alias = Target::Alias { slot, level };
            if self.find(&Key::Prefix(prefix)) == Some(alias) {
                self.index.remove(alias, &self.slab);
            }
        }
        self.slab.remove(slot);
        if let Some(journal) = &mut self.journal {
            journal.removed(slot, key);
        }
    }

    /// Changes a record, which counts as a use and as a change.
    fn update<T>(&mut self, slot: u32, change: impl FnOnce(&mut Estimate) -> T) -> Option<T> {
        let record = self.slab.get_mut(slot)?;
        let changed = record.update(change);
        if let Some(journal) = &mut self.journal {
            journal.changed(slot);
        }
        Some(changed)
    }

    /// Logarithm of the response's real by its predicted time; `None` where it says nothing of the arm.
    fn log_ratio(&self, addr: IpAddr, now: Timestamp, outcome: &Outcome) -> Option<f32> {
        if outcome.shared || outcome.arm.version == Version::H1 || outcome.duration.is_zero() {
            return None;
        }
        let view = self.view(addr, now);
        let loss = view.loss_for(outcome.arm.version).mean;
        let rate = view.rate_for(outcome.arm)?;
        let point = self.model.at(view.min_rtt?, rate, outcome.size);
        let predicted = point.log_load(outcome.arm, loss)?;
        Some(outcome.duration.as_secs_f32().ln() - predicted.ln_secs)
    }
}

/// Room for a client with its prefixes and their probes of each other.
const MIN_RECORDS: usize = 16;
/// Slots are numbered in 30 bits.
const MAX_RECORDS: usize = 1 << 30;

#[cfg(test)]
mod tests;
