//! The state of an upstream: its health, and what it has done.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::latency::{Latency, LatencySnapshot};
use super::standing::{Change, Health, Standing, Terms, Time};
use crate::ErrorReason;
use crate::proxy::error::SendError;
use crate::proxy::failure::UpstreamError;

/// The state of an upstream. It may outlive a reload, and several groups may share it.
///
/// An upstream that is well costs a request two additions and a look at a flag.
#[derive(Debug)]
pub(in crate::proxy) struct State {
    /// The URL as it was given.
    pub(in crate::proxy) url: Box<str>,
    since: Instant,
    /// Requests that it was chosen for.
    started: AtomicU64,
    /// Those of them that are over. Their difference is under way.
    ended: AtomicU64,
    failures: AtomicU64,
    repeats: AtomicU64,
    /// By the place of their kind in [`UpstreamError::ALL`].
    errors: [AtomicU64; UpstreamError::ALL.len()],
    latency: Latency,
    /// Whether `health` has to be asked.
    is_troubled: AtomicBool,
    health: Mutex<Health>,
}

impl State {
    pub(in crate::proxy) fn new(url: &str, terms: Terms) -> Self {
        Self {
            url: url.into(),
            since: Instant::now(),
            started: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            repeats: AtomicU64::new(0),
            errors: Default::default(),
            latency: Latency::default(),
            is_troubled: AtomicBool::new(false),
            health: Mutex::new(Health::new(terms)),
        }
    }

    /// Time since the server knows it, over reloads.
    pub(in crate::proxy) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Begins a request, unless `most` are under way.
    pub(super) fn begin(self: &Arc<Self>, most: Option<u64>) -> Option<Turn<'_>> {
        // In this order, others that begin and end meanwhile do not count.
        let ended = self.ended.load(Relaxed);
        let started = self.started.fetch_add(1, Relaxed) + 1;
        if most.is_some_and(|most| started.saturating_sub(ended) > most) {
            self.started.fetch_sub(1, Relaxed);
            return None;
        }
        Some(Turn(self))
    }

    /// Requests that it was chosen for so far.
    pub(in crate::proxy) fn requests(&self) -> u64 {
        self.started.load(Relaxed)
    }

    /// Requests whose responses are not over.
    pub(in crate::proxy) fn under_way(&self) -> u64 {
        let ended = self.ended.load(Relaxed);
        self.requests().saturating_sub(ended)
    }

    /// Requests that it failed to answer, so far.
    pub(in crate::proxy) fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    /// Those of them that another upstream was asked for.
    pub(in crate::proxy) fn repeats(&self) -> u64 {
        self.repeats.load(Relaxed)
    }

    /// Its errors so far, by their kind's place in [`UpstreamError::ALL`].
    pub(in crate::proxy) fn errors(&self) -> [u64; UpstreamError::ALL.len()] {
        std::array::from_fn(|kind| self.errors[kind].load(Relaxed))
    }

    /// The times that it has taken to answer.
    pub(in crate::proxy) fn latency(&self) -> LatencySnapshot {
        self.latency.snapshot()
    }

    /// Notes an error.
    pub(in crate::proxy) fn erred(&self, kind: UpstreamError) {
        self.errors[kind as usize].fetch_add(1, Relaxed);
    }

    /// Notes the time from a request to the head of its response.
    pub(super) fn answered(&self, time: Duration) {
        self.latency.observe(time);
    }

    /// Whether it is neither avoided nor turned off by checks.
    pub(in crate::proxy) fn is_up(&self) -> bool {
        !self.is_troubled.load(Relaxed) || self.health.lock().is_up()
    }

    /// Returns the part of its requests that it may get. The answer [`Standing::Trial`] is for one request,
    /// which has to be sent.
    pub(super) fn standing(&self) -> Standing {
        match self.is_troubled.load(Relaxed) {
            false => Standing::Up(1.0),
            true => self.note(Health::standing),
        }
    }

    /// Notes an answer to a request that had `begun` then.
    pub(super) fn succeeded(&self, begun: Instant) {
        if !self.is_troubled.load(Relaxed) {
            return;
        }
        let begun = begun.saturating_duration_since(self.since);
        if self
            .note(|health, now| health.succeeded(begun, now))
            .is_some()
        {
            tracing::info!(upstream = %self.url, "the upstream answers again");
        }
    }

    /// Notes the failure of a request that had `begun` then.
    pub(super) fn failed(&self, begun: Instant, cause: &SendError) {
        self.failures.fetch_add(1, Relaxed);
        self.erred(cause.into());
        let begun = begun.saturating_duration_since(self.since);
        let change = self.note(|health, now| health.failed(begun, now));
        if let Some(Change::Avoided(pause)) = change {
            let cause = ErrorReason::from_error(cause);
            tracing::warn!(
                upstream = %self.url,
                "the upstream fails, and is avoided for {pause:?} where there are others: {cause}"
            );
        }
    }

    /// Notes that another upstream is asked for a request that this one has failed to answer.
    pub(super) fn repeated(&self) {
        self.repeats.fetch_add(1, Relaxed);
    }

    /// Notes the outcome of a check.
    pub(in crate::proxy) fn checked<E: Error>(&self, outcome: &Result<(), E>) {
        let is_well = outcome.is_ok();
        if !is_well {
            self.erred(UpstreamError::Check);
        }
        match (
            self.note(|health, now| health.checked(is_well, now)),
            outcome,
        ) {
            (Some(Change::Off), Err(cause)) => {
                let cause = ErrorReason::from_error(cause);
                tracing::warn!(upstream = %self.url, "checks turn the upstream off: {cause}");
            }
            (Some(Change::On), _) => {
                tracing::info!(upstream = %self.url, "checks turn the upstream on");
            }
            _ => {}
        }
    }

    fn note<T>(&self, change: impl FnOnce(&mut Health, Time) -> T) -> T {
        let mut health = self.health.lock();
        let changed = change(&mut health, self.since.elapsed());
        self.is_troubled.store(!health.is_quiet(), Relaxed);
        changed
    }
}

/// A request under way. Dropped, it is over.
#[derive(Debug)]
pub(in crate::proxy) struct Turn<'a>(&'a Arc<State>);

impl<'a> Turn<'a> {
    /// The state of the upstream that has it.
    pub(in crate::proxy) fn state(&self) -> &'a State {
        self.0
    }

    /// Makes it last as long as a response that is handed on.
    pub(in crate::proxy) fn keep(self) -> Kept {
        let kept = Kept(Arc::clone(self.0));
        std::mem::forget(self);
        kept
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

/// A request under way, on its own. Dropped, it is over.
#[derive(Debug)]
pub(in crate::proxy) struct Kept(Arc<State>);

impl Kept {
    /// Notes that the body of the response has ended early.
    pub(in crate::proxy) fn broke_off(&self) {
        self.0.erred(UpstreamError::Body);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> Arc<State> {
        let terms = Terms {
            avoid_after: 2,
            avoid_min: Duration::from_secs(3600),
            avoid_max: Duration::from_secs(3600),
            slow_start: Duration::ZERO,
            rise: 1,
            fall: 1,
        };
        Arc::new(State::new("http://a", terms))
    }

    #[test]
    fn requests_are_under_way_until_their_response_is_over() {
        let state = state();
        let one = state.begin(Some(2)).unwrap();
        let other = state.begin(Some(2)).unwrap();
        assert!(state.begin(Some(2)).is_none());
        assert_eq!((state.requests(), state.under_way()), (2, 2));
        drop(one);
        assert_eq!(state.under_way(), 1);
        let kept = other.keep();
        assert_eq!(state.under_way(), 1);
        drop(kept);
        assert_eq!((state.requests(), state.under_way()), (2, 0));
        assert!(state.begin(None).is_some());
    }

    #[test]
    fn never_more_than_the_most_are_under_way() {
        let (state, most) = (state(), 3);
        let together = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let turn = state.begin(Some(most));
                        if turn.is_some() {
                            assert!(together.fetch_add(1, Relaxed) < most);
                            together.fetch_sub(1, Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(state.under_way(), 0);
        assert!(state.begin(Some(1)).is_some());
    }

    #[test]
    fn trouble_is_seen_until_it_is_over() {
        let state = state();
        let cause = SendError::Connect(std::io::Error::other("it is gone"));
        let begun = Instant::now();
        state.failed(begun, &cause);
        assert!(state.is_up() && state.is_troubled.load(Relaxed));
        state.failed(begun, &cause);
        assert!(!state.is_up());
        assert_eq!(state.standing(), Standing::Down);
        state.succeeded(Instant::now());
        assert!(state.is_up() && !state.is_troubled.load(Relaxed));
        assert_eq!(state.failures(), 2);
        state.checked(&Err(cause));
        assert_eq!(state.standing(), Standing::Down);
        let errors = UpstreamError::ALL.into_iter().zip(state.errors());
        let errors: Vec<_> = errors.filter(|(_, count)| *count > 0).collect();
        let want = [(UpstreamError::Connect, 2), (UpstreamError::Check, 1)];
        assert_eq!(errors, want);
        state.checked(&Ok::<_, std::io::Error>(()));
        assert_eq!(state.standing(), Standing::Up(1.0));
    }
}
