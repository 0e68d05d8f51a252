//! Which congestion control each transport gets, and why.

use std::fmt;

use super::compare::Compared;
use super::rules::Rules;
use super::{Group, human};
use hikyaku_units::arm::{Arm, ByTransport, Congestion, CongestionSet, Transport, Version};

/// The congestion control of one transport.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CongestionChoice {
    /// What connections get.
    pub congestion: Congestion,
    /// Why.
    pub reason: CongestionReason,
}

/// Why a transport gets its congestion control. `Display` gives a clause, [`CongestionReason::code`] a name
/// for logs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum CongestionReason {
    /// The settings, and what is available, allow no other.
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
        /// What the client gets otherwise.
        instead_of: Congestion,
    },
    /// It gets this session, to keep its outcomes known.
    Explore {
        /// What the client gets otherwise.
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

impl Rules<'_> {
    /// The congestion control of both transports, without experiments, and whether the client is held
    /// back on it.
    pub(super) fn congestion(&self) -> (ByTransport<CongestionChoice>, bool) {
        let open = |candidates: &CongestionSet| candidates.len() > 1;
        let held_back = self.is_held_back()
            && Transport::ALL
                .iter()
                .any(|transport| open(self.candidates.get(*transport)));
        let choices = ByTransport::from_fn(|transport| {
            let candidates = *self.candidates.get(transport);
            let fairest = candidates.fairest().unwrap_or(Congestion::Cubic);
            let plain = |congestion, reason| CongestionChoice { congestion, reason };
            if !open(&candidates) {
                return plain(fairest, CongestionReason::Only);
            }
            if held_back && candidates.contains(Congestion::Cubic) {
                return plain(Congestion::Cubic, CongestionReason::HoldBack);
            }
            match &self.compared {
                Ok(compared) if !self.knows_little() => *compared.congestion.get(transport),
                _ => plain(fairest, CongestionReason::Plain),
            }
        });
        (choices, held_back)
    }

    /// An experiment with another congestion control of `used`'s transport in a session that has none yet.
    pub(super) fn congestion_trial(&self, compared: &Compared, used: Arm) -> Option<Congestion> {
        self.others(used).find(|congestion| {
            let tried = Arm::over(used.version.transport(), *congestion);
            let Some(gain) = compared.corrected.gain(tried, used) else {
                return false;
            };
            let gains = gain.expected() > super::gain_needed(self.policy, *congestion);
            let disappoints = *congestion != Congestion::Bbr
                && compared.disappoints(used, tried)
                && self.is_affordable(gain.cost());
            self.has_few_outcomes(tried) && (gains || disappoints)
        })
    }

    /// What may be explored instead of `used` on its transport. BBR only where it is expected to gain what it
    /// needs: a session with it is paid for by others.
    pub(super) fn explorable(
        &self,
        compared: &Compared,
        used: Arm,
    ) -> impl Iterator<Item = Congestion> {
        self.others(used).filter(move |congestion| {
            let tried = Arm::over(used.version.transport(), *congestion);
            let gain = compared.corrected.gain(tried, used);
            gain.is_some_and(|gain| {
                let fair = *congestion != Congestion::Bbr
                    || gain.expected() > super::gain_needed(self.policy, *congestion);
                fair && self.is_affordable(gain.cost())
            })
        })
    }

    fn others(&self, used: Arm) -> impl Iterator<Item = Congestion> {
        let candidates = *self.candidates.get(used.version.transport());
        candidates
            .iter()
            .filter(move |other| *other != used.congestion)
    }
}

/// The transport that a session's responses mostly take, and whose congestion control it can try.
pub(super) const fn tried_over(version: Version, group: Group) -> Option<Transport> {
    match group {
        Group::Normal | Group::Plain => Some(version.transport()),
        Group::HoldBack | Group::Explore | Group::Udp => None,
    }
}
