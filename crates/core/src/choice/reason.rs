//! Why an arm is taken.

use std::convert::Infallible;
use std::fmt;

use super::{Evidence, Group};

/// Why an arm is taken, by the step of the chain that decided. `A` are a domain's arms, `B` its bars, and
/// `G` the figures of its gains.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason<A, B, G> {
    /// There is no other arm.
    Only,
    /// The settings name this arm.
    Pinned(A),
    /// A fault or a rule of the domain leaves no other arm.
    Barred(B),
    /// The client is in the hold-back group.
    HoldBack,
    /// Too little is known.
    TooFewSamples(Evidence),
    /// The arms cannot be compared.
    NotComparable(Missing),
    /// No other arm gains enough; the best of them, where it is known.
    NoGain(Option<Rival<A, G>>),
    /// It gains enough.
    Better(Rival<A, G>),
    /// The client is kept on it: a change would not gain enough.
    Kept(Rival<A, G>),
    /// It may be better and has hardly been seen: it gets this session.
    Trial(Rival<A, G>),
    /// It gets this session, to keep its outcomes known.
    Explore(Rival<A, G>),
}

/// The sentence of [`Reason::HoldBack`], where a domain has none of its own.
pub(crate) const HELD_BACK: &str = "held back on an ordinary server's choice to measure the gain";

/// The arm that a chosen one is compared with, or that a session gets when it bears no experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rival<A, G> {
    /// The other arm.
    pub arm: A,
    /// The gain of the better one; `None` where it is not known, or not what decided.
    pub gain: Option<G>,
}

/// A fault or a rule that rules out arms of one domain.
pub trait Bar {
    /// The group of a session that gets the arm which is left.
    fn group(&self) -> Group;
}

/// The missing part of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// No round-trip time was measured.
    Rtt,
    /// No delivery rate was measured.
    Rate,
    /// The model lacks the arms of the pinned congestion control.
    Arm,
}

impl<A, B: Bar, G> Reason<A, B, G> {
    /// The group of a session whose arm is taken for it.
    #[must_use]
    pub fn group(&self) -> Group {
        match self {
            Self::Only | Self::Pinned(_) | Self::TooFewSamples(_) | Self::NotComparable(_) => {
                Group::Plain
            }
            Self::Barred(bar) => bar.group(),
            Self::HoldBack => Group::HoldBack,
            Self::NoGain(_) | Self::Better(_) | Self::Kept(_) => Group::Normal,
            Self::Trial(_) => Group::Trial,
            Self::Explore(_) => Group::Explore,
        }
    }
}

impl<A, G> Rival<A, G> {
    /// Another arm whose gain is not what decided.
    pub(crate) const fn of(arm: A) -> Self {
        Self { arm, gain: None }
    }

    /// Another arm, with the gain that decided.
    pub(crate) const fn by(arm: A, gain: G) -> Self {
        let gain = Some(gain);
        Self { arm, gain }
    }
}

/// No bar, in a domain that has none.
impl Bar for Infallible {
    fn group(&self) -> Group {
        match *self {}
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rtt => "no round-trip time is known yet",
            Self::Rate => "no delivery rate is known yet",
            Self::Arm => "the model lacks the configured congestion control",
        })
    }
}
