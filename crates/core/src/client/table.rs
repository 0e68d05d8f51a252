//! The estimates of all clients and their prefixes, in bounded memory.
//!
//! A prefix gets a record of its own with its second client. Until then the index leads from the prefix
//! to its only client's record, which holds the very same knowledge. Likewise it leads from a /48 to
//! its only /56, so a million clients of a million prefixes cost a million records.
//!
//! A full table evicts a record that was not used for long ([`crate::bounded`]). That of a client that
//! returned is evicted only later. A table belongs to one thread; [`stripe_of`](crate::client::key::stripe_of) spreads
//! clients over several.

mod fleet;
mod lesson;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::bounded::{BoundedMap, Change, MapKey, Slot, TableConfig, Target};
use crate::client::estimate::{CARRIED_LEN, ENCODED_LEN, Estimate, Packed};
use crate::client::key::{Key, Prefix, prefixes};
use crate::client::sample::{Observation, Outcome};
use crate::client::saved_path::LIFETIME;
use crate::client::view::{ClientView, Knowledge};
use crate::codec::DecodeError;
use crate::model::Model;
use crate::policy::PolicyConfig;
use fleet::Fleet;
use hikyaku_units::arm::Version;
use hikyaku_units::{Secs, Timestamp};
use lesson::Lesson;

/// Estimates by client address and prefix.
#[derive(Debug)]
pub struct ClientTable {
    records: BoundedMap<Key, Packed>,
    /// Estimates that clients have carried here. They are no observations of this server, so that neither
    /// prefixes nor the store hear of them.
    carried: BoundedMap<Key, Packed>,
    policy: Arc<PolicyConfig>,
    model: Arc<Model>,
    /// The part that is shared with other edges; `None` for an edge that is alone.
    fleet: Option<Box<Fleet>>,
}

/// The aliases of a record are the prefixes around its client, nearest first.
impl MapKey for Key {
    fn alias(&self, level: u8) -> Option<Self> {
        let prefix = prefixes(self.first()).nth(level.into());
        prefix.map(Self::Prefix)
    }
}

/// The records to forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One address. The lessons of its prefixes from it stay.
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
        Self {
            records: BoundedMap::new(config),
            carried: BoundedMap::new(TableConfig {
                max_records: config.max_records / CARRIED_PART,
                journal: false,
                ..config
            }),
            policy,
            model,
            fleet: None,
        }
    }

    /// Takes other settings or another model from now on. All that was learnt is kept.
    pub fn reconfigure(&mut self, policy: &Arc<PolicyConfig>, model: &Arc<Model>) {
        // Callers do so at each use, and clones of shared counters are not free.
        if !Arc::ptr_eq(&self.policy, policy) || !Arc::ptr_eq(&self.model, model) {
            self.policy = Arc::clone(policy);
            self.model = Arc::clone(model);
        }
    }

    /// Takes an observation of a client, for its address and its prefixes.
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
        self.note_shared(slot, observation);
        self.each_prefix(addr, slot, |table, slot| {
            table.update(slot, |estimate| {
                lesson.teach_prefix(estimate, &effect, now, &policy);
            });
            table.note_shared(slot, observation);
        });
    }

    /// Takes an estimate that a client carries from another server, or from before. Returns whether it says
    /// more of the client than is known here. It is of no use once it is older than knowledge of a path may
    /// be.
    pub fn carry(&mut self, addr: IpAddr, now: Timestamp, carried: &Estimate) -> bool {
        let policy = &self.policy;
        let age = now.since(carried.at.timestamp());
        if age > policy.half_life.rate * LIFETIME {
            return false;
        }
        let knowledge = self.knowledge(addr);
        if knowledge
            .carried
            .is_some_and(|known| known.at >= carried.at)
        {
            return false;
        }
        let samples = |estimate: &Estimate| estimate.faded_to(now, policy).samples;
        if knowledge.own.as_ref().map_or(0.0, samples) >= samples(carried) {
            return false;
        }
        self.carried.load(Key::address(addr), Packed::new(carried));
        true
    }

    /// The estimate that a client is to carry to another server: the one with the most samples. It may be this
    /// server's, one that the client has carried here before, or the one that it has just `brought`.
    #[must_use]
    pub fn to_carry(
        &self,
        addr: IpAddr,
        now: Timestamp,
        brought: Option<Estimate>,
    ) -> Option<[u8; CARRIED_LEN]> {
        let Knowledge { own, carried, .. } = self.knowledge(addr);
        let samples = |estimate: &Estimate| estimate.faded_to(now, &self.policy).samples;
        let known = [brought, carried, own].into_iter().flatten();
        let most = known.max_by(|a, b| samples(a).total_cmp(&samples(b)));
        most?.carry()
    }

    /// The view of a client at `now`, for [`decide`](crate::transport::decide()).
    #[must_use]
    pub fn view(&self, addr: IpAddr, now: Timestamp) -> ClientView {
        self.knowledge(addr).view(now, &self.policy)
    }

    /// The knowledge of a client, by level.
    #[must_use]
    pub fn knowledge(&self, addr: IpAddr) -> Knowledge {
        let addr = addr.to_canonical();
        let own = self.records.find(&Key::Address(addr));
        let mut knowledge = Knowledge::none(addr);
        knowledge.own = own.and_then(|target| estimate(&self.records, target));
        let carried = self.carried.get(&Key::Address(addr));
        knowledge.carried = carried.map(Packed::estimate);
        let mut below = own.map(Target::slot);
        for (known, prefix) in knowledge.prefixes.iter_mut().zip(prefixes(addr)) {
            let Some(target) = self.records.find(&Key::Prefix(prefix)) else {
                continue;
            };
            // A level that holds only the one below knows nothing more.
            if below.replace(target.slot()) != Some(target.slot()) {
                *known = estimate(&self.records, target).map(|estimate| (prefix, estimate));
            }
        }
        if let Some(fleet) = &self.fleet {
            fleet.add_to(&mut knowledge, &self.policy);
        }
        knowledge
    }

    /// Forgets, and returns how many records went. What other edges know of a prefix goes with it, until it
    /// is read again.
    pub fn forget(&mut self, scope: Scope) -> usize {
        if let Some(fleet) = &mut self.fleet {
            fleet.forget(scope);
        }
        let forget = |records: &mut BoundedMap<Key, Packed>| match scope {
            Scope::Address(addr) => records.remove_key(&Key::address(addr)),
            Scope::Prefix(prefix) => {
                let prefix = Key::Prefix(prefix);
                records.retain(|key| !prefix.contains(key))
            }
            Scope::All => records.clear(),
        };
        forget(&mut self.carried);
        forget(&mut self.records)
    }

    /// All records, as of their last observation, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, Estimate)> {
        let records = self.records.iter();
        records.map(|(key, packed)| (*key, packed.estimate()))
    }

    /// The changes since they were last drained, for the store; values are for
    /// [`ClientTable::insert_encoded`]. Changes that the iterator has not given when it is dropped come with
    /// the next one. Empty without [`TableConfig::journal`].
    pub fn drain_dirty(&mut self) -> impl Iterator<Item = Change<Key, [u8; ENCODED_LEN]>> {
        let changes = self.records.drain_dirty();
        changes.map(|change| change.map(|packed| packed.estimate().encode()))
    }

    /// The number of changes that no store has taken yet.
    pub fn unstored(&self) -> usize {
        self.records.undrained()
    }

    /// Notes all records as changed, for a store that has lost them.
    pub fn mark_all_changed(&mut self) {
        self.records.mark_all_changed();
    }

    /// Takes a record from the store. Does not count as a change; in a full table another record goes.
    ///
    /// # Errors
    /// When the bytes are no estimate of this release's format.
    pub fn insert_encoded(&mut self, key: Key, bytes: &[u8]) -> Result<(), DecodeError> {
        let packed = Packed::new(&Estimate::decode(bytes)?);
        match key {
            Key::Address(addr) => {
                let addr = addr.to_canonical();
                let slot = self.records.load(Key::Address(addr), packed);
                self.each_prefix(addr, slot, |_, _| {});
            }
            Key::Prefix(_) => drop(self.records.load(key, packed)),
        }
        Ok(())
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most records that the table holds.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.records.capacity()
    }

    /// The slot of an address's record, which is made if need be.
    fn record(&mut self, addr: IpAddr) -> Slot {
        let key = Key::Address(addr);
        match self.records.find(&key) {
            Some(target) => target.slot(),
            None => self.insert(key, &Estimate::default(), None),
        }
    }

    /// Visits the records of an address's prefixes, which are made where more than the level below is
    /// in them.
    fn each_prefix(&mut self, addr: IpAddr, client: Slot, mut visit: impl FnMut(&mut Self, Slot)) {
        let mut below = client;
        for (level, prefix) in (0..).zip(prefixes(addr)) {
            if let Some(slot) = self.prefix_record(Key::Prefix(prefix), level, below, client) {
                visit(self, slot);
                below = slot;
            }
        }
    }

    /// The slot of a prefix's own record; `None` while all in it is in the record `below`.
    fn prefix_record(&mut self, key: Key, level: u8, below: Slot, client: Slot) -> Option<Slot> {
        match self.records.find(&key) {
            Some(Target::Own(slot)) => return Some(slot),
            Some(alias) if alias.slot() != below => {
                let (only, packed) = self.records.entry(alias.slot())?;
                // The only client so far may have become one of several in the prefix below.
                let below = self.records.entry(below);
                if !below.is_some_and(|(below, _)| below.contains(only)) {
                    let estimate = packed.estimate().as_prefix();
                    return Some(self.insert(key, &estimate, Some(client)));
                }
            }
            Some(_) => return None,
            None => {}
        }
        self.records.add_alias(below, level);
        None
    }

    fn insert(&mut self, key: Key, estimate: &Estimate, pinned: Option<Slot>) -> Slot {
        self.records.insert(key, Packed::new(estimate), pinned)
    }

    /// Changes a record. The change is a use unless it is the first, and more of a use after a pause.
    /// A client that returns is worth more than one that loads a long page.
    fn update<T>(&mut self, slot: Slot, change: impl FnOnce(&mut Estimate) -> T) -> Option<T> {
        let packed = self.records.change(slot)?;
        let mut estimate = packed.estimate();
        let before = estimate.at;
        let changed = change(&mut estimate);
        *packed = Packed::new(&estimate);
        if before != Secs::default() {
            let returned = estimate.at.since(before) >= PAUSE;
            self.records.used(slot, returned);
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

/// The estimate that a key leads to.
fn estimate(records: &BoundedMap<Key, Packed>, target: Target) -> Option<Estimate> {
    let (_, packed) = records.entry(target.slot())?;
    let estimate = packed.estimate();
    Some(if target.is_alias() {
        estimate.as_prefix()
    } else {
        estimate
    })
}
/// Of the records of a table, the part of as many clients that may have carried something here.
const CARRIED_PART: usize = 16;

/// A record used again after this long belongs to a client that returned.
const PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
