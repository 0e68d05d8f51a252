//! The policy and the classes that routes are chosen by.

use std::sync::Arc;

use hikyaku_core::egress::{Criterion, Phase, RouteView, Scheduling, Wants};
use hikyaku_core::policy::PolicyConfig;

use super::{ClassId, Classes, Content};

/// Policy and classes that routes are chosen by.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(super) policy: Arc<PolicyConfig>,
    pub(super) classes: Classes,
}

impl Rules {
    pub(crate) fn new(policy: PolicyConfig, classes: Classes) -> Self {
        Self {
            policy: Arc::new(policy),
            classes,
        }
    }

    /// These rules in place of `former` ones, whose classes keep their ids.
    #[must_use]
    pub(crate) fn after(mut self, former: &Self) -> Self {
        self.classes.keep_ids(&former.classes);
        self
    }

    /// Wishes of a class, in each phase of a response whose quality counts for it.
    pub(super) fn wanted_in_phases(
        &self,
        class: ClassId,
    ) -> impl Iterator<Item = (ClassId, Wants)> + use<> {
        let criterion = self.classes.wants(class);
        let long = (criterion == Criterion::Goodput).then_some(Phase::Sustained);
        let phases = std::iter::once(Phase::Startup).chain(long);
        phases.map(move |phase| (class, Wants { criterion, phase }))
    }

    /// Which subflows of MPTCP carry the data of a class.
    pub(super) fn scheduling(&self, class: ClassId) -> Scheduling {
        let own = self.classes.scheduling(class);
        own.under(self.policy.scheduling)
    }

    /// Wishes of content for a route to a client.
    pub(super) fn wants(&self, content: Content, view: &RouteView) -> Wants {
        Wants {
            criterion: self.classes.wants(content.class),
            phase: view.phase_of(content.bytes),
        }
    }
}
