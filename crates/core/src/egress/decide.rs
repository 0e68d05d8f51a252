//! The choice of a route, by rules in the order in which they hold.

mod explore;
mod price;
mod several;
mod single;
mod why;

use std::time::Duration;

use super::compare::compare;
use super::record::Kept;
use super::{
    Candidates, EgressId, Mode, Route, RouteBar, RouteGain, RouteQuality, RouteReason, RouteView,
    Wants,
};
use crate::choice::{
    Change, Domain, Draw, Evidence, Group, Pick, Proof, Reason, Rival, Visit, choose, fixed,
};
use crate::policy::{PolicyConfig, RoutePolicy};
use price::LEFT;

pub(super) use why::Verdict;

/// The route of a client's responses of one content class, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteDecision {
    /// The route of responses.
    pub route: Route,
    /// Why.
    pub reason: RouteReason,
    /// The group whose outcomes this session's count to.
    pub group: Group,
    /// The choice that the client is kept on by it; `None` where it is no choice.
    pub(super) keeps: Option<Kept>,
}

/// Chooses the route of a client's responses of which `wants` is wanted.
///
/// A pure function: equal arguments give equal decisions. The chosen route is a candidate, or plain.
/// `seed` draws the hold-back group, the same as [`decide`](crate::transport::decide())'s, and the
/// explored sessions; all servers that share clients need the same. A `visit` that bears an experiment
/// explores no route. The steps: `docs/decisions.md`.
#[must_use]
pub fn decide_route(
    view: &RouteView,
    wants: Wants,
    candidates: &Candidates,
    policy: &PolicyConfig,
    visit: Visit,
    seed: u64,
) -> RouteDecision {
    let rules = Rules {
        view,
        wants,
        candidates,
        policy,
        visit,
        seed,
    };
    rules.decision()
}

/// The share of a client's next connections of which MPTCP is to be taken where `candidates` has it,
/// for responses with the given `wants`. It is all of them, where sessions that do not explore get
/// several egress routes; else as many as explore several egress routes. `seed` draws the hold-back
/// group as for [`decide_route`]; `None` where no client in particular is meant.
#[must_use]
pub fn mptcp_share(
    view: &RouteView,
    wants: Wants,
    candidates: &Candidates,
    policy: &PolicyConfig,
    seed: Option<u64>,
) -> f64 {
    let rules = Rules {
        view,
        wants,
        candidates,
        policy,
        visit: Visit::default(),
        seed: seed.unwrap_or_default(),
    };
    let is_held_back = seed.is_some() && rules.draw().is_held_back(policy);
    if let Some((route, _)) = fixed(&rules, is_held_back) {
        return f64::from(u8::from(route == Route::Aggregated));
    }
    match rules.steady() {
        (Route::Aggregated, _) => 1.0,
        (single, _) => rules.shares(rules.explorable(single), single).several,
    }
}

/// The arguments of [`decide_route`].
pub(super) struct Rules<'a> {
    pub(super) view: &'a RouteView,
    pub(super) wants: Wants,
    pub(super) candidates: &'a Candidates,
    pub(super) policy: &'a PolicyConfig,
    pub(super) visit: Visit,
    pub(super) seed: u64,
}

impl Domain for Rules<'_> {
    type Arm = Route;
    type Bar = RouteBar;
    type Gain = RouteGain;

    fn pinned(&self) -> Option<Pick<Self>> {
        self.named().or_else(|| self.only())
    }

    /// The route that is taken without knowledge: plain, or where the operator's policy rules that out
    /// the egress route that plain takes, else the first.
    fn usual(&self) -> Route {
        let singles = self.candidates.singles();
        let best = self.candidates.plain_is.map(Route::Steered);
        let best = best.filter(|best| singles.contains(*best) && !self.is_backup(*best));
        let mut primary = singles.iter().filter(|route| !self.is_backup(*route));
        match primary.next() {
            Some(Route::Plain) => Route::Plain,
            first => best
                .or(first)
                .or(singles.iter().next())
                .unwrap_or(Route::Plain),
        }
    }

    fn held_back(&self) -> Option<Route> {
        let candidates = self.candidates;
        let is_open =
            candidates.mode == Mode::Adaptive && candidates.singles().contains(Route::Plain);
        is_open.then_some(Route::Plain)
    }

    /// Nothing: how much is known differs from route to route.
    fn evidence(&self) -> Option<Evidence> {
        None
    }

    fn steady(&self) -> Pick<Self> {
        let kept = self.view.kept(self.wants);
        let single = self.best_single(kept);
        self.aggregated(single, kept).unwrap_or(single)
    }

    fn experiment(&self, (used, reason): &Pick<Self>) -> Option<Pick<Self>> {
        let is_stalled = matches!(
            reason,
            Reason::Barred(RouteBar::Stalled { .. } | RouteBar::Full(_))
        );
        let route = self.explored(*used).filter(|_| !is_stalled)?;
        Some((route, Reason::Explore(Rival::of(*used))))
    }
}

impl Rules<'_> {
    pub(super) fn decision(&self) -> RouteDecision {
        let is_held_back = self.visit.is_held_back || self.draw().is_held_back(self.policy);
        let (route, reason) = choose(self, is_held_back);
        RouteDecision {
            route,
            reason,
            group: reason.group(),
            keeps: self.keeps(route, &reason),
        }
    }

    fn draw(&self) -> Draw {
        Draw {
            seed: self.seed,
            client: self.view.client,
            session: self.visit.session,
        }
    }

    /// The route that the configuration or the operator's policy names.
    fn named(&self) -> Option<Pick<Self>> {
        let candidates = self.candidates;
        let instead = if candidates.plain_is_dead {
            self.usual()
        } else {
            Route::Plain
        };
        let pinned = |route: Option<Route>| match route {
            Some(route) => (route, Reason::Pinned(route)),
            None => (instead, Reason::Barred(RouteBar::Missing)),
        };
        Some(match (&self.policy.route, candidates.mode) {
            (RoutePolicy::Plain, _) => pinned(Some(Route::Plain)),
            (RoutePolicy::Named(_), _) => {
                let up = |egress: &EgressId| candidates.egresses.contains(*egress);
                pinned(candidates.named.filter(up).map(Route::Steered))
            }
            (RoutePolicy::Aggregate, _) => {
                pinned(candidates.mptcp.is_used().then_some(Route::Aggregated))
            }
            (RoutePolicy::Adaptive, Mode::Plain) => (Route::Plain, policy(Mode::Plain)),
            (RoutePolicy::Adaptive, mode @ Mode::Aggregated) => match candidates.aggregates() {
                true => (Route::Aggregated, policy(mode)),
                false => (Route::Plain, policy(mode)),
            },
            (RoutePolicy::Adaptive, Mode::Adaptive | Mode::Steered) => return None,
        })
    }

    fn only(&self) -> Option<Pick<Self>> {
        let singles = self.candidates.singles();
        let route = singles.iter().next().unwrap_or(Route::Plain);
        let reason = match self.candidates.mode {
            mode @ Mode::Steered if route != Route::Plain => policy(mode),
            _ => Reason::Only,
        };
        let only = singles.len() <= 1 && !self.candidates.aggregates();
        only.then_some((route, reason))
    }

    /// The routes that the client is kept on by a choice; `None` where it is no choice. A stall and a
    /// full port change nothing: they pass.
    fn keeps(&self, route: Route, reason: &RouteReason) -> Option<Kept> {
        let single = match reason {
            Reason::Better(over) | Reason::Kept(over) if route == Route::Aggregated => over.arm,
            Reason::TooFewSamples(_)
            | Reason::NoGain(_)
            | Reason::Better(_)
            | Reason::Kept(_)
            | Reason::Barred(RouteBar::Cheaper(_)) => route,
            _ => return None,
        };
        let egress = match single {
            Route::Steered(egress) => Some(egress),
            Route::Plain | Route::Aggregated => None,
        };
        let aggregated = if self.is_open(Route::Aggregated) {
            route == Route::Aggregated
        } else {
            // Clients with MPTCP and without share the record.
            self.view.kept(self.wants).aggregated
        };
        Some(Kept { egress, aggregated })
    }

    /// Whether a kept route is known still, and not expected to be worse than the usual one, nor clearly
    /// so where it is cheaper. A usual route that has declined a short time ago must be surely better: its
    /// last samples are older than the rest of a decay.
    fn holds(&self, kept: Route, usual: Route) -> bool {
        let declined = self.quality(usual).declined;
        if declined.is_some_and(|since| since < QUARANTINE) {
            let back = self.gain(usual, kept, Proof::LowerBound);
            return !back.is_some_and(|gain| self.is_proof(gain, usual, kept));
        }
        let gain = self.gain(kept, usual, Proof::Expected);
        let samples = self.quality(kept).samples(self.wants);
        let needed = self.policy.needed(Change::KeptRoute);
        let is_met = |gain: RouteGain| needed.is_met(gain.gain, 1.0);
        self.known(samples).share() > 0.0
            && (gain.is_none_or(is_met) || self.saves(kept, usual, LEFT))
    }

    /// Whether several egress routes may be used now.
    fn is_open(&self, aggregated: Route) -> bool {
        let candidates = self.candidates;
        candidates.aggregates()
            && self.is_not_avoided(aggregated)
            && candidates.have_room_for_several()
    }

    /// Whether the port of a single route has room for the client.
    fn has_room(&self, route: Route) -> bool {
        self.candidates.room.has(route, self.candidates.plain_is)
    }

    fn is_not_avoided(&self, route: Route) -> bool {
        self.quality(route).avoided_for.is_none()
    }

    fn is_backup(&self, route: Route) -> bool {
        self.candidates.is_backup(route)
    }

    /// Whether enough is known to compare two routes.
    fn can_compare(&self, route: Route, over: Route) -> bool {
        self.evidence(route, over).is_enough()
    }

    fn evidence(&self, route: Route, over: Route) -> Evidence {
        self.known(self.comparable(route, over))
    }

    fn known(&self, samples: f32) -> Evidence {
        Evidence {
            samples,
            needed: self.policy.min_samples_route,
        }
    }

    /// Samples of two routes that can be compared.
    fn comparable(&self, route: Route, over: Route) -> f32 {
        let [route, over] = [route, over].map(|route| self.quality(route));
        route.comparable(over, self.wants.criterion)
    }

    /// Whether a gain is enough to change routes for.
    fn is_proof(&self, gain: RouteGain, route: Route, over: Route) -> bool {
        let evidence = self.evidence(route, over).share();
        let needed = self.policy.needed(Change::Route);
        needed.is_met(gain.gain, evidence)
    }

    fn gain(&self, route: Route, over: Route, proof: Proof) -> Option<RouteGain> {
        let [route, over] = [route, over].map(|route| self.quality(route));
        compare(self.wants, route, over, self.policy, proof)
    }

    pub(super) fn quality(&self, route: Route) -> &RouteQuality {
        self.view.quality(route, self.candidates.plain_is)
    }
}

/// How long a route that has declined is left alone, unless it is surely better.
const QUARANTINE: Duration = Duration::from_secs(1800);

const fn policy(mode: Mode) -> RouteReason {
    Reason::Barred(RouteBar::Policy(mode))
}
