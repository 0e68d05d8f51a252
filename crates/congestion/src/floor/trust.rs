//! The test whether losses answer to our own rate.

/// Compares the losses during probes with the losses at other times.
///
/// A policer, or a queue too short to show in round-trip times, loses more when more is sent. A
/// lossy link does not.
///
/// The test is sequential (Page's CUSUM), and each packet of a probe is an observation. It weighs
/// the loss of other times against that loss and [`MORE`]. So chance seldom ends trust, however
/// often the test runs, and a policer's losses end it within a round.
///
/// TCP's floor has the same in `crates/edge/bpf/trust.h`.
#[derive(Clone, Debug, Default)]
pub(super) struct Trust {
    calm: Count,
    round: Count,
    /// The logarithm of the likelihood ratio for more losses during probes.
    evidence: f64,
    /// The evidence of an acknowledged packet of the probe.
    if_acked: f64,
    /// The evidence of a lost packet of the probe.
    if_lost: f64,
    /// The round before which losses are not trusted.
    until: u64,
    /// The rounds of the last doubt.
    doubt: u64,
}

/// Numbers of packets, weighted by age.
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
        self.doubt_left(round) == 0
    }

    /// The rounds for which losses are still not trusted.
    pub(super) fn doubt_left(&self, round: u64) -> u64 {
        self.until.saturating_sub(round)
    }

    pub(super) fn evidence(&self) -> f64 {
        self.evidence
    }

    /// The lost share of the packets at other times than probes.
    pub(super) fn loss(&self) -> f64 {
        self.calm.loss()
    }

    pub(super) fn on_ack(&mut self, packets: f64, of_probe: bool) {
        self.round.acked += packets;
        if of_probe {
            self.weigh(packets * self.if_acked);
        } else {
            self.calm.acked += packets;
        }
    }

    /// Counts lost packets. A loss that was `queued` shows the queue, and CUBIC reacts to it.
    pub(super) fn on_loss(&mut self, packets: f64, queued: bool, of_probe: bool) {
        if !queued {
            self.round.lost += packets;
        }
        if !of_probe {
            self.calm.lost += packets;
        } else if !queued {
            self.weigh(packets * self.if_lost);
        }
    }

    fn weigh(&mut self, evidence: f64) {
        self.evidence = (self.evidence + evidence).max(0.0);
    }

    /// Begins a probe: the loss of other times until now sets the evidence of its packets.
    pub(super) fn probe_begins(&mut self) {
        self.calm.age();
        let calm = (self.calm.lost + PRIOR_LOST) / (self.calm.sum() + PRIOR);
        let calm = calm.min(1.0 - 2.0 * MORE);
        let more = calm + MORE;
        self.if_acked = ((1.0 - more) / (1.0 - calm)).ln();
        self.if_lost = (more / calm).ln();
    }

    /// Takes the evidence from the packets of the last probe.
    pub(super) fn forget_probe(&mut self) {
        self.if_acked = 0.0;
        self.if_lost = 0.0;
    }

    /// Ends a round. Returns whether trust ended with it.
    pub(super) fn end_round(&mut self, round: u64) -> bool {
        let flooded = self.round.sum() >= ROUND_PACKETS && self.round.loss() > ROUND_LOSS;
        if self.round.sum() >= ROUND_PACKETS {
            self.round = Count::default();
        }
        if !flooded && self.evidence < ENOUGH {
            return false;
        }
        self.doubt(round);
        true
    }

    /// Ends trust for a time that doubles with each doubt.
    pub(super) fn doubt(&mut self, round: u64) {
        self.doubt = (self.doubt * 2).clamp(DOUBT_ROUNDS, MAX_DOUBT_ROUNDS);
        self.until = round + self.doubt;
        self.calm = Count::default();
        self.round = Count::default();
        self.evidence = 0.0;
        self.forget_probe();
    }
}

/// The weight that older packets keep at each probe.
const AGEING: f64 = 0.9;
/// The fewest packets that are judged as a round.
const ROUND_PACKETS: f64 = 40.0;
/// The loss of a round above which it is congestion.
const ROUND_LOSS: f64 = 0.2;
/// The additional loss of probes where losses answer: half of a probe's additional packets.
const MORE: f64 = 0.1;
/// The evidence that ends trust. Chance exceeds it about once in e^10 packets.
const ENOUGH: f64 = 10.0;
/// Packets that count as seen before the first, and [`PRIOR_LOST`] of them as lost.
const PRIOR: f64 = 50.0;
const PRIOR_LOST: f64 = 1.0;
const DOUBT_ROUNDS: u64 = 32;
const MAX_DOUBT_ROUNDS: u64 = 256;
