//! What is known of a connection's path.

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
    /// Rounds ended. A round is over when a packet sent after its start is acknowledged.
    round: u64,
    /// Bytes delivered at which the round is over.
    round_end: u64,
    /// Bytes a second, the largest: of this round and of the last,
    round_rate: f64,
    last_rate: f64,
    /// of these [`RATE_ROUNDS`] rounds and of those before.
    rates: [f64; 2],
    /// The path's rate when this round began, and the one before.
    rates_then: [f64; 2],
    /// RTTs of the rounds of this [`RTT_LIFE`], and of that before,
    rtts: [Least; 2],
    /// which began then.
    rtts_since: Option<Instant>,
    round_min: Option<Duration>,
    /// Of `rtts`, see [`Path::min_rtt`].
    min_rtt: Option<Duration>,
    /// RTTs of the last packets by their time of sending, which orders them.
    recent: VecDeque<(Instant, Duration)>,
}

/// The least two RTTs of the rounds of some time.
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
    /// Takes a sample in, with all bytes delivered so far. Returns whether it ends a round.
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

    /// Keeps `recent` in order of sending: late acknowledgements come soon, if they do.
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

    /// Takes the least RTT of a round in.
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

    /// Rounds ended.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The largest delivery rate of the last five to ten rounds, in bytes a second.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        Some(self.largest_rate()).filter(|rate| *rate > 0.0)
    }

    /// The largest delivery rate of the round before this one.
    #[must_use]
    pub fn last_rate(&self) -> Option<f64> {
        Some(self.last_rate).filter(|rate| *rate > 0.0)
    }

    /// Whether the rate has grown by a tenth within two rounds: the path has more than it has shown.
    #[must_use]
    pub fn growing(&self) -> bool {
        self.largest_rate() > self.rates_then[1] * GROWTH
    }

    /// The path's RTT without queues. From the fourth round on it is the second least of the
    /// rounds' least, since one that is too small would make every other look like a queue.
    #[must_use]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.or(self.round_min)
    }

    /// Bytes that fill the path, the `loss` on it included, and a few to spare: acknowledgements
    /// come late and together, and on a path of 1 ms these few packets are as many as fill it.
    #[must_use]
    pub fn bdp(&self, loss: f64) -> Option<f64> {
        let gross = self.rate()? / (1.0 - loss.min(MAX_LOSS));
        let min_rtt = self.min_rtt()?;
        let time = min_rtt + (min_rtt / SPARE_DIVISOR).max(SPARE_LEAST);
        Some(gross * time.as_secs_f64())
    }

    /// How long a packet sent at `sent` waited in queues: the least of those sent about then, or
    /// last, since jitter delays single packets and a standing queue all of them.
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

    /// What counts as a standing queue. Short paths have short buffers: one of half a BDP at 5 ms
    /// overflows before a packet has waited for 2 ms more than the others.
    #[must_use]
    pub fn threshold(&self) -> Duration {
        let min_rtt = self.min_rtt().unwrap_or_default();
        let short = (min_rtt / SHORT_QUEUE_DIVISOR).clamp(SHORT_QUEUE_LEAST, SHORT_QUEUE_MOST);
        (min_rtt / QUEUE_DIVISOR).max(short)
    }

    /// Whether packets sent at `sent` met a standing queue. Yes if nothing is known.
    #[must_use]
    pub fn queued(&self, sent: Instant) -> bool {
        self.queue_at(sent)
            .is_none_or(|queue| queue >= self.threshold())
    }
}

/// Two of these are the rounds for which a rate counts.
const RATE_ROUNDS: u64 = 5;
/// Of the rate, in two rounds.
const GROWTH: f64 = 1.1;
/// Two of these are the time for which a round's least RTT counts.
const RTT_LIFE: Duration = Duration::from_secs(15);
/// The round from which on the second least RTT counts.
const SECOND_FROM: u64 = 4;
/// Losses beyond this part are not made up for.
const MAX_LOSS: f64 = 0.1;
/// RTTs that tell of a queue, at least.
const NEAR: usize = 4;
/// A queue is longer than this part of the path's RTT,
const QUEUE_DIVISOR: u32 = 20;
/// and than a larger one,
const SHORT_QUEUE_DIVISOR: u32 = 5;
/// but for what acknowledgements vary by alone,
const SHORT_QUEUE_LEAST: Duration = Duration::from_millis(1);
/// and up to this.
const SHORT_QUEUE_MOST: Duration = Duration::from_millis(2);
/// Part of the RTT for which a window holds more than fills the path,
const SPARE_DIVISOR: u32 = 40;
/// and at least this.
const SPARE_LEAST: Duration = Duration::from_millis(1);
