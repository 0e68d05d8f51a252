//! Routes that are as good, by a cheaper port.

use super::Rules;
use crate::choice::{Pick, Proof, Reason};
use crate::egress::{Measure, Route, RouteBar, Singles};

impl Rules<'_> {
    /// The cheapest of the routes that are as good as `single` as far as is known; `None` where that is
    /// `single`.
    pub(super) fn cheapest(&self, single: Route, options: Singles) -> Option<Pick<Self>> {
        let equals = options
            .iter()
            .filter(|route| self.saves(*route, single, TAKEN));
        let cheapest = equals.reduce(|best, next| {
            let is_cheaper = self.is_cheaper(next, best);
            if is_cheaper { next } else { best }
        })?;
        Some((cheapest, Reason::Barred(RouteBar::Cheaper(single))))
    }

    /// Whether a route is cheaper than another one, and is not expected to be worse by more than the
    /// share `worse` of goodput.
    pub(super) fn saves(&self, route: Route, than: Route, worse: f32) -> bool {
        if !self.is_cheaper(route, than) || !self.can_compare(route, than) {
            return false;
        }
        self.gain(route, than, Proof::Expected).is_some_and(|gain| {
            let worse = match gain.by {
                Measure::Goodput => worse,
                Measure::Rtt | Measure::Stalls | Measure::Loss => OF_OTHERS * worse,
            };
            gain.gain.expected() >= -worse
        })
    }

    fn is_cheaper(&self, route: Route, than: Route) -> bool {
        let candidates = self.candidates;
        let plain_is = candidates.plain_is;
        candidates.room.is_cheaper(route, than, plain_is)
    }
}

/// A cheaper route is taken where it is expected to have at most this share less goodput ...
const TAKEN: f32 = 0.01;
/// ... and left where it has this share less.
pub(super) const LEFT: f32 = 0.03;
/// Round-trip times and stalls may differ by so many times as much.
const OF_OTHERS: f32 = 4.0;
