//! A fair window floor: CUBIC with a measured path.

mod probes;
pub(crate) mod rule;
#[cfg(test)]
mod tests;
mod trust;

use std::time::{Duration, Instant};

use hikyaku_units::SavedPath;

use self::rule::{Answer, Rule, Step};
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
    rule: Rule,
    mss: f64,
    /// The path of former connections, until the first acknowledgement shows whether it is the
    /// same.
    known: Option<SavedPath>,
    /// The bytes by which the initial window exceeds CUBIC's.
    unearned: f64,
    jump: Option<Jump>,
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
            rule: Rule::default(),
            mss,
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
            self.rule.leave_startup();
            self.cubic.settle(window);
        }
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.cubic.in_slow_start()
    }

    /// The rounds for which losses count as answers to our own rate.
    pub(crate) fn doubt_rounds(&self, path: &Path) -> u16 {
        let rounds = self.rule.doubt_left(path.round());
        u16::try_from(rounds).unwrap_or(u16::MAX)
    }

    /// The lost share of the path's packets.
    pub(crate) fn loss(&self) -> f64 {
        self.rule.loss()
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
        self.rule.acked(bytes as f64 / self.mss);
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
        let searching = self.cubic.in_slow_start();
        match self.rule.sampled(path, round_ended, searching) {
            Step::None => {}
            Step::Doubt => {
                self.leave_startup();
                self.cubic.congested(now, now, false);
            }
            Step::Plateau => {
                self.leave_startup();
                let bdp = self.bdp(path);
                self.cubic.settle(bdp.max(self.cubic.initial_window()));
            }
            Step::Raise => self.raise(now, path),
        }
        self.resume(now, sample);
    }

    fn bdp(&self, path: &Path) -> f64 {
        path.bdp(self.loss()).unwrap_or(0.0)
    }

    fn leave_startup(&mut self) {
        self.rule.leave_startup();
        self.jump = None;
        self.known = None;
    }

    /// Raises the window to the path's measured BDP, unless there is a queue now.
    fn raise(&mut self, now: Instant, path: &Path) {
        let bdp = self.bdp(path);
        if bdp > self.cubic.window_bytes() && !path.queued(now) {
            self.cubic.settle(bdp);
        }
    }

    /// Jumps to half of the known BDP if the first RTT agrees, and else returns to CUBIC's window.
    fn resume(&mut self, now: Instant, sample: &Sample) {
        if self.jump.is_some_and(|jump| sample.sent >= jump.at) {
            self.jump = None;
        }
        let Some(known) = self.known.take().filter(|_| self.rule.in_startup()) else {
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
        let answer = if persistent {
            self.rule.doubt(path.round());
            Answer::Congestion
        } else if bytes == 0 {
            self.rule.give_up_probe();
            Answer::Congestion
        } else {
            let packets = bytes as f64 / self.mss;
            self.rule.lost(packets, path.queued(sent), path)
        };
        match answer {
            Answer::Forgiven => self.forgive(now, sent, path),
            Answer::Probe => {}
            Answer::Congestion => {
                self.retreat();
                self.leave_startup();
                self.cubic.congested(now, sent, persistent);
            }
        }
    }

    /// Reduces the window to the floor. While the rate grows it lags the window by a round or two,
    /// and so does the floor: then the window stays.
    fn forgive(&mut self, now: Instant, sent: Instant, path: &Path) {
        if !self.cubic.in_slow_start() && !path.growing() {
            let floor = self.bdp(path);
            self.cubic.reduce(now, sent, floor);
        }
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
        if self.rule.probing() {
            window * PROBE_GAIN
        } else {
            window
        }
    }
}

/// Growth of the window in a probe.
const PROBE_GAIN: f64 = 1.25;
