//! The part of the table of routes that it shares with other edges.

use std::net::IpAddr;
use std::time::Duration;

use super::{RemoteRoutes, RouteContribution};
use crate::bounded::TableConfig;
use crate::client::key::{Key, Prefix};
use crate::client::shared::Hold;
use crate::egress::key::EgressKeys;
use crate::egress::record::{Record, Snapshot};
use crate::egress::{EgressId, EgressKey, EgressNames, RouteTable};
use crate::fleet::{Pop, Register};
use hikyaku_units::{Secs, Timestamp};

/// The part of a table of routes.
pub(in crate::egress) type RouteFleet = Hold<RemoteRoutes>;

/// The part of the knowledge of a client's routes that comes from other edges of the PoP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutesElsewhere {
    /// The prefix that they know.
    pub prefix: Prefix,
    /// How many they are.
    pub edges: u16,
    /// The number of routes whose quality they know; at least 1.
    pub routes: usize,
}

impl RouteFleet {
    /// An edge's own knowledge of a prefix, with that of the others.
    pub(in crate::egress) fn beside(
        &self,
        own: Option<Snapshot>,
        key: EgressKey,
        now: Secs,
        half_life: Duration,
    ) -> Option<Snapshot> {
        let remote = prefix_of(key).and_then(|prefix| self.get(prefix));
        match remote.filter(|remote| remote.edges() > 0) {
            Some(remote) => Some(remote.beside(own, now, half_life)),
            None => own,
        }
    }

    /// Forgets an egress route everywhere.
    pub(in crate::egress) fn forget_egress(&mut self, egress: EgressId) {
        self.each(|remote| remote.forget(egress));
    }
}

impl RouteTable {
    /// Shares with other edges from now on, as an edge of `pop`. The others' knowledge of prefixes is held
    /// apart from the records, in a map as `remote` says, whose `journal` does not count. A prefix takes
    /// about as much memory as its record.
    pub fn share(&mut self, pop: Pop, remote: TableConfig) {
        self.fleet = Some(Box::new(Hold::new(pop, remote)));
    }

    /// Encoded [`RouteContribution`]s of the prefixes that this edge has observed since they were last
    /// drained, `max` at most. `names` are those that the egress routes have. Empty for an edge that is alone.
    pub fn drain_shared(&mut self, max: usize, names: &EgressNames) -> Vec<(Prefix, Box<[u8]>)> {
        let Self {
            records,
            policy,
            fleet,
        } = self;
        let Some(fleet) = fleet else {
            return Vec::new();
        };
        let slots = std::iter::from_fn(|| fleet.changed.pop());
        let contributions = slots.filter_map(|slot| {
            let (key, record) = records.entry(slot)?;
            let (prefix, half_life) = (prefix_of(*key)?, policy.half_life.route);
            let own = RouteContribution::of(record, fleet.pop, names, half_life)?;
            Some((prefix, own.encode()))
        });
        contributions.take(max).collect()
    }

    /// Notes all prefixes as observed anew, for a store that has lost their contributions.
    pub fn mark_all_shared(&mut self) {
        let Self { records, fleet, .. } = self;
        if let Some(fleet) = fleet {
            records.slots().for_each(|slot| fleet.changed.insert(slot));
        }
    }

    /// Takes the other edges' knowledge of a prefix's routes, in place of that from before. It is no change
    /// of this edge's own knowledge. Does nothing for an edge that is alone.
    pub fn set_remote(&mut self, prefix: Prefix, remote: RemoteRoutes) {
        let Some(fleet) = &mut self.fleet else { return };
        fleet.set(prefix, remote);
    }

    /// Takes up this edge's contribution to a prefix from before it `began`. For an edge that keeps nothing on
    /// disk: its next contribution would replace the former one. To be called where nothing was read of the
    /// prefix yet. Does nothing once a prefix was forgotten. `names` are those that the egress routes have.
    pub fn take_up(
        &mut self,
        prefix: Prefix,
        former: &RouteContribution,
        names: &EgressNames,
        began: Timestamp,
    ) {
        let key = EgressKey::Net(Key::Prefix(prefix));
        let Some(fleet) = &mut self.fleet else { return };
        let known = self.records.find(&key);
        let own = known.and_then(|target| self.records.entry(target.slot()));
        let own = own.map(|(_, record)| record);
        let newest = own.and_then(Record::newest);
        if !fleet.takes_up(former.at(), newest, began.into()) {
            return;
        }
        let all = former.and_then(own, names, self.policy.half_life.route);
        let has_news = own.is_some();
        let slot = self.records.load(key, all);
        if has_news {
            fleet.changed.insert(slot);
        }
    }

    /// The age of the other edges' knowledge of a prefix's routes, since it was read. `None` where it was
    /// not, or where the prefix had to go for others.
    #[must_use]
    pub fn remote_age(&self, prefix: Prefix, now: Timestamp) -> Option<Duration> {
        self.fleet.as_ref()?.age(prefix, now)
    }

    /// The part of the knowledge of a client's routes that comes from other edges. `None` where there is
    /// none.
    #[must_use]
    pub fn known_elsewhere(&self, client: IpAddr) -> Option<RoutesElsewhere> {
        let fleet = self.fleet.as_ref()?;
        let prefix = prefix_of(EgressKeys::of(client, None).prefix)?;
        let remote = fleet.get(prefix)?;
        let (edges, routes) = (remote.edges(), remote.routes());
        (routes > 0).then_some(RoutesElsewhere {
            prefix,
            edges,
            routes,
        })
    }

    /// Notes that a prefix was changed by an observation of this edge's own.
    pub(in crate::egress) fn note_shared(&mut self, key: EgressKey) {
        if let Some(fleet) = &mut self.fleet
            && let Some(target) = self.records.find(&key)
        {
            fleet.changed.insert(target.slot());
        }
    }
}

/// The prefix of a record for neighbours: a /24 or /48. A /56 is a client.
fn prefix_of(key: EgressKey) -> Option<Prefix> {
    match key {
        EgressKey::Net(Key::Prefix(prefix)) => (prefix.prefix_len() != 56).then_some(prefix),
        EgressKey::Net(Key::Address(_)) | EgressKey::As(_) => None,
    }
}
