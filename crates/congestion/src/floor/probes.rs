//! When a path is probed with a larger window.

/// The probes of a path: what was sent in the round of one is acknowledged in the next, and its queue
/// drained in the one after that.
///
/// TCP's floor has the same in `crates/edge/bpf/rule.h`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probes {
    /// The window is larger now.
    pub(super) on: bool,
    /// The round of the last one, earlier by two where it found more; 0 before the first.
    begun: u64,
    /// Rounds from it to the next,
    interval: u64,
    /// and whether it has met a queue.
    met: bool,
    /// The path's rate when it began, until its result is known.
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
    /// Rounds from the last to the next.
    pub(super) fn interval(&self) -> u64 {
        self.interval
    }

    /// Whether what is acknowledged, or found lost, in `round` was sent in a probe.
    pub(super) fn acked_in(&self, round: u64) -> bool {
        self.begun > 0 && round == self.begun + 1
    }

    /// Whether a queue may still be that of the last probe.
    pub(super) fn drain_in(&self, round: u64) -> bool {
        self.begun > 0 && round <= self.begun + 2
    }

    /// Ends what is over when `round` begins, with the path's rate. Returns whether there is a result.
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
        // More was there: look for yet more at once.
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

    /// The path has no more: the probe has met a queue.
    pub(super) fn meet_queue(&mut self) {
        self.on = false;
        if !self.met {
            self.interval = (self.interval * 2).min(MAX_ROUNDS);
        }
        self.met = true;
    }

    /// The window was cut, or trust lost: the probe shows nothing more. Returns whether one was on.
    pub(super) fn give_up(&mut self) -> bool {
        self.rate = None;
        std::mem::take(&mut self.on)
    }
}

/// Rounds from probe to probe,
const ROUNDS: u64 = 4;
/// and at most, where they meet a queue.
const MAX_ROUNDS: u64 = 64;
/// Of the rate, after which the path has more.
const GROWTH: f64 = 1.1;
