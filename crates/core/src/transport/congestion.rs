//! Which congestion control each transport gets, and why.

use std::convert::Infallible;
use std::fmt;

use super::compare::Compared;
use super::rules::Rules;
use crate::choice::{Change, Domain, Evidence, Gain, HELD_BACK, Pick, Reason, Rival};
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
/// for logs. Rivals are the fairer one that it is compared with, or the client's otherwise.
pub type CongestionReason = Reason<Congestion, Infallible, CongestionGain>;

/// The gain of a congestion control over a fairer one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CongestionGain {
    /// The gain.
    pub gain: Gain,
    /// Gain that it needs, as a share.
    pub needed: f32,
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
            Self::Only | Self::Pinned(_) => "only",
            Self::HoldBack => "hold_back",
            Self::TooFewSamples(_) | Self::NotComparable(_) => "plain",
            Self::NoGain(_) => "fair",
            Self::Better(_) => "faster",
            Self::Kept(_) => "kept",
            Self::Trial(_) => "trial",
            Self::Explore(_) => "explore",
            Self::Barred(none) => match *none {},
        }
    }
}

impl fmt::Display for CongestionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only | Self::Pinned(_) => f.write_str("the only one allowed and available"),
            Self::HoldBack => f.write_str(HELD_BACK),
            Self::TooFewSamples(_) | Self::NotComparable(_) => {
                f.write_str("the plain choice, too little is known")
            }
            Self::NoGain(_) => f.write_str("the fairest, no other surely gains enough"),
            Self::Better(over) => {
                let low = figures(over, Gain::low);
                write!(f, "lower bound of its gain over {} {low}", over.arm)
            }
            Self::Kept(over) => {
                let expected = figures(over, Gain::expected);
                write!(f, "kept, its gain over {} is {expected}", over.arm)
            }
            Self::Trial(used) => write!(f, "a trial instead of {}", used.arm),
            Self::Explore(used) => write!(f, "exploring instead of {}", used.arm),
            Self::Barred(none) => match *none {},
        }
    }
}

/// A figure of a gain, and the one that is needed.
fn figures(over: &Rival<Congestion, CongestionGain>, figure: fn(Gain) -> f32) -> impl fmt::Display {
    let percent = |share: f32| human::percent(share.into());
    let [gain, needed] = over
        .gain
        .map_or([0.0; 2], |by| [figure(by.gain), by.needed])
        .map(percent);
    format!("{gain}, needed {needed}")
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
    type Bar = Infallible;
    type Gain = CongestionGain;

    fn pinned(&self) -> Option<Pick<Self>> {
        let is_only = self.candidates().len() <= 1;
        // The hold-back group gets CUBIC where all others have a floor.
        let is_free = self.rules.lots.assignment.is_held_back();
        (is_only && !is_free).then(|| (self.usual(), Reason::Only))
    }

    /// The fairest.
    fn usual(&self) -> Congestion {
        self.candidates().fairest().unwrap_or(Congestion::Cubic)
    }

    fn held_back(&self) -> Option<Congestion> {
        Some(self.rules.ordinary(self.transport))
    }

    fn evidence(&self) -> Option<Evidence> {
        self.rules.evidence()
    }

    fn steady(&self) -> Pick<Self> {
        match self.rules.compared {
            Ok(compared) => {
                let choice = compared.congestion.get(self.transport);
                (choice.congestion, choice.reason)
            }
            Err(missing) => (self.usual(), Reason::NotComparable(*missing)),
        }
    }

    fn experiment(&self, (used, _): &Pick<Self>) -> Option<Pick<Self>> {
        let (version, rival) = (self.tried_on?, Rival::of(*used));
        let compared = self.rules.compared.as_ref().ok()?;
        if let Some(tried) = self.rules.congestion_trial(compared, compared.arm(version)) {
            return Some((tried, Reason::Trial(rival)));
        }
        let explored = self.rules.explored(compared, version)?;
        let is_here = explored.version.transport() == self.transport;
        is_here.then_some((explored.congestion, Reason::Explore(rival)))
    }
}

impl OfTransport<'_> {
    fn candidates(&self) -> CongestionSet {
        *self.rules.candidates.get(self.transport)
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
