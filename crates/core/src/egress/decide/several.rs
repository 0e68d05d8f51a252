//! Several egress routes together.

use super::Rules;
use crate::choice::{Pick, Proof, Reason, Rival};
use crate::egress::record::Kept;
use crate::egress::{Route, RouteBar, RouteGain, RouteReason};

impl Rules<'_> {
    /// Several egress routes together, where they are kept or surely better than the best single one.
    /// Returns the single one where several were compared with it and no other reason says more of why
    /// it is taken.
    pub(super) fn aggregated(&self, single: Pick<Self>, kept: Kept) -> Option<Pick<Self>> {
        let route = Route::Aggregated;
        let (over, so_far) = single;
        let stalled = matches!(so_far, Reason::Barred(RouteBar::Stalled { .. }));
        if !self.is_open(route) || (stalled && !kept.aggregated) {
            return None;
        }
        if kept.aggregated && self.holds(route, over) {
            let gain = self.gain(route, over, Proof::Expected);
            return Some((route, Reason::Kept(Rival { arm: over, gain })));
        }
        let gain = self.gain(route, over, Proof::LowerBound)?;
        if self.is_proof(gain, route, over) {
            return Some((route, Reason::Better(Rival::by(over, gain))));
        }
        let reason = self.why_single(over, so_far, Rival::by(route, gain))?;
        Some((over, reason))
    }

    /// Why the best single route is taken, where `several` together are not proved to gain enough over
    /// it; `None` where `so_far`, the reason without them, says more.
    fn why_single(
        &self,
        single: Route,
        so_far: RouteReason,
        several: Rival<Route, RouteGain>,
    ) -> Option<RouteReason> {
        let expected = |rival: Rival<Route, RouteGain>| rival.gain.map(|by| by.gain.expected());
        let says_less = match so_far {
            Reason::TooFewSamples(_) | Reason::NoGain(None) => true,
            Reason::NoGain(Some(best)) => expected(best) < expected(several),
            _ => false,
        };
        let known = self.can_compare(several.arm, single);
        (says_less && known).then_some(Reason::NoGain(Some(several)))
    }
}
