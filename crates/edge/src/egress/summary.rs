//! The metrics of egress routes, and their part of the admin API.

use std::sync::atomic::AtomicU64;

use hikyaku_core::egress::Route;
use hikyaku_units::Rate;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Serialize;

use super::counts::Goodputs;
use super::wire::EgressState;
use super::{Egress, RouteCount, SteerBy};
use crate::metrics::counters;

/// The agent and its egress routes in short.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    /// The agent answers.
    connected: bool,
    /// By `mark`, by `address`, or `none`.
    steer: &'static str,
    paths: Vec<EgressSummary>,
    /// Plain first, then the egress routes, then several together.
    routes: Vec<RouteSummary>,
    compared: Compared,
}

#[derive(Debug, Serialize)]
struct EgressSummary {
    name: String,
    state: &'static str,
    reason: String,
    backup: bool,
}

/// The counters of a route; all but `open` count since the start.
#[derive(Debug, Serialize)]
struct RouteSummary {
    route: String,
    /// Connections that have it now.
    open: u64,
    /// Connections that began on it.
    begun: u64,
    /// Connections that were moved to it.
    moved: u64,
    responses: u64,
    bytes: u64,
    stalls: u64,
}

/// Goodput of clients that may get another route than plain, by whether they do.
#[derive(Debug, Serialize)]
struct Compared {
    /// The hold-back group, which always gets plain.
    held_back: GoodputSummary,
    /// All others, whatever was chosen for them.
    others: GoodputSummary,
}

#[derive(Debug, Serialize)]
struct GoodputSummary {
    responses: u64,
    /// Geometric mean in bit/s.
    goodput_bps: Option<u64>,
}

impl From<Goodputs> for GoodputSummary {
    fn from(goodputs: Goodputs) -> Self {
        Self {
            responses: goodputs.responses,
            goodput_bps: goodputs.mean().map(Rate::bits_per_sec),
        }
    }
}

impl Egress {
    /// The agent and its egress routes in short.
    pub(crate) fn summary(&self) -> Summary {
        let state = self.state();
        let paths = state.paths().map(|(_, path)| EgressSummary {
            name: path.name.clone(),
            state: path.standing().0.name(),
            reason: path.standing().1.to_owned(),
            backup: path.backup,
        });
        let steered = state.paths().map(|(path, _)| Route::Steered(path));
        let routes = std::iter::once(Route::Plain).chain(steered);
        let routes = routes.chain([Route::Aggregated]);
        let [held_back, others] = self.counts.compared().map(GoodputSummary::from);
        Summary {
            connected: self.is_connected(),
            steer: match self.by {
                SteerBy::Marks => "mark",
                SteerBy::Addresses => "address",
                SteerBy::Nothing => "none",
            },
            paths: paths.collect(),
            routes: routes.map(|route| self.route_summary(route)).collect(),
            compared: Compared { held_back, others },
        }
    }

    fn route_summary(&self, route: Route) -> RouteSummary {
        let count = |what| self.counts.get(what, route);
        RouteSummary {
            route: self.name(route),
            open: count(RouteCount::Open),
            begun: count(RouteCount::Begun),
            moved: count(RouteCount::Moved),
            responses: count(RouteCount::Responses),
            bytes: count(RouteCount::Bytes),
            stalls: count(RouteCount::Stalls),
        }
    }

    /// Adds the counters of routes.
    pub(crate) fn register(&self, registry: &mut Registry) {
        for (what, name, help) in BY_ROUTE {
            let label = |route: Route| vec![("route", self.name(route))];
            let counts = self.counts.by_route(what);
            let counts = counts.map(|(route, count)| (label(route), count));
            counters(registry, name, help, counts.collect());
        }
        let reasons = self.counts.by_reason();
        counters(
            registry,
            "route_decisions",
            "Changes of a connection's choice of a route, by the new one's reason",
            reasons
                .map(|(reason, count)| (vec![("reason", reason)], count))
                .collect(),
        );
        let mptcp = self.counts.by_mptcp();
        counters(
            registry,
            "route_mptcp_connections",
            "Connections whose clients have asked for MPTCP, by whether they got it",
            mptcp
                .map(|(answer, count)| (vec![("answer", answer)], count))
                .collect(),
        );
        self.register_compared(registry);
        self.register_agent(registry);
    }

    fn register_agent(&self, registry: &mut Registry) {
        let connected = Gauge::<i64>::default();
        connected.set(i64::from(self.is_connected()));
        registry.register(
            "egress_agent_connected",
            "Whether the egress agent answers",
            connected,
        );
        let up = Family::<Vec<(&'static str, String)>, Gauge>::default();
        for (_, path) in self.state().paths() {
            let labels = vec![("path", path.name.clone())];
            up.get_or_create(&labels)
                .set(i64::from(path.standing().0 == EgressState::Up));
        }
        registry.register("egress_path_up", "Whether a path may be used", up);
    }

    /// Adds the gain of choosing routes: by count and sum of logarithms, which give the geometric mean over any
    /// time.
    fn register_compared(&self, registry: &mut Registry) {
        let compared = ["held_back", "others"]
            .into_iter()
            .zip(self.counts.compared());
        let responses = Family::<Vec<(&'static str, &'static str)>, Counter>::default();
        let goodput = Family::<_, Counter<f64, AtomicU64>>::default();
        for (group, goodputs) in compared {
            let labels = vec![("group", group)];
            let count = responses.get_or_create(&labels);
            count.inc_by(goodputs.responses);
            let sum = goodput.get_or_create(&labels);
            sum.inc_by(goodputs.log_sum);
        }
        registry.register(
            "route_compared_responses",
            "Responses whose goodput shows the gain of choosing the way",
            responses,
        );
        registry.register(
            "route_compared_log_goodput",
            "Sum of the natural logarithms of their goodputs in bit/s",
            goodput,
        );
    }
}

/// Counters by route, with name and help.
const BY_ROUTE: [(RouteCount, &str, &str); 5] = [
    (
        RouteCount::Responses,
        "route_responses",
        "Responses by the way out of the AS on which they ended",
    ),
    (
        RouteCount::Bytes,
        "route_body_bytes",
        "Bytes of their bodies",
    ),
    (
        RouteCount::Begun,
        "route_connections",
        "Connections by the way that they began on",
    ),
    (
        RouteCount::Moved,
        "route_moves",
        "Live connections that were moved, by the way that they were moved to",
    ),
    (
        RouteCount::Stalls,
        "route_stalls",
        "Times that acknowledgements stayed away, by the way in use",
    ),
];
