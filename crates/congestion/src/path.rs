//! Measurements of a connection's path.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::delivery::Sample;

/// Rates, round-trip times and rounds of a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    /// The number of ended rounds. A round ends when a packet sent after its start is acknowledged.
    round: u64,
    /// The delivered bytes at which the round ends.
    round_end: u64,
    /// The largest rate of each recent round with its loss, in bytes per second.
    rates: VecDeque<RoundRate>,
    /// The smallest RTTs of recent rounds. Rounds that end within [`FLOOR_STEP`] share one.
    floors: VecDeque<(Instant, Duration)>,
    round_min: Option<Duration>,
    /// The RTT without queues, from `floors`; see [`Path::min_rtt`].
    min_rtt: Option<Duration>,
    /// RTTs of recent packets in the order of their sending times.
    recent: VecDeque<(Instant, Duration)>,
}

#[derive(Clone, Copy, Debug)]
struct RoundRate {
    round: u64,
    /// The rate of acknowledged bytes.
    rate: f64,
    /// The rate of sent bytes, lost packets included.
    gross: f64,
}

impl Path {
    /// Takes in a sample. Returns whether it ends a round.
    pub(crate) fn on_sample(&mut self, now: Instant, sample: &Sample, delivered: u64) -> bool {
        self.remember(sample.sent, sample.rtt);
        self.round_min = Some(self.round_min.map_or(sample.rtt, |min| min.min(sample.rtt)));
        let ends = sample.prior >= self.round_end;
        if ends {
            self.begin_round(now, delivered);
        }
        self.rate_sample(sample);
        ends
    }

    /// Keeps `recent` in the order of sending. Late acknowledgements come soon, if at all.
    fn remember(&mut self, sent: Instant, rtt: Duration) {
        let later = self.recent.iter().rev().take_while(|(at, _)| *at > sent);
        let place = self.recent.len() - later.count();
        self.recent.insert(place, (sent, rtt));
    }

    fn begin_round(&mut self, now: Instant, delivered: u64) {
        self.round += 1;
        self.round_end = delivered;
        if let Some(min) = self.round_min.take() {
            self.floor_sample(now, min);
        }
        let keep = self.min_rtt().unwrap_or_default() * 4 + Duration::from_millis(50);
        let stale = |sent: Instant| now.saturating_duration_since(sent) > keep;
        while self.recent.front().is_some_and(|&(sent, _)| stale(sent)) {
            self.recent.pop_front();
        }
        let first = self.round.saturating_sub(RATE_ROUNDS);
        while self.rates.front().is_some_and(|rate| rate.round < first) {
            self.rates.pop_front();
        }
    }

    /// Takes in the smallest RTT of a round, and drops those that are too old.
    fn floor_sample(&mut self, now: Instant, min: Duration) {
        match self.floors.back_mut() {
            Some((at, floor)) if now.saturating_duration_since(*at) < FLOOR_STEP => {
                if min >= *floor {
                    return;
                }
                *floor = min;
            }
            _ => self.floors.push_back((now, min)),
        }
        let old = |at: Instant| now.saturating_duration_since(at) > FLOOR_LIFE;
        while self.floors.len() > 2 && self.floors.front().is_some_and(|&(at, _)| old(at)) {
            self.floors.pop_front();
        }
        self.min_rtt = self.second_least();
    }

    fn rate_sample(&mut self, sample: &Sample) {
        if sample.limited && self.rate().is_some_and(|rate| sample.rate < rate) {
            return;
        }
        let gross = sample.rate / (1.0 - sample.loss.min(MAX_LOSS));
        let next = RoundRate {
            round: self.round,
            rate: sample.rate,
            gross,
        };
        match self.rates.back_mut() {
            Some(last) if last.round == self.round => {
                if next.rate > last.rate {
                    *last = next;
                }
            }
            _ => self.rates.push_back(next),
        }
    }

    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    /// The largest delivery rate of the last ten rounds, in bytes a second.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.rates.iter().map(|rate| rate.rate).reduce(f64::max)
    }

    /// The largest delivery rate of the previous round, in bytes per second.
    pub(crate) fn last_rate(&self) -> Option<f64> {
        let last = self.round.checked_sub(1)?;
        let of = self.rates.iter().find(|rate| rate.round == last);
        of.map(|rate| rate.rate)
    }

    /// The path's RTT without queues.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.or(self.round_min)
    }

    /// The second smallest of `floors`, or the smallest while there are few. One RTT that is too
    /// small would make every other look like a queue.
    fn second_least(&self) -> Option<Duration> {
        let mut least: [Option<Duration>; 2] = [None; 2];
        for &(_, rtt) in &self.floors {
            if least[0].is_none_or(|first| rtt < first) {
                least = [Some(rtt), least[0]];
            } else if least[1].is_none_or(|second| rtt < second) {
                least[1] = Some(rtt);
            }
        }
        match self.floors.len() {
            0..=3 => least[0],
            _ => least[1],
        }
    }

    /// Bytes that fill the path, with its losses and a few bytes to spare. Acknowledgements come
    /// late and together; on a path of 1 ms, the spare bytes are as many as those that fill it.
    pub(crate) fn bdp(&self) -> Option<f64> {
        let gross = self.rates.iter().map(|rate| rate.gross).reduce(f64::max)?;
        let min_rtt = self.min_rtt()?;
        let time = min_rtt + (min_rtt / SPARE_DIVISOR).max(MIN_SPARE);
        Some(gross * time.as_secs_f64())
    }

    /// The time for which a packet sent at `sent` waited in queues.
    ///
    /// It is the smallest time of the packets sent about then, or of the last packets. Jitter
    /// delays single packets, and a standing queue delays all of them.
    pub(crate) fn queue_at(&self, sent: Instant) -> Option<Duration> {
        let min = self.min_rtt()?;
        let about = min / 4;
        let count = self.recent.len();
        let near = self.recent.partition_point(|&(at, _)| at + about < sent)
            ..self.recent.partition_point(|&(at, _)| at <= sent + about);
        let near = if near.len() < NEAR {
            count.saturating_sub(NEAR)..count
        } else {
            near
        };
        let least = self.recent.range(near).map(|&(_, rtt)| rtt).min();
        least.map(|rtt| rtt.saturating_sub(min))
    }

    /// The delay from which a queue counts as a standing one.
    ///
    /// Short paths have short buffers. One of half a BDP at 5 ms overflows before a packet has
    /// waited for 2 ms more than the others.
    pub(crate) fn threshold(&self) -> Duration {
        let min_rtt = self.min_rtt().unwrap_or_default();
        let short = (min_rtt / SHORT_QUEUE_DIVISOR).clamp(MIN_SHORT_QUEUE, MAX_SHORT_QUEUE);
        (min_rtt / QUEUE_DIVISOR).max(short)
    }

    /// Whether packets sent at `sent` met a standing queue. True if nothing is measured yet.
    pub(crate) fn queued(&self, sent: Instant) -> bool {
        self.queue_at(sent)
            .is_none_or(|queue| queue >= self.threshold())
    }
}

/// Rounds for which a rate counts.
const RATE_ROUNDS: u64 = 10;
/// Time for which a round's smallest RTT counts.
const FLOOR_LIFE: Duration = Duration::from_secs(30);
/// Time within which rounds share an entry, so that short rounds need little memory.
const FLOOR_STEP: Duration = Duration::from_millis(100);
/// The largest loss for which the BDP makes up.
const MAX_LOSS: f64 = 0.1;
/// The fewest RTTs from which a queue is computed.
const NEAR: usize = 4;
/// A queue is longer than this part of the path's RTT.
const QUEUE_DIVISOR: u32 = 20;
/// On short paths, a queue is longer than this part of the RTT, within the next two bounds.
const SHORT_QUEUE_DIVISOR: u32 = 5;
/// The variation of acknowledgements without a queue.
const MIN_SHORT_QUEUE: Duration = Duration::from_millis(1);
/// The delay that is always a queue on short paths.
const MAX_SHORT_QUEUE: Duration = Duration::from_millis(2);
/// The part of the RTT by which a window exceeds the BDP.
const SPARE_DIVISOR: u32 = 40;
/// The smallest time by which a window exceeds the BDP.
const MIN_SPARE: Duration = Duration::from_millis(1);
