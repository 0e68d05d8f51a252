//! Which congestion control each transport gets, and why.

use std::fmt;

use super::compare::Compared;
use super::rules::Rules;
use crate::before::choice::{Change, Domain, Gain, Group, Pick};
use hikyaku_units::arm::{Arm, Congestion, CongestionSet, Transport, Version};
use hikyaku_units::human;

/// The congestion control of one transport.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CongestionChoice {
    /// The congestion control of connections.
    pub congestion: Congestion,
    /// Why.
    pub reason: CongestionReason,
}

/// Why a transport gets its congestion control. `Display` gives a clause, [`CongestionReason::code`] a name
/// for logs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum CongestionReason {
    /// The settings and the available congestion controls allow no other.
    Only,
    /// The client is in the hold-back group.
    HoldBack,
    /// Too little is known to compare.
    Plain,
    /// The fairest: no other surely gains enough.
    Fair,
    /// It surely gains enough.
    Faster {
        /// The fairer one that it is compared with.
        over: Congestion,
        /// Lower bound of its gain (one-sided, 90 %).
        gain_low: f32,
        /// Gain that it needs, as a share.
        needed: f32,
    },
    /// It was chosen before, and is still expected to gain enough.
    Kept {
        /// The fairer one that it is compared with.
        over: Congestion,
        /// Its expected gain.
        gain: f32,
        /// Gain that it needs, as a share.
        needed: f32,
    },
    /// It may be better and has hardly been seen: it gets this session.
    Trial {
        /// The client's congestion control otherwise.
        instead_of: Congestion,
    },
    /// It gets this session, to keep its outcomes known.
    Explore {
        /// The client's congestion control otherwise.
        instead_of: Congestion,
    },
}

impl CongestionChoice {
    /// Plain CUBIC, which every transport has.
    pub(super) const PLAIN: Self = Self {
        congestion: Congestion::Cubic,
        reason: CongestionReason::Plain,
    };

    /// Whether it was chosen from a comparison, and is no experiment.
    #[must_use]
    pub const fn is_steady(&self) -> bool {
        use CongestionReason::{Fair, Faster, Kept};
        matches!(self.reason, Fair | Faster { .. } | Kept { .. })
    }
}

impl fmt::Display for CongestionChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.congestion, self.reason)
    }
}

impl CongestionReason {
    /// A stable name in snake case.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Only => "only",
            Self::HoldBack => "hold_back",
            Self::Plain => "plain",
            Self::Fair => "fair",
            Self::Faster { .. } => "faster",
            Self::Kept { .. } => "kept",
            Self::Trial { .. } => "trial",
            Self::Explore { .. } => "explore",
        }
    }
}

impl fmt::Display for CongestionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f32| human::percent(share.into());
        match self {
            Self::Only => f.write_str("the only one allowed and available"),
            Self::HoldBack => f.write_str("held back on the plain choice to measure the gain"),
            Self::Plain => f.write_str("the plain choice, too little is known"),
            Self::Fair => f.write_str("the fairest, no other surely gains enough"),
            Self::Faster {
                over,
                gain_low,
                needed,
            } => write!(
                f,
                "lower bound of its gain over {over} {}, needed {}",
                percent(*gain_low),
                percent(*needed)
            ),
            Self::Kept { over, gain, needed } => write!(
                f,
                "kept, its gain over {over} is {}, needed {}",
                percent(*gain),
                percent(*needed)
            ),
            Self::Trial { instead_of } => write!(f, "a trial instead of {instead_of}"),
            Self::Explore { instead_of } => write!(f, "exploring instead of {instead_of}"),
        }
    }
}

/// The choice of one transport's congestion control.
pub(super) struct OfTransport<'a> {
    pub(super) rules: &'a Rules<'a>,
    pub(super) transport: Transport,
    /// The version of a session whose responses mostly take this transport, and that bears no experiment
    /// yet.
    pub(super) tried_on: Option<Version>,
}

impl Domain for OfTransport<'_> {
    type Arm = Congestion;
    type Reason = CongestionReason;

    fn pinned(&self) -> Option<(Congestion, CongestionReason)> {
        (self.candidates().len() <= 1).then(|| (self.fairest(), CongestionReason::Only))
    }

    fn held_back(&self) -> Option<(Congestion, CongestionReason)> {
        let cubic = Congestion::Cubic;
        (self.candidates().contains(cubic)).then_some((cubic, CongestionReason::HoldBack))
    }

    fn little_known(&self) -> Option<(Congestion, CongestionReason)> {
        let is_little = self.rules.compared.is_err() || !self.rules.evidence().is_enough();
        is_little.then(|| (self.fairest(), CongestionReason::Plain))
    }

    fn steady(&self) -> Pick<Congestion, CongestionReason> {
        let choice = match &self.rules.compared {
            Ok(compared) => *compared.congestion.get(self.transport),
            Err(_) => CongestionChoice::PLAIN,
        };
        Pick::new(choice.congestion, choice.reason, Group::Normal)
    }

    fn experiment(
        &self,
        steady: &Pick<Congestion, CongestionReason>,
    ) -> Option<(Congestion, CongestionReason)> {
        let (version, instead_of) = (self.tried_on?, steady.arm);
        let compared = self.rules.compared.as_ref().ok()?;
        if let Some(tried) = self.rules.congestion_trial(compared, compared.arm(version)) {
            return Some((tried, CongestionReason::Trial { instead_of }));
        }
        let explored = self.rules.explored(compared, version)?;
        let is_here = explored.version.transport() == self.transport;
        is_here.then_some((
            explored.congestion,
            CongestionReason::Explore { instead_of },
        ))
    }
}

impl OfTransport<'_> {
    fn candidates(&self) -> CongestionSet {
        *self.rules.candidates.get(self.transport)
    }

    fn fairest(&self) -> Congestion {
        self.candidates().fairest().unwrap_or(Congestion::Cubic)
    }
}

impl Rules<'_> {
    /// A congestion control of `used`'s transport that is worth a session. Hardly any outcomes are
    /// known of it, and it is expected to gain, or the one in use disappoints.
    fn congestion_trial(&self, compared: &Compared, used: Arm) -> Option<Congestion> {
        self.others(used).find(|congestion| {
            let tried = Arm::over(used.version.transport(), *congestion);
            let Some(gain) = compared.corrected.gain(tried, used) else {
                return false;
            };
            let disappoints = *congestion != Congestion::Bbr
                && compared.disappoints(used, tried)
                && self.is_affordable(gain.cost());
            self.has_few_outcomes(tried) && (self.gains(gain, *congestion) || disappoints)
        })
    }

    /// The congestion controls that may be explored instead of `used` on its transport. BBR only where
    /// it is expected to gain as much as it needs: a session with it is paid for by others.
    pub(super) fn explorable(
        &self,
        compared: &Compared,
        used: Arm,
    ) -> impl Iterator<Item = Congestion> + Clone {
        self.others(used).filter(move |congestion| {
            let tried = Arm::over(used.version.transport(), *congestion);
            let gain = compared.corrected.gain(tried, used);
            gain.is_some_and(|gain| {
                let fair = *congestion != Congestion::Bbr || self.gains(gain, *congestion);
                fair && self.is_affordable(gain.cost())
            })
        })
    }

    /// Whether a congestion control is expected to gain as much as it needs.
    fn gains(&self, gain: Gain, congestion: Congestion) -> bool {
        let kept = Change::KeptCongestion(congestion);
        self.policy.needed(kept).is_met(gain, 1.0)
    }

    fn others(&self, used: Arm) -> impl Iterator<Item = Congestion> + Clone {
        let candidates = *self.candidates.get(used.version.transport());
        candidates
            .iter()
            .filter(move |other| *other != used.congestion)
    }
}
