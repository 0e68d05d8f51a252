//! Counts of routes, for metrics and the admin page.

use std::sync::atomic::{AtomicU64, Ordering};

use hikyaku_core::choice::{Group, Reason};
use hikyaku_core::egress::{
    EgressId, MAX_EGRESSES, Route, RouteBar, RouteDecision, RouteReason, RouteReasonCode,
};
use hikyaku_units::Rate;
use parking_lot::Mutex;

use crate::mptcp::Mptcp;

/// Routes that are counted apart: the egress routes, plain, several together.
const ROUTES: usize = MAX_EGRESSES + 2;

/// Answer to a client that asked for MPTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MptcpAnswer {
    Taken,
    /// Taken for an experiment with several egress routes.
    Drawn,
    Refused,
}

impl MptcpAnswer {
    const ALL: [Self; 3] = [Self::Taken, Self::Drawn, Self::Refused];

    const fn index(self) -> usize {
        self as usize
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Drawn => "drawn",
            Self::Refused => "refused",
        }
    }
}

/// Counts by route and reason; no lock but for the comparisons.
#[derive(Debug, Default)]
pub(crate) struct RouteCounts {
    responses: [AtomicU64; ROUTES],
    bytes: [AtomicU64; ROUTES],
    begun: [AtomicU64; ROUTES],
    moved: [AtomicU64; ROUTES],
    stalls: [AtomicU64; ROUTES],
    open: [AtomicU64; ROUTES],
    mptcp: [AtomicU64; MptcpAnswer::ALL.len()],
    reasons: [AtomicU64; RouteReasonCode::ALL.len()],
    /// Of the hold-back group, and of the others.
    compared: [Mutex<Goodputs>; 2],
}

/// Goodputs of responses of which each counts the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Goodputs {
    /// How many.
    pub(crate) responses: u64,
    /// Sum of the natural logarithms of bit/s.
    pub(crate) log_sum: f64,
}

impl Goodputs {
    fn add(&mut self, goodput: Rate) {
        self.responses += 1;
        self.log_sum += (goodput.bits_per_sec() as f64).ln();
    }

    /// Their geometric mean; `None` without any.
    pub(crate) fn mean(&self) -> Option<Rate> {
        let mean = || Rate::from_bits_per_sec((self.log_sum / self.responses as f64).exp() as u64);
        (self.responses > 0).then(mean)
    }
}

/// An event that is counted by route.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RouteCount {
    /// Responses that ended on it.
    Responses,
    /// Their bytes.
    Bytes,
    /// Connections that began on it.
    Begun,
    /// Live connections that were moved to it.
    Moved,
    /// Stalls on it.
    Stalls,
    /// Connections that are open and have it now.
    Open,
}

impl RouteCounts {
    pub(crate) fn add(&self, what: RouteCount, route: Route, count: u64) {
        self.of(what)[place(route)].fetch_add(count, Ordering::Relaxed);
    }

    /// Counts an open connection on another route than before.
    pub(crate) fn moved(&self, from: Route, to: Route) {
        self.add(RouteCount::Moved, to, 1);
        self.add(RouteCount::Open, to, 1);
        self.closed(from);
    }

    /// Counts an open connection no longer.
    pub(crate) fn closed(&self, route: Route) {
        self.open[place(route)].fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, what: RouteCount, route: Route) -> u64 {
        self.of(what)[place(route)].load(Ordering::Relaxed)
    }

    /// Takes a response's goodput, where the hold-back group would differ.
    pub(crate) fn compare(&self, decision: &RouteDecision, goodput: Rate) {
        use Reason::{Barred, Only, Pinned};
        use RouteBar::{Missing, Policy};
        if !matches!(
            decision.reason,
            Only | Pinned(_) | Barred(Missing | Policy(_))
        ) {
            let others = decision.group != Group::HoldBack;
            self.compared[usize::from(others)].lock().add(goodput);
        }
    }

    /// Goodput of the hold-back group, which always gets plain, and of the others.
    pub(crate) fn compared(&self) -> [Goodputs; 2] {
        [0, 1].map(|group| *self.compared[group].lock())
    }

    /// Counts a connection that has asked for MPTCP; `drawn` to explore several egress routes.
    pub(crate) fn mptcp(&self, mptcp: Mptcp, drawn: bool) {
        let answer = match mptcp {
            Mptcp::None => return,
            Mptcp::Token(_) if drawn => MptcpAnswer::Drawn,
            Mptcp::Token(_) => MptcpAnswer::Taken,
            Mptcp::Refused => MptcpAnswer::Refused,
        };
        self.mptcp[answer.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Connections that have asked for MPTCP, by what they got.
    pub(crate) fn by_mptcp(&self) -> impl Iterator<Item = (&'static str, u64)> {
        MptcpAnswer::ALL.into_iter().map(|answer| {
            let count = self.mptcp[answer.index()].load(Ordering::Relaxed);
            (answer.name(), count)
        })
    }

    pub(crate) fn decided(&self, reason: &RouteReason) {
        self.reasons[reason.kind().index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Every route that was counted, and how often.
    pub(crate) fn by_route(&self, what: RouteCount) -> impl Iterator<Item = (Route, u64)> {
        let counters = self.of(what).iter();
        let paths = (0..MAX_EGRESSES as u8).filter_map(EgressId::new);
        let routes = paths
            .map(Route::Steered)
            .chain([Route::Plain, Route::Aggregated]);
        let counts = counters.map(|count| count.load(Ordering::Relaxed));
        routes.zip(counts).filter(|(_, count)| *count > 0)
    }

    /// Decisions by reason.
    pub(crate) fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RouteReasonCode::ALL.into_iter().map(|code| {
            let count = self.reasons[code.index()].load(Ordering::Relaxed);
            (code.name(), count)
        })
    }

    const fn of(&self, what: RouteCount) -> &[AtomicU64; ROUTES] {
        match what {
            RouteCount::Responses => &self.responses,
            RouteCount::Bytes => &self.bytes,
            RouteCount::Begun => &self.begun,
            RouteCount::Moved => &self.moved,
            RouteCount::Stalls => &self.stalls,
            RouteCount::Open => &self.open,
        }
    }
}

const fn place(route: Route) -> usize {
    match route {
        Route::Steered(path) => path.index(),
        Route::Plain => MAX_EGRESSES,
        Route::Aggregated => MAX_EGRESSES + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_to_mptcp_is_counted_under_its_name() {
        let next = |answer| match answer {
            MptcpAnswer::Taken => Some(MptcpAnswer::Drawn),
            MptcpAnswer::Drawn => Some(MptcpAnswer::Refused),
            MptcpAnswer::Refused => None,
        };
        let answers = std::iter::successors(Some(MptcpAnswer::Taken), |answer| next(*answer));
        assert!(answers.eq(MptcpAnswer::ALL));
        let counts = RouteCounts::default();
        let asked = [
            (Mptcp::None, false, 4),
            (Mptcp::Token(7), false, 3),
            (Mptcp::Token(7), true, 2),
            (Mptcp::Refused, false, 1),
        ];
        for (mptcp, drawn, times) in asked {
            (0..times).for_each(|_| counts.mptcp(mptcp, drawn));
        }
        let counted: Vec<_> = counts.by_mptcp().collect();
        assert_eq!(counted, [("taken", 3), ("drawn", 2), ("refused", 1)]);
    }

    #[test]
    fn route_decisions_are_counted_under_their_code() {
        let counts = RouteCounts::default();
        let reasons = [
            RouteReason::Only,
            RouteReason::Pinned(Route::Plain),
            RouteReason::HoldBack,
        ];
        for (at, reason) in reasons.iter().enumerate() {
            (0..=at).for_each(|_| counts.decided(reason));
        }
        let counted: Vec<_> = counts.by_reason().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [("only", 1), ("pinned", 2), ("hold_back", 3)]);
    }
}
