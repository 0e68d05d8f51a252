//! The draws of a session, and how likely each of their outcomes is.

use super::Decision;
use super::rules::{Picked, Rules};
use crate::choice::{Assignment, Draw, Explorer};
use crate::policy::PolicyConfig;
use hikyaku_units::arm::{Arm, ByTransport, Congestion, Version};

/// The outcome of all draws that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lots {
    pub(super) assignment: Assignment,
    /// The session is drawn for an experiment with its route, and bears no other.
    pub(super) of_route: bool,
    /// The session is drawn to explore: the place of its arm among all that may be explored, from 0 to
    /// below 1.
    pub(super) of_arm: Option<f64>,
}

/// The part of a decision that draws decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Treatment {
    /// The side of the comparison.
    pub assignment: Assignment,
    /// The preferred version.
    pub version: Version,
    /// The congestion control of each transport.
    pub congestion: ByTransport<Congestion>,
}

impl Treatment {
    /// The treatment by a decision.
    #[must_use]
    pub fn of(decision: &Decision) -> Self {
        Self {
            assignment: decision.assignment,
            version: decision.version,
            congestion: ByTransport::from_fn(|t| decision.congestion.get(t).congestion),
        }
    }

    /// The preferred version, over the congestion control of its transport.
    #[must_use]
    pub const fn arm(&self) -> Arm {
        let transport = self.version.transport();
        Arm::over(transport, *self.congestion.get(transport))
    }
}

impl Lots {
    pub(super) fn of(draw: Draw, policy: &PolicyConfig) -> Self {
        Self {
            assignment: Assignment::drawn(draw.is_held_back(policy)),
            of_route: draw.explores(Explorer::Route, policy).is_some(),
            of_arm: draw
                .explores(Explorer::Transport, policy)
                .map(|_| draw.arm()),
        }
    }

    /// No experiment.
    pub(super) const fn none(assignment: Assignment) -> Self {
        Self {
            assignment,
            of_route: false,
            of_arm: None,
        }
    }
}

impl Rules<'_> {
    /// The probability of a treatment, of which the assignment is part.
    pub(super) fn probability(&self, treatment: &Treatment) -> f64 {
        let same = |(other, probability)| (other == *treatment).then_some(probability);
        let sum: f64 = self.treatments().into_iter().filter_map(same).sum();
        sum.min(1.0)
    }

    /// The treatments that the draws may lead to, with the probability of each outcome. One may come
    /// several times. The sum is 1.
    pub(super) fn treatments(&self) -> Vec<(Treatment, f64)> {
        let of = |lots: Lots| {
            let rules = self.with(lots);
            rules.picked().treatment(&rules)
        };
        let [hikyaku, held_back] = Assignment::ALL.map(|side| (side, side.share(self.policy)));
        let mut treatments = Vec::with_capacity(MAX_OUTCOMES);
        let mut add = |lots: Lots, probability: f64| {
            if probability > 0.0 {
                treatments.push((of(lots), probability));
            }
        };
        add(Lots::none(held_back.0), held_back.1);
        let (side, share) = hikyaku;
        let nothing = Lots::none(side);
        let Some(explored) = self.explored_number(&nothing) else {
            add(nothing, share);
            return treatments;
        };
        let explores = self.policy.exploration.clamp(0.0, 0.5);
        add(nothing, share * (1.0 - 2.0 * explores));
        let of_route = Lots {
            of_route: true,
            ..nothing
        };
        add(of_route, share * explores);
        // One that may explore and finds no arm gets the same as others.
        let number = explored.max(1);
        for at in 0..number {
            let of_arm = Some((at as f64 + 0.5) / number as f64);
            add(Lots { of_arm, ..nothing }, share * explores / number as f64);
        }
        treatments
    }

    /// How many arms may be explored instead of the one that is taken without experiments. `None` where
    /// nothing is compared, so that draws decide nothing.
    fn explored_number(&self, nothing: &Lots) -> Option<usize> {
        let compared = self.compared.as_ref().ok()?;
        let without = self.with(Lots {
            of_route: true,
            ..*nothing
        });
        let version = without.picked().version();
        Some(self.explorable_arms(compared, version).count())
    }
}

impl Picked {
    pub(super) fn treatment(&self, rules: &Rules<'_>) -> Treatment {
        Treatment {
            assignment: rules.lots.assignment,
            version: self.version(),
            congestion: ByTransport::from_fn(|t| self.congestion().get(t).congestion),
        }
    }
}

/// Hold-back, nothing, the route's experiment, and the explored arms.
const MAX_OUTCOMES: usize = 3 + 5;
