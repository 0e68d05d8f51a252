//! The timer of the next look at a transport.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::time::Sleep;

/// When to look next, with a timer that is made once it is waited for.
#[derive(Debug)]
pub(super) struct NextLook {
    at: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl NextLook {
    pub(super) const fn new(at: Instant) -> Self {
        Self { at, timer: None }
    }

    /// Looks next at `at`.
    pub(super) const fn set(&mut self, at: Instant) {
        self.at = at;
    }

    #[cfg(test)]
    pub(super) const fn at(&self) -> Instant {
        self.at
    }

    /// Whether it is time at `now`.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.at
    }

    /// Waits until it is time.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.at.into();
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx)
    }
}
