//! Whether losses answer to our own rate.

/// Compares the losses of probes with those of other times. A policer, or a queue too short to
/// be seen in round-trip times, loses more when more is sent; a lossy link does not.
///
/// Each packet of a probe is an observation of a sequential test (Page's CUSUM) of the loss of
/// other times against that and [`MORE`], so that chance seldom ends trust however often it is
/// asked, and a policer's losses end it within a round. What a packet says is computed when the probe
/// begins.
///
/// TCP's floor has the same in `crates/edge/bpf/trust.h`.
#[derive(Clone, Debug, Default)]
pub(super) struct Trust {
    calm: Count,
    round: Count,
    /// Logarithm of how much likelier it is that probes lose more,
    evidence: f64,
    /// and what a packet of the probe adds to it.
    if_acked: f64,
    if_lost: f64,
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
        self.doubt_left(round) == 0
    }

    /// Rounds for which it is not given any more.
    pub(super) fn doubt_left(&self, round: u64) -> u64 {
        self.until.saturating_sub(round)
    }

    pub(super) fn evidence(&self) -> f64 {
        self.evidence
    }

    /// The part of packets that is lost at other times than probes.
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

    /// A loss that was `queued` shows the queue, which CUBIC answers.
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

    /// What each packet of the probe that begins now will say, by the loss of other times.
    pub(super) fn probe_begins(&mut self) {
        self.calm.age();
        let calm = (self.calm.lost + PRIOR_LOST) / (self.calm.sum() + PRIOR);
        let calm = calm.min(1.0 - 2.0 * MORE);
        let more = calm + MORE;
        self.if_acked = ((1.0 - more) / (1.0 - calm)).ln();
        self.if_lost = (more / calm).ln();
    }

    /// The packets of the last probe say nothing.
    pub(super) fn forget_probe(&mut self) {
        self.if_acked = 0.0;
        self.if_lost = 0.0;
    }

    /// Judges at the end of a round. Returns whether trust was lost.
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

    /// No trust for some time, twice as long each time.
    pub(super) fn doubt(&mut self, round: u64) {
        self.doubt = (self.doubt * 2).clamp(DOUBT_ROUNDS, MAX_DOUBT_ROUNDS);
        self.until = round + self.doubt;
        self.calm = Count::default();
        self.round = Count::default();
        self.evidence = 0.0;
        self.forget_probe();
    }
}

/// What is left of older packets at each probe.
const AGEING: f64 = 0.9;
/// Packets without which nothing is judged.
const ROUND_PACKETS: f64 = 40.0;
/// A round that loses more is congestion.
const ROUND_LOSS: f64 = 0.2;
/// What probes lose besides where losses answer: half of what a probe sends besides.
const MORE: f64 = 0.1;
/// Chance exceeds this about once in e^10 packets.
const ENOUGH: f64 = 10.0;
/// Packets that count as seen before the first, and how many of them as lost.
const PRIOR: f64 = 50.0;
const PRIOR_LOST: f64 = 1.0;
const DOUBT_ROUNDS: u64 = 32;
const MAX_DOUBT_ROUNDS: u64 = 256;
