//! The subflows of an MPTCP connection that carry its data.

use std::sync::Arc;

use hikyaku_core::egress::{Route, Scheduling, SubflowChoice, SubflowRtt};
use hikyaku_core::explain::SchedulingState;
use hikyaku_core::policy::SchedulingPolicy;

use super::super::SubflowEnds;
use super::ConnRoute;

/// The choice, with the ends of the subflows.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    choice: SubflowChoice,
    ends: Arc<[SubflowEnds]>,
}

impl Ordered {
    /// The subflows, the one to use first; empty where all are to be used.
    pub(super) fn order(&self) -> Arc<[SubflowEnds]> {
        Arc::clone(&self.ends)
    }
}

impl ConnRoute {
    /// Takes note of the subflows, and has the agent change those that carry data, where the class of
    /// content now wants others.
    pub(crate) fn see_subflows(&self, subflows: &[(SubflowRtt, SubflowEnds)]) {
        let wanted = self.scheduling();
        let now = self.egress.clock.now();
        let rtts: Vec<SubflowRtt> = subflows.iter().map(|(rtt, _)| *rtt).collect();
        let mut chosen = self.chosen.lock();
        if chosen.route != Route::Aggregated || !chosen.subflows.choice.look(now, wanted, &rtts) {
            return;
        }
        let order = chosen.subflows.choice.order();
        let of = |id: &u32| subflows.iter().find(|(rtt, _)| rtt.id == *id);
        chosen.subflows.ends = order.iter().filter_map(of).map(|(_, ends)| *ends).collect();
        tracing::debug!(
            client = %self.client, %wanted, order = ?chosen.subflows.ends, ?subflows,
            "other subflows carry the data"
        );
        self.send_hint(&mut chosen);
    }

    fn scheduling(&self) -> Scheduling {
        self.egress.rules.load().scheduling(self.class())
    }

    /// The scheduling of its subflows, and whose wish that is; `None` unless it has several routes.
    pub(crate) fn scheduling_state(&self) -> Option<SchedulingState> {
        if self.route() != Route::Aggregated {
            return None;
        }
        let rules = self.egress.rules.load();
        let by_class = rules.policy.scheduling == SchedulingPolicy::Class;
        Some(SchedulingState {
            scheduling: rules.scheduling(self.class()),
            class: by_class.then(|| rules.classes.name(self.class()).to_owned()),
        })
    }
}
