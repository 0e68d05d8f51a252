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
mod decide;
mod gate;
mod hints;
mod link;
mod lookups;
mod net;
mod records;
mod route;
mod rules;
mod shared;
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
use hikyaku_core::egress::{Route, RouteDecision, RouteTable};
use hikyaku_units::Timestamp;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::mptcp::MptcpGate;
use crate::part::Part;
use crate::seed::random;

pub(crate) use classes::{ClassId, Classes, ClassesError, Content};
pub use config::{ClassConfig, EgressConfig, MptcpFor, Steer};
pub(crate) use counts::{RouteCount, RouteCounts};
pub(crate) use decide::Decided;
pub(crate) use hints::SubflowEnds;
use hints::{Hint, Hints};
use lookups::Lookups;
pub(crate) use lookups::Reroute;
use records::MAX_RECORDS;
pub(crate) use route::{ConnRoute, Outstanding, Update, WakeMeter};
pub(crate) use rules::Rules;
use state::{Answer, Reach, State};
use steer::SteerBy;
pub(crate) use summary::Summary;
pub(crate) use wire::{Drain, Elsewhere};

/// The egress routes of this host.
#[derive(Debug)]
pub(crate) struct Egress {
    socket: PathBuf,
    by: SteerBy,
    state: ArcSwap<State>,
    /// Held by whoever puts another state in place.
    changing: Mutex<()>,
    connected: AtomicBool,
    lookups: Arc<Lookups>,
    table: Mutex<RouteTable>,
    rules: Part<Rules>,
    clock: Clock,
    began: Timestamp,
    /// There is a store on disk.
    keeps: bool,
    pub(crate) counts: RouteCounts,
    gate: Option<MptcpGate>,
    hints: Hints,
    /// Hints that are pending until it is started.
    pending: Mutex<Option<mpsc::Receiver<Hint>>>,
    trouble: link::Trouble,
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
            changing: Mutex::default(),
            connected: AtomicBool::new(false),
            lookups: Arc::default(),
            table: Mutex::new(RouteTable::new(table, policy)),
            rules,
            began: clock.now(),
            keeps: journal,
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

    fn reroute_all(&self) {
        for subscriber in self.lookups.subscribers().iter().filter_map(Weak::upgrade) {
            subscriber.reroute();
        }
    }
}
