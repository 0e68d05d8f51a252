//! The estimates of clients: `core`'s tables, in stripes of which each has a lock.
//!
//! Requests never take one: a connection keeps its decision. Only its meter, some times a
//! second at most, and its beginning do.

mod carried;
mod changes;
mod look;
mod pins;
mod shared;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hikyaku_core::bounded::{Change, TableConfig};
use hikyaku_core::choice::Assignment;
use hikyaku_core::client::key::{Key, stripe_of};
use hikyaku_core::client::sample::Observation;
use hikyaku_core::client::table::{ClientTable, Scope};
use hikyaku_core::client::view::{ClientView, Knowledge};
use hikyaku_core::explain::{Explanation, explain};
use hikyaku_core::gain::{Site, Subject};
use hikyaku_core::model::Model;
use hikyaku_core::page::{Connections, connections};
use hikyaku_core::policy::PolicyConfig;
use hikyaku_core::transport::{Decision, decide};
use hikyaku_units::arm::{ByTransport, CongestionSet, Transport};
use hikyaku_units::{Rate, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use crate::clock::{self, Clock};
use crate::part::Part;
use crate::policies::Policies;
use crate::seed::{SEED, random};
use crate::transport::TransportChoice;

pub(crate) use changes::Changes;
pub(crate) use look::Seen;
pub(crate) use pins::MAX_PINS;
use pins::Pins;

/// Tables side by side. An address and its prefixes are always in the same one.
const STRIPES: usize = 256;

/// Age above which a decision from before a handshake is not that of its connection.
const EARLY_AGE: Duration = Duration::from_secs(1);

/// The estimates and decisions of all clients.
#[derive(Debug)]
pub(crate) struct Clients {
    stripes: Box<[Mutex<ClientTable>]>,
    /// By stripe: moves on when a client's decision changes, so that its other connections
    /// follow at once.
    epochs: Box<[AtomicU64]>,
    rules: Part<Rules>,
    clock: Clock,
    began: Timestamp,
    pins: Pins,
    /// Keys that were forgotten, and that the store has not heard of yet; `None` without a store.
    forgotten: Option<Mutex<Vec<Key>>>,
}

/// A decision that was made before a connection's handshake.
#[derive(Debug)]
pub(crate) struct Early {
    /// Settings of its sender.
    pub(crate) choice: TransportChoice,
    decision: Decision,
    /// Of the client, before it was made.
    epoch: u64,
    at: Instant,
}

/// Policies and model that decisions are made by.
#[derive(Debug)]
pub(crate) struct Rules {
    policies: Policies,
    model: Arc<Model>,
    available: ByTransport<CongestionSet>,
    /// Clients may come over TCP through balancers, which hide their path.
    balancers: bool,
}

/// A client that is known, in short.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) address: IpAddr,
    pub(crate) last_seen: Option<Timestamp>,
}

impl Clients {
    /// Nobody yet, and `max` later on; changes are noted for a store where there is one (`journal`).
    pub(crate) fn new(rules: Part<Rules>, max: usize, journal: bool, clock: Clock) -> Self {
        let Rules {
            policies, model, ..
        } = &**rules.load();
        let policy = policies.server();
        let stripe = TableConfig {
            max_records: max.div_ceil(STRIPES),
            hash_key: [random(), random()],
            journal,
        };
        let table = || Mutex::new(ClientTable::new(stripe, policy.clone(), model.clone()));
        Self {
            stripes: std::iter::repeat_with(table).take(STRIPES).collect(),
            epochs: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            rules,
            began: clock.now(),
            clock,
            pins: Pins::default(),
            forgotten: journal.then(Mutex::default),
        }
    }

    /// Lets all connections decide again, by rules that have come into force.
    pub(crate) fn reloaded(&self) {
        for epoch in &self.epochs {
            epoch.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A number that moves on when the client's decision may have changed.
    pub(crate) fn epoch(&self, client: IpAddr) -> u64 {
        self.epochs[stripe_of(client, STRIPES)].load(Ordering::Relaxed)
    }

    /// Says that the client's decision has changed.
    pub(crate) fn changed(&self, client: IpAddr) {
        self.epochs[stripe_of(client, STRIPES)].fetch_add(1, Ordering::Relaxed);
    }

    /// Decides for a client whose handshake has named a host, and keeps the decision with its estimate. A
    /// site that pins the version keeps none, since the client's session at others goes on.
    pub(crate) fn decide(&self, client: IpAddr, server_name: Option<&str>) -> Decision {
        let now = self.clock.now();
        let rules = self.rules.load();
        let own = rules.policies.own(server_name);
        let policy = own.unwrap_or(rules.policies.server());
        let policy = self.pins.over(client, policy, now);
        let view = self.knowledge(client, &rules).view(now, &policy);
        let decision = rules.decide(&view, &policy, now);
        if own.is_some_and(|own| own.version.pinned().is_some()) {
            return decision;
        }
        let decided = Observation::Decided(decision.decided());
        self.table(client, &rules).observe(client, now, &decided);
        decision
    }

    /// Decision that a client whose handshake names a host would get now, without keeping it.
    pub(crate) fn preview(&self, client: IpAddr, server_name: Option<&str>) -> Decision {
        let now = self.clock.now();
        let rules = self.rules.load();
        let policy = self.pins.over(client, rules.policies.of(server_name), now);
        let view = self.knowledge(client, &rules).view(now, &policy);
        rules.decide(&view, &policy, now)
    }

    /// The draw of a client whose handshake has named a host, and the host's site. It takes no lock.
    pub(crate) fn subject(&self, client: IpAddr, server_name: Option<&str>) -> (Subject, Site) {
        let rules = self.rules.load();
        let policies = &rules.policies;
        let subject = Subject::of(client, policies.of(server_name), SEED);
        (subject, policies.site(server_name))
    }

    /// Settings for the sender of a client's next connection over `transport`.
    pub(crate) fn transport(&self, client: IpAddr, transport: Transport) -> TransportChoice {
        self.early(client, transport).choice
    }

    /// Decision for a client's next connection over `transport`, without keeping it, by the server's policy:
    /// its handshake has yet to name a host.
    pub(crate) fn early(&self, client: IpAddr, transport: Transport) -> Early {
        let epoch = self.epoch(client);
        let now = self.clock.now();
        let rules = self.rules.load();
        let knowledge = self.knowledge(client, &rules);
        let policy = self.pins.over(client, rules.policies.server(), now);
        let view = knowledge.view(now, &policy);
        let decision = rules.decide(&view, &policy, now);
        let begin = rules.begin(client, &view, decision, now);
        let choice = if begin.assignment.is_held_back() {
            TransportChoice::ordinary(begin.congestion.get(transport).congestion)
        } else {
            TransportChoice {
                congestion: begin.congestion.get(transport).congestion,
                min_cwnd: policy.min_cwnd.bytes(),
                known: knowledge.saved_path(transport, now, &policy),
            }
        };
        Early {
            choice,
            decision,
            epoch,
            at: clock::now(),
        }
    }

    /// Decides again for a connection over TCP whose path was unknown, where it has become known since.
    pub(crate) fn learnt_since(&self, client: IpAddr, early: &Early) -> Option<Early> {
        if early.choice.known.is_some() || early.epoch == self.epoch(client) {
            return None;
        }
        let now = self.early(client, Transport::Tcp);
        now.choice.known.is_some().then_some(now)
    }

    /// Keeps a decision that was made before a handshake, or decides anew. It does so if something was learnt
    /// since, or if the host that the handshake has named has a policy of its own.
    pub(crate) fn decide_after(
        &self,
        client: IpAddr,
        server_name: Option<&str>,
        early: &Early,
    ) -> Decision {
        let is_outdated = clock::since(early.at) > EARLY_AGE || early.epoch != self.epoch(client);
        if is_outdated || self.rules.load().policies.own(server_name).is_some() {
            return self.decide(client, server_name);
        }
        self.observe(client, &Observation::Decided(early.decision.decided()));
        early.decision
    }

    /// Bytes below which no window falls, but for those of the hold-back group.
    pub(crate) fn min_cwnd(&self) -> Option<u64> {
        self.rules.load().policies.server().min_cwnd.bytes()
    }

    /// The rate at which each connection whose handshake has named a host sends at most.
    pub(crate) fn max_pacing_rate(&self, server_name: Option<&str>) -> Option<Rate> {
        let rules = self.rules.load();
        rules.policies.of(server_name).max_pacing_rate.rate()
    }

    /// Over how many of `available` connections a client's pages are spread, as `decision` is
    /// its own.
    pub(crate) fn connections(
        &self,
        client: IpAddr,
        decision: &Decision,
        available: u8,
    ) -> Connections {
        let rules = self.rules.load();
        let policy = rules.policies.server();
        let view = self
            .knowledge(client, &rules)
            .view(self.clock.now(), policy);
        connections(&view, &rules.model, policy, decision, available)
    }

    /// Description of the model in force: the data it was made from.
    pub(crate) fn model_description(&self) -> String {
        self.rules.load().model.file().description.clone()
    }

    /// Learns.
    pub(crate) fn observe(&self, client: IpAddr, observation: &Observation) {
        let (now, rules) = (self.clock.now(), self.rules.load());
        self.table(client, &rules).observe(client, now, observation);
    }

    /// Everything known of a client, and what would be decided for it.
    pub(crate) fn explain(&self, client: IpAddr) -> Explanation {
        let now = self.clock.now();
        let rules = self.rules.load();
        let knowledge = self.knowledge(client, &rules);
        explain(
            &knowledge,
            &rules.model,
            &self.pins.over(client, rules.policies.server(), now),
            &rules.available,
            now,
            SEED,
        )
    }

    /// Number of addresses and prefixes that something is known of.
    pub(crate) fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().len()).sum()
    }

    /// The addresses seen last, newest first.
    pub(crate) fn recent(&self, limit: usize) -> Vec<Known> {
        let mut newest = Vec::new();
        for stripe in &self.stripes {
            let table = stripe.lock();
            newest.extend(table.iter().filter_map(|(key, estimate)| match key {
                Key::Address(address) => Some(Known {
                    address,
                    last_seen: estimate.last_seen(),
                }),
                Key::Prefix(_) => None,
            }));
            drop(table);
            // Bounded however many clients there are.
            newest.sort_unstable_by_key(|known| std::cmp::Reverse(known.last_seen));
            newest.truncate(limit);
        }
        newest
    }

    /// Forgets; gives the number of records that went.
    pub(crate) fn forget(&self, scope: Scope) -> usize {
        let key = match scope {
            Scope::Address(address) => Some(Key::address(address)),
            Scope::Prefix(prefix) => Some(Key::Prefix(prefix)),
            Scope::All => None,
        };
        if let (Some(forgotten), Some(key)) = (&self.forgotten, key) {
            forgotten.lock().push(key);
        }
        match scope {
            Scope::Address(address) => self.stripe(address).lock().forget(scope),
            Scope::Prefix(prefix) => self.stripe(prefix.network()).lock().forget(scope),
            Scope::All => self.stripes.iter().map(|s| s.lock().forget(scope)).sum(),
        }
    }

    /// Up to about `limit` changes since the last call, for the store.
    pub(crate) fn changes(&self, limit: usize) -> Changes {
        let forgotten = self.forgotten.as_ref();
        let mut changes = Changes {
            forgotten: forgotten.map_or_else(Vec::new, |keys| std::mem::take(&mut *keys.lock())),
            ..Changes::default()
        };
        for (index, stripe) in self.stripes.iter().enumerate() {
            let left = limit.saturating_sub(changes.records.len());
            if left == 0 {
                break;
            }
            for change in stripe.lock().drain_dirty().take(left) {
                match change {
                    // Changes that were noted before it, if any, concerned this stripe alone.
                    Change::Clear => drop(changes.cleared.insert(index)),
                    Change::Remove(key) => changes.records.push((key, None)),
                    Change::Put(key, estimate) => {
                        changes.records.push((key, Some(Box::from(estimate))));
                    }
                }
            }
        }
        changes
    }

    /// The number of changes that the store has not taken yet.
    pub(crate) fn unstored(&self) -> usize {
        let stripes = self.stripes.iter();
        stripes.map(|stripe| stripe.lock().unstored()).sum()
    }

    /// Notes everything as changed, for a store that has lost it.
    pub(crate) fn mark_all_changed(&self) {
        for stripe in &self.stripes {
            stripe.lock().mark_all_changed();
        }
    }

    /// The stripe that keeps a key.
    pub(crate) fn stripe_of_key(key: &Key) -> usize {
        stripe_of(address_in(key), STRIPES)
    }

    /// Takes a record of the store; `false` if it is of another format.
    pub(crate) fn insert(&self, key: Key, encoded: &[u8]) -> bool {
        self.stripe(address_in(&key))
            .lock()
            .insert_encoded(key, encoded)
            .is_ok()
    }

    fn stripe(&self, address: IpAddr) -> &Mutex<ClientTable> {
        &self.stripes[stripe_of(address, self.stripes.len())]
    }

    /// The knowledge of a client, with the note that it may come through balancers.
    fn knowledge(&self, client: IpAddr, rules: &Rules) -> Knowledge {
        let knowledge = self.table(client, rules).knowledge(client);
        match rules.balancers {
            true => knowledge.behind_balancers(),
            false => knowledge,
        }
    }

    /// The table of a client, which goes by these rules as long as it is locked.
    fn table(&self, client: IpAddr, rules: &Rules) -> MutexGuard<'_, ClientTable> {
        let mut table = self.stripe(client).lock();
        table.reconfigure(rules.policies.server(), &rules.model);
        table
    }
}

impl Rules {
    pub(crate) fn new(
        policies: Policies,
        model: Model,
        available: ByTransport<CongestionSet>,
        balancers: bool,
    ) -> Self {
        Self {
            policies,
            model: Arc::new(model),
            available,
            balancers,
        }
    }

    fn decide(&self, view: &ClientView, policy: &PolicyConfig, now: Timestamp) -> Decision {
        let by = |policy| decide(view, &self.model, policy, &self.available, now, SEED);
        let decision = by(policy);
        match self.policies.shadow() {
            Some(shadow) if std::ptr::eq(policy, &raw const **self.policies.server()) => {
                decision.beside(&by(shadow))
            }
            _ => decision,
        }
    }

    /// The decision that a connection begins with, before its handshake names a host. A client that any
    /// site holds back begins as at an ordinary server: what a connection has begun with stays.
    fn begin(
        &self,
        client: IpAddr,
        view: &ClientView,
        by_server: Decision,
        now: Timestamp,
    ) -> Decision {
        match self.policies.strictest() {
            Some(strictest) if Assignment::of(client, strictest, SEED).is_held_back() => {
                self.decide(view, strictest, now)
            }
            _ => by_server,
        }
    }
}

/// An address that a key covers.
fn address_in(key: &Key) -> IpAddr {
    match key {
        Key::Address(address) => *address,
        Key::Prefix(prefix) => prefix.network(),
    }
}

#[cfg(test)]
mod tests;
