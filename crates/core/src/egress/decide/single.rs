//! The best route over a single egress route.

use super::Rules;
use crate::choice::{Domain, Pick, Proof, Reason, Rival};
use crate::egress::record::Kept;
use crate::egress::{Route, RouteBar, Singles};

impl Rules<'_> {
    /// The route that is kept, or else the usual one, unless another is surely better.
    pub(super) fn best_single(&self, kept: Kept) -> Pick<Self> {
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
            let route = way_out.unwrap_or_else(|| self.likeliest(options, usual));
            let stalled = RouteBar::Stalled {
                route: current,
                avoided_for,
            };
            return (route, Reason::Barred(stalled));
        }
        if !options.contains(current) && !self.has_room(current) {
            let open = options.contains(usual).then_some(usual);
            let route = open.unwrap_or_else(|| self.likeliest(options, usual));
            let route = self
                .cheapest(route, options)
                .map_or(route, |(route, _)| route);
            return (route, Reason::Barred(RouteBar::Full(current)));
        }
        if let Some(better) = self.surely_better(current, options) {
            return better;
        }
        if let Some(cheaper) = self.cheapest(current, options) {
            return cheaper;
        }
        let reason = if current == usual {
            self.why_usual(usual, options)
        } else {
            Reason::Kept(Rival {
                arm: usual,
                gain: self.gain(current, usual, Proof::Expected),
            })
        };
        (current, reason)
    }

    /// The single routes that have not stalled, without backups if there are others, and of these the ones
    /// whose port has room, if one has. All, where all have stalled.
    ///
    /// A route on which others have stalled, and not the client itself, comes before one whose port is
    /// full, and after backups. The others may have had trouble of their own, and would fill the port.
    pub(super) fn options(&self) -> Singles {
        let singles = self.candidates.singles();
        let works = singles.filtered(|route| self.is_not_avoided(route));
        let primary = works.filtered(|route| !self.is_backup(route));
        let roomy = |routes: Singles| routes.filtered(|route| self.has_room(route));
        if let Some(routes) = roomy(primary).or_none() {
            return routes;
        }
        let hearsay = |route| self.quality(route).by_hearsay && !self.is_backup(route);
        let hearsay = singles.filtered(hearsay);
        let ranks = match primary.is_empty() {
            false => [roomy(hearsay), primary, works],
            true => [works, roomy(hearsay), hearsay],
        };
        let first = ranks.into_iter().find_map(Singles::or_none);
        first.unwrap_or(singles)
    }

    /// The best of the routes that are surely better than `current` by enough.
    fn surely_better(&self, current: Route, options: Singles) -> Option<Pick<Self>> {
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
        Some((route, Reason::Better(Rival::by(current, gain))))
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
}
