//! Reaction of a connection when its route, or that of a subflow, carries nothing any more.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hikyaku_core::egress::{Blame, Mode, Route, RouteObservation};

use super::super::Decided;
use super::{ConnRoute, Failover, native};

use crate::clock;

impl ConnRoute {
    /// Takes note that the egress route in use seems to carry nothing any more.
    ///
    /// A route that delivers since another one stalled is blamed only for a second stall in a row. With
    /// all of its routes blamed the client would go back to the first one, which may be a black hole
    /// still.
    pub(crate) fn stalled(&self) -> Blame {
        let mut chosen = self.chosen.lock();
        let (decided, route) = (chosen.decided, chosen.route);
        let fresh = self.egress.rules.load().policy.avoid_min;
        if let Some(failover) = &mut chosen.failover
            && clock::since(failover.since) < fresh
            && std::mem::take(&mut failover.delivers)
        {
            return Blame::Client;
        }
        if chosen.stalled.is_empty() {
            chosen.stalled.push((route, decided));
        }
        chosen.failover = Some(Failover {
            since: clock::now(),
            delivers: false,
            left: None,
        });
        drop(chosen);
        self.egress.stalled(self.client, &decided, route)
    }

    /// Takes note that the subflow that is sent from `local` seems to carry nothing any more.
    pub(crate) fn subflow_stalled(&self, local: IpAddr) -> Blame {
        let mut chosen = self.chosen.lock();
        let mut decided = chosen.decided;
        if chosen.route == Route::Aggregated {
            // It has all egress routes, also where a policy allows no single one but plain. Otherwise a stall of
            // that one would be one of all routes, and so the client's.
            decided.candidates.mode = Mode::Adaptive;
        }
        let route = self.subflow_route(local, chosen.route);
        if chosen.stalled.iter().all(|(other, _)| *other != route) {
            chosen.stalled.push((route, decided));
        }
        drop(chosen);
        self.egress.stalled(self.client, &decided, route)
    }

    /// The route of the subflow that is sent from `local`, of a connection on `route`.
    fn subflow_route(&self, local: IpAddr, route: Route) -> Route {
        match (native(&self.egress, local), route) {
            (Some(path), _) => Route::Steered(path),
            // The first subflow of an aggregate takes the plain route.
            (None, Route::Aggregated) => Route::Plain,
            (None, route) => route,
        }
    }

    /// Takes note that acknowledgements come again, `silent` after the last one before. After a false
    /// alarm the route that stalled is no longer avoided for it, and the decision is to be taken anew.
    pub(crate) fn resumed(&self, silent: Duration, false_alarm: bool) {
        let mut chosen = self.chosen.lock();
        let stalled = chosen.stalled.pop();
        match &mut chosen.failover {
            failover if false_alarm && stalled.is_some() => *failover = None,
            // Nothing was left where the failover itself paused.
            Some(failover) => {
                failover.delivers = true;
                failover.left = stalled;
            }
            None => {}
        }
        drop(chosen);
        let Some((route, decided)) = stalled else {
            return;
        };
        self.learn_silence(route, &decided, silent);
        if false_alarm {
            self.go_back(route, &decided);
        }
    }

    /// Takes note that the route delivers that was left last.
    pub(crate) fn delivered(&self) {
        let mut chosen = self.chosen.lock();
        let failover = chosen.failover.take_if(|failover| failover.left.is_some());
        drop(chosen);
        if let Some((route, decided)) = failover.and_then(|failover| failover.left) {
            self.go_back(route, &decided);
        }
    }

    /// A route is no longer avoided, and the decision to be taken anew.
    fn go_back(&self, route: Route, decided: &Decided) {
        self.egress.delivers(self.client, decided, route);
        self.outdated.store(true, Ordering::Relaxed);
    }

    /// Takes note that the subflow that is sent from `local` delivers again, after it was `silent` for
    /// so long.
    pub(crate) fn subflow_resumed(&self, local: IpAddr, silent: Duration) {
        let mut chosen = self.chosen.lock();
        let own = self.subflow_route(local, chosen.route);
        let mut stalled = chosen.stalled.iter();
        let place = stalled.position(|(route, _)| *route == own);
        let stalled = place.map(|place| chosen.stalled.swap_remove(place));
        drop(chosen);
        if let Some((route, decided)) = stalled {
            self.learn_silence(route, &decided, silent);
        }
    }

    fn learn_silence(&self, route: Route, decided: &Decided, silent: Duration) {
        let seen = RouteObservation {
            duration: silent,
            stalled: silent,
            ..RouteObservation::default()
        };
        // Silence is the route's, whatever else the session tries.
        self.egress.learn(self.client, decided, route, &seen, false);
    }
}
