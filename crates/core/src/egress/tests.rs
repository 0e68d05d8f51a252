mod choice;
mod decline;
mod explained;
mod kept;
mod levels;
mod phases;
mod ports;
mod properties;
mod shared;
mod simulation;
mod stalls;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Candidates, Criterion, EgressId, EgressNames, EgressSet, Mode, Mptcp, Phase, Route,
    RouteDecision, RouteObservation, RouteTable, Wants, decide_route, mptcp_share,
};
use crate::bounded::TableConfig;
use crate::choice::{Group, Session};
use crate::client::table::Scope;
use crate::policy::PolicyConfig;
use hikyaku_units::{Rate, Timestamp};

/// The egress route that plain takes, and two others.
const BEST: EgressId = EgressId(0);
const OTHER: EgressId = EgressId(1);
const THIRD: EgressId = EgressId(2);
const PLAIN: Route = Route::Plain;
const STEERED: Route = Route::Steered(OTHER);
const SEVERAL: Route = Route::Aggregated;

/// A table under a virtual clock, with the candidates of an AS's client.
struct World {
    table: RouteTable,
    policy: Arc<PolicyConfig>,
    candidates: Candidates,
    now: Timestamp,
}

const CLIENT: &str = "192.0.2.1";
const NEIGHBOUR: &str = "192.0.2.2";
const AS: Option<u32> = Some(64_496);

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

impl World {
    /// Without experiments and hold-back, which tests of other things do not expect.
    fn new() -> Self {
        Self::with(PolicyConfig {
            exploration: 0.0,
            holdback: 0.0,
            ..PolicyConfig::default()
        })
    }

    fn with(policy: PolicyConfig) -> Self {
        Self::sized(policy, 1000)
    }

    fn sized(policy: PolicyConfig, max_records: usize) -> Self {
        let policy = Arc::new(policy);
        let config = TableConfig {
            max_records,
            hash_key: [1, 2],
            journal: true,
        };
        Self {
            table: RouteTable::new(config, Arc::clone(&policy)),
            policy,
            candidates: Candidates {
                plain_is: Some(BEST),
                egresses: [BEST, OTHER, THIRD].into_iter().collect(),
                mptcp: Mptcp::Taken,
                ..Candidates::default()
            },
            now: Timestamp::from_secs(1_800_000_000),
        }
    }

    fn pass(&mut self, secs: u64) {
        self.now = self.now.saturating_add(Duration::from_secs(secs));
    }

    fn learn(&mut self, client: &str, route: Route, seen: &RouteObservation) {
        let carrier = route.carrier(self.candidates.plain_is);
        self.table.learn(addr(client), AS, carrier, seen, self.now);
    }

    /// Responses of 1 MB.
    fn see(&mut self, client: &str, route: Route, times: usize, mbps: u64, rtt_ms: u64) {
        for _ in 0..times {
            self.learn(client, route, &response(mbps, rtt_ms));
        }
    }

    /// Decides without applying it.
    fn asked(&self, client: &str, wants: impl Into<Wants>) -> RouteDecision {
        let view = self.table.view(addr(client), AS, self.now);
        let session = Session(1);
        let wants = wants.into();
        decide_route(
            &view,
            wants,
            &self.candidates,
            &self.policy,
            session.into(),
            1,
        )
    }

    fn decide(&mut self, client: &str, wants: impl Into<Wants>) -> RouteDecision {
        let wants = wants.into();
        let decision = self.asked(client, wants);
        self.table.decided(addr(client), wants, &decision);
        decision
    }

    fn goodput(&self, client: &str, route: Route) -> Option<f64> {
        let view = self.table.view(addr(client), AS, self.now);
        let goodput = view
            .quality(route, self.candidates.plain_is)
            .goodput(Phase::Startup);
        goodput.map(Rate::mbps)
    }
}

fn response(mbps: u64, rtt_ms: u64) -> RouteObservation {
    RouteObservation {
        bytes: 1_000_000,
        duration: Duration::from_micros(8_000_000 / mbps),
        phase: Phase::Startup,
        app_limited: false,
        rtt: Some(Duration::from_millis(rtt_ms)),
        packets_sent: 700,
        packets_lost: 0,
        stalled: Duration::ZERO,
    }
}
