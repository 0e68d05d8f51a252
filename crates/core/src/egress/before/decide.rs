//! The choice of a route, by rules in the order in which they hold.

mod why;

use super::{
    Candidates, Criterion, Measure, Mode, Mptcp, Route, RouteGain, RouteQuality, RouteReason,
    RouteView, Singles, Wants,
};
use crate::before::choice::{
    Change, Domain, Draw, Evidence, Explorer, Group, Pick, Proof, Visit, choose,
};
use crate::egress::compare::compare;
use crate::egress::record::Kept;
use crate::policy::{PolicyConfig, RoutePolicy};

pub(in crate::egress) use why::Verdict;

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
    pub(in crate::egress) keeps: Option<Kept>,
}

/// Chooses the route of a client's responses of which `wants` is wanted.
///
/// A pure function: equal arguments give equal decisions. The chosen route is a candidate, or plain.
/// `seed` draws the hold-back group, the same as [`decide`](crate::before::transport::decide())'s, and the
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
    let held_back = || {
        let is_held_back = seed.is_some() && rules.draw().is_held_back(policy);
        is_held_back.then(|| rules.held_back()).flatten()
    };
    if let Some((route, _)) = rules.pinned().or_else(held_back) {
        return f64::from(u8::from(route == Route::Aggregated));
    }
    match rules.best().0.route {
        Route::Aggregated => 1.0,
        single => rules.shares(rules.explorable(single), single).several,
    }
}

/// The arguments of [`decide_route`].
pub(in crate::egress) struct Rules<'a> {
    pub(in crate::egress) view: &'a RouteView,
    pub(in crate::egress) wants: Wants,
    pub(in crate::egress) candidates: &'a Candidates,
    pub(in crate::egress) policy: &'a PolicyConfig,
    pub(in crate::egress) visit: Visit,
    pub(in crate::egress) seed: u64,
}

/// A route that is kept to unless it is an experiment.
#[derive(Clone, Copy)]
struct Steady {
    route: Route,
    reason: RouteReason,
}

/// Routes that are little known, or may be better than the chosen one.
#[derive(Clone, Copy)]
struct Explorable {
    several: bool,
    singles: Singles,
}

/// The shares of sessions that explore.
#[derive(Clone, Copy)]
struct Shares {
    several: f64,
    singles: f64,
}

/// Why a route is taken, and the choice that the client is kept on by it; `None` where it is no choice.
pub(in crate::egress) struct Why {
    reason: RouteReason,
    keeps: Option<Kept>,
}

impl From<RouteReason> for Why {
    fn from(reason: RouteReason) -> Self {
        Self {
            reason,
            keeps: None,
        }
    }
}

impl Domain for Rules<'_> {
    type Arm = Route;
    type Reason = Why;

    fn pinned(&self) -> Option<(Route, Why)> {
        let (route, reason) = self.said().or_else(|| self.only())?;
        Some((route, reason.into()))
    }

    fn held_back(&self) -> Option<(Route, Why)> {
        let is_open = self.candidates.mode == Mode::Adaptive;
        is_open.then(|| (Route::Plain, RouteReason::HoldBack.into()))
    }

    /// Nothing: how much is known differs from route to route.
    fn little_known(&self) -> Option<(Route, Why)> {
        None
    }

    fn steady(&self) -> Pick<Route, Why> {
        let (Steady { route, reason }, single) = self.best();
        let group = match reason {
            RouteReason::TooFewSamples { .. } => Group::Plain,
            _ => Group::Normal,
        };
        let keeps = self.keeps(Steady { route, reason }, single.route);
        Pick::new(route, Why { reason, keeps }, group)
    }

    fn experiment(&self, steady: &Pick<Route, Why>) -> Option<(Route, Why)> {
        let is_stalled = matches!(steady.reason.reason, RouteReason::Stalled { .. });
        let route = self.explored(steady.arm).filter(|_| !is_stalled)?;
        let instead_of = steady.arm;
        Some((route, RouteReason::Explore { instead_of }.into()))
    }
}

impl Rules<'_> {
    pub(in crate::egress) fn decision(&self) -> RouteDecision {
        let pick = choose(self, self.draw().is_held_back(self.policy));
        RouteDecision {
            route: pick.arm,
            reason: pick.reason.reason,
            group: pick.group,
            keeps: pick.reason.keeps,
        }
    }

    fn draw(&self) -> Draw {
        Draw {
            seed: self.seed,
            client: self.view.client,
            session: self.visit.session,
        }
    }

    /// The route that the configuration or the operator's policy says.
    fn said(&self) -> Option<(Route, RouteReason)> {
        let candidates = self.candidates;
        let (route, reason) = match (&self.policy.route, candidates.mode) {
            (RoutePolicy::Plain, _) => (Some(Route::Plain), RouteReason::Pinned),
            (RoutePolicy::Named(_), _) => {
                let up = |egress| candidates.egresses.contains(egress);
                let route = candidates
                    .named
                    .filter(|egress| up(*egress))
                    .map(Route::Steered);
                (route, RouteReason::Pinned)
            }
            (RoutePolicy::Aggregate, _) => {
                let route = candidates.mptcp.is_used().then_some(Route::Aggregated);
                (route, RouteReason::Pinned)
            }
            (RoutePolicy::Adaptive, mode @ Mode::Plain) => {
                (Some(Route::Plain), RouteReason::Policy { mode })
            }
            (RoutePolicy::Adaptive, mode @ Mode::Aggregated) => {
                let aggregated = candidates.aggregates().then_some(Route::Aggregated);
                let route = aggregated.unwrap_or(Route::Plain);
                (Some(route), RouteReason::Policy { mode })
            }
            (RoutePolicy::Adaptive, Mode::Adaptive | Mode::Steered) => return None,
        };
        let missing = (Route::Plain, RouteReason::PinnedMissing);
        Some(route.map_or(missing, |route| (route, reason)))
    }

    fn only(&self) -> Option<(Route, RouteReason)> {
        let singles = self.candidates.singles();
        let route = singles.iter().next().unwrap_or(Route::Plain);
        let reason = match self.candidates.mode {
            mode @ Mode::Steered if route != Route::Plain => RouteReason::Policy { mode },
            _ => RouteReason::Only,
        };
        let only = singles.len() <= 1 && !self.candidates.aggregates();
        only.then_some((route, reason))
    }

    /// The client's route in sessions that do not explore, and the best single route.
    fn best(&self) -> (Steady, Steady) {
        let kept = self.view.kept(self.wants);
        let single = self.best_single(kept);
        (self.aggregated(single, kept).unwrap_or(single), single)
    }

    /// The routes that the client is kept on after a steady choice. A stall changes nothing: it passes.
    fn keeps(&self, steady: Steady, single: Route) -> Option<Kept> {
        if matches!(steady.reason, RouteReason::Stalled { .. }) {
            return None;
        }
        let egress = match single {
            Route::Steered(egress) => Some(egress),
            Route::Plain | Route::Aggregated => None,
        };
        let aggregated = if self.is_open(Route::Aggregated) {
            steady.route == Route::Aggregated
        } else {
            // Clients with MPTCP and without share the record.
            self.view.kept(self.wants).aggregated
        };
        Some(Kept { egress, aggregated })
    }

    /// The best route over a single egress route: the one that is kept, or else the usual one, unless another is
    /// surely better.
    fn best_single(&self, kept: Kept) -> Steady {
        let (usual, options) = (self.usual(), self.options());
        let singles = self.candidates.singles();
        let kept = kept.egress.map(Route::Steered);
        let kept = kept.filter(|kept| *kept != usual && singles.contains(*kept));
        let current = match kept {
            Some(kept) if self.holds(kept, usual) => kept,
            _ => usual,
        };
        if !options.contains(current)
            && let Some(avoided_for) = self.quality(current).avoided_for
        {
            let way_out = options.contains(usual).then_some(usual);
            let reason = RouteReason::Stalled {
                route: current,
                avoided_for,
            };
            let route = way_out.unwrap_or_else(|| self.likeliest(options, usual));
            return Steady { route, reason };
        }
        if let Some(better) = self.surely_better(current, options) {
            return better;
        }
        let reason = if current == usual {
            self.why_usual(usual, options)
        } else {
            RouteReason::Kept {
                over: usual,
                gain: self.gain(current, usual, Proof::Expected),
            }
        };
        Steady {
            route: current,
            reason,
        }
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

    /// The single routes that have not stalled, without backups if there are others. All, where all have
    /// stalled.
    fn options(&self) -> Singles {
        let singles = self.candidates.singles();
        let works = |route: &Route| self.is_not_avoided(*route);
        let works: Singles = singles.iter().filter(works).collect();
        let primary: Singles = works
            .iter()
            .filter(|route| !self.is_backup(*route))
            .collect();
        let options = [primary, works].into_iter().find(|some| !some.is_empty());
        options.unwrap_or(singles)
    }

    /// Whether a kept route is known still, and not expected to be worse than the usual one.
    fn holds(&self, kept: Route, usual: Route) -> bool {
        let gain = self.gain(kept, usual, Proof::Expected);
        let samples = self.quality(kept).samples(self.wants);
        let needed = self.policy.needed(Change::KeptRoute);
        self.known(samples).share() > 0.0 && gain.is_none_or(|gain| needed.is_met(gain.gain, 1.0))
    }

    /// The best of the routes that are surely better than `current` by enough.
    fn surely_better(&self, current: Route, options: Singles) -> Option<Steady> {
        let others = options.iter().filter(|route| *route != current);
        let better = others.filter_map(|route| {
            let gain = self.gain(route, current, Proof::LowerBound)?;
            self.is_proof(gain, route, current).then_some((route, gain))
        });
        let (route, gain) = better.reduce(|best, next| {
            let gain = self.gain(next.0, best.0, Proof::Expected);
            if gain.is_some_and(|gain| gain.gain.expected() > 0.0) {
                next
            } else {
                best
            }
        })?;
        let over = current;
        let reason = RouteReason::Better { over, gain };
        Some(Steady { route, reason })
    }

    /// Where the usual route has stalled nothing has to be proved against it. Returns the route that is
    /// expected to be best, and of those without any knowledge the first.
    fn likeliest(&self, options: Singles, usual: Route) -> Route {
        let best = options.iter().reduce(|best, next| {
            let samples = |route| self.quality(route).samples(self.wants);
            let better = match self.gain(next, best, Proof::Expected) {
                Some(gain) => gain.gain.expected() > 0.0,
                None => samples(next) > samples(best),
            };
            if better { next } else { best }
        });
        best.unwrap_or(usual)
    }

    /// Several egress routes together, where they are kept or surely better than the best single one.
    /// Returns the single one where several were compared with it and no other reason says more of why
    /// it is taken.
    fn aggregated(&self, single: Steady, kept: Kept) -> Option<Steady> {
        let route = Route::Aggregated;
        let stalled = matches!(single.reason, RouteReason::Stalled { .. });
        if !self.is_open(route) || (stalled && !kept.aggregated) {
            return None;
        }
        let over = single.route;
        if kept.aggregated && self.holds(route, over) {
            let gain = self.gain(route, over, Proof::Expected);
            let reason = RouteReason::Kept { over, gain };
            return Some(Steady { route, reason });
        }
        let gain = self.gain(route, over, Proof::LowerBound)?;
        let (route, reason) = if self.is_proof(gain, route, over) {
            (route, RouteReason::Better { over, gain })
        } else {
            (over, self.why_single(over, single.reason, (route, gain))?)
        };
        Some(Steady { route, reason })
    }

    /// The route for a session which is drawn to explore: one that is little known, or may be better.
    /// Nothing is explored before the client has shown something of the steady route. Without a
    /// comparison, the goodput of another route says nothing but how fast the client is.
    fn explored(&self, steady: Route) -> Option<Route> {
        let own = self.quality(steady).own_samples(self.wants);
        if own < COMPARABLE || self.visit.is_experiment {
            return None;
        }
        let place = match self.candidates.mptcp {
            // The connection was drawn when MPTCP was taken for it.
            Mptcp::Drawn => 0.0,
            _ => self.draw().explores(Explorer::Route, self.policy)?,
        };
        let options = self.explorable(steady);
        let shares = self.shares(options, steady);
        let [several, singles] = match self.candidates.mptcp {
            // Others have MPTCP,
            Mptcp::Refused => [0.0, shares.singles],
            // for several egress routes alone.
            Mptcp::Drawn => [f64::from(u8::from(options.several)), 0.0],
            Mptcp::None | Mptcp::Taken => [shares.several, shares.singles],
        };
        if place >= several + singles {
            return None;
        }
        if place < several {
            return Some(Route::Aggregated);
        }
        self.draw().one_of(options.singles.iter())
    }

    /// The routes that may be explored by clients that have `steady` otherwise.
    fn explorable(&self, steady: Route) -> Explorable {
        let is_worth = |route: &Route| *route != steady && self.is_worth_knowing(*route, steady);
        let several = Route::Aggregated;
        let is_open = self.candidates.may_aggregate() && self.is_not_avoided(several);
        Explorable {
            several: is_open && is_worth(&several),
            singles: self.options().iter().filter(is_worth).collect(),
        }
    }

    /// The shares of sessions that explore it. Several egress routes come first: they gain most often,
    /// and where they don't, cost least. A known route, though it may be better, leaves the most to
    /// unknown ones.
    fn shares(&self, options: Explorable, steady: Route) -> Shares {
        let (all, most) = (self.policy.exploration, self.policy.unknown_mptcp_share());
        let is_known = |route: Route| self.can_compare(route, steady);
        let several = match (options.several, options.singles.is_empty()) {
            (false, _) => 0.0,
            (true, true) => all,
            (true, false) if !is_known(Route::Aggregated) => most,
            (true, false) if !options.singles.iter().all(is_known) => all - most,
            (true, false) => all / 2.0,
        };
        let singles = match options.singles.is_empty() {
            true => 0.0,
            false => all - several,
        };
        Shares { several, singles }
    }

    /// A little known route has wide bounds; but one very slow response is enough not to ask for more.
    fn is_worth_knowing(&self, route: Route, instead_of: Route) -> bool {
        let Some(gain) = self.gain(route, instead_of, Proof::LowerBound) else {
            return true;
        };
        let stalls = self.quality(instead_of).stalls_matter();
        let may_stall_less =
            self.wants.criterion == Criterion::Stall && gain.by == Measure::Rtt && stalls;
        may_stall_less || gain.gain.high() > self.policy.min_gain_route as f32
    }

    /// Whether several egress routes may be used now.
    fn is_open(&self, aggregated: Route) -> bool {
        self.candidates.aggregates() && self.is_not_avoided(aggregated)
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

    pub(in crate::egress) fn quality(&self, route: Route) -> &RouteQuality {
        self.view.quality(route, self.candidates.plain_is)
    }
}

/// A client's own samples with which others can be compared.
const COMPARABLE: f32 = 1.0;
