//! Whether losses answer to our own rate.

use std::time::Instant;

/// Compares the losses of probes with those of other times. A policer, or a queue too short to
/// be seen in round-trip times, loses more when more is sent; a lossy link does not.
#[derive(Clone, Debug, Default)]
pub(super) struct Trust {
    calm: Count,
    probing: Count,
    round: Count,
    probe: Option<(Instant, Option<Instant>)>,
    /// No trust before this round.
    until: u64,
    /// Rounds of the next doubt.
    doubt: u64,
}

/// Packets, weighted by age.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    acked: f64,
    lost: f64,
}

impl Count {
    fn sum(self) -> f64 {
        self.acked + self.lost
    }

    fn loss(self) -> f64 {
        self.lost / self.sum().max(1.0)
    }

    fn age(&mut self) {
        self.acked *= AGEING;
        self.lost *= AGEING;
    }
}

impl Trust {
    pub(super) fn given(&self, round: u64) -> bool {
        round >= self.until
    }

    pub(super) fn on_ack(&mut self, sent: Instant, packets: f64) {
        self.of(sent).acked += packets;
        self.round.acked += packets;
    }

    pub(super) fn on_loss(&mut self, sent: Instant, packets: f64) {
        self.of(sent).lost += packets;
        self.round.lost += packets;
    }

    fn of(&mut self, sent: Instant) -> &mut Count {
        if self.probed(sent) {
            &mut self.probing
        } else {
            &mut self.calm
        }
    }

    pub(super) fn probe_begins(&mut self, now: Instant) {
        self.calm.age();
        self.probing.age();
        self.probe = Some((now, None));
    }

    pub(super) fn probe_ends(&mut self, now: Instant) {
        if let Some((_, end @ None)) = &mut self.probe {
            *end = Some(now);
        }
    }

    /// Whether packets sent at `sent` were part of the last probe.
    pub(super) fn probed(&self, sent: Instant) -> bool {
        self.probe
            .is_some_and(|(begin, end)| sent >= begin && end.is_none_or(|end| sent <= end))
    }

    /// Judges at the end of a round. Returns whether trust was lost.
    pub(super) fn end_round(&mut self, round: u64) -> bool {
        let flooded = self.round.sum() >= ROUND_PACKETS && self.round.loss() > ROUND_LOSS;
        if self.round.sum() >= ROUND_PACKETS {
            self.round = Count::default();
        }
        if !flooded && !self.answers() {
            return false;
        }
        self.doubt(round);
        true
    }

    /// Whether probes lose more, by two and a half standard deviations.
    fn answers(&self) -> bool {
        let (probing, calm) = (self.probing, self.calm);
        if probing.sum() < ROUND_PACKETS || calm.sum() < ROUND_PACKETS {
            return false;
        }
        let pooled = (probing.lost + calm.lost) / (probing.sum() + calm.sum());
        let variance = pooled * (1.0 - pooled) * (1.0 / probing.sum() + 1.0 / calm.sum());
        let more = probing.loss() - calm.loss();
        more > SIGNIFICANT * variance.sqrt() && more > LEAST
    }

    /// No trust for some time, twice as long each time.
    pub(super) fn doubt(&mut self, round: u64) {
        self.doubt = (self.doubt * 2).clamp(DOUBT_ROUNDS, MAX_DOUBT_ROUNDS);
        self.until = round + self.doubt;
        self.calm = Count::default();
        self.probing = Count::default();
        self.round = Count::default();
        self.probe = None;
    }
}

/// What is left of older packets at each probe.
const AGEING: f64 = 0.9;
/// Packets without which nothing is judged.
const ROUND_PACKETS: f64 = 40.0;
/// A round that loses more is congestion.
const ROUND_LOSS: f64 = 0.2;
/// Standard deviations.
const SIGNIFICANT: f64 = 2.5;
/// Less is no matter.
const LEAST: f64 = 0.01;
const DOUBT_ROUNDS: u64 = 32;
const MAX_DOUBT_ROUNDS: u64 = 256;
