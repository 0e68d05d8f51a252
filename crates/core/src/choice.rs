//! The one way in which everything is chosen for a client: HTTP version, congestion control, route and
//! connections of a page.
//!
//! Each of them is a `Domain`, which compares its own arms by its own physics. `choose` asks it in the
//! order that holds for all: pinned, barred, hold-back, too little known, kept or better, experiment. What
//! a gain is, how sure it must be, and who is drawn for what, stands here once.

mod draw;
mod evidence;
mod gain;
mod needed;

use serde::{Deserialize, Serialize};

pub(crate) use draw::{Draw, Explorer};
pub(crate) use evidence::Evidence;
pub use gain::Gain;
pub(crate) use gain::QUANTILE_90;
pub use needed::{Change, Needed, Proof};

/// The experimental group of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The plain choice: too little is known, or the arm is pinned.
    Plain,
    /// A client that always gets the plain choice of everything, to compare with.
    HoldBack,
    /// The arm that was found best.
    Normal,
    /// Another arm, to get or keep its outcomes known.
    Explore,
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
            Self::Udp => "udp",
        }
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
}

impl From<Session> for Visit {
    /// A session without an experiment.
    fn from(session: Session) -> Self {
        Self {
            session,
            is_experiment: false,
        }
    }
}

/// An arm and why it is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pick<A, R> {
    pub(crate) arm: A,
    pub(crate) reason: R,
    pub(crate) group: Group,
}

impl<A, R> Pick<A, R> {
    pub(crate) const fn new(arm: A, reason: R, group: Group) -> Self {
        Self { arm, reason, group }
    }
}

/// Something that is chosen for a client among arms. What a step does not concern returns `None`.
pub(crate) trait Domain {
    /// What is chosen.
    type Arm;
    /// Why it is.
    type Reason;

    /// The arm that the configuration or the operator says, or the only one there is.
    fn pinned(&self) -> Option<(Self::Arm, Self::Reason)>;

    /// The arm that is left where a fault rules the others out, such as failing UDP. It holds for the
    /// hold-back group, too.
    fn barred(&self) -> Option<Pick<Self::Arm, Self::Reason>> {
        None
    }

    /// The plain choice of a client in the hold-back group.
    fn held_back(&self) -> Option<(Self::Arm, Self::Reason)>;

    /// The plain choice of a client of which too little is known to compare anything.
    fn little_known(&self) -> Option<(Self::Arm, Self::Reason)>;

    /// The arm that is kept or better, as the domain compares.
    fn steady(&self) -> Pick<Self::Arm, Self::Reason>;

    /// The arm that this session tries instead of the steady one.
    fn experiment(
        &self,
        steady: &Pick<Self::Arm, Self::Reason>,
    ) -> Option<(Self::Arm, Self::Reason)>;
}

/// Chooses an arm: the first step that says something decides.
pub(crate) fn choose<D: Domain>(domain: &D, is_held_back: bool) -> Pick<D::Arm, D::Reason> {
    let in_group = |group| move |(arm, reason)| Pick::new(arm, reason, group);
    let held_back = || is_held_back.then(|| domain.held_back()).flatten();
    domain
        .pinned()
        .map(in_group(Group::Plain))
        .or_else(|| domain.barred())
        .or_else(|| held_back().map(in_group(Group::HoldBack)))
        .or_else(|| domain.little_known().map(in_group(Group::Plain)))
        .unwrap_or_else(|| {
            let steady = domain.steady();
            let experiment = domain.experiment(&steady);
            experiment.map(in_group(Group::Explore)).unwrap_or(steady)
        })
}

#[cfg(test)]
mod tests;
