//! The chain as it was.

pub(crate) use crate::choice::{
    Change, Draw, Evidence, Explorer, Gain, Group, Proof, QUANTILE_90, Session, Visit,
};

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

/// Something that is chosen for a client among arms. A method returns `None` where its step does not apply.
pub(crate) trait Domain {
    /// The type of the chosen arm.
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
