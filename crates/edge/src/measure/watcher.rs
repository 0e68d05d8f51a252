//! Looking at a transport in time.

use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use super::stall::{Signal, Watch};
use crate::transport::Flight;

use crate::clock;

/// Between looks while nothing is known.
const UNKNOWN_INTERVAL: Duration = Duration::from_millis(5);

/// A [`Watch`] with its timer.
#[derive(Debug)]
pub(super) struct Watcher {
    watch: Watch,
    next: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watcher {
    pub(super) fn new(ack_delay: Duration) -> Self {
        let now = clock::now();
        Self {
            watch: Watch::new(now, ack_delay),
            next: now,
            timer: None,
        }
    }

    /// Nothing is under way for a while.
    pub(super) fn rest(&mut self) {
        let now = clock::now();
        self.watch.rest(now);
        self.next = now;
        self.timer = None;
    }

    /// Looks at what is under way when it is time, and tells the first signal. To be called again
    /// until there is none; the task is woken for the next look.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut flight: impl FnMut() -> Option<Flight>,
    ) -> Option<Signal> {
        loop {
            let now = clock::now();
            if now >= self.next {
                let Some(flight) = flight() else {
                    // No round-trip time yet.
                    self.next = now + UNKNOWN_INTERVAL;
                    continue;
                };
                let signal = self.watch.look(now, &flight);
                self.next = self.watch.next(&flight);
                if signal.is_some() {
                    return signal;
                }
            }
            let deadline = self.next.into();
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
            if timer.deadline() != deadline {
                timer.as_mut().reset(deadline);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return None;
            }
        }
    }
}
