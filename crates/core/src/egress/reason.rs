//! Why a route was chosen, as data, as a sentence and as a stable code.

use std::fmt;
use std::time::Duration;

use super::{EgressNames, Measure, Mode, Route, RouteDecision, RouteGain};
use crate::choice::{Bar, Evidence, Group, HELD_BACK, Reason, Rival};
use hikyaku_units::{human, names};

/// Why a route was chosen. [`RouteDecision::display`] gives a sentence, [`RouteReason::code`] a name for logs
/// and metrics.
pub type RouteReason = Reason<Route, RouteBar, RouteGain>;

/// A fault or a rule that rules out routes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum RouteBar {
    /// `policy.route` names a route that is not to be had for this client.
    Missing,
    /// The operator's policy for these clients sets this mode.
    Policy(Mode),
    /// The route that would be taken has stalled.
    Stalled {
        /// The stalled route.
        route: Route,
        /// For how long it is avoided still.
        avoided_for: Duration,
    },
    /// The port of the route that would be taken is full.
    Full(Route),
    /// The route is as good as another one, as far as is known, and its port costs less.
    Cheaper(Route),
}

impl Bar for RouteBar {
    fn group(&self) -> Group {
        match self {
            Self::Missing | Self::Policy(_) => Group::Plain,
            Self::Stalled { .. } | Self::Full(_) | Self::Cheaper(_) => Group::Normal,
        }
    }
}

names! {
    /// The code that a [`RouteReason`] is counted by.
    pub enum RouteReasonCode {
        Only = "only",
        Pinned = "pinned",
        PinnedMissing = "pinned_missing",
        Policy = "policy",
        HoldBack = "hold_back",
        TooFewSamples = "too_few_samples",
        NoGain = "no_gain",
        MoreGoodput = "more_goodput",
        FewerStalls = "fewer_stalls",
        ShorterRtt = "shorter_rtt",
        LessLoss = "less_loss",
        Kept = "kept",
        Stalled = "stalled",
        Full = "full",
        Cheaper = "cheaper",
        Explore = "explore",
    }
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
        use RouteReasonCode as Code;
        match self {
            Self::Only => Code::Only,
            Self::Pinned(_) => Code::Pinned,
            Self::Barred(RouteBar::Missing) => Code::PinnedMissing,
            Self::Barred(RouteBar::Policy(_)) => Code::Policy,
            Self::Barred(RouteBar::Stalled { .. }) => Code::Stalled,
            Self::Barred(RouteBar::Full(_)) => Code::Full,
            Self::Barred(RouteBar::Cheaper(_)) => Code::Cheaper,
            Self::HoldBack => Code::HoldBack,
            Self::TooFewSamples(_) | Self::NotComparable(_) => Code::TooFewSamples,
            Self::Better(Rival {
                gain: Some(gain), ..
            }) => match gain.by {
                Measure::Goodput => Code::MoreGoodput,
                Measure::Stalls => Code::FewerStalls,
                Measure::Rtt => Code::ShorterRtt,
                Measure::Loss => Code::LessLoss,
            },
            Self::NoGain(_) | Self::Better(_) => Code::NoGain,
            Self::Kept(_) => Code::Kept,
            Self::Trial(_) | Self::Explore(_) => Code::Explore,
        }
    }
}

/// A gain that a reason has.
fn gained(gain: Option<RouteGain>) -> impl fmt::Display {
    fmt::from_fn(move |f| match gain {
        Some(gain) => write!(f, "{gain}"),
        None => f.write_str("an unknown gain"),
    })
}

impl RouteDecision {
    /// The decision with its reason as a sentence.
    #[must_use]
    pub fn display(self, names: &EgressNames) -> impl fmt::Display {
        let named = |route: Route| route.display(names);
        fmt::from_fn(move |f| {
            write!(f, "{}: ", named(self.route))?;
            match self.reason {
                Reason::Only => f.write_str("the only one"),
                Reason::Pinned(_) => f.write_str("pinned by policy.route"),
                Reason::Barred(RouteBar::Missing) => {
                    f.write_str("what policy.route names is not to be had for this client")
                }
                Reason::Barred(RouteBar::Policy(mode)) => {
                    write!(f, "the operator's policy is {mode}")
                }
                Reason::Barred(RouteBar::Stalled { route, avoided_for }) => {
                    let (route, left) = (named(route), human::time(avoided_for));
                    write!(f, "{route} stalled and is avoided for {left}")
                }
                Reason::Barred(RouteBar::Full(route)) => {
                    write!(f, "the port of {} is full", named(route))
                }
                Reason::Barred(RouteBar::Cheaper(than)) => {
                    write!(f, "as good as {}, by a cheaper port", named(than))
                }
                Reason::HoldBack => f.write_str(HELD_BACK),
                Reason::TooFewSamples(Evidence { samples, needed }) => write!(
                    f,
                    "{samples:.0} samples so far, and {needed} needed of it and another"
                ),
                Reason::NotComparable(missing) => write!(f, "{missing}"),
                Reason::NoGain(None) => f.write_str("no other surely gains enough"),
                Reason::NoGain(Some(best)) => {
                    let (gain, best) = (gained(best.gain), named(best.arm));
                    write!(f, "no other surely gains enough; {best} has {gain}")
                }
                Reason::Better(over) => {
                    write!(f, "{}, against {}", gained(over.gain), named(over.arm))
                }
                Reason::Kept(Rival { arm, gain: None }) => {
                    write!(f, "kept; nothing is known of {}", named(arm))
                }
                Reason::Kept(over) => {
                    write!(
                        f,
                        "kept; {}, against {}",
                        gained(over.gain),
                        named(over.arm)
                    )
                }
                Reason::Trial(used) | Reason::Explore(used) => {
                    write!(f, "exploring instead of {}", named(used.arm))
                }
            }
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Adaptive => "adaptive",
            Self::Plain => "plain",
            Self::Steered => "steered",
            Self::Aggregated => "aggregated",
        })
    }
}

/// `goodput +31 %, surely +12 %`; `RTT -33 %, surely -20 %`.
impl fmt::Display for RouteGain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.by {
            Measure::Goodput => "goodput",
            Measure::Stalls => "stalls",
            Measure::Rtt => "RTT",
            Measure::Loss => "loss",
        };
        let change = |gain: f32| {
            // All but goodput are gained by having less.
            let change = match self.by {
                Measure::Goodput => gain,
                Measure::Stalls | Measure::Rtt | Measure::Loss => (1.0 + gain).recip() - 1.0,
            };
            human::change(change.into())
        };
        let [expected, low] = [self.gain.expected(), self.gain.low()].map(change);
        write!(f, "{what} {expected}, surely {low}")
    }
}
