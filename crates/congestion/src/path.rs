//! Measurements of a connection's path.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::delivery::Sample;

/// Rates, round-trip times and rounds of a path.
///
/// TCP's floor has the same in `crates/edge/bpf/path.h`, but for [`Path::queued`].
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// The number of ended rounds. A round ends when a packet sent after its start is acknowledged.
    round: u64,
    /// The delivered bytes at which the round ends.
    round_end: u64,
    /// The largest rate of this round, in bytes per second.
    round_rate: f64,
    /// The largest rate of the previous round.
    last_rate: f64,
    /// The largest rates of the current span of [`RATE_ROUNDS`] and of the previous one.
    rates: [f64; 2],
    /// The path's rates at the beginnings of this round and of the previous one.
    rates_then: [f64; 2],
    /// The smallest RTTs of the current span of [`RTT_LIFE`] and of the previous one.
    rtts: [Least; 2],
    /// The beginning of the current span of RTTs.
    rtts_since: Option<Instant>,
    round_min: Option<Duration>,
    /// The RTT without queues, from `rtts`; see [`Path::min_rtt`].
    min_rtt: Option<Duration>,
    /// RTTs of recent packets in the order of their sending times.
    recent: VecDeque<(Instant, Duration)>,
}

/// The two smallest of the rounds' smallest RTTs in a span of time.
#[derive(Clone, Copy, Debug, Default)]
struct Least {
    first: Option<Duration>,
    second: Option<Duration>,
}

impl Least {
    fn take(&mut self, rtt: Duration) {
        if self.first.is_none_or(|first| rtt < first) {
            self.second = self.first.replace(rtt);
        } else if self.second.is_none_or(|second| rtt < second) {
            self.second = Some(rtt);
        }
    }
}

impl Path {
    /// Takes in a sample. `delivered` counts all bytes so far. Returns whether it ends a round.
    pub fn on_sample(&mut self, now: Instant, sample: &Sample, delivered: u64) -> bool {
        self.remember(sample.sent, sample.rtt);
        self.round_min = Some(self.round_min.map_or(sample.rtt, |min| min.min(sample.rtt)));
        let ends = sample.prior >= self.round_end;
        if ends {
            self.begin_round(now, delivered);
        }
        if !sample.limited || sample.rate > self.largest_rate() {
            self.round_rate = self.round_rate.max(sample.rate);
        }
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
        self.last_rate = std::mem::take(&mut self.round_rate);
        if self.round.is_multiple_of(RATE_ROUNDS) {
            self.rates = [0.0, self.rates[0]];
        }
        self.rates[0] = self.rates[0].max(self.last_rate);
        self.rates_then = [self.largest_rate(), self.rates_then[0]];
        if let Some(min) = self.round_min.take() {
            self.take_rtt(now, min);
        }
        let keep = self.min_rtt().unwrap_or_default() * 4 + Duration::from_millis(50);
        let stale = |sent: Instant| now.saturating_duration_since(sent) > keep;
        while self.recent.front().is_some_and(|&(sent, _)| stale(sent)) {
            self.recent.pop_front();
        }
    }

    /// Takes in the smallest RTT of a round.
    fn take_rtt(&mut self, now: Instant, rtt: Duration) {
        let since = *self.rtts_since.get_or_insert(now);
        let old = now.saturating_duration_since(since) > RTT_LIFE;
        if old && self.rtts[0].second.is_some() {
            self.rtts = [Least::default(), self.rtts[0]];
            self.rtts_since = Some(now);
        }
        self.rtts[0].take(rtt);
        let [mut all, before] = self.rtts;
        for rtt in [before.first, before.second].into_iter().flatten() {
            all.take(rtt);
        }
        let second = all.second.filter(|_| self.round >= SECOND_FROM);
        self.min_rtt = second.or(all.first);
    }

    fn largest_rate(&self) -> f64 {
        let [these, those] = self.rates;
        these.max(those).max(self.round_rate)
    }

    /// The number of ended rounds.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The largest delivery rate of the last five to ten rounds, in bytes per second.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        Some(self.largest_rate()).filter(|rate| *rate > 0.0)
    }

    /// The largest delivery rate of the previous round, in bytes per second.
    #[must_use]
    pub fn last_rate(&self) -> Option<f64> {
        Some(self.last_rate).filter(|rate| *rate > 0.0)
    }

    /// Whether the rate has grown by a tenth within two rounds: the path may have yet more.
    #[must_use]
    pub fn growing(&self) -> bool {
        self.largest_rate() > self.rates_then[1] * GROWTH
    }

    /// The path's RTT without queues: from the fourth round on, the second smallest of the rounds'
    /// smallest. One RTT that is too small would make every other look like a queue.
    #[must_use]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.or(self.round_min)
    }

    /// Bytes that fill the path, with its `loss` and a few bytes to spare. Acknowledgements come
    /// late and together; on a path of 1 ms, the spare bytes are as many as those that fill it.
    #[must_use]
    pub fn bdp(&self, loss: f64) -> Option<f64> {
        let gross = self.rate()? / (1.0 - loss.min(MAX_LOSS));
        let min_rtt = self.min_rtt()?;
        let time = min_rtt + (min_rtt / SPARE_DIVISOR).max(MIN_SPARE);
        Some(gross * time.as_secs_f64())
    }

    /// The time for which a packet sent at `sent` waited in queues.
    ///
    /// It is the smallest time of the packets sent about then, or of the last packets. Jitter
    /// delays single packets, and a standing queue delays all of them.
    fn queue_at(&self, sent: Instant) -> Option<Duration> {
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
    #[must_use]
    pub fn threshold(&self) -> Duration {
        let min_rtt = self.min_rtt().unwrap_or_default();
        let short = (min_rtt / SHORT_QUEUE_DIVISOR).clamp(MIN_SHORT_QUEUE, MAX_SHORT_QUEUE);
        (min_rtt / QUEUE_DIVISOR).max(short)
    }

    /// Whether packets sent at `sent` met a standing queue. True if nothing is measured yet.
    #[must_use]
    pub fn queued(&self, sent: Instant) -> bool {
        self.queue_at(sent)
            .is_none_or(|queue| queue >= self.threshold())
    }
}

/// Rounds of a span. A rate counts in its span and the next.
const RATE_ROUNDS: u64 = 5;
/// Growth of the rate within two rounds that shows a path with more.
const GROWTH: f64 = 1.1;
/// Time of a span. A round's smallest RTT counts in its span and the next.
const RTT_LIFE: Duration = Duration::from_secs(15);
/// The round from which on the second smallest RTT counts.
const SECOND_FROM: u64 = 4;
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
