//! The choice of a route, and its explanation.

use std::net::IpAddr;

use hikyaku_core::choice::Visit;
use hikyaku_core::egress::{
    Candidates, EgressId, EgressSet, Mptcp, Route, RouteDecision, RoutesExplanation, Wants,
    decide_route, explain_routes,
};
use hikyaku_core::policy::RoutePolicy;

use super::{Answer, ClassId, Content, Egress, Reach, Rules};
use crate::seed::SEED;

/// Decision with the input it was taken from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    pub(crate) decision: RouteDecision,
    pub(crate) candidates: Candidates,
    /// Paths to the client that have stalled lately.
    pub(crate) avoided: EgressSet,
    /// Paths to the client whose port has no room for the content.
    pub(crate) full: EgressSet,
    pub(crate) reach: Option<Reach>,
}

impl Egress {
    /// Decides for a client and the content that it is sent.
    pub(super) fn decide(
        &self,
        client: IpAddr,
        answer: Option<&Answer>,
        content: Content,
        mptcp: Mptcp,
        visit: Visit,
    ) -> Decided {
        let rules = self.rules.load();
        let candidates = self.candidates(&rules, client, answer, content.class, mptcp);
        let reach = answer.map(|answer| answer.reach);
        let asn = reach.and_then(|reach| reach.asn);
        let now = self.clock.now();
        let view = self.records(&rules).view(client, asn, now);
        let wants = rules.wants(content, &view);
        let decision = decide_route(&view, wants, &candidates, &rules.policy, visit, SEED);
        self.records(&rules).decided(client, wants, &decision);
        let stalls = |path: &EgressId| {
            let quality = view.quality(Route::Steered(*path), candidates.plain_is);
            quality.avoided_for.is_some()
        };
        Decided {
            decision,
            candidates,
            avoided: candidates.egresses.iter().filter(stalls).collect(),
            full: candidates.egresses.and(candidates.room.full()),
            reach,
        }
    }

    pub(super) fn candidates(
        &self,
        rules: &Rules,
        client: IpAddr,
        answer: Option<&Answer>,
        class: ClassId,
        mptcp: Mptcp,
    ) -> Candidates {
        let named = match &rules.policy.route {
            RoutePolicy::Named(name) => Some(name.as_str()),
            _ => None,
        };
        let class = (rules.classes.name(class), rules.classes.wants(class));
        self.state().candidates(answer, client, class, mptcp, named)
    }

    /// The records of a client's routes, and the decision for each class; for bulk content also the
    /// decision for long responses. They are those of an MPTCP connection if the client has one open or
    /// had one lately. Empty while the agent has not been asked for the client.
    pub(crate) fn explain(
        &self,
        client: IpAddr,
        mptcp: bool,
        visit: Visit,
    ) -> Vec<RoutesExplanation> {
        let client = client.to_canonical();
        let Some(answer) = self.lookups.known(client) else {
            return Vec::new();
        };
        let rules = self.rules.load();
        let asn = answer.reach.asn;
        let now = self.clock.now();
        let view = self.records(&rules).view(client, asn, now);
        let state = self.state();
        let drains = state.drains(now);
        let had = view.quality(Route::Aggregated, None).age.is_some();
        let mptcp = match (mptcp || had) && self.hints.are_obeyed() {
            true => Mptcp::Taken,
            false => Mptcp::None,
        };
        let explained = |(class, wants): (ClassId, Wants)| {
            let candidates = self.candidates(&rules, client, Some(&answer), class, mptcp);
            explain_routes(
                &view,
                (rules.classes.name(class), wants),
                &candidates,
                state.known_paths(&answer, &drains),
                &rules.policy,
                (visit, SEED),
            )
        };
        let classes = rules.classes.ids();
        let wanted = classes.flat_map(|class| rules.wanted_in_phases(class));
        wanted.map(explained).collect()
    }
}
