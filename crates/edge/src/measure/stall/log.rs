//! How much had been sent when.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Flight;

/// Between two looks that are nearer than this, the packets in flight at the first were sent evenly.
const NEAR: Duration = Duration::from_millis(8);
/// Part of the time looked back at between two entries.
const DIVISOR: u32 = 32;

/// Looks at what a transport had sent.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    sent: u64,
    /// Something was in flight.
    busy: bool,
}

impl Log {
    /// The bytes or packets sent until `then`; 0 before the first look. Those sent between two looks
    /// that are far from each other, or after a pause, count as sent at the second.
    pub(super) fn sent_until(&self, then: Instant) -> u64 {
        let later = self.entries.partition_point(|entry| entry.at <= then);
        let Some(before) = later
            .checked_sub(1)
            .and_then(|index| self.entries.get(index))
        else {
            return 0;
        };
        let Some(after) = self.entries.get(later) else {
            return before.sent;
        };
        let between = after.at - before.at;
        if between > NEAR || !before.busy {
            return before.sent;
        }
        let part = (then - before.at).as_secs_f64() / between.as_secs_f64();
        before.sent + ((after.sent - before.sent) as f64 * part) as u64
    }

    /// Takes note of the bytes or packets sent by `now`, for a caller that looks `back` so far.
    pub(super) fn remember(&mut self, now: Instant, flight: &Flight, back: Duration) {
        let old = |entry: &Entry| now.saturating_duration_since(entry.at) > back;
        while self.entries.get(1).is_some_and(old) {
            self.entries.pop_front();
        }
        let near = |entry: &Entry| now.saturating_duration_since(entry.at) < back / DIVISOR;
        if !self.entries.back().is_some_and(near) {
            self.entries.push_back(Entry {
                at: now,
                sent: flight.sent,
                busy: flight.in_flight > 0,
            });
        }
    }
}
