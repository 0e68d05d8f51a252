//! The candidates for a client.

use serde::{Deserialize, Serialize};

use super::{EgressId, EgressSet, Room, Route};

/// The routes that may be chosen for a client now, as the egress agent and the operator say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// The egress route that plain packets take; `None` where that is none of the egress routes, or not known.
    pub plain_is: Option<EgressId>,
    /// The egress route that plain packets take is dead, as probes show, and BGP has not noticed yet.
    pub plain_is_dead: bool,
    /// The egress routes that are up and reach the client. Draining ones are not among them.
    pub egresses: EgressSet,
    /// The egress routes that are used only while all others stall, and never explored.
    pub backup: EgressSet,
    /// Its connection's use of MPTCP.
    pub mptcp: Mptcp,
    /// The operator's policy for the client and the content class.
    pub mode: Mode,
    /// The egress routes that this policy allows.
    pub allowed: EgressSet,
    /// The egress route that `policy.route` names; `None` where it names none, or one that the agent does not have.
    pub named: Option<EgressId>,
    /// The room of their ports.
    pub room: Room,
}

impl Default for Candidates {
    /// Plain alone.
    fn default() -> Self {
        Self {
            plain_is: None,
            plain_is_dead: false,
            egresses: EgressSet::EMPTY,
            backup: EgressSet::EMPTY,
            mptcp: Mptcp::None,
            mode: Mode::Adaptive,
            allowed: EgressSet::ALL,
            named: None,
            room: Room::default(),
        }
    }
}

impl Candidates {
    /// The routes over a single egress route that may be chosen. Plain is none of them where the operator's
    /// policy says `steered`, or while plain packets are lost. An egress route that the policy allows must be up.
    #[must_use]
    pub fn singles(&self) -> Singles {
        let egresses = self.egresses.and(self.allowed);
        match self.mode {
            Mode::Plain | Mode::Aggregated => Singles::PLAIN,
            Mode::Steered => Singles {
                plain: egresses.is_empty(),
                egresses,
            },
            Mode::Adaptive => Singles {
                plain: !self.plain_is_dead || egresses.is_empty(),
                egresses: egresses.without(self.plain_is.into_iter().collect()),
            },
        }
    }

    /// Whether several egress routes may be used together.
    #[must_use]
    pub fn aggregates(&self) -> bool {
        self.mptcp.is_used() && self.allows_several()
    }

    /// Whether other connections of such a client may use them.
    pub(super) fn may_aggregate(&self) -> bool {
        self.mptcp != Mptcp::None && self.allows_several()
    }

    /// Whether the ports of at least two egress routes have room: those of several, where none is full.
    pub(super) fn have_room_for_several(&self) -> bool {
        let full = self.room.full();
        full.is_empty() || self.egresses.and(self.allowed).without(full).len() > 1
    }

    const fn allows_several(&self) -> bool {
        matches!(self.mode, Mode::Adaptive | Mode::Aggregated)
    }

    pub(super) fn is_backup(&self, route: Route) -> bool {
        matches!(route, Route::Steered(egress) if self.backup.contains(egress))
    }
}

/// A connection's use of MPTCP, whose options take 2 % of each packet. So a server may take MPTCP only
/// of clients that get several egress routes. Of others it takes MPTCP in a share of their connections
/// that explores them
/// ([`PolicyConfig::unknown_mptcp_share`](crate::policy::PolicyConfig::unknown_mptcp_share)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mptcp {
    /// Nothing: the client did not ask for it, or the agent announces no addresses to it.
    #[default]
    None,
    /// The client asked for it, and got TCP.
    Refused,
    /// It may have several egress routes.
    Taken,
    /// It may have several egress routes, to explore them.
    Drawn,
}

impl Mptcp {
    /// Whether several egress routes can be had.
    #[must_use]
    pub const fn is_used(self) -> bool {
        matches!(self, Self::Taken | Self::Drawn)
    }
}

/// Some of the routes over a single egress route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Singles {
    plain: bool,
    egresses: EgressSet,
}

impl Singles {
    const PLAIN: Self = Self {
        plain: true,
        egresses: EgressSet::EMPTY,
    };

    /// The routes, plain first.
    pub fn iter(self) -> impl Iterator<Item = Route> + Clone {
        let plain = self.plain.then_some(Route::Plain);
        plain
            .into_iter()
            .chain(self.egresses.iter().map(Route::Steered))
    }

    /// Whether a route is among them.
    #[must_use]
    pub const fn contains(self, route: Route) -> bool {
        match route {
            Route::Plain => self.plain,
            Route::Steered(egress) => self.egresses.contains(egress),
            Route::Aggregated => false,
        }
    }

    /// How many they are.
    #[must_use]
    pub const fn len(self) -> usize {
        self.plain as usize + self.egresses.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Those that are meant.
    pub(super) fn filtered(self, is_meant: impl Fn(Route) -> bool) -> Self {
        self.iter().filter(|route| is_meant(*route)).collect()
    }

    /// These, unless there is none.
    pub(super) fn or_none(self) -> Option<Self> {
        (!self.is_empty()).then_some(self)
    }
}

impl FromIterator<Route> for Singles {
    /// Leaves [`Route::Aggregated`] out.
    fn from_iter<I: IntoIterator<Item = Route>>(routes: I) -> Self {
        let mut singles = Self::default();
        for route in routes {
            match route {
                Route::Plain => singles.plain = true,
                Route::Steered(egress) => singles.egresses.insert(egress),
                Route::Aggregated => {}
            }
        }
        singles
    }
}

/// The mode of an operator's policy (`docs/egress-api.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The best route.
    #[default]
    Adaptive,
    /// Plain.
    Plain,
    /// The best of the allowed egress routes, by mark.
    Steered,
    /// Several egress routes, by MPTCP; plain for clients without it.
    Aggregated,
}
