//! Rapid Start (draft-kazuho-ccwg-rapid-start): slow start that triples its window while no queue
//! shows.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// Decides whether slow start may triple its window in a round instead of doubling it.
///
/// It may while round-trip times are those of an empty path, and until the first loss or mark. The
/// draft looks at the smallest RTT of a whole round. This one looks at the last few, so that a queue
/// shows within the round in which it builds up. Where a path has a full queue from the start, no RTT
/// rises, but packets are lost. So a loss ends tripling for good, unlike in the draft.
#[derive(Clone, Debug)]
pub(crate) struct Rapid {
    allowed: bool,
    min_rtt: Option<Duration>,
    /// A ring of the last RTTs.
    recent: [Duration; RECENT],
    samples: usize,
}

impl Rapid {
    /// Makes a rapid start, or a slow start that always doubles if not `allowed`.
    pub(crate) const fn new(allowed: bool) -> Self {
        Self {
            allowed,
            min_rtt: None,
            recent: [Duration::MAX; RECENT],
            samples: 0,
        }
    }

    /// Takes in the round-trip time of an acknowledged packet.
    pub(crate) fn on_rtt(&mut self, rtt: Duration) {
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        self.recent[self.samples % RECENT] = rtt;
        self.samples += 1;
    }

    /// Ends tripling for good.
    pub(crate) const fn end(&mut self) {
        self.allowed = false;
    }

    /// The growth of the window for each acknowledged byte.
    pub(crate) fn growth(&self) -> f64 {
        if self.allowed && self.is_path_empty() {
            RAPID_GROWTH
        } else {
            1.0
        }
    }

    fn is_path_empty(&self) -> bool {
        let Some(min) = self.min_rtt else {
            return false;
        };
        let least = self.recent.iter().min();
        least.is_some_and(|least| *least <= min + (min / MAX_RISE_DIVISOR).min(MAX_RISE))
    }
}

/// Bytes of growth for each acknowledged byte: three windows a round.
const RAPID_GROWTH: f64 = 2.0;
/// RTTs among which the smallest shows the present queue.
const RECENT: usize = 8;
/// The rise of the RTT from which on a queue shows: a tenth, and at most this. Both are the draft's.
const MAX_RISE: Duration = Duration::from_millis(4);
const MAX_RISE_DIVISOR: u32 = 10;
