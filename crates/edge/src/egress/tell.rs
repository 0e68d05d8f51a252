//! What is told of egress paths: metrics and the admin API.

use hikyaku_core::path::Route;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Serialize;

use super::wire::PathState;
use super::{Egress, RouteCount, SteerBy};
use crate::metrics::counters;

/// The agent and its paths in short.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    /// The agent answers.
    connected: bool,
    /// By `mark` or by `address`.
    steer: &'static str,
    paths: Vec<PathSummary>,
}

#[derive(Debug, Serialize)]
struct PathSummary {
    name: String,
    state: &'static str,
    reason: String,
}

impl Egress {
    /// The agent and its paths in short.
    pub(crate) fn summary(&self) -> Summary {
        let state = self.state();
        let paths = state.paths().map(|(_, path)| PathSummary {
            name: path.name.clone(),
            state: path.state.name(),
            reason: path.reason.clone(),
        });
        Summary {
            connected: self.is_connected(),
            steer: match self.by {
                SteerBy::Marks => "mark",
                SteerBy::Addresses => "address",
            },
            paths: paths.collect(),
        }
    }

    /// Adds what is counted of routes.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let by_route = [
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
        for (what, name, help) in by_route {
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
                .set(i64::from(path.state == PathState::Up));
        }
        registry.register("egress_path_up", "Whether a path may be used", up);
    }
}
