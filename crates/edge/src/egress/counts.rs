//! Counts of routes, for metrics and the admin page.

use std::sync::atomic::{AtomicU64, Ordering};

use hikyaku_core::choice::Group;
use hikyaku_core::egress::{EgressId, MAX_EGRESSES, Route, RouteDecision, RouteReason};
use hikyaku_units::Rate;
use parking_lot::Mutex;

use crate::mptcp::Mptcp;

/// Routes that are told apart: the paths, plain, several together.
const ROUTES: usize = MAX_EGRESSES + 2;

/// Codes of [`RouteReason`].
const REASONS: [&str; 15] = [
    "only",
    "pinned",
    "pinned_missing",
    "policy",
    "hold_back",
    "too_few_samples",
    "no_gain",
    "more_goodput",
    "fewer_stalls",
    "shorter_rtt",
    "less_loss",
    "kept",
    "stalled",
    "explore",
    "other",
];

/// What clients got that asked for MPTCP.
const MPTCP: [&str; 3] = ["taken", "drawn", "refused"];

/// Counts by route and reason; no lock but for what is compared.
#[derive(Debug, Default)]
pub(crate) struct RouteCounts {
    responses: [AtomicU64; ROUTES],
    bytes: [AtomicU64; ROUTES],
    begun: [AtomicU64; ROUTES],
    moved: [AtomicU64; ROUTES],
    stalls: [AtomicU64; ROUTES],
    open: [AtomicU64; ROUTES],
    mptcp: [AtomicU64; MPTCP.len()],
    reasons: [AtomicU64; REASONS.len()],
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

/// What is counted by route.
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
        use RouteReason::{Only, Pinned, PinnedMissing, Policy};
        if !matches!(
            decision.reason,
            Only | Pinned | PinnedMissing | Policy { .. }
        ) {
            let others = decision.group != Group::HoldBack;
            self.compared[usize::from(others)].lock().add(goodput);
        }
    }

    /// What the hold-back group, which always gets plain, and the others have shown.
    pub(crate) fn compared(&self) -> [Goodputs; 2] {
        [0, 1].map(|group| *self.compared[group].lock())
    }

    /// Counts a connection that has asked for MPTCP; `drawn` to explore several paths.
    pub(crate) fn mptcp(&self, mptcp: Mptcp, drawn: bool) {
        let place = match mptcp {
            Mptcp::None => return,
            Mptcp::Token(_) => usize::from(drawn),
            Mptcp::Refused => MPTCP.len() - 1,
        };
        self.mptcp[place].fetch_add(1, Ordering::Relaxed);
    }

    /// Connections that have asked for MPTCP, by what they got.
    pub(crate) fn by_mptcp(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.mptcp.iter();
        MPTCP
            .into_iter()
            .zip(counts.map(|count| count.load(Ordering::Relaxed)))
    }

    pub(crate) fn decided(&self, reason: &RouteReason) {
        let index = REASONS.iter().position(|code| *code == reason.code());
        let index = index.unwrap_or(REASONS.len() - 1);
        self.reasons[index].fetch_add(1, Ordering::Relaxed);
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
        let counts = self
            .reasons
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        REASONS.into_iter().zip(counts)
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
