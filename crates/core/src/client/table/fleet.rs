//! The part of a table that it shares with other edges: which of its prefixes have changed, and what the
//! others know.

use std::time::Duration;

use super::{ClientTable, estimate};
use crate::bounded::{Slot, TableConfig};
use crate::client::estimate::Packed;
use crate::client::key::{Key, Prefix, prefixes};
use crate::client::sample::Observation;
use crate::client::shared::{Contribution, Hold, PackedRemote, Remote, RemoteLevel, with_pop};
use crate::client::view::{FromOthers, Knowledge};
use crate::fleet::{Pop, Register};
use crate::policy::PolicyConfig;
use hikyaku_units::Timestamp;

/// The part of a table of clients.
pub(super) type Fleet = Hold<PackedRemote>;

impl Fleet {
    /// Adds the other edges' knowledge of a client's prefixes.
    pub(super) fn add_to(&self, knowledge: &mut Knowledge, policy: &PolicyConfig) {
        let places = knowledge.prefixes.iter_mut().zip(prefixes(knowledge.addr));
        for (known, prefix) in places {
            let Some(packed) = self.get(prefix) else {
                continue;
            };
            let Remote { pop, fleet, .. } = packed.remote();
            if let Some(level) = pop {
                let own = known.as_ref().map(|(_, own)| own);
                *known = Some((prefix, with_pop(own, &level.estimate, policy)));
            }
            let from = |level: RemoteLevel| FromOthers {
                prefix,
                edges: level.edges,
                estimate: level.estimate,
            };
            knowledge.pop = knowledge.pop.or(pop.map(from));
            knowledge.fleet = knowledge.fleet.or(fleet.map(from));
        }
    }
}

impl ClientTable {
    /// Shares with other edges from now on, as an edge of `pop`. The others' knowledge of prefixes is held apart
    /// from the records, in a map as `remote` says, whose `journal` does not count. A prefix takes about
    /// 180 bytes there.
    pub fn share(&mut self, pop: Pop, remote: TableConfig) {
        self.fleet = Some(Box::new(Hold::new(pop, remote)));
    }

    /// Encoded [`Contribution`]s of the prefixes that this edge has observed since they were last drained:
    /// about `max`, since a record can be that of two prefixes. Empty for an edge that is alone.
    pub fn drain_shared(&mut self, max: usize) -> Vec<(Prefix, Box<[u8]>)> {
        let Self {
            records,
            policy,
            fleet,
            ..
        } = self;
        let mut drained = Vec::new();
        let Some(fleet) = fleet else { return drained };
        while drained.len() < max {
            let Some(slot) = fleet.changed.pop() else {
                break;
            };
            let Some((key, _)) = records.entry(slot) else {
                continue;
            };
            for prefix in prefixes(key.first()) {
                let target = records.find(&Key::Prefix(prefix));
                let known = target.filter(|target| target.slot() == slot);
                let own = known.and_then(|target| estimate(records, target));
                let contribution =
                    own.and_then(|own| Contribution::of(&own, fleet.pop, &policy.half_life));
                drained.extend(contribution.map(|known| (prefix, known.encode())));
            }
        }
        drained
    }

    /// Notes all prefixes as observed anew, for a store that has lost their contributions.
    pub fn mark_all_shared(&mut self) {
        let Self { records, fleet, .. } = self;
        if let Some(fleet) = fleet {
            records.slots().for_each(|slot| fleet.changed.insert(slot));
        }
    }

    /// Takes the other edges' knowledge of a prefix, in place of that from before. It is no change of this
    /// edge's own knowledge. Does nothing for an edge that is alone.
    pub fn set_remote(&mut self, prefix: Prefix, remote: &Remote) {
        let Some(fleet) = &mut self.fleet else { return };
        fleet.set(prefix, PackedRemote::new(remote));
    }

    /// Takes up this edge's contribution to a prefix from before it `began`. For an edge that keeps nothing on
    /// disk: its next contribution would replace the former one. To be called where nothing was read of the
    /// prefix yet. Does nothing once a prefix was forgotten. Returns whether it did so.
    pub fn take_up(&mut self, prefix: Prefix, former: &Contribution, began: Timestamp) -> bool {
        let key = Key::Prefix(prefix);
        let Some(fleet) = &mut self.fleet else {
            return false;
        };
        let known = self.records.find(&key);
        let own = known.and_then(|target| estimate(&self.records, target));
        if !fleet.takes_up(former.at(), own.map(|own| own.at), began.into()) {
            return false;
        }
        let all = former.and_then(own.as_ref(), &self.policy);
        let slot = self.records.load(key, Packed::new(&all));
        if own.is_some() {
            fleet.changed.insert(slot);
        }
        true
    }

    /// The age of the other edges' knowledge of a prefix, since it was read. `None` where it was not, or
    /// where the prefix had to go for others.
    #[must_use]
    pub fn remote_age(&self, prefix: Prefix, now: Timestamp) -> Option<Duration> {
        self.fleet.as_ref()?.age(prefix, now)
    }

    /// Notes that a record was changed by an observation of this edge's own.
    pub(super) fn note_shared(&mut self, slot: Slot, observation: &Observation) {
        // Decisions are no knowledge of a prefix.
        if let Some(fleet) = &mut self.fleet
            && !matches!(observation, Observation::Decided(_))
        {
            fleet.changed.insert(slot);
        }
    }
}

#[cfg(test)]
mod tests;
