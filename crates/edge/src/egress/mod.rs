//! Egress routes: the agent's reports of them, the records of each, and the choice for each connection
//! (EPE §3; `docs/egress-api.md`).
//!
//! [`Egress`] follows the agent, keeps the outcomes of responses on its egress routes, and decides.
//! [`ConnRoute`] is a connection's part: its class of content, its decision, the mark of its packets.
//! Requests never wait for the agent: a connection begins on the plain route. It is moved when the
//! answer for its client arrives, and whenever that changes.

mod agent;
mod classes;
mod config;
mod counts;
mod gate;
mod hints;
mod link;
mod lookups;
mod route;
mod sse;
mod state;
mod steer;
mod summary;
#[cfg(test)]
mod tests;
mod wire;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, Guard};
use hikyaku_core::bounded::TableConfig;
use hikyaku_core::choice::Visit;
use hikyaku_core::client::table::Scope;
use hikyaku_core::egress::{
    Blame, Candidates, Criterion, EgressId, EgressKey, EgressNames, EgressSet, Mptcp,
    NetworkSummary, Phase, Route, RouteChanges, RouteDecision, RouteObservation, RouteTable,
    RouteView, RoutesExplanation, Scheduling, Wants, decide_route, explain_routes,
};
use hikyaku_core::policy::{PolicyConfig, RoutePolicy};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::mptcp::MptcpGate;
use crate::part::Part;
use crate::seed::{SEED, random};

pub(crate) use classes::{ClassId, Classes, ClassesError, Content};
pub use config::{ClassConfig, EgressConfig, MptcpFor, Steer};
pub(crate) use counts::{RouteCount, RouteCounts};
pub(crate) use hints::SubflowEnds;
use hints::{Hint, Hints};
use lookups::Lookups;
pub(crate) use lookups::Reroute;
pub(crate) use route::{ConnRoute, Outstanding, Update, WakeMeter};
use state::{Answer, Reach, State};
use steer::SteerBy;
pub(crate) use summary::Summary;

/// Clients, prefixes and ASes of which routes are known, at most: some 70 MB.
const MAX_RECORDS: usize = 262_144;
/// Changes that are taken for the store at a time: decisions wait for no more than that.
const PORTION: usize = 128;

/// The egress routes of this host.
#[derive(Debug)]
pub(crate) struct Egress {
    socket: PathBuf,
    by: SteerBy,
    state: ArcSwap<State>,
    connected: AtomicBool,
    lookups: Arc<Lookups>,
    table: Mutex<RouteTable>,
    rules: Part<Rules>,
    clock: Clock,
    pub(crate) counts: RouteCounts,
    gate: Option<MptcpGate>,
    hints: Hints,
    /// Hints that are pending until it is started.
    pending: Mutex<Option<mpsc::Receiver<Hint>>>,
    trouble: link::Trouble,
}

/// Policy and classes that routes are chosen by.
#[derive(Debug)]
pub(crate) struct Rules {
    policy: Arc<PolicyConfig>,
    classes: Classes,
}

impl Rules {
    pub(crate) fn new(policy: PolicyConfig, classes: Classes) -> Self {
        Self {
            policy: Arc::new(policy),
            classes,
        }
    }

    /// These rules in place of `former` ones, whose classes keep their ids.
    #[must_use]
    pub(crate) fn after(mut self, former: &Self) -> Self {
        self.classes.keep_ids(&former.classes);
        self
    }

    /// Wishes of a class, in each phase of a response whose quality counts for it.
    fn wanted_in_phases(&self, class: ClassId) -> impl Iterator<Item = (ClassId, Wants)> + use<> {
        let criterion = self.classes.wants(class);
        let long = (criterion == Criterion::Goodput).then_some(Phase::Sustained);
        let phases = std::iter::once(Phase::Startup).chain(long);
        phases.map(move |phase| (class, Wants { criterion, phase }))
    }

    /// Which subflows of MPTCP carry the data of a class.
    fn scheduling(&self, class: ClassId) -> Scheduling {
        let own = self.classes.scheduling(class);
        own.under(self.policy.scheduling)
    }

    /// Wishes of content for a route to a client.
    fn wants(&self, content: Content, view: &RouteView) -> Wants {
        Wants {
            criterion: self.classes.wants(content.class),
            phase: view.phase_of(content.bytes),
        }
    }
}

/// Decision with the input it was taken from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    pub(crate) decision: RouteDecision,
    pub(crate) candidates: Candidates,
    /// Paths to the client that have stalled lately.
    pub(crate) avoided: EgressSet,
    /// Paths to the client whose port has no room for the content.
    pub(crate) full: EgressSet,
    pub(crate) reach: Option<Reach>,
}

impl Egress {
    /// Egress as `config` asks for it; `None` without an agent. MPTCP is taken where it is spoken at all (`mptcp`),
    /// and changes are noted for a store where there is one (`journal`).
    pub(crate) fn new(
        config: &EgressConfig,
        mptcp: bool,
        rules: Part<Rules>,
        journal: bool,
        clock: Clock,
    ) -> Option<Arc<Self>> {
        let socket = config.socket.clone()?;
        let policy = Arc::clone(&rules.load().policy);
        let table = TableConfig {
            max_records: MAX_RECORDS,
            hash_key: [random(), random()],
            journal,
        };
        let (hints, pending) = Hints::new();
        Some(Arc::new(Self {
            socket,
            by: SteerBy::of(config.steer),
            state: ArcSwap::default(),
            connected: AtomicBool::new(false),
            lookups: Arc::default(),
            table: Mutex::new(RouteTable::new(table, policy)),
            rules,
            clock,
            counts: RouteCounts::default(),
            gate: gate::open(mptcp, config.mptcp),
            hints,
            pending: Mutex::new(Some(pending)),
            trouble: link::Trouble::default(),
        }))
    }

    /// Follows the agent until `end`.
    pub(crate) fn start(self: &Arc<Self>, tasks: &TaskTracker, end: &CancellationToken) {
        link::start(self, tasks, end);
        if let Some(pending) = self.pending.lock().take() {
            let notifying = Arc::clone(self).send_hints(pending);
            let end = end.clone();
            tasks.spawn(async move { end.run_until_cancelled(notifying).await });
        }
    }

    /// Follows a policy and classes that have come into force.
    pub(crate) fn reloaded(&self) {
        self.set_gate();
        self.check_named();
        self.reroute_all();
    }

    /// The records, which go by these rules as long as they are locked.
    fn records(&self, rules: &Rules) -> MutexGuard<'_, RouteTable> {
        let mut table = self.table.lock();
        table.reconfigure(&rules.policy);
        table
    }

    /// State that the agent has reported.
    pub(crate) fn state(&self) -> Guard<Arc<State>> {
        self.state.load()
    }

    /// Whether the agent answers now.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// A route's name.
    pub(crate) fn name(&self, route: Route) -> String {
        route.display(self.state().names()).to_string()
    }

    /// The egress route that packets from a local address take, where it is an EPE address.
    pub(crate) fn name_of_address(&self, local: IpAddr) -> Option<String> {
        let state = self.state();
        let path = state.path_of_address(local)?;
        state.path(path).map(|path| path.name.clone())
    }

    /// A decision as a sentence.
    pub(crate) fn sentence(&self, decision: RouteDecision) -> String {
        decision.display(self.state().names()).to_string()
    }

    /// Decides for a client and the content that it is sent.
    fn decide(
        &self,
        client: IpAddr,
        answer: Option<&Answer>,
        content: Content,
        mptcp: Mptcp,
        visit: Visit,
    ) -> Decided {
        let rules = self.rules.load();
        let candidates = self.candidates(&rules, client, answer, content.class, mptcp);
        let reach = answer.map(|answer| answer.reach);
        let asn = reach.and_then(|reach| reach.asn);
        let now = self.clock.now();
        let view = self.records(&rules).view(client, asn, now);
        let wants = rules.wants(content, &view);
        let decision = decide_route(&view, wants, &candidates, &rules.policy, visit, SEED);
        self.records(&rules).decided(client, wants, &decision);
        let stalls = |path: &EgressId| {
            let quality = view.quality(Route::Steered(*path), candidates.plain_is);
            quality.avoided_for.is_some()
        };
        Decided {
            decision,
            candidates,
            avoided: candidates.egresses.iter().filter(stalls).collect(),
            full: candidates.egresses.and(candidates.room.full()),
            reach,
        }
    }

    fn candidates(
        &self,
        rules: &Rules,
        client: IpAddr,
        answer: Option<&Answer>,
        class: ClassId,
        mptcp: Mptcp,
    ) -> Candidates {
        let named = match &rules.policy.route {
            RoutePolicy::Named(name) => Some(name.as_str()),
            _ => None,
        };
        let class = (rules.classes.name(class), rules.classes.wants(class));
        self.state().candidates(answer, client, class, mptcp, named)
    }

    /// Counts what responses have shown of a route. It is learnt unless they were part of another
    /// experiment.
    fn learn(
        &self,
        client: IpAddr,
        of: &Decided,
        route: Route,
        seen: &RouteObservation,
        is_experiment: bool,
    ) {
        let Some(reach) = of.reach else {
            return;
        };
        if let Some(goodput) = seen.goodput().filter(|_| !seen.app_limited) {
            self.counts.compare(&of.decision, goodput);
        }
        if is_experiment {
            return;
        }
        let carrier = route.carrier(reach.plain_is);
        let now = self.clock.now();
        self.records(&self.rules.load())
            .learn(client, reach.asn, carrier, seen, now);
    }

    fn stalled(&self, client: IpAddr, of: &Decided, route: Route) -> Blame {
        self.counts.add(RouteCount::Stalls, route, 1);
        let reach = of.reach.unwrap_or_default();
        let carrier = route.carrier(reach.plain_is);
        let now = self.clock.now();
        let mut table = self.records(&self.rules.load());
        table.stalled(client, reach.asn, carrier, &of.candidates, now)
    }

    /// A stall of the route was a false alarm.
    fn delivers(&self, client: IpAddr, of: &Decided, route: Route) {
        let reach = of.reach.unwrap_or_default();
        let carrier = route.carrier(reach.plain_is);
        let now = self.clock.now();
        self.records(&self.rules.load())
            .delivers(client, carrier, now);
    }

    /// The records of a client's routes, and the decision for each class; for bulk content also the
    /// decision for long responses. They are those of an MPTCP connection if the client has one open or
    /// had one lately. Empty while the agent has not been asked for the client.
    pub(crate) fn explain(
        &self,
        client: IpAddr,
        mptcp: bool,
        visit: Visit,
    ) -> Vec<RoutesExplanation> {
        let client = client.to_canonical();
        let Some(answer) = self.lookups.known(client) else {
            return Vec::new();
        };
        let rules = self.rules.load();
        let asn = answer.reach.asn;
        let view = self.records(&rules).view(client, asn, self.clock.now());
        let state = self.state();
        let had = view.quality(Route::Aggregated, None).age.is_some();
        let mptcp = match (mptcp || had) && self.hints.are_obeyed() {
            true => Mptcp::Taken,
            false => Mptcp::None,
        };
        let explained = |(class, wants): (ClassId, Wants)| {
            let candidates = self.candidates(&rules, client, Some(&answer), class, mptcp);
            explain_routes(
                &view,
                (rules.classes.name(class), wants),
                &candidates,
                state.known_paths(&answer),
                &rules.policy,
                (visit, SEED),
            )
        };
        let classes = rules.classes.ids();
        let wanted = classes.flat_map(|class| rules.wanted_in_phases(class));
        wanted.map(explained).collect()
    }

    /// The records of client ASes, those seen last first, at most `limit`.
    pub(crate) fn networks(&self, limit: usize) -> Vec<NetworkSummary> {
        let (state, now) = (self.state(), self.clock.now());
        self.records(&self.rules.load())
            .networks(state.names(), now, limit)
    }

    /// Takes the records of the store before the agent has named its egress routes. `load` reads each record
    /// into its argument, which returns whether the record was of use.
    pub(crate) fn restore<T>(
        &self,
        load: impl FnOnce(&mut dyn FnMut(EgressKey, &[u8]) -> bool) -> T,
    ) -> T {
        let mut names = EgressNames::default();
        let mut table = self.table.lock();
        let now = self.clock.now();
        let loaded = load(&mut |key, encoded| {
            let read = table.insert_encoded(key, encoded, &mut names, now);
            read.is_ok()
        });
        self.state.store(Arc::new(State::knowing(names)));
        loaded
    }

    /// Up to about `limit` changed records of routes since the last call, for the store.
    pub(crate) fn changes(&self, limit: usize) -> RouteChanges {
        let mut changes = RouteChanges::default();
        while changes.records.len() < limit {
            let mut table = self.table.lock();
            let portion = table.drain_changes(PORTION, self.state().names());
            drop(table);
            if portion.is_empty() {
                break;
            }
            changes = changes.then(portion);
        }
        changes
    }

    /// Notes everything as changed, for a store that has lost it.
    pub(crate) fn mark_all_changed(&self) {
        self.table.lock().mark_all_changed();
    }

    /// Forgets the records of routes.
    pub(crate) fn forget(&self, scope: Scope) -> usize {
        self.table.lock().forget(scope)
    }

    fn reroute_all(&self) {
        for subscriber in self.lookups.subscribers().iter().filter_map(Weak::upgrade) {
            subscriber.reroute();
        }
    }
}
