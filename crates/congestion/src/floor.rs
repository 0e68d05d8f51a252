//! A fair window floor: CUBIC with a measured path.

#[cfg(test)]
mod tests;
mod trust;

use std::time::{Duration, Instant};

use hikyaku_units::SavedPath;

use self::trust::Trust;
use crate::Settings;
use crate::cubic::Cubic;
use crate::delivery::Sample;
use crate::path::Path;

/// CUBIC with a window floor at the path's bandwidth-delay product, which holds at losses without a
/// queue.
///
/// FLOOR (§5) raises the minimum congestion window. That fills lossy links, but takes the share of
/// other flows where the link is shared. Here the floor is measured: delivery rate times smallest
/// RTT. It holds only at a loss whose neighbours met no standing queue. At all other losses, and at
/// ECN marks, the controller is [`Cubic`].
///
/// - Slow start survives losses without a queue. It ends with the queue (HyStart++), or after three
///   rounds without a quarter more delivery rate.
/// - On a lossy path, each fourth round probes with a quarter more. Each probe that meets a queue
///   halves the frequency.
/// - The floor is off for 32 to 256 rounds where losses answer to our rate, as at policers and very
///   short queues. Signs are that probes lose more, or that a round loses a fifth.
/// - A connection over a known path begins with a quarter of its BDP, within 10 and 32 packets. One
///   round trip later it has half (RFC 9959). It returns to CUBIC's window if that meets a queue,
///   or if the RTT shows another path.
#[derive(Clone, Debug)]
pub(crate) struct Floor {
    cubic: Cubic,
    trust: Trust,
    mss: f64,
    startup: Option<Startup>,
    probe: Option<Probe>,
    /// The last round with a loss at which the floor held.
    forgiven: Option<u64>,
    /// The round in which the last probe began.
    probed: u64,
    /// The rounds from that probe to the next.
    interval: u64,
    /// The path of former connections, until the first acknowledgement shows whether it is the
    /// same.
    known: Option<SavedPath>,
    /// The bytes by which the initial window exceeds CUBIC's.
    unearned: f64,
    jump: Option<Jump>,
}

/// The search of slow start for a round in which the rate no longer grows.
#[derive(Clone, Copy, Debug, Default)]
struct Startup {
    rate: f64,
    stalled: u32,
}

/// A round with a larger window.
#[derive(Clone, Copy, Debug)]
struct Probe {
    round: u64,
    rate: f64,
}

/// A window that this connection has not measured, until its packets are acknowledged.
#[derive(Clone, Copy, Debug)]
struct Jump {
    at: Instant,
    before: f64,
}

impl Floor {
    /// Makes the controller of a new connection with packets of `mtu` bytes.
    pub(crate) fn new(mtu: u16, settings: &Settings) -> Self {
        let mss = f64::from(mtu);
        let mut cubic = Cubic::new(mtu);
        let unearned = settings.initial_window(mss) - cubic.initial_window();
        cubic.open(cubic.initial_window() + unearned);
        Self {
            cubic,
            trust: Trust::default(),
            mss,
            startup: Some(Startup::default()),
            probe: None,
            forgiven: None,
            probed: 0,
            interval: PROBE_ROUNDS,
            known: settings.known,
            unearned,
            jump: None,
        }
    }

    /// Continues from the `window` of another algorithm.
    pub(crate) fn take_over(&mut self, window: f64, searching: bool) {
        self.known = None;
        if searching {
            self.cubic.open(window);
        } else {
            self.startup = None;
            self.cubic.settle(window);
        }
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.cubic.in_slow_start()
    }

    /// The rounds for which losses count as answers to our own rate.
    pub(crate) fn doubt_rounds(&self, path: &Path) -> u16 {
        let rounds = self.trust.doubt_left(path.round());
        u16::try_from(rounds).unwrap_or(u16::MAX)
    }

    pub(crate) fn ssthresh(&self) -> Option<u64> {
        self.cubic.ssthresh()
    }

    pub(crate) fn set_mtu(&mut self, mtu: u16) {
        self.mss = f64::from(mtu);
        self.cubic.set_mtu(mtu);
    }

    pub(crate) fn sent(&mut self, packet: u64) {
        self.cubic.sent(packet);
    }

    pub(crate) fn acked(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        limited: bool,
        srtt: Duration,
    ) {
        self.trust.on_ack(sent, bytes as f64 / self.mss);
        self.cubic.acked(now, sent, bytes as f64, limited, srtt);
    }

    pub(crate) fn acks_ended(&mut self, largest: Option<u64>) {
        self.cubic.acks_ended(largest);
    }

    /// Takes in a `sample` that `path` has taken in already.
    pub(crate) fn sampled(
        &mut self,
        now: Instant,
        sample: &Sample,
        round_ended: bool,
        path: &Path,
    ) {
        if round_ended {
            self.end_round(now, path);
        }
        self.resume(now, sample);
    }

    fn end_round(&mut self, now: Instant, path: &Path) {
        let round = path.round();
        if self.trust.end_round(round) {
            self.leave_startup();
            self.stop_probe(now, path);
            self.cubic.congested(now, now, false);
            return;
        }
        self.look_for_plateau(path);
        self.step_probe(now, round, path);
    }

    /// Ends slow start after three rounds in which the rate did not grow by a quarter.
    fn look_for_plateau(&mut self, path: &Path) {
        if !self.cubic.in_slow_start() {
            self.startup = None;
        }
        let (Some(startup), Some(rate)) = (&mut self.startup, path.last_rate()) else {
            return;
        };
        if rate >= startup.rate * STARTUP_GROWTH {
            *startup = Startup { rate, stalled: 0 };
            return;
        }
        startup.stalled += 1;
        if startup.stalled >= STARTUP_ROUNDS && self.forgiven.is_some() {
            let bdp = path.bdp().unwrap_or(0.0);
            self.leave_startup();
            self.cubic.settle(bdp.max(self.cubic.initial_window()));
        }
    }

    fn leave_startup(&mut self) {
        self.startup = None;
        self.jump = None;
        self.known = None;
    }

    /// Begins and ends probes.
    fn step_probe(&mut self, now: Instant, round: u64, path: &Path) {
        if let Some(probe) = self.probe {
            if round > probe.round {
                self.stop_probe(now, path);
            }
            return;
        }
        let forgiving = self
            .forgiven
            .is_some_and(|last| round - last <= self.interval);
        let due = round >= self.probed + self.interval;
        if forgiving && due && self.startup.is_none() && self.trust.given(round) {
            let rate = path.rate().unwrap_or(0.0);
            self.probe = Some(Probe { round, rate });
            self.probed = round;
            self.trust.probe_begins(now);
        }
    }

    fn stop_probe(&mut self, now: Instant, path: &Path) {
        if let Some(probe) = self.probe.take() {
            self.trust.probe_ends(now);
            // The probe found more: probe again in the round after the next.
            if path
                .rate()
                .is_some_and(|rate| rate > probe.rate * PROBE_GROWTH)
            {
                self.interval = PROBE_ROUNDS;
                self.probed = self.probed.saturating_sub(PROBE_ROUNDS - 2);
                self.raise(path);
            }
        }
    }

    /// Ends a probe that has met a queue: the path has no more.
    fn cut_probe_short(&mut self, now: Instant, path: &Path) {
        if self.probe.is_some() {
            self.interval = (self.interval * 2).min(MAX_PROBE_ROUNDS);
            self.stop_probe(now, path);
        }
    }

    /// Raises the window to the path's measured BDP.
    fn raise(&mut self, path: &Path) {
        if let Some(bdp) = path.bdp().filter(|bdp| *bdp > self.cubic.window_bytes()) {
            self.cubic.settle(bdp);
        }
    }

    /// Jumps to half of the known BDP if the first RTT agrees, and else returns to CUBIC's window.
    fn resume(&mut self, now: Instant, sample: &Sample) {
        if self.jump.is_some_and(|jump| sample.sent >= jump.at) {
            self.jump = None;
        }
        let Some(known) = self.known.take().filter(|_| self.startup.is_some()) else {
            return;
        };
        let before = self.cubic.window_bytes() - self.unearned;
        let same = sample.rtt >= known.min_rtt / 2 && sample.rtt <= known.min_rtt * 2;
        if !same {
            self.cubic.open(before);
            return;
        }
        let window = known.bdp.bytes() as f64 / 2.0;
        self.jump = Some(Jump { at: now, before });
        self.cubic.open(window.max(self.cubic.window_bytes()));
    }

    /// Reacts to the loss of `bytes`, or to an ECN mark where `bytes` is 0. The last of the packets
    /// was sent at `sent`.
    pub(crate) fn congested(
        &mut self,
        now: Instant,
        sent: Instant,
        persistent: bool,
        bytes: u64,
        path: &Path,
    ) {
        let queued = path.queued(sent);
        self.trust.on_loss(sent, bytes as f64 / self.mss, queued);
        let round = path.round();
        if persistent {
            self.trust.doubt(round);
        }
        let honest = bytes > 0 && !persistent && self.trust.given(round);
        if honest && !queued {
            self.forgive(now, sent, path);
        } else if honest && self.trust.probed(sent) {
            // The queue may be the probe's own. The next round without a probe shows whether it is.
            self.cut_probe_short(now, path);
        } else {
            self.retreat();
            self.leave_startup();
            self.stop_probe(now, path);
            self.cubic.congested(now, sent, persistent);
        }
    }

    fn forgive(&mut self, now: Instant, sent: Instant, path: &Path) {
        self.forgiven = Some(path.round());
        if self.cubic.in_slow_start() {
            return;
        }
        let floor = path.bdp().unwrap_or(0.0);
        self.cubic.reduce(now, sent, floor);
    }

    /// Returns to the measured window, since an unmeasured one has met a queue.
    fn retreat(&mut self) {
        let earned = match (self.jump.take(), self.known.take()) {
            (Some(jump), _) => jump.before,
            (None, Some(_)) => self.cubic.window_bytes() - self.unearned,
            (None, None) => return,
        };
        self.cubic.open(earned);
    }

    /// The window in bytes, with the addition of a probe.
    pub(crate) fn window_bytes(&self) -> f64 {
        let window = self.cubic.window_bytes();
        if self.probe.is_some() {
            window * PROBE_GAIN
        } else {
            window
        }
    }
}

/// Growth of the rate in a round of slow start that has not yet filled the path.
const STARTUP_GROWTH: f64 = 1.25;
/// Rounds without that growth after which slow start ends.
const STARTUP_ROUNDS: u32 = 3;
/// Rounds from probe to probe.
const PROBE_ROUNDS: u64 = 4;
/// Rounds from probe to probe where probes meet queues, at most.
const MAX_PROBE_ROUNDS: u64 = 64;
/// The window of a probe, as a multiple of the usual one.
const PROBE_GAIN: f64 = 1.25;
/// The growth of the rate by a probe which shows that the path has more.
const PROBE_GROWTH: f64 = 1.1;
