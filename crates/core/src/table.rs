//! The estimates of all clients and their prefixes, in bounded memory.
//!
//! A prefix gets a record of its own with its second client. Until then the index leads from the prefix
//! to its only client's record, which holds the very same knowledge; so a million clients of a million
//! prefixes cost a million records.
//!
//! When the table is full, a generalised CLOCK (Smith, "Sequentiality and prefetching in database
//! systems", TODS 1978) evicts a record that was not used since the hand last passed, and only later one
//! whose client returned. A table belongs to one thread; [`shard_of`](crate::key::shard_of) spreads
//! clients over several.

mod index;
mod journal;
mod slab;

use std::net::IpAddr;
use std::sync::Arc;

use crate::arm::Version;
use crate::decide::Decided;
use crate::estimate::{CLIENT, DecodeError, Estimate, PREFIX};
use crate::key::{Key, Prefix, prefixes};
use crate::model::Model;
use crate::policy::PolicyConfig;
use crate::sample::{Observation, Outcome, PathSample, UdpEvent};
use crate::udp::{RateVerdict, UdpHealth};
use crate::units::Timestamp;
use crate::view::{Knowledge, PathView};
use index::{Index, Target};
use journal::Journal;
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
        let lesson = self.lesson(addr, now, observation);
        let slot = self.record(addr);
        let policy = Arc::clone(&self.policy);
        let Some(effect) = self.update(slot, |estimate| lesson.teach(estimate, now, &policy))
        else {
            return;
        };
        for (level, prefix) in (0..).zip(prefixes(addr)) {
            if let Some(slot) = self.prefix_record(prefix, level, slot) {
                self.update(slot, |estimate| {
                    lesson.teach_prefix(estimate, &effect, now, &policy);
                });
            }
        }
    }

    /// What is known of a client at `now`, for [`decide`](crate::decide::decide()).
    #[must_use]
    pub fn view(&self, addr: IpAddr, now: Timestamp) -> PathView {
        self.knowledge(addr).view(now, &self.policy)
    }

    /// What is known of a client, by level.
    #[must_use]
    pub fn knowledge(&self, addr: IpAddr) -> Knowledge {
        let addr = addr.to_canonical();
        let own = self.find(&Key::Address(addr));
        let mut knowledge = Knowledge::none(addr);
        knowledge.own = own.and_then(|target| self.estimate(target));
        for (known, prefix) in knowledge.prefixes.iter_mut().zip(prefixes(addr)) {
            // A prefix whose only client is this one knows nothing more.
            let target = self.find(&Key::Prefix(prefix));
            let target = target.filter(|target| own.map(Target::slot) != Some(target.slot()));
            *known = target.and_then(|target| Some((prefix, self.estimate(target)?)));
        }
        knowledge
    }

    fn estimate(&self, target: Target) -> Option<Estimate> {
        let estimate = &self.slab.get(target.slot())?.estimate;
        Some(if target.is_alias() {
            estimate.as_prefix()
        } else {
            *estimate
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
                let inside = |(_, record): &(u32, &Record)| match record.key {
                    Key::Address(addr) => prefix.contains(addr),
                    Key::Prefix(inner) => {
                        inner.prefix_len() >= prefix.prefix_len()
                            && prefix.contains(inner.network())
                    }
                };
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
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Estimate)> {
        self.slab
            .iter()
            .map(|(_, record)| (record.key, &record.estimate))
    }

    /// Up to `limit` changes since they were last drained, for the store. What the iterator has not given
    /// when it is dropped comes with the next one. Empty without [`TableConfig::journal`].
    pub fn drain_dirty(&mut self, limit: usize) -> impl Iterator<Item = Change> {
        let Self { journal, slab, .. } = self;
        let next = move || journal.as_mut().and_then(|journal| journal.next(slab));
        std::iter::from_fn(next).take(limit)
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
                for (level, prefix) in (0..).zip(prefixes(addr)) {
                    self.prefix_record(prefix, level, slot);
                }
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
            record.estimate = estimate;
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

    /// The slot of a prefix's own record; `None` while `client` is the only one in it.
    fn prefix_record(&mut self, prefix: Prefix, level: u8, client: u32) -> Option<u32> {
        let key = Key::Prefix(prefix);
        match self.find(&key) {
            Some(Target::Record(slot)) => Some(slot),
            Some(Target::Alias { slot, .. }) if slot == client => None,
            Some(alias) => {
                let estimate = self.slab.get(alias.slot())?.estimate.as_prefix();
                self.index.remove(alias, &self.slab);
                Some(self.insert(key, estimate, Some(client)))
            }
            None => {
                self.index.insert(
                    Target::Alias {
                        slot: client,
                        level,
                    },
                    &self.slab,
                );
                None
            }
        }
    }

    fn insert(&mut self, key: Key, estimate: Estimate, pinned: Option<u32>) -> u32 {
        while self.slab.len() >= self.max_records {
            let Some(victim) = self.slab.victim(pinned) else {
                break;
            };
            self.remove(victim);
        }
        let slot = self.slab.insert(Record::new(key, estimate));
        self.index.insert(Target::Record(slot), &self.slab);
        slot
    }

    fn remove(&mut self, slot: u32) {
        let Some(record) = self.slab.get(slot) else {
            return;
        };
        let key = record.key;
        self.index.remove(Target::Record(slot), &self.slab);
        if let Key::Address(addr) = key {
            for (level, prefix) in (0..).zip(prefixes(addr)) {
                let alias = Target::Alias { slot, level };
                if self.find(&Key::Prefix(prefix)) == Some(alias) {
                    self.index.remove(alias, &self.slab);
                }
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

    fn lesson(&self, addr: IpAddr, now: Timestamp, observation: &Observation) -> Lesson {
        match observation {
            Observation::Path(sample) => Lesson::Path(*sample),
            Observation::Outcome(outcome) => {
                Lesson::Outcome(*outcome, self.log_ratio(addr, now, outcome))
            }
            Observation::Udp(event) => Lesson::Udp(*event),
            Observation::Decided(decided) => Lesson::Decided(*decided),
        }
    }

    /// Logarithm of the response's real by its predicted time; `None` where it says nothing of the arm.
    fn log_ratio(&self, addr: IpAddr, now: Timestamp, outcome: &Outcome) -> Option<f32> {
        if outcome.shared || outcome.arm.version == Version::H1 || outcome.duration.is_zero() {
            return None;
        }
        let view = self.view(addr, now);
        let loss = view.loss[outcome.arm.version.transport().index()]?.mean;
        let point = self.model.at(view.min_rtt?, view.rate?, outcome.size);
        let predicted = point.log_load(outcome.arm, loss)?;
        Some(outcome.duration.as_secs_f32().ln() - predicted.ln_secs)
    }
}

/// An observation, made ready to change several estimates.
enum Lesson {
    Path(PathSample),
    Outcome(Outcome, Option<f32>),
    Udp(UdpEvent),
    Decided(Decided),
}

/// What an observation did to its client's own estimate.
struct Effect {
    before: UdpHealth,
    after: UdpHealth,
    rates: Option<RateVerdict>,
}

impl Lesson {
    fn teach(&self, estimate: &mut Estimate, now: Timestamp, policy: &PolicyConfig) -> Effect {
        let before = estimate.udp;
        let mut rates = None;
        match self {
            Self::Path(sample) => rates = estimate.on_path(sample, now, policy),
            Self::Outcome(outcome, ratio) => {
                estimate.on_outcome(outcome, *ratio, now, policy, CLIENT);
            }
            Self::Udp(event) => estimate.on_udp(*event, now, policy),
            Self::Decided(decided) => estimate.on_decided(decided, now, policy),
        }
        let after = estimate.udp;
        Effect {
            before,
            after,
            rates,
        }
    }

    fn teach_prefix(
        &self,
        estimate: &mut Estimate,
        effect: &Effect,
        now: Timestamp,
        policy: &PolicyConfig,
    ) {
        match self {
            Self::Path(sample) => estimate.on_client_path(sample, effect.rates, now, policy),
            Self::Outcome(outcome, ratio) => {
                estimate.on_outcome(outcome, *ratio, now, policy, PREFIX);
            }
            Self::Udp(event) => {
                estimate.on_client_udp(*event, &effect.before, &effect.after, now, policy);
            }
            // Sessions and choices are a client's own.
            Self::Decided(_) => {}
        }
    }
}

/// Room for a client with its prefixes and their probes of each other.
const MIN_RECORDS: usize = 16;
/// Slots are numbered in 30 bits.
const MAX_RECORDS: usize = 1 << 30;

#[cfg(test)]
mod tests;
