//! HyStart++ (RFC 9406): slow start ends when round-trip times rise, before a queue overflows.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// The growth of slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// The window grows by the acknowledged bytes.
    Full,
    /// The window grows by a quarter of the acknowledged bytes: conservative slow start (§4.2).
    Slow,
    /// Slow start is over, and congestion avoidance begins.
    Over,
}

/// Watches the round-trip times of a slow start.
#[derive(Clone, Debug, Default)]
pub(crate) struct HyStart {
    largest_sent: u64,
    /// The packet whose acknowledgement ends the round; `None` before the first.
    round_end: Option<u64>,
    last_round_min: Option<Duration>,
    round_min: Option<Duration>,
    samples: u32,
    /// The smallest of the last complete block of 64 RTTs, and the smallest since.
    block_min: Option<Duration>,
    tail_min: Option<Duration>,
    conservative: Option<Conservative>,
}

/// Conservative slow start: it waits to see whether the rise was jitter.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// `cssBaselineMinRtt`: the RTT at the rise.
    baseline: Duration,
    /// Rounds of conservative slow start, with the one in which it began.
    rounds: u32,
}

impl HyStart {
    pub(crate) fn on_sent(&mut self, packet: u64) {
        self.largest_sent = packet;
        self.round_end.get_or_insert(packet);
    }

    /// Takes in the round-trip time of an acknowledged packet.
    pub(crate) fn on_rtt(&mut self, rtt: Duration) {
        let least = |min: Option<Duration>| Some(min.map_or(rtt, |min| min.min(rtt)));
        self.round_min = least(self.round_min);
        self.tail_min = least(self.tail_min);
        self.samples += 1;
        if self.samples.is_multiple_of(BLOCK) {
            self.block_min = self.tail_min.take();
        }
    }

    /// Returns the growth after acknowledgements up to packet `largest`.
    pub(crate) fn on_acked(&mut self, largest: Option<u64>) -> Growth {
        self.look();
        let ended = largest.is_some_and(|acked| self.round_end.is_some_and(|end| acked >= end));
        if ended {
            self.begin_round();
        }
        match self.conservative {
            None => Growth::Full,
            Some(Conservative { rounds, .. }) if rounds > CSS_ROUNDS => Growth::Over,
            Some(_) => Growth::Slow,
        }
    }

    /// Enters conservative slow start after the round's times have risen, and leaves it after they
    /// have fallen again.
    fn look(&mut self) {
        let Some(min) = self.recent_min().filter(|_| self.samples >= SAMPLES) else {
            return;
        };
        match (self.conservative, self.last_round_min) {
            (Some(Conservative { baseline, .. }), _) if min < baseline => self.conservative = None,
            (None, Some(last)) if min >= last + threshold(last) => {
                self.conservative = Some(Conservative {
                    baseline: min,
                    rounds: 1,
                });
            }
            _ => {}
        }
    }

    /// The smallest RTT of the round, or of its last packets if it has many.
    ///
    /// The first packets of a long round met no queue. With them, the draft's round would show the
    /// queue a round later.
    fn recent_min(&self) -> Option<Duration> {
        match self.block_min {
            Some(block) => Some(self.tail_min.map_or(block, |tail| tail.min(block))),
            None => self.round_min,
        }
    }

    fn begin_round(&mut self) {
        self.block_min = None;
        self.tail_min = None;
        self.round_end = Some(self.largest_sent + 1);
        self.last_round_min = self.round_min.take();
        self.samples = 0;
        if let Some(conservative) = &mut self.conservative {
            conservative.rounds += 1;
        }
    }
}

/// The rise of a round's smallest RTT that shows a queue: an eighth, within limits.
fn threshold(last: Duration) -> Duration {
    (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

/// These are the constants of RFC 9406 §4.3.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const SAMPLES: u32 = 8;
/// RTTs of a block. In a round with more RTTs, the last block shows the present queue.
const BLOCK: u32 = 64;
const CSS_ROUNDS: u32 = 5;
/// The divisor of the growth in conservative slow start.
pub(crate) const CSS_GROWTH_DIVISOR: u64 = 4;
