//! The egress route by which a response leaves the AS. The module has the knowledge of each egress
//! route by client, prefix and AS, and the choice between them (EPE §2.4, §7).
//!
//! Three modes: **plain**, the route that BGP chose; **steered** onto one egress route by a mark on its
//! packets; **aggregated** over several by MPTCP. [`RouteTable`] learns from [`RouteObservation`]s and
//! stalls. [`decide_route`] chooses, with a reason, candidates only, and never anything else than plain
//! without proof. How: `docs/decisions.md`.

mod candidates;
mod changes;
mod codec;
mod compare;
mod decide;
mod decline;
mod drain;
mod explain;
mod key;
mod names;
mod network;
mod observation;
mod phase;
mod quality;
mod reason;
mod record;
mod room;
mod set;
mod shared;
mod subflows;
mod table;
mod view;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use candidates::{Candidates, Mode, Mptcp, Singles};
pub use changes::RouteChanges;
pub use compare::{Measure, RouteGain};
pub use decide::{RouteDecision, decide_route, mptcp_share};
pub use drain::{DrainedAt, EgressDrain};
pub use explain::{KnownEgresses, RouteSummary, RoutesExplanation, explain_routes};
pub use key::EgressKey;
pub use names::EgressNames;
pub use network::{NetworkRoute, NetworkSummary};
pub use observation::RouteObservation;
pub use phase::{Phase, Wants};
pub use quality::RouteQuality;
pub use reason::{RouteBar, RouteReason, RouteReasonCode};
pub use room::{Port, PortShares, Room};
pub use set::EgressSet;
pub use shared::{RemoteRoutes, RouteContribution, RouteContributions, RoutesElsewhere};
pub use subflows::{Scheduling, SubflowChoice, SubflowRtt};
pub use table::{Blame, RouteTable};
pub use view::RouteView;

/// Most egress routes that are distinguished.
pub const MAX_EGRESSES: usize = 16;

/// An egress route of the egress agent, by its place in [`EgressNames`]: 0 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EgressId(u8);

impl EgressId {
    /// The egress route at a place; `None` from [`MAX_EGRESSES`] on.
    #[must_use]
    pub const fn new(place: u8) -> Option<Self> {
        if (place as usize) < MAX_EGRESSES {
            Some(Self(place))
        } else {
            None
        }
    }

    /// Its place, below [`MAX_EGRESSES`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How packets to a client are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// As BGP chose: no mark.
    Plain,
    /// Over one egress route, by its mark.
    Steered(EgressId),
    /// Over several egress routes, by MPTCP.
    Aggregated,
}

impl Route {
    /// The carrier of packets by this route, where plain ones take the egress route `plain_is`, as far
    /// as that is known.
    #[must_use]
    pub const fn carrier(self, plain_is: Option<EgressId>) -> Carrier {
        match (self, plain_is) {
            (Self::Steered(egress), _) | (Self::Plain, Some(egress)) => Carrier::egress(egress),
            (Self::Plain, None) => Carrier::PLAIN,
            (Self::Aggregated, _) => Carrier::AGGREGATE,
        }
    }

    /// As text: `plain`, the route's name, or `aggregate`.
    #[must_use]
    pub fn display(self, names: &EgressNames) -> impl fmt::Display {
        fmt::from_fn(move |f| match self {
            Self::Plain => f.write_str("plain"),
            Self::Steered(egress) => names.write(egress, f),
            Self::Aggregated => f.write_str("aggregate"),
        })
    }
}

/// A carrier of packets, known by its quality. It is one egress route, several together, or the route
/// of plain packets where that is no egress route or not known which.
///
/// Plain and the egress route that plain packets take are one carrier, so they share their knowledge.
/// When BGP chooses another egress route, plain is known as well as that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Carrier(u8);

impl Carrier {
    const PLAIN: Self = Self(MAX_EGRESSES as u8);
    const AGGREGATE: Self = Self(MAX_EGRESSES as u8 + 1);
    /// How many there are.
    const COUNT: usize = MAX_EGRESSES + 2;

    const fn egress(egress: EgressId) -> Self {
        Self(egress.0)
    }

    const fn index(self) -> usize {
        self.0 as usize
    }

    const fn as_egress(self) -> Option<EgressId> {
        EgressId::new(self.0)
    }
}

/// The quality that a content class wants of its route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Criterion {
    /// Bulk: the most bytes per second.
    #[default]
    Goodput,
    /// Live: the fewest stalls; then enough goodput; then the smallest RTT.
    Stall,
    /// Interactive: the smallest RTT; then the least loss.
    Rtt,
}

impl Criterion {
    /// All, in the order of their [`index`](Self::index).
    pub const ALL: [Self; 3] = [Self::Goodput, Self::Stall, Self::Rtt];

    /// `goodput`, `stall` or `rtt`, as in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::Stall => "stall",
            Self::Rtt => "rtt",
        }
    }

    /// Its place in [`Criterion::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
