//! Looking at a transport in time.

use std::task::Context;
use std::time::Duration;

use super::next_look::NextLook;
use super::stall::{Signal, Watch};
use crate::clock;
use crate::conn::Conn;
use crate::transport::Flight;

/// Between looks while nothing is known.
const UNKNOWN_INTERVAL: Duration = Duration::from_millis(5);

/// A [`Watch`] with its timer.
#[derive(Debug)]
pub(super) struct Watcher {
    watch: Watch,
    next: NextLook,
}

impl Watcher {
    pub(super) fn new(ack_delay: Duration) -> Self {
        let now = clock::now();
        Self {
            watch: Watch::new(now, ack_delay),
            next: NextLook::new(now),
        }
    }

    /// Nothing is under way for a while.
    pub(super) fn rest(&mut self) {
        let now = clock::now();
        self.watch.rest(now);
        self.next = NextLook::new(now);
    }

    /// Looks at the packets under way when it is time, and returns the first signal. To be called again
    /// until there is none; the task is woken for the next look.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut flight: impl FnMut() -> Option<Flight>,
    ) -> Option<Signal> {
        loop {
            let now = clock::now();
            if self.next.is_due(now) {
                let Some(flight) = flight() else {
                    // No round-trip time yet.
                    self.next.set(now + UNKNOWN_INTERVAL);
                    continue;
                };
                let signal = self.watch.look(now, &flight);
                self.next.set(self.watch.next(&flight));
                if signal.is_some() {
                    return signal;
                }
            }
            if self.next.poll(cx).is_pending() {
                return None;
            }
        }
    }
}

/// Reports a signal to its connection. Returns whether that takes another path now, by which its
/// transport shall send at once.
pub(super) fn report(conn: &Conn, signal: &Signal) -> bool {
    match signal {
        Signal::Stalled(stall) => return conn.stalled(stall),
        Signal::Resumed {
            silent,
            false_alarm,
        } => conn.resumed(*silent, *false_alarm),
        Signal::Delivered => conn.delivered(),
    }
    false
}
