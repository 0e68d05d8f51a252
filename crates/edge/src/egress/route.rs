//! The route of one connection out of the AS.

mod outstanding;
mod stalls;
mod subflows;

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hikyaku_core::choice::Visit;
use hikyaku_core::egress::{self, EgressId, Route, RouteObservation};
use parking_lot::Mutex;

use super::hints::Hint;
use super::lookups::{Reroute, Subscription};
use super::{ClassId, Content, Decided, Egress, RouteCount, SteerBy};
use crate::clock;
use crate::experiments::Experiments;
use crate::mptcp::{Mptcp, MptcpGate};
use outstanding::Demand;
pub(crate) use outstanding::Outstanding;

/// A connection's class of content, its decision, and how far that is applied.
///
/// **Its class** is that of the open responses which have the most bytes still to be sent. A response
/// whose length is not announced counts for 1 MB until more has been sent. While none is open, the
/// connection keeps its last class.
#[derive(Debug)]
pub(crate) struct ConnRoute {
    egress: Arc<Egress>,
    client: IpAddr,
    local: SocketAddr,
    mptcp: Mptcp,
    /// It is of MPTCP to explore several egress routes.
    drawn: bool,
    subscription: OnceLock<Subscription>,
    meter: Arc<dyn WakeMeter>,
    /// The decision is to be taken anew.
    outdated: AtomicBool,
    class: AtomicU8,
    outstanding: [AtomicU64; ClassId::COUNT],
    demand: Mutex<Demand>,
    /// Bytes that the decision was taken for.
    decided_for: AtomicU64,
    /// Bytes of responses that have ended, by their class.
    carried: [AtomicU64; ClassId::COUNT],
    mark: AtomicU32,
    /// Moves on with each change of the route that packets take.
    changes: AtomicU64,
    /// There is another route than the one in use.
    has_others: AtomicBool,
    chosen: Mutex<Chosen>,
}

#[derive(Debug)]
struct Chosen {
    decided: Decided,
    /// The route that packets take, which is the chosen one where that can be had.
    route: Route,
    /// With the route, up to now.
    experiments: Experiments,
    /// Those on which acknowledgements stay away: one, or of MPTCP those of some subflows.
    stalled: Vec<(Route, Decided)>,
    /// The route was taken since another one carried nothing.
    failover: Option<Failover>,
    /// Of several routes by MPTCP: the subflows that carry data.
    subflows: subflows::Ordered,
    /// The last hint to the agent about it.
    hint: Option<Hint>,
}

impl Chosen {
    /// The route of a new connection to this `local` address, which may be the EPE address of an egress route.
    fn first(egress: &Egress, local: IpAddr, decided: Decided) -> Self {
        Self {
            route: native(egress, local).map_or(Route::Plain, Route::Steered),
            decided,
            experiments: Experiments::default(),
            stalled: Vec::new(),
            failover: None,
            subflows: subflows::Ordered::default(),
            hint: None,
        }
    }
}

/// A route that was taken because of a stall.
#[derive(Clone, Copy, Debug)]
struct Failover {
    since: Instant,
    /// Acknowledgements have come since the last stall.
    delivers: bool,
    /// The route that was left, once they have.
    left: Option<(Route, Decided)>,
}

/// Wakes the meter of a connection, which then asks for its mark.
pub(crate) trait WakeMeter: Send + Sync + std::fmt::Debug {
    fn wake_meter(&self);
}

/// Changes that a new decision made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update {
    pub(crate) decided: Decided,
    /// The route that packets take.
    pub(crate) route: Route,
    /// Another one is taken than before.
    pub(crate) moved: bool,
    /// For another reason than before.
    pub(crate) is_news: bool,
}

impl ConnRoute {
    /// Opens the account of a connection, and asks for its first decision.
    pub(crate) fn open(
        egress: Arc<Egress>,
        (client, local): (IpAddr, SocketAddr),
        mptcp: Mptcp,
        meter: Arc<dyn WakeMeter>,
        visit: Visit,
    ) -> Arc<Self> {
        // Plain, until the agent's answer is known.
        let decided = egress.decide(client, None, Content::NONE, egress::Mptcp::None, visit);
        let takes_all = |gate: &MptcpGate| gate.takes_all_of(client);
        let drawn = matches!(mptcp, Mptcp::Token(_)) && !egress.gate().is_none_or(takes_all);
        egress.counts.mptcp(mptcp, drawn);
        let route = Arc::new(Self {
            chosen: Mutex::new(Chosen::first(&egress, local.ip(), decided)),
            client,
            local,
            mptcp,
            drawn,
            subscription: OnceLock::new(),
            meter,
            outdated: AtomicBool::new(true),
            class: AtomicU8::new(ClassId::NONE.index() as u8),
            outstanding: Default::default(),
            demand: Mutex::default(),
            decided_for: AtomicU64::new(0),
            carried: Default::default(),
            mark: AtomicU32::new(0),
            changes: AtomicU64::new(0),
            has_others: AtomicBool::new(false),
            egress,
        });
        let subscriber: std::sync::Weak<Self> = Arc::downgrade(&route);
        let subscription = route.egress.lookups.join(client, subscriber);
        // Nobody else has it yet.
        let _ = route.subscription.set(subscription);
        let (begun, _) = route.decide_anew(visit);
        route.egress.counts.add(RouteCount::Begun, begun.route, 1);
        route.egress.counts.add(RouteCount::Open, begun.route, 1);
        route
    }

    /// The mark that its packets shall bear; 0 for none.
    pub(crate) fn mark(&self) -> u32 {
        self.mark.load(Ordering::Relaxed)
    }

    /// A number that moves on when its packets take another route.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Whether the decision is to be taken anew.
    pub(crate) fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Relaxed)
    }

    /// Whether there is another route for it.
    pub(crate) fn has_others(&self) -> bool {
        self.has_others.load(Ordering::Relaxed)
    }

    /// The route that its packets take.
    pub(crate) fn route(&self) -> Route {
        self.chosen.lock().route
    }

    /// The name of that route, and of the reason.
    pub(crate) fn names(&self) -> (String, &'static str) {
        let chosen = self.chosen.lock();
        let code = chosen.decided.decision.reason.code();
        (self.egress.name(chosen.route), code)
    }

    /// The address by which a new HTTP/3 connection takes the chosen egress route. `None` where it may come
    /// to the usual address.
    pub(crate) fn advertised(&self) -> Option<IpAddr> {
        if self.egress.by != SteerBy::Addresses {
            return None;
        }
        let Route::Steered(path) = self.chosen.lock().decided.decision.route else {
            return None;
        };
        let state = self.egress.state();
        let addresses = &state.path(path)?.addresses;
        let same_family = |address: &&IpAddr| address.is_ipv4() == self.client.is_ipv4();
        addresses.iter().find(same_family).copied()
    }

    /// Decides anew, and puts the route that packets take into force; the meter then applies its mark.
    pub(crate) fn update(&self, visit: Visit) -> Update {
        let (update, before) = self.decide_anew(visit);
        if update.moved {
            self.egress.counts.moved(before, update.route);
        }
        update
    }

    /// The same, uncounted; and the route before.
    fn decide_anew(&self, visit: Visit) -> (Update, Route) {
        // Handlers of requests decide beside the meter: the last one to look is to be the last to set.
        let mut chosen = self.chosen.lock();
        self.outdated.store(false, Ordering::Relaxed);
        let answer = self.subscription.get().and_then(Subscription::answer);
        let egress = &self.egress;
        let content = self.content();
        self.decided_for.store(content.bytes, Ordering::Relaxed);
        let decided = egress.decide(self.client, answer.as_ref(), content, self.mptcp(), visit);
        let (route, mark) = self.applied(decided.decision.route);
        let before = std::mem::replace(&mut chosen.route, route);
        let moved = before != route;
        let is_news =
            chosen.decided.decision.reason.code() != decided.decision.reason.code() || moved;
        let is_experiment = decided.decision.group.is_experiment();
        chosen.experiments = chosen.experiments.then(is_experiment, clock::now());
        chosen.decided = decided;
        if route != Route::Aggregated {
            chosen.subflows = subflows::Ordered::default();
        }
        self.send_hint(&mut chosen);
        let others = decided.candidates.singles().len() > 1 || route == Route::Aggregated;
        self.has_others.store(others, Ordering::Relaxed);
        self.mark.store(mark, Ordering::Relaxed);
        if moved {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        drop(chosen);
        if is_news {
            egress.counts.decided(&decided.decision.reason);
        }
        let update = Update {
            decided,
            route,
            moved,
            is_news,
        };
        (update, before)
    }

    /// MPTCP of the connection, as far as several egress routes can be chosen for it.
    pub(super) fn mptcp(&self) -> egress::Mptcp {
        match self.mptcp {
            Mptcp::Refused => egress::Mptcp::Refused,
            Mptcp::Token(_) if !self.egress.hints.are_obeyed() => egress::Mptcp::None,
            Mptcp::Token(_) if self.drawn => egress::Mptcp::Drawn,
            Mptcp::Token(_) => egress::Mptcp::Taken,
            Mptcp::None => egress::Mptcp::None,
        }
    }

    fn token(&self) -> Option<u32> {
        match self.mptcp {
            Mptcp::Token(token) => Some(token),
            Mptcp::None | Mptcp::Refused => None,
        }
    }

    /// Sends the agent a hint on the route and class of an MPTCP connection.
    fn send_hint(&self, chosen: &mut Chosen) {
        let Some(token) = self.token().filter(|_| self.egress.state().is_usable()) else {
            return;
        };
        let hints = &self.egress.hints;
        let paths = [chosen.decided.avoided, chosen.decided.full];
        let order = chosen.subflows.order();
        let hint = hints.of(token, self.class(), chosen.route, paths, order);
        if chosen.hint.as_ref() != Some(&hint) && hints.send(hint.clone()) {
            chosen.hint = Some(hint);
        }
    }

    /// The route that packets take where `wanted` was decided, and their mark.
    fn applied(&self, wanted: Route) -> (Route, u32) {
        if let Some(path) = native(&self.egress, self.local.ip()) {
            // Packets from an EPE address take its egress route or none.
            return (Route::Steered(path), 0);
        }
        match wanted {
            Route::Steered(path) if self.egress.by == SteerBy::Marks => {
                match self.egress.state().path(path) {
                    Some(path_now) => (wanted, path_now.mark),
                    None => (Route::Plain, 0),
                }
            }
            Route::Aggregated => (wanted, 0),
            Route::Plain | Route::Steered(_) => (Route::Plain, 0),
        }
    }

    /// Learns what responses have shown of the route in use, unless they were part of an experiment with
    /// something else. The decision is then to be taken anew.
    pub(crate) fn learn(&self, seen: &RouteObservation, is_experiment: bool) {
        // Otherwise nobody knows which egress routes it takes.
        if self.token().is_some() && !self.mptcp().is_used() {
            return;
        }
        let chosen = self.chosen.lock();
        let (decided, route) = (chosen.decided, chosen.route);
        drop(chosen);
        self.egress
            .learn(self.client, &decided, route, seen, is_experiment);
        self.outdated.store(true, Ordering::Relaxed);
    }

    /// Whether an experiment with the route ran at some time of a measurement.
    pub(crate) fn was_experiment(&self, during: &Range<Instant>) -> bool {
        self.chosen.lock().experiments.ran(during)
    }

    /// Counts a response that has ended.
    pub(crate) fn responded(&self, bytes: u64) {
        let route = self.route();
        self.egress.counts.add(RouteCount::Responses, route, 1);
        self.egress.counts.add(RouteCount::Bytes, route, bytes);
    }

    pub(super) fn content(&self) -> Content {
        Content {
            class: self.class(),
            bytes: self.demand.lock().bytes(),
        }
    }

    pub(super) fn class(&self) -> ClassId {
        ClassId::at(self.class.load(Ordering::Relaxed).into())
    }
}

impl Drop for ConnRoute {
    fn drop(&mut self) {
        self.egress.counts.closed(self.chosen.lock().route);
        let answer = self.subscription.get().and_then(Subscription::answer);
        if let (Some(answer), Some(class)) = (answer, self.main_class()) {
            let content = Content {
                class,
                bytes: self.demand.lock().most(),
            };
            self.egress.admit(self.client, &answer, content);
        }
    }
}

impl Reroute for ConnRoute {
    fn reroute(&self) {
        self.outdated.store(true, Ordering::Relaxed);
        self.meter.wake_meter();
    }
}

/// The egress route that packets from a local address take, where it is an EPE address.
fn native(egress: &Egress, local: IpAddr) -> Option<EgressId> {
    egress.state().path_of_address(local)
}
