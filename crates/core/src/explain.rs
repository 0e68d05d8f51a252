//! All knowledge of a client and the decision that follows from it, for people and for the admin API.

mod open;
mod others;
mod print;
mod sentence;
mod udp;

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::choice::{Assignment, Group, Session};
use crate::client::estimate::{Estimate, LossBounds};
use crate::client::key::Key;
use crate::client::view::{ClientView, Knowledge};
use crate::egress::{RoutesElsewhere, RoutesExplanation};
use crate::model::Model;
use crate::page::{Connections, ConnectionsSummary};
use crate::policy::{PlainPolicy, PolicyConfig};
use crate::transport::{AltSvc, CongestionChoice, Decision, Load, decide};
use hikyaku_units::SavedPath;
use hikyaku_units::arm::{Arm, ByTransport, Congestion, CongestionSet, Transport, Version};
use hikyaku_units::{ByteSize, Rate, Timestamp, duration};

pub use open::{FloorState, OpenConnection, SchedulingState, SubflowState};
pub use others::FromEdges;
pub use udp::Udp;

/// The knowledge of a client, the expectation of each arm, and the decision with its reason.
///
/// `Display` lays it out for a terminal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The client.
    pub address: IpAddr,
    /// The time it was asked at.
    pub at: Timestamp,
    /// The decision that would be made now.
    pub decision: DecisionSummary,
    /// The expected load of each arm that is allowed and available; empty when too little is known.
    pub arms: Vec<ArmLoad>,
    /// The arm that an ordinary server would give (`policy.plain`).
    #[serde(default = "ordinary")]
    pub ordinary: Arm,
    /// The path that the arms are compared for.
    pub path: Path,
    /// The part of the knowledge that comes from other edges; empty for an edge that is alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from_edges: Vec<FromEdges>,
    /// The rate that the operator lets each connection send at most; `None` without a bound.
    pub max_pacing_rate: Option<Rate>,
    /// Whether UDP works.
    pub udp: Udp,
    /// Its path over TCP is not known, since it comes through a balancer there.
    #[serde(default)]
    pub tcp_is_hidden: bool,
    /// Over how many connections its pages are spread; `None` where a server has no shards.
    pub connections: Option<ConnectionsSummary>,
    /// The egress routes of each content class; empty where a server has no paths.
    pub routes: Vec<RoutesExplanation>,
    /// Its connections that are open now, the oldest first.
    pub open: Vec<OpenConnection>,
    /// The knowledge of the address, then of its prefixes, then what the client has carried here, as far as
    /// there is any.
    pub levels: Vec<Level>,
}

/// The versions over which responses carry `Alt-Svc: clear`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clear {
    /// None.
    Nowhere,
    /// HTTP/3.
    H3,
    /// All: UDP fails.
    All,
}

/// A decision, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionSummary {
    /// The version.
    pub version: Version,
    /// The congestion control of each transport.
    pub congestion: ByTransport<CongestionSummary>,
    /// `ma` of the advertisement; `None` when HTTP/3 is not advertised.
    #[serde(with = "duration::option")]
    pub advertised_for: Option<Duration>,
    /// Where responses carry `Alt-Svc: clear`.
    pub clear: Clear,
    /// The experimental group.
    pub group: Group,
    /// The side of the comparison that shows the gain.
    pub assignment: Assignment,
    /// The probability of the draws that lead to this decision; 1 where nothing is drawn.
    pub probability: f64,
    /// The session, by the second of its start.
    pub session: Session,
    /// A stable name of the reason.
    pub reason_code: String,
    /// The reason as a sentence.
    pub reason: String,
}

/// The congestion control of a transport, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CongestionSummary {
    /// The congestion control of connections.
    pub chosen: Congestion,
    /// A stable name of the reason.
    pub reason_code: String,
    /// The choice with its reason.
    pub reason: String,
}

/// An arm's expected load time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmLoad {
    /// The arm.
    pub arm: Arm,
    /// The load time of a typical response of the client, corrected by outcomes.
    pub load: Load,
}

/// The path as the decision sees it, blended from all levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Samples; those of prefixes count less.
    pub samples: f32,
    /// Smallest round-trip time.
    #[serde(with = "duration::option")]
    pub min_rtt: Option<Duration>,
    /// Delivery rate.
    pub rate: Option<Rate>,
    /// Loss over TCP.
    pub loss_tcp: Option<LossBounds>,
    /// Loss over QUIC.
    pub loss_quic: Option<LossBounds>,
    /// Response size that the arms are compared for.
    pub size: ByteSize,
    /// The saved path that a new connection may begin with.
    pub known: ByTransport<Option<SavedPath>>,
}

/// The knowledge of an address or a prefix. Counts are faded to the present.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// The address or prefix.
    pub key: Key,
    /// The client has carried it here in a session ticket.
    #[serde(default)]
    pub carried: bool,
    /// Time since the last observation.
    #[serde(with = "duration::option")]
    pub age: Option<Duration>,
    /// Path samples.
    pub samples: f32,
    /// Smallest round-trip time.
    #[serde(with = "duration::option")]
    pub min_rtt: Option<Duration>,
    /// Smoothed round-trip time.
    #[serde(with = "duration::option")]
    pub srtt: Option<Duration>,
    /// The level over TCP.
    pub tcp: TransportLevel,
    /// The level over QUIC.
    pub quic: TransportLevel,
    /// Typical response.
    pub size: Option<ByteSize>,
    /// State of UDP.
    pub udp: String,
    /// The version that the client is kept on.
    pub choice: Option<Version>,
}

/// The knowledge from one transport.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransportLevel {
    /// Packets that the loss is counted of.
    pub packets: f32,
    /// Loss.
    pub loss: Option<LossBounds>,
    /// Delivery rate.
    pub rate: Option<Rate>,
    /// Responses that were compared with the model, by congestion control.
    pub outcomes: Vec<ArmOutcomes>,
}

/// The times that responses by one arm really took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmOutcomes {
    /// The congestion control.
    pub congestion: Congestion,
    /// How many they are.
    pub responses: f32,
    /// Their real by predicted load time (geometric mean).
    pub ratio: f32,
}

/// Explains the knowledge of a client and the decision for it at `now`.
#[must_use]
pub fn explain(
    knowledge: &Knowledge,
    model: &Model,
    policy: &PolicyConfig,
    available: &ByTransport<CongestionSet>,
    now: Timestamp,
    seed: u64,
) -> Explanation {
    let view = knowledge.view(now, policy);
    let decision = decide(&view, model, policy, available, now, seed);
    let own = knowledge.own.map(|own| (Key::address(knowledge.addr), own));
    let prefixes = knowledge.prefixes.into_iter().flatten();
    let known = own
        .into_iter()
        .chain(prefixes.map(|(prefix, known)| (Key::Prefix(prefix), known)));
    let levels = known.map(|(key, known)| Level::of(key, &known, now, policy));
    let carried = knowledge.carried.map(|carried| Level {
        carried: true,
        ..Level::of(Key::address(knowledge.addr), &carried, now, policy)
    });
    Explanation {
        address: knowledge.addr,
        at: now,
        arms: arms(&decision),
        ordinary: policy.plain.arm(),
        decision: DecisionSummary::of(&decision),
        path: Path {
            known: ByTransport::from_fn(|transport| {
                let held_back = decision.assignment.is_held_back();
                let known = || knowledge.saved_path(transport, now, policy);
                (!held_back).then(known).flatten()
            }),
            ..Path::of(&view, policy)
        },
        from_edges: FromEdges::all(&knowledge.faded_to(now, policy), &view),
        max_pacing_rate: policy.max_pacing_rate.rate(),
        udp: Udp::of(&view, now),
        tcp_is_hidden: view.tcp_is_hidden,
        connections: None,
        routes: Vec::new(),
        open: Vec::new(),
        levels: levels.chain(carried).collect(),
    }
}

impl Explanation {
    /// Adds over how many connections the client's pages are spread.
    #[must_use]
    pub fn with_connections(self, connections: Connections) -> Self {
        let connections = Some(connections.into());
        Self {
            connections,
            ..self
        }
    }

    /// Adds the egress routes.
    #[must_use]
    pub fn with_routes(self, routes: Vec<RoutesExplanation>) -> Self {
        Self { routes, ..self }
    }

    /// Adds the part of the knowledge of routes that comes from other edges.
    #[must_use]
    pub fn with_routes_from(mut self, from: Option<RoutesElsewhere>) -> Self {
        self.from_edges.extend(from.map(FromEdges::from));
        self
    }

    /// Adds the connections that are open now.
    #[must_use]
    pub fn with_open(self, open: Vec<OpenConnection>) -> Self {
        Self { open, ..self }
    }
}

fn ordinary() -> Arm {
    PlainPolicy::default().arm()
}

fn arms(decision: &Decision) -> Vec<ArmLoad> {
    let load = |arm| decision.load(arm).map(|load| ArmLoad { arm, load });
    Arm::ALL.into_iter().filter_map(load).collect()
}

impl DecisionSummary {
    fn of(decision: &Decision) -> Self {
        Self {
            version: decision.version,
            congestion: ByTransport::from_fn(|transport| {
                CongestionSummary::of(decision.congestion.get(transport))
            }),
            advertised_for: match decision.alt_svc {
                AltSvc::Advertise { ma } => Some(ma),
                AltSvc::Withhold | AltSvc::Clear => None,
            },
            clear: match decision.alt_svc {
                AltSvc::Advertise { .. } => Clear::Nowhere,
                AltSvc::Withhold => Clear::H3,
                AltSvc::Clear => Clear::All,
            },
            group: decision.group,
            assignment: decision.assignment,
            probability: decision.probability,
            session: decision.session,
            reason_code: decision.reason.code().to_owned(),
            reason: decision.to_string(),
        }
    }
}

impl CongestionSummary {
    fn of(choice: &CongestionChoice) -> Self {
        Self {
            chosen: choice.congestion,
            reason_code: choice.reason.code().to_owned(),
            reason: choice.to_string(),
        }
    }
}

impl Path {
    fn of(view: &ClientView, policy: &PolicyConfig) -> Self {
        let loss = |transport: Transport| view.loss[transport.index()];
        Self {
            samples: view.samples,
            min_rtt: view.min_rtt,
            rate: view.rate,
            loss_tcp: loss(Transport::Tcp),
            loss_quic: loss(Transport::Quic),
            size: view.size.unwrap_or(policy.typical_size),
            known: ByTransport::default(),
        }
    }
}

impl Level {
    fn of(key: Key, known: &Estimate, now: Timestamp, policy: &PolicyConfig) -> Self {
        let age = known.last_seen().map(|seen| now.since(seen));
        let known = &known.faded_to(now, policy);
        Self {
            key,
            carried: false,
            age,
            samples: known.samples,
            min_rtt: known.min_rtt.get(),
            srtt: known.smoothed_rtt(),
            tcp: TransportLevel::of(known, Transport::Tcp),
            quic: TransportLevel::of(known, Transport::Quic),
            size: known.response_size(),
            udp: udp::state(known.udp()),
            choice: known.choice.map(|choice| choice.version),
        }
    }
}

impl TransportLevel {
    fn of(known: &Estimate, transport: Transport) -> Self {
        let loss = known.loss(transport);
        let of = |congestion| {
            (
                congestion,
                known.outcome.of(Arm::over(transport, congestion)),
            )
        };
        Self {
            packets: loss.sent,
            loss: loss.bounds(),
            rate: known.delivery_rate(transport),
            outcomes: Congestion::ALL
                .into_iter()
                .map(of)
                .filter(|(_, outcome)| outcome.weight > 0.0)
                .map(|(congestion, outcome)| ArmOutcomes {
                    congestion,
                    responses: outcome.weight,
                    ratio: outcome.mean.exp(),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
