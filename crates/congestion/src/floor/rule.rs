//! The floor's decisions at the end of a round and at a loss.

use super::probes::Probes;
use super::trust::Trust;
use crate::path::Path;

/// Decides when slow start ends, when a path is probed, and how a loss is answered.
///
/// TCP's floor follows the same rule, in eBPF (`crates/edge/bpf/rule.h`). The test `lockstep` drives
/// both with the same events.
#[derive(Clone, Debug)]
pub struct Rule {
    trust: Trust,
    probes: Probes,
    startup: Option<Startup>,
    /// The last round with a loss at which the floor held.
    forgiven: Option<u64>,
    /// Packets acknowledged since the last sample. The next sample shows their round.
    fresh: f64,
}

/// The search of slow start for a round in which the rate no longer grows.
#[derive(Clone, Copy, Debug, Default)]
struct Startup {
    rate: f64,
    stalled: u32,
}

/// The effect of a round's end on the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    None,
    /// Losses answer to our rate: the window falls as at any congestion.
    Doubt,
    /// Slow start has found the path's rate: to the bandwidth-delay product.
    Plateau,
    /// A probe is over: up to the bandwidth-delay product, unless there is a queue.
    Raise,
}

/// The answer to a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The loss met no queue: the window stays at the bandwidth-delay product or above.
    Forgiven,
    /// The loss met the queue of a probe: the probe ends.
    Probe,
    /// CUBIC reduces the window.
    Congestion,
}

/// The state of a [`Rule`], for tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// Logarithm of how much likelier it is that probes lose more.
    pub evidence: f64,
    /// Rounds for which losses are not trusted any more.
    pub doubt_left: u64,
    /// The part of packets that is lost at other times than probes.
    pub loss: f64,
    /// A probe makes the window larger.
    pub probing: bool,
    /// The packets that are acknowledged now were sent in a probe.
    pub of_probe: bool,
    /// A queue may be that of a probe.
    pub drains: bool,
    /// Rounds from the last probe to the next.
    pub interval: u64,
    /// Slow start goes on.
    pub startup: bool,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            trust: Trust::default(),
            probes: Probes::default(),
            startup: Some(Startup::default()),
            forgiven: None,
            fresh: 0.0,
        }
    }
}

impl Rule {
    /// Takes in acknowledged packets. They count with the next sample.
    pub fn acked(&mut self, packets: f64) {
        self.fresh += packets;
    }

    /// Decides after `path` has taken in a sample. `searching` says whether the window is one of slow
    /// start.
    pub fn sampled(&mut self, path: &Path, round_ended: bool, searching: bool) -> Step {
        let round = path.round();
        let packets = std::mem::take(&mut self.fresh);
        self.trust.on_ack(packets, self.probes.acked_in(round));
        if !round_ended {
            return Step::None;
        }
        if self.trust.end_round(round) {
            self.give_up_probe();
            return Step::Doubt;
        }
        let stalled = self.stalls(path, searching);
        match (stalled, self.step_probe(path)) {
            (true, _) => Step::Plateau,
            (false, true) => Step::Raise,
            (false, false) => Step::None,
        }
    }

    /// Ends slow start after three rounds in which the rate did not grow by a quarter.
    fn stalls(&mut self, path: &Path, searching: bool) -> bool {
        if !searching {
            self.startup = None;
        }
        let (Some(startup), Some(rate)) = (&mut self.startup, path.last_rate()) else {
            return false;
        };
        if rate >= startup.rate * STARTUP_GROWTH {
            *startup = Startup { rate, stalled: 0 };
            return false;
        }
        startup.stalled += 1;
        let over = startup.stalled >= STARTUP_ROUNDS && self.forgiven.is_some();
        if over {
            self.startup = None;
        }
        over
    }

    /// Ends and begins probes. Returns whether one has a result.
    fn step_probe(&mut self, path: &Path) -> bool {
        let round = path.round();
        let rate = path.rate().unwrap_or(0.0);
        let over = self.probes.end(round, rate);
        let interval = self.probes.interval();
        let forgiving = self.forgiven.is_some_and(|last| round - last <= interval);
        if forgiving && self.startup.is_none() && self.trust.given(round) && self.probes.due(round)
        {
            self.probes.begin(round, rate);
            self.trust.probe_begins();
        }
        over
    }

    /// Decides after a loss of packets, with a queue or without.
    pub fn lost(&mut self, packets: f64, queued: bool, path: &Path) -> Answer {
        let round = path.round();
        let of_probe = self.probes.acked_in(round);
        self.trust.on_loss(packets, queued, of_probe);
        match (self.trust.given(round), queued) {
            (true, false) => {
                self.forgiven = Some(round);
                Answer::Forgiven
            }
            (true, true) if self.probes.drain_in(round) => {
                self.probes.meet_queue();
                Answer::Probe
            }
            _ => {
                self.give_up_probe();
                Answer::Congestion
            }
        }
    }

    /// Gives up a probe, since the window was cut.
    pub fn give_up_probe(&mut self) {
        if self.probes.give_up() {
            self.trust.forget_probe();
        }
    }

    /// Ends trust in losses for some rounds.
    pub fn doubt(&mut self, round: u64) {
        self.give_up_probe();
        self.trust.doubt(round);
    }

    /// Ends slow start.
    pub fn leave_startup(&mut self) {
        self.startup = None;
    }

    /// Whether slow start goes on, through losses without a queue.
    #[must_use]
    pub fn in_startup(&self) -> bool {
        self.startup.is_some()
    }

    /// Whether the window is to be larger, to probe the path.
    #[must_use]
    pub fn probing(&self) -> bool {
        self.probes.on
    }

    /// Rounds for which losses are not trusted any more.
    #[must_use]
    pub fn doubt_left(&self, round: u64) -> u64 {
        self.trust.doubt_left(round)
    }

    /// The lost share of the path's packets.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.trust.loss()
    }

    /// The state in `round`.
    #[must_use]
    pub fn snapshot(&self, round: u64) -> Snapshot {
        Snapshot {
            evidence: self.trust.evidence(),
            doubt_left: self.trust.doubt_left(round),
            loss: self.trust.loss(),
            probing: self.probes.on,
            of_probe: self.probes.acked_in(round),
            drains: self.probes.drain_in(round),
            interval: self.probes.interval(),
            startup: self.startup.is_some(),
        }
    }
}

/// Growth of the rate in a round of slow start that does not fill the path yet.
const STARTUP_GROWTH: f64 = 1.25;
/// Rounds without it that end slow start.
const STARTUP_ROUNDS: u32 = 3;
