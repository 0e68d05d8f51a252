//! The one way in which everything is chosen for a client: HTTP version, congestion control, route and
//! connections of a page.
//!
//! Each of them is a `Domain`, which compares its own arms by its own physics. `choose` asks it in the
//! order that holds for all: pinned, barred, hold-back, too little known, kept or better, experiment. It
//! defines once the reasons, the gain, how sure a gain must be, and the draws.
//!
//! An [`Assignment`] says which side of the comparison a client is on: with hikyaku, or held back on an
//! ordinary server's transport.

mod assignment;
mod draw;
mod evidence;
mod gain;
mod needed;
mod reason;

use serde::{Deserialize, Serialize};

pub use assignment::Assignment;
pub(crate) use draw::{Draw, Explorer, pick};
pub use evidence::Evidence;
pub use gain::Gain;
pub(crate) use gain::QUANTILE_90;
pub(crate) use needed::{Change, Proof};
pub(crate) use reason::HELD_BACK;
pub use reason::{Bar, Missing, Reason, Rival};

/// The experimental group of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The plain choice: too little is known, or the arm is pinned.
    Plain,
    /// A client that always gets what an ordinary server gives, to compare with.
    HoldBack,
    /// The arm that was found best.
    Normal,
    /// Another arm, drawn to keep its outcomes known.
    Explore,
    /// Another arm that may be better and has hardly been seen.
    Trial,
    /// UDP fails: HTTP/2, or a probe of UDP.
    Udp,
}

impl Group {
    /// Its name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::HoldBack => "hold_back",
            Self::Normal => "normal",
            Self::Explore => "explore",
            Self::Trial => "trial",
            Self::Udp => "udp",
        }
    }

    /// Whether the session gets another arm than the one that was found best, for the sake of its
    /// outcomes.
    #[must_use]
    pub const fn is_experiment(self) -> bool {
        matches!(self, Self::Explore | Self::Trial)
    }
}

/// A session of a client, numbered by the second of its start.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Session(pub u32);

/// A session, as a choice that is made after that of the transport has to know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// The session.
    pub session: Session,
    /// Whether it bears an experiment already: it bears one at most, and its outcomes count to that alone.
    pub is_experiment: bool,
    /// Whether the policy of its site holds the client back.
    pub is_held_back: bool,
}

impl From<Session> for Visit {
    /// A session without an experiment.
    fn from(session: Session) -> Self {
        Self {
            session,
            is_experiment: false,
            is_held_back: false,
        }
    }
}

/// Something that is chosen for a client among arms.
pub(crate) trait Domain {
    /// Whether bars hold for the hold-back group, too: where that would get no page without them.
    const BARS_HELD_BACK: bool = true;
    /// The type of the chosen arm.
    type Arm;
    /// The faults and rules that rule out arms.
    type Bar: Bar;
    /// The figures of a gain, as the domain compares.
    type Gain;

    /// The arm that the configuration or the operator says, or the only one there is.
    fn pinned(&self) -> Option<Pick<Self>>;

    /// The arm that is left where a fault rules the others out, such as failing UDP.
    fn barred(&self) -> Option<Pick<Self>> {
        None
    }

    /// The plain choice: the arm of a client of which too little is known.
    fn usual(&self) -> Self::Arm;

    /// The arm of a client in the hold-back group; `None` where that group is no control here.
    fn held_back(&self) -> Option<Self::Arm> {
        Some(self.usual())
    }

    /// How much is known of the client; `None` where that differs from arm to arm.
    fn evidence(&self) -> Option<Evidence>;

    /// The arm that is kept or better, as the domain compares.
    fn steady(&self) -> Pick<Self>;

    /// The arm that this session tries instead of the steady one.
    fn experiment(&self, steady: &Pick<Self>) -> Option<Pick<Self>>;
}

/// An arm of a domain and why it is taken.
pub(crate) type Pick<D> = (<D as Domain>::Arm, ReasonOf<D>);
type ReasonOf<D> = Reason<<D as Domain>::Arm, <D as Domain>::Bar, <D as Domain>::Gain>;

/// Chooses an arm: the first step that applies decides.
pub(crate) fn choose<D: Domain>(domain: &D, is_held_back: bool) -> Pick<D> {
    fixed(domain, is_held_back).unwrap_or_else(|| {
        let steady = domain.steady();
        domain.experiment(&steady).unwrap_or(steady)
    })
}

/// The arm that is taken without a comparison, by the steps before it.
pub(crate) fn fixed<D: Domain>(domain: &D, is_held_back: bool) -> Option<Pick<D>> {
    let held_back = || is_held_back.then(|| domain.held_back()).flatten();
    let too_few = || domain.evidence().filter(|known| !known.is_enough());
    let bars = !is_held_back || D::BARS_HELD_BACK;
    domain
        .pinned()
        .or_else(|| bars.then(|| domain.barred()).flatten())
        .or_else(|| Some((held_back()?, Reason::HoldBack)))
        .or_else(|| too_few().map(|known| (domain.usual(), Reason::TooFewSamples(known))))
}

#[cfg(test)]
mod tests;
