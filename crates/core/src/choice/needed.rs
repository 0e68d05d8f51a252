//! The gain that each change needs, in one table.

use super::Gain;
use crate::policy::PolicyConfig;
use hikyaku_units::arm::Congestion;

/// The changes from one arm to another, of all domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The first version that is chosen for a client: the plain one was made in ignorance.
    FirstVersion,
    /// Another version than the one that the client is kept on.
    Version,
    /// A congestion control instead of a fairer one.
    Congestion(Congestion),
    /// A congestion control that is kept instead of a fairer one.
    KeptCongestion(Congestion),
    /// Another route.
    Route,
    /// A route that is kept instead of the usual one.
    KeptRoute,
    /// Several connections for a page instead of one.
    Connections,
}

/// How sure a gain must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The expected gain counts.
    Expected,
    /// The lower bound counts (one-sided, 90 %), farther off where there are fewer samples than it takes.
    LowerBound,
}

/// The need of a change: a gain above a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Needed {
    /// The share.
    pub(crate) share: f32,
    /// Which figure of the gain must exceed it.
    pub(crate) proof: Proof,
}

impl PolicyConfig {
    /// The need of a change.
    pub(crate) fn needed(&self, change: Change) -> Needed {
        let fairness = |congestion| match congestion {
            Congestion::Bbr => self.min_gain_bbr as f32,
            Congestion::Cubic | Congestion::Floor => self.min_gain as f32,
        };
        let (share, proof) = match change {
            Change::FirstVersion | Change::KeptRoute => (0.0, Proof::Expected),
            Change::Version => (self.min_gain as f32, Proof::Expected),
            Change::Congestion(to) => (fairness(to), Proof::LowerBound),
            Change::KeptCongestion(on) => (fairness(on), Proof::Expected),
            Change::Route => (self.min_gain_route as f32, Proof::LowerBound),
            Change::Connections => (MIN_GAIN_CONNECTIONS, Proof::LowerBound),
        };
        Needed { share, proof }
    }
}

impl Needed {
    /// Whether a gain is enough, where there is this share of the samples that it takes.
    pub(crate) fn is_met(self, gain: Gain, evidence: f32) -> bool {
        match self.proof {
            Proof::Expected => gain.expected() > self.share,
            Proof::LowerBound => evidence > 0.0 && gain.low_at(evidence) > self.share,
        }
    }
}

/// The gain that several connections need: they take more than one share of a bottleneck.
const MIN_GAIN_CONNECTIONS: f32 = 0.05;
