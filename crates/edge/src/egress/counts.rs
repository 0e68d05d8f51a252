//! Counts of routes, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use hikyaku_core::path::{MAX_PATHS, PathId, Route, RouteReason};

/// Routes that are told apart: the paths, plain, several together.
const ROUTES: usize = MAX_PATHS + 2;

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

/// Counts by route and reason; no lock.
#[derive(Debug, Default)]
pub(crate) struct RouteCounts {
    responses: [AtomicU64; ROUTES],
    bytes: [AtomicU64; ROUTES],
    begun: [AtomicU64; ROUTES],
    moved: [AtomicU64; ROUTES],
    stalls: [AtomicU64; ROUTES],
    reasons: [AtomicU64; REASONS.len()],
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
}

impl RouteCounts {
    pub(crate) fn add(&self, what: RouteCount, route: Route, count: u64) {
        self.of(what)[place(route)].fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn decided(&self, reason: &RouteReason) {
        let index = REASONS.iter().position(|code| *code == reason.code());
        let index = index.unwrap_or(REASONS.len() - 1);
        self.reasons[index].fetch_add(1, Ordering::Relaxed);
    }

    /// Every route that was counted, and how often.
    pub(crate) fn by_route(&self, what: RouteCount) -> impl Iterator<Item = (Route, u64)> {
        let counters = self.of(what).iter();
        let paths = (0..MAX_PATHS as u8).filter_map(PathId::new);
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
        }
    }
}

const fn place(route: Route) -> usize {
    match route {
        Route::Steered(path) => path.index(),
        Route::Plain => MAX_PATHS,
        Route::Aggregated => MAX_PATHS + 1,
    }
}
