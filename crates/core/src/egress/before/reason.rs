//! Why a route was chosen, as data, as a sentence and as a stable code.

use std::fmt;
use std::time::Duration;

use super::{EgressNames, Measure, Mode, Route, RouteDecision, RouteGain, RouteReasonCode};
use hikyaku_units::human;

/// Why a route was chosen. [`RouteDecision::display`] gives a sentence, [`RouteReason::code`] a name for logs
/// and metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum RouteReason {
    /// There is no other.
    Only,
    /// `policy.route` says so.
    Pinned,
    /// `policy.route` names another, which is not to be had for this client.
    PinnedMissing,
    /// The operator's policy for these clients says so.
    Policy {
        /// The mode that it sets.
        mode: Mode,
    },
    /// The client is in the hold-back group.
    HoldBack,
    /// Too little is known of any two routes.
    TooFewSamples {
        /// Samples of the less known of the two best known; those of the AS count half.
        samples: f32,
        /// Samples needed of each.
        needed: u32,
    },
    /// No other surely gains enough.
    NoGain {
        /// The best other route.
        best: Route,
        /// The best other route's gain over the chosen one.
        gain: RouteGain,
    },
    /// It surely gains enough.
    Better {
        /// The route that it is compared with.
        over: Route,
        /// The chosen route's gain over the compared one.
        gain: RouteGain,
    },
    /// It was chosen before, and the knowledge of it does not speak against it.
    Kept {
        /// The route that the client gets otherwise.
        over: Route,
        /// The kept route's gain over the other; `None` while too little is known of it.
        gain: Option<RouteGain>,
    },
    /// The route that would be taken has stalled.
    Stalled {
        /// The stalled route.
        route: Route,
        /// For how long it is avoided still.
        avoided_for: Duration,
    },
    /// It gets this session to be known.
    Explore {
        /// The client's route otherwise.
        instead_of: Route,
    },
}

impl RouteReason {
    /// A stable name in snake case.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.kind().name()
    }

    /// The code that it is counted by.
    #[must_use]
    pub const fn kind(&self) -> RouteReasonCode {
        match self {
            Self::Only => RouteReasonCode::Only,
            Self::Pinned => RouteReasonCode::Pinned,
            Self::PinnedMissing => RouteReasonCode::PinnedMissing,
            Self::Policy { .. } => RouteReasonCode::Policy,
            Self::HoldBack => RouteReasonCode::HoldBack,
            Self::TooFewSamples { .. } => RouteReasonCode::TooFewSamples,
            Self::NoGain { .. } => RouteReasonCode::NoGain,
            Self::Better { gain, .. } => match gain.by {
                Measure::Goodput => RouteReasonCode::MoreGoodput,
                Measure::Stalls => RouteReasonCode::FewerStalls,
                Measure::Rtt => RouteReasonCode::ShorterRtt,
                Measure::Loss => RouteReasonCode::LessLoss,
            },
            Self::Kept { .. } => RouteReasonCode::Kept,
            Self::Stalled { .. } => RouteReasonCode::Stalled,
            Self::Explore { .. } => RouteReasonCode::Explore,
        }
    }
}

impl RouteDecision {
    /// The decision with its reason as a sentence.
    #[must_use]
    pub fn display(self, names: &EgressNames) -> impl fmt::Display {
        let named = |route: Route| route.display(names);
        fmt::from_fn(move |f| {
            write!(f, "{}: ", named(self.route))?;
            match self.reason {
                RouteReason::Only => f.write_str("the only one"),
                RouteReason::Pinned => f.write_str("pinned by policy.route"),
                RouteReason::PinnedMissing => {
                    f.write_str("what policy.route names is not to be had for this client")
                }
                RouteReason::Policy { mode } => write!(f, "the operator's policy is {mode}"),
                RouteReason::HoldBack => {
                    f.write_str("held back on the plain choice to measure the gain")
                }
                RouteReason::TooFewSamples { samples, needed } => {
                    write!(
                        f,
                        "{samples:.0} samples so far, and {needed} needed of it and another"
                    )
                }
                RouteReason::NoGain { best, gain } => {
                    write!(
                        f,
                        "no other surely gains enough; {} has {gain}",
                        named(best)
                    )
                }
                RouteReason::Better { over, gain } => {
                    write!(f, "{gain}, against {}", named(over))
                }
                RouteReason::Kept {
                    over,
                    gain: Some(gain),
                } => write!(f, "kept; {gain}, against {}", named(over)),
                RouteReason::Kept { over, gain: None } => {
                    write!(f, "kept; nothing is known of {}", named(over))
                }
                RouteReason::Stalled { route, avoided_for } => {
                    let (route, left) = (named(route), human::time(avoided_for));
                    write!(f, "{route} stalled and is avoided for {left}")
                }
                RouteReason::Explore { instead_of } => {
                    write!(f, "exploring instead of {}", named(instead_of))
                }
            }
        })
    }
}
