//! What is known of routes by client prefix and AS, in bounded memory.

use std::net::IpAddr;
use std::sync::Arc;

use super::record::{Kept, Record, Snapshot, StalledBy};
use super::store::Store;
use super::view::{self, Levels};
use super::{Candidates, Carrier, Criterion, PathId, PathObservation, RouteDecision, RouteView};
use crate::key::{Prefix, prefixes};
use crate::policy::PolicyConfig;
use crate::table::Scope;
use crate::units::{Secs, Timestamp};
use crate::view::client_number;

/// How large a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathTableConfig {
    /// Most records (prefixes and ASes) that it holds; from 16 to 2^30, else the nearer of these.
    pub max_records: usize,
    /// Secret that keeps clients from choosing addresses that collide in the index.
    pub hash_key: [u64; 2],
}

/// What is known of routes, by client prefix (/24; /56 and /48) and client AS.
///
/// A record takes about 70 bytes and 56 for each carrier that was seen: 240 for three, 1.1 kB at most. An
/// IPv4 prefix has one, an IPv6 one has two with its /48, an AS has one. Evicted are those that were not
/// used for longest.
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
    Prefix(Prefix),
    As(u32),
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
        let Places { own, wider } = Places::of(client, asn);
        let before = self.snapshot(own, now);
        for place in wider.into_iter().flatten() {
            let known = self.snapshot(Some(place), now);
            let record = self.records.entry(place);
            view::contrast(&before, &known, carrier, seen, |carrier, measured, stat| {
                *measured.of_mut(record.carrier(carrier, now, half_life)) = stat;
            });
            record.carrier(carrier, now, half_life).count(seen);
        }
        if let Some(own) = own {
            let stats = self.records.entry(own).carrier(carrier, now, half_life);
            view::learn_own(stats, seen);
            stats.count(seen);
        }
    }

    /// Takes a stall of a carrier, when it is noticed: the client avoids it at once, and with a second
    /// client of its prefix all of the prefix do.
    ///
    /// When all single routes of `candidates`, which are the client's, have stalled within the time that they
    /// are avoided, it is not theirs: the blame is withdrawn from all, and none is blamed for
    /// `policy.avoid_min`.
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
        let Places { own, wider } = Places::of(client, asn);
        let Some(own) = own else {
            return Blame::Client;
        };
        let record = self.records.entry(own);
        if now < record.blameless_until {
            return Blame::Client;
        }
        let stats = record.carrier(carrier, now, half_life);
        let is_new = stats.avoid(who, now, holds);
        let left = stats.avoided_for(who, now).unwrap_or_default();
        let is_the_clients = record.all_avoided(candidates, who, now);
        if is_the_clients {
            record.blameless_until = now.saturating_add(holds[0]);
        }
        let places = [Some(own)].into_iter().chain(wider).flatten();
        if is_the_clients {
            places.for_each(|place| self.absolve(place, candidates, now));
            return Blame::Client;
        }
        if is_new {
            places.for_each(|place| {
                let record = self.records.entry(place);
                record.carrier(carrier, now, half_life).stalls.stalls += 1.0;
            });
        }
        Blame::Route {
            until: now.saturating_add(left).timestamp(),
        }
    }

    /// Takes back a stall of all single routes.
    fn absolve(&mut self, place: Place, candidates: &Candidates, now: Secs) {
        let half_life = self.policy.half_life.path;
        let record = self.records.entry(place);
        for route in candidates.singles().iter() {
            let carrier = route.carrier(candidates.plain_is);
            record.carrier(carrier, now, half_life).absolve();
        }
    }

    /// Takes that a decision was applied, so that the prefix is kept on it where that is steady.
    pub fn decided(&mut self, client: IpAddr, criterion: Criterion, decision: &RouteDecision) {
        let Some(kept) = decision.keeps else { return };
        let Some(own) = Places::of(client, None).own else {
            return;
        };
        if kept == Kept::default() {
            // Nothing to note of a prefix of which nothing is known.
            if let Some(record) = self.records.get_mut(&own) {
                record.kept[criterion.index()] = kept;
            }
        } else {
            self.records.entry(own).kept[criterion.index()] = kept;
        }
    }

    /// What is known for a client at `now`, for [`decide_route`](super::decide_route).
    #[must_use]
    pub fn view(&self, client: IpAddr, asn: Option<u32>, now: Timestamp) -> RouteView {
        let now = Secs::from(now);
        let Places { own, wider } = Places::of(client, asn);
        let record = own.and_then(|own| self.records.get(&own));
        let half_life = self.policy.half_life.path;
        let levels = Levels {
            own: record.map(|record| record.snapshot(now, half_life)),
            wider: wider.map(|place| {
                let record = self.records.get(&place?)?;
                Some(record.snapshot(now, half_life))
            }),
        };
        let kept = record.map(|record| record.kept).unwrap_or_default();
        RouteView::new(client_number(client), &levels, kept, now)
    }

    /// Forgets, and returns how many records went. Nothing is kept by address: for one, the nearest
    /// prefix's record goes. ASes are forgotten with [`Scope::All`] alone.
    pub fn forget(&mut self, scope: Scope) -> usize {
        let own = |addr| Places::of(addr, None).own;
        self.records.retain(|place, _| match (scope, place) {
            (Scope::All, _) => false,
            (Scope::Address(addr), place) => own(addr) != Some(*place),
            (Scope::Prefix(prefix), Place::Prefix(of)) => {
                !(prefix.contains(of.network()) && prefix.prefix_len() <= of.prefix_len())
            }
            (Scope::Prefix(_), Place::As(_)) => true,
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

    fn snapshot(&self, place: Option<Place>, now: Secs) -> Snapshot {
        let record = place.and_then(|place| self.records.get(&place));
        let of = |record: &Record| record.snapshot(now, self.policy.half_life.path);
        record.map(of).unwrap_or_default()
    }
}

/// The records that a client's observations go into.
struct Places {
    /// The nearest prefix's.
    own: Option<Place>,
    /// The wider prefix's and the AS's.
    wider: [Option<Place>; 2],
}

impl Places {
    fn of(client: IpAddr, asn: Option<u32>) -> Self {
        let mut prefixes = prefixes(client).map(Place::Prefix);
        Self {
            own: prefixes.next(),
            wider: [prefixes.next(), asn.map(Place::As)],
        }
    }
}

const MIN_RECORDS: usize = 16;
/// Places are numbered in 32 bits.
const MAX_RECORDS: usize = 1 << 30;
