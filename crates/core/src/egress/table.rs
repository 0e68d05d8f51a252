//! The knowledge of routes by client, prefix and AS, in bounded memory.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::compare::goodput_ln_ratio;
use super::key::EgressKeys;
use super::record::{CarrierStats, Record, Snapshot, StalledBy};
use super::shared::RouteFleet;
use super::view::{self, Levels};
use super::{
    Candidates, Carrier, EgressId, EgressKey, EgressNames, NetworkSummary, RouteChanges,
    RouteDecision, RouteObservation, RouteQuality, RouteView, Wants,
};
use crate::bounded::{BoundedMap, Change, MapKey, TableConfig};
use crate::client::table::Scope;
use crate::client::view::client_number;
use crate::codec::DecodeError;
use crate::policy::PolicyConfig;
use hikyaku_units::{Secs, Timestamp};

/// The knowledge of routes, by client (an IPv4 address, an IPv6 /56), prefix (/24, /48) and client AS.
///
/// A client stands for an access line of its own; neighbours share egress routes, but not the rate of
/// that line. So goodput and RTT are kept for clients as they are, for prefixes and ASes as differences
/// between routes.
///
/// A record takes about 70 bytes and 88 for each carrier that was seen. That is 140 for a client that
/// has only met one, 270 for a prefix with three, 1.3 kB at most. The records that were not used for
/// longest are evicted.
///
/// The knowledge of an AS spans all its prefixes, so keep one table, not shards: no operation takes much more
/// than a microsecond.
#[derive(Debug)]
pub struct RouteTable {
    pub(super) records: BoundedMap<EgressKey, Record>,
    pub(super) policy: Arc<PolicyConfig>,
    /// The part that is shared with other edges; `None` for an edge that is alone.
    pub(super) fleet: Option<Box<RouteFleet>>,
}

impl MapKey for EgressKey {
    /// None: wider records keep differences between routes, and a client's keeps its routes as they are.
    fn alias(&self, _: u8) -> Option<Self> {
        None
    }
}

/// Whom a stall was laid on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The route: it is avoided until then.
    Route {
        /// When it may be chosen again.
        until: Timestamp,
    },
    /// The client: all its routes have stalled, or there is no other. None is avoided.
    Client,
}

impl RouteTable {
    /// An empty table. Memory grows with its records.
    #[must_use]
    pub fn new(config: TableConfig, policy: Arc<PolicyConfig>) -> Self {
        Self {
            records: BoundedMap::new(config),
            policy,
            fleet: None,
        }
    }

    /// Takes other settings from now on. All that was learnt is kept.
    pub fn reconfigure(&mut self, policy: &Arc<PolicyConfig>) {
        // Callers do so at each use, and clones of shared counters are not free.
        if !Arc::ptr_eq(&self.policy, policy) {
            self.policy = Arc::clone(policy);
        }
    }

    /// Takes the measurement of a carrier by a response ([`Route::carrier`](super::Route::carrier)). `asn` is
    /// the client's AS, as far as it is known: the last of the AS path.
    pub fn learn(
        &mut self,
        client: IpAddr,
        asn: Option<u32>,
        carrier: Carrier,
        seen: &RouteObservation,
        now: Timestamp,
    ) {
        let now = Secs::from(now);
        let half_life = self.policy.half_life.route;
        let keys = EgressKeys::of(client, asn);
        let before = self.snapshot(keys.own, now);
        for key in keys.wider() {
            let known = self.snapshot(key, now);
            let record = self.records.change_or_insert(key);
            view::contrast(&before, &known, carrier, seen, |carrier, measured, stat| {
                *measured.of_mut(record.carrier(carrier, now, half_life)) = stat;
            });
            let stats = record.carrier(carrier, now, half_life);
            stats.count(seen);
            if seen.bytes > 0 {
                stats.delivered(now);
            }
        }
        self.note_shared(keys.prefix);
        let record = self.records.change_or_insert(keys.own);
        let stats = record.carrier(carrier, now, half_life);
        stats.count(seen);
        if view::learn_own(stats, seen, now) {
            let is_next_step = stats.is_unsteady(now);
            stats.declined_at = now;
            // Further steps of a decay find samples of the others that are young.
            if !is_next_step {
                record.doubt_others(carrier);
            }
        }
    }

    /// Takes a stall of a carrier, when it is noticed. The client avoids the carrier at once. With a
    /// second client of its prefix all of the prefix do, until it delivers to one of them. They do so for
    /// `policy.avoid_min` at first, or for as much less as the others carry less (at least 2 s). A pause
    /// may look like a stall.
    ///
    /// The client itself may have stalled on all single routes of `candidates`, which are its own, within
    /// the time that they are avoided. Then the stalls are not theirs: the blame is withdrawn, and for
    /// `policy.avoid_min` none is blamed for stalls of this client.
    pub fn stalled(
        &mut self,
        client: IpAddr,
        asn: Option<u32>,
        carrier: Carrier,
        candidates: &Candidates,
        now: Timestamp,
    ) -> Blame {
        let first = self.first_hold(&self.view(client, asn, now), carrier, candidates);
        let holds = [first, self.policy.avoid_max];
        let now = Secs::from(now);
        let who = StalledBy::client(client_number(client));
        let half_life = self.policy.half_life.route;
        let keys = EgressKeys::of(client, asn);
        let own = self.records.change_or_insert(keys.own);
        if now < own.blameless_until {
            return Blame::Client;
        }
        let stats = own.carrier(carrier, now, half_life);
        stats.avoid(who, now, holds);
        let alone = stats.avoided_for(who, now);
        let is_the_clients = own.all_avoided(candidates, who, now);
        if is_the_clients {
            own.absolve(candidates, who);
            own.blameless_until = now.saturating_add(self.policy.avoid_min);
        }
        let prefix = self.records.change_or_insert(keys.prefix);
        let stats = prefix.carrier(carrier, now, half_life);
        let is_new = stats.avoid(who, now, holds);
        let left = alone.max(stats.avoided_for(StalledBy::SEVERAL, now));
        if is_the_clients {
            prefix.absolve(candidates, who);
        }
        for key in keys.all() {
            let record = self.records.change_or_insert(key);
            if is_new {
                record.carrier(carrier, now, half_life).stalls.stalls += 1.0;
            }
            if is_the_clients {
                record.uncount_stalls(candidates, now, half_life);
            }
        }
        self.note_shared(keys.prefix);
        if is_the_clients {
            return Blame::Client;
        }
        Blame::Route {
            until: now.saturating_add(left.unwrap_or_default()).timestamp(),
        }
    }

    /// How long a carrier is avoided at first.
    fn first_hold(&self, view: &RouteView, carrier: Carrier, candidates: &Candidates) -> Duration {
        let whole = self.policy.avoid_min;
        let singles = candidates.singles().iter();
        let others = singles
            .map(|route| route.carrier(candidates.plain_is))
            .filter(|other| *other != carrier)
            .map(|other| view.of(other));
        let own = view.of(carrier);
        let works = |other: &&RouteQuality| other.avoided_for.is_none();
        let best = others
            .filter(works)
            .filter_map(|other| goodput_ln_ratio(other, own))
            .max_by(f32::total_cmp);
        match best {
            Some(best) if best < 0.0 => {
                let share = best.exp();
                // Times are kept in seconds.
                let hold = (whole.as_secs_f32() * share).round() as u64;
                Duration::from_secs(hold).max(MIN_HOLD.min(whole))
            }
            _ => whole,
        }
    }

    /// Takes it back that a carrier has stalled for a client: the packets under way have arrived after
    /// all. It is avoided further where another client has met a stall, too. The silence counts as one.
    pub fn delivers(&mut self, client: IpAddr, carrier: Carrier, now: Timestamp) {
        let who = StalledBy::client(client_number(client));
        let half_life = self.policy.half_life.route;
        let keys = EgressKeys::of(client, None);
        for key in [keys.own, keys.prefix] {
            let record = self.records.change_or_insert(key);
            let stats = record.carrier(carrier, Secs::from(now), half_life);
            stats.absolve(who);
        }
    }

    /// Takes that a decision was applied, so that the client is kept on it where that is steady.
    pub fn decided(&mut self, client: IpAddr, wants: Wants, decision: &RouteDecision) {
        let Some(kept) = decision.keeps else { return };
        let own = EgressKeys::of(client, None).own;
        let known = self.records.get(&own);
        // Nothing is noted of a client of which nothing is known.
        let before = known.map(|record| record.kept).unwrap_or_default();
        if kept != before[wants.place()] {
            self.records.change_or_insert(own).kept[wants.place()] = kept;
        }
    }

    /// The view of a client at `now`, for [`decide_route`](super::decide_route).
    #[must_use]
    pub fn view(&self, client: IpAddr, asn: Option<u32>, now: Timestamp) -> RouteView {
        let own = EgressKeys::of(client, asn).own;
        self.view_of(client, asn, self.records.get(&own), now)
    }

    /// The view of a client in the prefix of `near` that has shown nothing yet.
    #[must_use]
    pub fn view_of_newcomer(&self, near: IpAddr, asn: Option<u32>, now: Timestamp) -> RouteView {
        self.view_of(near, asn, None, now)
    }

    fn view_of(
        &self,
        client: IpAddr,
        asn: Option<u32>,
        own: Option<&Record>,
        now: Timestamp,
    ) -> RouteView {
        let now = Secs::from(now);
        let keys = EgressKeys::of(client, asn);
        let half_life = self.policy.half_life.route;
        let snapshot = |key: EgressKey| {
            let record = self.records.get(&key)?;
            Some(record.snapshot(now, half_life))
        };
        let prefix = snapshot(keys.prefix);
        let levels = Levels {
            own: own.map_or_else(Snapshot::default, |own| own.snapshot(now, half_life)),
            prefix: match &self.fleet {
                Some(fleet) => fleet.beside(prefix, keys.prefix, now, half_life),
                None => prefix,
            },
            asn: keys.asn.and_then(snapshot),
        };
        let kept = own.map(|own| own.kept).unwrap_or_default();
        RouteView::new(client_number(client), &levels, kept, now)
    }

    /// The knowledge of client ASes, those seen last first, at most `limit`. Looks at every record.
    #[must_use]
    pub fn networks(
        &self,
        names: &EgressNames,
        now: Timestamp,
        limit: usize,
    ) -> Vec<NetworkSummary> {
        let faded = (Secs::from(now), self.policy.half_life.route);
        let of = |(key, record): (&EgressKey, &Record)| match key {
            EgressKey::As(asn) => Some(NetworkSummary::of(*asn, record, names, faded)),
            EgressKey::Net(_) => None,
        };
        let mut networks: Vec<_> = self.records.iter().filter_map(of).collect();
        networks.sort_by_key(|network| (network.age, network.asn));
        networks.truncate(limit);
        networks
    }

    /// Forgets, and returns how many records went. ASes are forgotten with [`Scope::All`] alone. The other
    /// edges' knowledge of a prefix goes with it, until it is read again.
    pub fn forget(&mut self, scope: Scope) -> usize {
        if let Some(fleet) = &mut self.fleet {
            fleet.forget(scope);
        }
        match scope {
            Scope::All => self.records.clear(),
            Scope::Address(addr) => self.records.remove_key(&EgressKeys::of(addr, None).own),
            Scope::Prefix(prefix) => self.records.retain(|key| !key.is_in(prefix)),
        }
    }

    /// Forgets an egress route everywhere: its place was given to another.
    pub fn forget_egress(&mut self, egress: EgressId) {
        self.records.each(|record| record.forget(egress));
        if let Some(fleet) = &mut self.fleet {
            fleet.forget_egress(egress);
        }
    }

    /// Up to `limit` changes since the last call, for a store. `names` are those that the egress routes have
    /// had since.
    pub fn drain_changes(&mut self, limit: usize, names: &EgressNames) -> RouteChanges {
        let mut changes = RouteChanges::default();
        for change in self.records.drain_dirty().take(limit) {
            match change {
                Change::Clear => changes.cleared = true,
                Change::Remove(key) => changes.records.push((key, None)),
                Change::Put(key, record) => {
                    changes.records.push((key, Some(record.encode(names))));
                }
            }
        }
        changes
    }

    /// The number of changes that no store has taken yet.
    pub fn unstored(&self) -> usize {
        self.records.undrained()
    }

    /// Notes all records as changed, for a store that has lost them.
    pub fn mark_all_changed(&mut self) {
        self.records.mark_all_changed();
    }

    /// Takes a record of the store. It is faded at `now` as if the server had run on, and egress routes
    /// get places in `names` where they have none. Carriers that were not seen for ten half-lives are
    /// left out, and likewise egress routes for which no place is left. A record without any use leaves
    /// the store with the next changes; a record in use is no change. In a full table another one goes.
    ///
    /// # Errors
    /// When the bytes are no record of this release's format; they leave the store, too.
    pub fn insert_encoded(
        &mut self,
        key: EgressKey,
        bytes: &[u8],
        names: &mut EgressNames,
        now: Timestamp,
    ) -> Result<(), DecodeError> {
        let now = Secs::from(now);
        let oldest = self.policy.half_life.route.saturating_mul(KEPT_HALF_LIVES);
        let of_use = |stats: &CarrierStats| now.since(stats.last()) <= oldest;
        let record = match Record::decode(bytes, names, of_use) {
            Ok(record) => record,
            Err(error) => {
                self.records.note_gone(key);
                return Err(error);
            }
        };
        if record.carriers().is_empty() && record.blameless_until <= now {
            self.records.note_gone(key);
        } else {
            self.records.load(key, record);
        }
        Ok(())
    }

    /// Number of records.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether nothing is known.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most records that the table holds.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.records.capacity()
    }

    fn snapshot(&self, key: EgressKey, now: Secs) -> Snapshot {
        let record = self.records.get(&key);
        let of = |record: &Record| record.snapshot(now, self.policy.half_life.route);
        record.map(of).unwrap_or_default()
    }
}

/// A route that has stalled is not tried again sooner.
const MIN_HOLD: Duration = Duration::from_secs(2);
/// After so many half-lives less than a thousandth is left.
const KEPT_HALF_LIVES: u32 = 10;
