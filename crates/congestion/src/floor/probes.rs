//! When a path is probed with a larger window.

/// The probes of a path.
///
/// Packets of a probe's round are acknowledged in the next one. Its queue is drained in the round
/// after that.
///
/// TCP's floor has the same in `crates/edge/bpf/rule.h`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probes {
    /// Whether the window is larger now.
    pub(super) on: bool,
    /// The round of the last probe, less two if it found more; 0 before the first.
    begun: u64,
    /// The rounds from one probe to the next.
    interval: u64,
    /// Whether the last probe has met a queue.
    met: bool,
    /// The path's rate when the last probe began, until its result is known.
    rate: Option<f64>,
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            on: false,
            begun: 0,
            interval: ROUNDS,
            met: false,
            rate: None,
        }
    }
}

impl Probes {
    /// The rounds from one probe to the next.
    pub(super) fn interval(&self) -> u64 {
        self.interval
    }

    /// Whether packets that are acknowledged, or found lost, in `round` were sent in a probe.
    pub(super) fn acked_in(&self, round: u64) -> bool {
        self.begun > 0 && round == self.begun + 1
    }

    /// Whether a queue may still be that of the last probe.
    pub(super) fn drain_in(&self, round: u64) -> bool {
        self.begun > 0 && round <= self.begun + 2
    }

    /// Ends a probe when `round` begins, with the path's rate. Returns whether it has a result.
    pub(super) fn end(&mut self, round: u64, rate: f64) -> bool {
        if round > self.begun {
            self.on = false;
        }
        if round <= self.begun + 2 {
            return false;
        }
        let Some(before) = self.rate.take() else {
            return false;
        };
        // The probe found more: probe again at once.
        if rate > before * GROWTH {
            self.interval = ROUNDS;
            self.begun -= ROUNDS - 2;
        }
        true
    }

    pub(super) fn due(&self, round: u64) -> bool {
        round >= self.begun + self.interval
    }

    pub(super) fn begin(&mut self, round: u64, rate: f64) {
        self.on = true;
        self.begun = round;
        self.met = false;
        self.rate = Some(rate).filter(|rate| *rate > 0.0);
    }

    /// Ends a probe that has met a queue: the path has no more.
    pub(super) fn meet_queue(&mut self) {
        self.on = false;
        if !self.met {
            self.interval = (self.interval * 2).min(MAX_ROUNDS);
        }
        self.met = true;
    }

    /// Gives up the result of a probe, since the window was cut or trust lost. Returns whether the
    /// probe was on.
    pub(super) fn give_up(&mut self) -> bool {
        self.rate = None;
        std::mem::take(&mut self.on)
    }
}

/// Rounds from probe to probe.
const ROUNDS: u64 = 4;
/// Rounds from probe to probe where probes meet queues, at most.
const MAX_ROUNDS: u64 = 64;
/// Growth of the rate that shows a path with more.
const GROWTH: f64 = 1.1;
