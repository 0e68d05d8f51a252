//! The routes that sessions explore.

use std::time::Duration;

use super::Rules;
use crate::choice::{Explorer, Proof};
use crate::egress::{Criterion, Measure, Mptcp, Route, Singles};

/// Routes that are little known, or may be better than the chosen one.
#[derive(Clone, Copy)]
pub(super) struct Explorable {
    several: bool,
    singles: Singles,
}

/// The shares of sessions that explore.
#[derive(Clone, Copy)]
pub(super) struct Shares {
    pub(super) several: f64,
    singles: f64,
}

impl Rules<'_> {
    /// The route for a session which is drawn to explore: one that is little known, or may be better.
    /// Nothing is explored before the client has shown something of the steady route. Without a
    /// comparison, the goodput of another route says nothing but how fast the client is.
    pub(super) fn explored(&self, steady: Route) -> Option<Route> {
        let own = self.quality(steady).own_samples(self.wants);
        if own < COMPARABLE || self.visit.is_experiment {
            return None;
        }
        if let Some(route) = self.rechecked(steady) {
            return Some(route);
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

    /// A single route that is too little known to leave `steady` for, which has become worse a short time
    /// ago. Samples of the others are older than that, and they may have become worse, too.
    fn rechecked(&self, steady: Route) -> Option<Route> {
        let declined = self.quality(steady).declined?;
        let rechecks = self.draw().rechecks(self.policy, declined.as_secs());
        if declined > RECHECKED || !rechecks {
            return None;
        }
        let options = self.explorable(steady).singles;
        let unknown: Singles = options
            .iter()
            .filter(|route| !self.can_compare(*route, steady))
            .collect();
        // One after the other, so that the first is known after few visits.
        let samples = |route| self.quality(route).samples(self.wants);
        unknown.iter().reduce(|first, next| {
            let gain = self.gain(next, first, Proof::Expected);
            let gain = gain.map_or(0.0, |gain| gain.gain.expected());
            let is_begun = samples(next) > samples(first);
            let wins = gain > ALIKE || (is_begun && gain > -ALIKE);
            if wins { next } else { first }
        })
    }

    /// The routes that may be explored by clients that have `steady` otherwise.
    pub(super) fn explorable(&self, steady: Route) -> Explorable {
        let is_worth = |route: &Route| *route != steady && self.is_worth_knowing(*route, steady);
        let several = Route::Aggregated;
        let is_open = self.candidates.may_aggregate()
            && self.is_not_avoided(several)
            && self.candidates.have_room_for_several();
        Explorable {
            several: is_open && is_worth(&several),
            singles: self.options().iter().filter(is_worth).collect(),
        }
    }

    /// The shares of sessions that explore it. Several egress routes come first: they gain most often,
    /// and where they don't, cost least. A known route, though it may be better, leaves the most to
    /// unknown ones.
    pub(super) fn shares(&self, options: Explorable, steady: Route) -> Shares {
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
}

/// How long after a fall of its route's goodput a client looks at the others.
const RECHECKED: Duration = Duration::from_secs(600);
/// By less than this share more goodput another route is not looked at before the one begun with.
const ALIKE: f32 = 0.3;
/// A client's own samples with which others can be compared.
const COMPARABLE: f32 = 1.0;
