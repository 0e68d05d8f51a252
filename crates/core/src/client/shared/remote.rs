//! The total of the other edges, as an edge keeps it.

use super::hold::WasRead;
use super::stats::Stats;
use crate::client::estimate::{Estimate, Outcomes, Packed};
use crate::client::udp::UdpHealth;
use crate::fleet::Reach;
use crate::policy::PolicyConfig;
use hikyaku_units::{Secs, Timestamp};

/// The other edges' knowledge of a prefix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remote {
    /// The path, from the other edges of the PoP; `None` where none has observed it.
    pub pop: Option<RemoteLevel>,
    /// The knowledge that does not depend on the place, from all other edges; `None` where none has observed it.
    pub fleet: Option<RemoteLevel>,
    /// When it was read.
    pub read_at: Timestamp,
}

/// The total of some edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemoteLevel {
    /// Their sum, faded to the last observation among them. Statistics that are not shared with them are empty.
    pub estimate: Estimate,
    /// How many they are; at least 1.
    pub edges: u16,
}

/// A [`Remote`] in 152 bytes: the two estimates have no statistic in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedRemote {
    /// The time in it is that of the PoP's.
    estimates: Packed,
    fleet_at: Secs,
    read_at: Secs,
    pop_edges: u16,
    fleet_edges: u16,
}

impl PackedRemote {
    pub(crate) fn new(remote: &Remote) -> Self {
        let estimate =
            |level: Option<RemoteLevel>| level.map_or_else(Estimate::default, |of| of.estimate);
        let edges = |level: Option<RemoteLevel>| level.map_or(0, |of| of.edges);
        let (pop, fleet) = (estimate(remote.pop), estimate(remote.fleet));
        Self {
            estimates: Packed::new(&Estimate {
                outcome: fleet.outcome,
                size: fleet.size,
                size_weight: fleet.size_weight,
                udp: fleet.udp,
                ..pop
            }),
            fleet_at: fleet.at,
            read_at: remote.read_at.into(),
            pop_edges: edges(remote.pop),
            fleet_edges: edges(remote.fleet),
        }
    }

    pub(crate) fn remote(&self) -> Remote {
        let both = self.estimates.estimate();
        let pop = Estimate {
            outcome: Outcomes::default(),
            size: 0.0,
            size_weight: 0.0,
            udp: UdpHealth::default(),
            ..both
        };
        let fleet = Estimate {
            at: self.fleet_at,
            outcome: both.outcome,
            size: both.size,
            size_weight: both.size_weight,
            udp: both.udp,
            ..Estimate::default()
        };
        let level = |estimate, edges| (edges > 0).then_some(RemoteLevel { estimate, edges });
        Remote {
            pop: level(pop, self.pop_edges),
            fleet: level(fleet, self.fleet_edges),
            read_at: self.read_at.timestamp(),
        }
    }
}

impl WasRead for PackedRemote {
    fn read_at(&self) -> Secs {
        self.read_at
    }
}

/// An edge's own estimate of a prefix, with the paths of its PoP as if it had observed them, too.
pub(crate) fn with_pop(own: Option<&Estimate>, pop: &Estimate, policy: &PolicyConfig) -> Estimate {
    let Some(own) = own else { return *pop };
    let at = own.at.max(pop.at);
    let half_life = &policy.half_life;
    let mut sum = Stats::default();
    for known in [own, pop] {
        let path = Stats::of(known, half_life).within(Reach::Pop);
        sum.add(&path.faded(at.since(known.at), half_life));
    }
    let path = sum.estimate(at, policy);
    Estimate {
        samples: path.samples,
        min_rtt: path.min_rtt,
        srtt: path.srtt,
        loss: path.loss,
        rate: path.rate,
        open_rate: path.open_rate,
        ..own.faded_to(at.timestamp(), policy)
    }
}
