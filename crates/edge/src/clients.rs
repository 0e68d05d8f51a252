//! The estimates of clients: `core`'s tables, in stripes of which each has a lock.
//!
//! Requests never take one: a connection keeps its decision. Only its meter, some times a
//! second at most, and its beginning do.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hikyaku_core::bounded::{Change, TableConfig};
use hikyaku_core::client::key::{Key, stripe_of};
use hikyaku_core::client::sample::Observation;
use hikyaku_core::client::table::{ClientTable, Scope};
use hikyaku_core::client::view::ClientView;
use hikyaku_core::egress::RouteChanges;
use hikyaku_core::explain::{Explanation, explain};
use hikyaku_core::model::Model;
use hikyaku_core::page::{Connections, connections};
use hikyaku_core::policy::PolicyConfig;
use hikyaku_core::transport::{Decision, decide};
use hikyaku_units::arm::{ByTransport, CongestionSet, Transport};
use hikyaku_units::{Rate, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use crate::clock::{self, Clock};
use crate::part::Part;
use crate::seed::{SEED, random};
use crate::transport::TransportChoice;

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

/// Policy and model that decisions are made by.
#[derive(Debug)]
pub(crate) struct Rules {
    policy: Arc<PolicyConfig>,
    model: Arc<Model>,
    available: ByTransport<CongestionSet>,
}

/// Changes for the store: first everything forgotten and of the cleared stripes goes, then each
/// record is put or removed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Addresses and prefixes that were forgotten with all in them: the store may hold records
    /// that could not be loaded.
    pub(crate) forgotten: Vec<Key>,
    pub(crate) cleared: HashSet<usize>,
    pub(crate) records: Vec<(Key, Option<Box<[u8]>>)>,
    /// Of egress routes.
    pub(crate) routes: RouteChanges,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.forgotten.is_empty()
            && self.cleared.is_empty()
            && self.records.is_empty()
            && self.routes.is_empty()
    }
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
        let Rules { policy, model, .. } = &**rules.load();
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
            clock,
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

    /// Decides for a client, and keeps the decision with the client's estimate.
    pub(crate) fn decide(&self, client: IpAddr) -> Decision {
        let now = self.clock.now();
        let rules = self.rules.load();
        let view = self.table(client, &rules).view(client, now);
        let decision = rules.decide(&view, now);
        let decided = Observation::Decided(decision.decided());
        self.table(client, &rules).observe(client, now, &decided);
        decision
    }

    /// Decision that a client would get now, without keeping it.
    pub(crate) fn preview(&self, client: IpAddr) -> Decision {
        let now = self.clock.now();
        let rules = self.rules.load();
        let view = self.table(client, &rules).view(client, now);
        rules.decide(&view, now)
    }

    /// Settings for the sender of a client's next connection over `transport`.
    pub(crate) fn transport(&self, client: IpAddr, transport: Transport) -> TransportChoice {
        self.early(client, transport).choice
    }

    /// Decision for a client's next connection over `transport`, without keeping it.
    pub(crate) fn early(&self, client: IpAddr, transport: Transport) -> Early {
        let epoch = self.epoch(client);
        let now = self.clock.now();
        let rules = self.rules.load();
        let knowledge = self.table(client, &rules).knowledge(client);
        let decision = rules.decide(&knowledge.view(now, &rules.policy), now);
        let choice = TransportChoice {
            congestion: decision.congestion.get(transport).congestion,
            min_cwnd: rules.policy.min_cwnd.bytes(),
            known: knowledge.saved_path(transport, now, &rules.policy),
        };
        Early {
            choice,
            decision,
            epoch,
            at: clock::now(),
        }
    }

    /// Keeps a decision that was made before a handshake, if nothing has outdated it since, or decides.
    pub(crate) fn decide_after(&self, client: IpAddr, early: &Early) -> Decision {
        if clock::since(early.at) > EARLY_AGE || early.epoch != self.epoch(client) {
            return self.decide(client);
        }
        self.observe(client, &Observation::Decided(early.decision.decided()));
        early.decision
    }

    /// Bytes below which no window falls.
    pub(crate) fn min_cwnd(&self) -> Option<u64> {
        self.rules.load().policy.min_cwnd.bytes()
    }

    /// The rate at which each connection sends at most.
    pub(crate) fn max_pacing_rate(&self) -> Option<Rate> {
        self.rules.load().policy.max_pacing_rate.rate()
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
        let view = self.table(client, &rules).view(client, self.clock.now());
        connections(&view, &rules.model, &rules.policy, decision, available)
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
        let knowledge = self.table(client, &rules).knowledge(client);
        explain(
            &knowledge,
            &rules.model,
            &rules.policy,
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

    /// The table of a client, which goes by these rules as long as it is locked.
    fn table(&self, client: IpAddr, rules: &Rules) -> MutexGuard<'_, ClientTable> {
        let mut table = self.stripe(client).lock();
        table.reconfigure(&rules.policy, &rules.model);
        table
    }
}

impl Rules {
    pub(crate) fn new(
        policy: PolicyConfig,
        model: Model,
        available: ByTransport<CongestionSet>,
    ) -> Self {
        Self {
            policy: Arc::new(policy),
            model: Arc::new(model),
            available,
        }
    }

    fn decide(&self, view: &ClientView, now: Timestamp) -> Decision {
        decide(view, &self.model, &self.policy, &self.available, now, SEED)
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
