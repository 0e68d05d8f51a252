//! The part of the knowledge that comes from other edges.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::udp::state;
use crate::client::estimate::Estimate;
use crate::client::key::Prefix;
use crate::client::udp::UdpState;
use crate::client::view::{ClientView, FromOthers, Knowledge};
use crate::egress::RoutesElsewhere;
use crate::fleet::Reach;
use hikyaku_units::arm::Transport;
use hikyaku_units::human;

/// Knowledge that other edges have observed, as far as it counts for a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FromEdges {
    /// Whether they are those of the PoP or of the fleet.
    pub reach: Reach,
    /// The prefix that they know.
    pub prefix: Prefix,
    /// How many they are.
    pub edges: u16,
    /// Its quantities, as text.
    pub facts: Vec<String>,
}

impl From<RoutesElsewhere> for FromEdges {
    fn from(known: RoutesElsewhere) -> Self {
        let fact = match known.routes {
            1 => "the quality of 1 route".to_owned(),
            routes => format!("the quality of {routes} routes"),
        };
        Self {
            reach: Reach::Pop,
            prefix: known.prefix,
            edges: known.edges,
            facts: vec![fact],
        }
    }
}

impl FromEdges {
    /// The part that counts for the client of `knowledge`, which is faded to the present.
    pub(super) fn all(knowledge: &Knowledge, view: &ClientView) -> Vec<Self> {
        let of = |reach, from: Option<FromOthers>| {
            let from = from?;
            let facts = match reach {
                Reach::Pop => path(knowledge, &from.estimate),
                Reach::Fleet => rest(knowledge, view, &from.estimate),
            };
            (!facts.is_empty()).then_some(Self {
                reach,
                prefix: from.prefix,
                edges: from.edges,
                facts,
            })
        };
        let [pop, fleet] = [
            of(Reach::Pop, knowledge.pop),
            of(Reach::Fleet, knowledge.fleet),
        ];
        pop.into_iter().chain(fleet).collect()
    }
}

/// A path counts beside the client's own, but for its round-trip time.
fn path(knowledge: &Knowledge, of: &Estimate) -> Vec<String> {
    let own = knowledge.own.unwrap_or_default();
    let rtt = of.min_rtt.get().filter(|_| own.min_rtt.get().is_none());
    let rates = Transport::ALL.map(|transport| of.delivery_rate(transport));
    let rate = rates.into_iter().flatten().max();
    let packets: f32 = of.loss.iter().map(|loss| loss.sent).sum();
    let facts = [
        rtt.map(|rtt| format!("RTT {}", human::time(rtt))),
        rate.map(human::rate).map(|rate| rate.to_string()),
        (packets >= 1.0).then(|| format!("loss of {packets:.0} packets")),
    ];
    facts.into_iter().flatten().collect()
}

/// Outcomes count beside the client's own; the response size and UDP where nothing nearer is known.
fn rest(knowledge: &Knowledge, view: &ClientView, of: &Estimate) -> Vec<String> {
    let nearer = || {
        let prefixes = knowledge.prefixes.iter().flatten();
        let own = knowledge.own.as_ref();
        own.into_iter()
            .chain(prefixes.map(|(_, estimate)| estimate))
    };
    let size = of.response_size();
    let size = size.filter(|_| nearer().all(|known| known.response_size().is_none()));
    let udp_counts = view.udp_prefix.is_some()
        && nearer().all(|known| matches!(known.udp.state(), UdpState::Unknown));
    let responses: f32 = of.outcome.weight.iter().sum();
    let facts = [
        size.map(|size| format!("responses of {}", human::size(size))),
        (responses >= 1.0).then(|| format!("times of {responses:.0} responses")),
        udp_counts.then(|| format!("UDP {}", state(of.udp()))),
    ];
    facts.into_iter().flatten().collect()
}

/// The text for people: `RTT 38 ms from 2 other edges of this PoP, in 192.0.2.0/24`.
impl fmt::Display for FromEdges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (facts, edges) = (self.facts.join(", "), self.edges);
        let plural = if edges == 1 { "" } else { "s" };
        let whole = match self.reach {
            Reach::Pop => "this PoP",
            Reach::Fleet => "the fleet",
        };
        let prefix = self.prefix;
        write!(
            f,
            "{facts} from {edges} other edge{plural} of {whole}, in {prefix}"
        )
    }
}
