//! What is known of routes by client, prefix and AS, in bounded memory.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::record::{Kept, Record, Snapshot, StalledBy};
use super::store::Store;
use super::view::{self, Levels};
use super::{Candidates, Carrier, Criterion, PathId, PathObservation, RouteDecision, RouteView};
use crate::key::Prefix;
use crate::policy::PolicyConfig;
use crate::table::Scope;
use crate::units::{Secs, Timestamp};
use crate::view::client_number;

/// How large a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathTableConfig {
    /// Most records (clients, prefixes and ASes) that it holds; from 16 to 2^30, else the nearer of these.
    pub max_records: usize,
    /// Secret that keeps clients from choosing addresses that collide in the index.
    pub hash_key: [u64; 2],
}

/// What is known of routes, by client (an IPv4 address, an IPv6 /56), prefix (/24, /48) and client AS.
///
/// A client is what has an access line of its own; neighbours share paths, but not how fast that is. So
/// goodput and RTT are kept for clients as they are, for prefixes and ASes as differences between routes.
///
/// A record takes about 70 bytes and 56 for each carrier that was seen: 130 for a client that has only
/// met one, 240 for a prefix with three, 1.1 kB at most. Evicted are those that were not used for longest.
///
/// What an AS knows spans all its prefixes, so keep one table, not shards: no operation takes much more
/// than a microsecond.
#[derive(Debug)]
pub struct PathTable {
    records: Store<Place, Record>,
    policy: Arc<PolicyConfig>,
}

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Address(Ipv4Addr),
    Prefix(Prefix),
    As(u32),
}

impl Place {
    fn is_in(&self, prefix: Prefix) -> bool {
        match self {
            Self::Address(addr) => prefix.contains((*addr).into()),
            Self::Prefix(of) => {
                prefix.contains(of.network()) && prefix.prefix_len() <= of.prefix_len()
            }
            Self::As(_) => false,
        }
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

impl PathTable {
    /// An empty table. Memory grows with its records.
    #[must_use]
    pub fn new(config: PathTableConfig, policy: Arc<PolicyConfig>) -> Self {
        let max = config.max_records.clamp(MIN_RECORDS, MAX_RECORDS);
        Self {
            records: Store::new(max, config.hash_key),
            policy,
        }
    }

    /// Other settings from now on. What was learnt is kept.
    pub fn reconfigure(&mut self, policy: Arc<PolicyConfig>) {
        self.policy = policy;
    }

    /// Takes what a response has shown of its carrier ([`Route::carrier`](super::Route::carrier)). `asn` is
    /// the client's AS, as far as it is known: the last of the AS path.
    pub fn learn(
        &mut self,
        client: IpAddr,
        asn: Option<u32>,
        carrier: Carrier,
        seen: &PathObservation,
        now: Timestamp,
    ) {
        let now = Secs::from(now);
        let half_life = self.policy.half_life.path;
        let places = Places::of(client, asn);
        let before = self.snapshot(places.own, now);
        for place in places.wider() {
            let known = self.snapshot(place, now);
            let record = self.records.entry(place);
            view::contrast(&before, &known, carrier, seen, |carrier, measured, stat| {
                *measured.of_mut(record.carrier(carrier, now, half_life)) = stat;
            });
            record.carrier(carrier, now, half_life).count(seen);
        }
        let record = self.records.entry(places.own);
        let stats = record.carrier(carrier, now, half_life);
        view::learn_own(stats, seen);
        stats.count(seen);
    }

    /// Takes a stall of a carrier, when it is noticed: the client avoids it at once, and with a second
    /// client of its prefix all of the prefix do.
    ///
    /// When all single routes of `candidates`, which are the client's, have stalled within the time that they
    /// are avoided, it is not theirs: the blame is withdrawn, and for `policy.avoid_min` none is blamed for
    /// stalls of this client.
    pub fn stalled(
        &mut self,
        client: IpAddr,
        asn: Option<u32>,
        carrier: Carrier,
        candidates: &Candidates,
        now: Timestamp,
    ) -> Blame {
        let now = Secs::from(now);
        let who = StalledBy::client(client_number(client));
        let holds = [self.policy.avoid_min, self.policy.avoid_max];
        let half_life = self.policy.half_life.path;
        let places = Places::of(client, asn);
        let own = self.records.entry(places.own);
        if now < own.blameless_until {
            return Blame::Client;
        }
        let prefix = self.records.entry(places.prefix);
        let stats = prefix.carrier(carrier, now, half_life);
        let is_new = stats.avoid(who, now, holds);
        let left = stats.avoided_for(who, now).unwrap_or_default();
        let is_the_clients = prefix.all_avoided(candidates, who, now);
        if is_the_clients {
            prefix.absolve(candidates, who);
            self.records.entry(places.own).blameless_until = now.saturating_add(holds[0]);
        }
        for place in places.all() {
            let record = self.records.entry(place);
            if is_new {
                record.carrier(carrier, now, half_life).stalls.stalls += 1.0;
            }
            if is_the_clients {
                record.uncount_stalls(candidates, now, half_life);
            }
        }
        if is_the_clients {
            return Blame::Client;
        }
        Blame::Route {
            until: now.saturating_add(left).timestamp(),
        }
    }

    /// Takes that a decision was applied, so that the prefix is kept on it where that is steady.
    pub fn decided(&mut self, client: IpAddr, criterion: Criterion, decision: &RouteDecision) {
        let Some(kept) = decision.keeps else { return };
        let own = Places::of(client, None).own;
        if kept != Kept::default() {
            self.records.entry(own).kept[criterion.index()] = kept;
        } else if let Some(record) = self.records.get_mut(&own) {
            // Nothing is noted of a client of which nothing is known.
            record.kept[criterion.index()] = kept;
        }
    }

    /// What is known for a client at `now`, for [`decide_route`](super::decide_route).
    #[must_use]
    pub fn view(&self, client: IpAddr, asn: Option<u32>, now: Timestamp) -> RouteView {
        let now = Secs::from(now);
        let places = Places::of(client, asn);
        let record = self.records.get(&places.own);
        let half_life = self.policy.half_life.path;
        let snapshot = |place: Place| {
            let record = self.records.get(&place)?;
            Some(record.snapshot(now, half_life))
        };
        let levels = Levels {
            own: snapshot(places.own).unwrap_or_default(),
            prefix: snapshot(places.prefix),
            asn: places.asn.and_then(snapshot),
        };
        let kept = record.map(|record| record.kept).unwrap_or_default();
        RouteView::new(client_number(client), &levels, kept, now)
    }

    /// Forgets, and returns how many records went. ASes are forgotten with [`Scope::All`] alone.
    pub fn forget(&mut self, scope: Scope) -> usize {
        self.records.retain(|place, _| match scope {
            Scope::All => false,
            Scope::Address(addr) => Places::of(addr, None).own != *place,
            Scope::Prefix(prefix) => !place.is_in(prefix),
        })
    }

    /// Forgets a path everywhere: its place was given to another.
    pub fn forget_path(&mut self, path: PathId) {
        self.records.retain(|_, record| {
            record.forget(path);
            true
        });
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

    fn snapshot(&self, place: Place, now: Secs) -> Snapshot {
        let record = self.records.get(&place);
        let of = |record: &Record| record.snapshot(now, self.policy.half_life.path);
        record.map(of).unwrap_or_default()
    }
}

/// The records that a client's observations go into.
struct Places {
    own: Place,
    prefix: Place,
    asn: Option<Place>,
}

impl Places {
    fn of(client: IpAddr, asn: Option<u32>) -> Self {
        let (own, prefix) = match client.to_canonical() {
            IpAddr::V4(addr) => (Place::Address(addr), Prefix::around_v4(addr)),
            IpAddr::V6(addr) => {
                let [site, wider] = Prefix::around_v6(addr);
                (Place::Prefix(site), wider)
            }
        };
        Self {
            own,
            prefix: Place::Prefix(prefix),
            asn: asn.map(Place::As),
        }
    }

    fn wider(&self) -> impl Iterator<Item = Place> + use<> {
        [Some(self.prefix), self.asn].into_iter().flatten()
    }

    fn all(&self) -> impl Iterator<Item = Place> + use<> {
        std::iter::once(self.own).chain(self.wider())
    }
}

const MIN_RECORDS: usize = 16;
/// Places are numbered in 32 bits.
const MAX_RECORDS: usize = 1 << 30;
