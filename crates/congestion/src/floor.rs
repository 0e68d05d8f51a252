//! A fair window floor: CUBIC with a measured path.

mod probes;
mod resume;
pub(crate) mod rule;
#[cfg(test)]
mod tests;
mod trust;

use std::time::{Duration, Instant};

use self::resume::{Resume, Validated};
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
/// - A first visit triples its window in each round of slow start until a queue or a loss shows.
/// - A connection over a known path begins with a quarter of its BDP, within 10 and 32 packets. It
///   has half once its data fills that window and its RTT agrees (RFC 9959). It retreats if that
///   meets a queue.
#[derive(Clone, Debug)]
pub(crate) struct Floor {
    cubic: Cubic,
    rule: Rule,
    mss: f64,
    /// The part of a known path's window that this connection has not measured.
    resume: Resume,
    /// The bytes by which the initial window exceeds CUBIC's.
    unearned: f64,
    /// The packets of slow start.
    started: Count,
}

/// Packets acknowledged and lost.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    acked: f64,
    lost: f64,
}

impl Count {
    /// Whether more than chance is lost.
    fn is_flooded(self) -> bool {
        self.lost >= FLOODED_PACKETS && self.lost > FLOODED * (self.lost + self.acked)
    }
}

impl Floor {
    /// Makes the controller of a new connection with packets of `mtu` bytes.
    pub(crate) fn new(mtu: u16, settings: &Settings) -> Self {
        let mss = f64::from(mtu);
        let mut cubic = Cubic::new(mtu);
        let initial = settings.initial_window(mss);
        cubic.open(initial);
        if settings.start.rapid {
            cubic.start_rapidly();
        }
        Self {
            cubic,
            rule: Rule::default(),
            mss,
            resume: Resume::new(settings.known),
            unearned: initial - settings.start.window(mss),
            started: Count::default(),
        }
    }

    /// Continues from the `window` of another algorithm.
    pub(crate) fn take_over(&mut self, window: f64, searching: bool) {
        self.resume = Resume::Off;
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
        let packets = bytes as f64 / self.mss;
        self.rule.acked(packets);
        if self.cubic.in_slow_start() {
            self.started.acked += packets;
        }
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
        self.confirm(sample.rtt);
    }

    /// Takes in the first RTT, which shows whether the path is the known one.
    pub(crate) fn confirm(&mut self, rtt: Duration) {
        if self.resume.confirm(rtt) && self.rule.in_startup() {
            let usual = self.cubic.window_bytes() - self.unearned;
            self.cubic.open(usual);
        }
    }

    /// Jumps to half of the known BDP, since the window is full with `in_flight` bytes.
    pub(crate) fn filled(&mut self, now: Instant, in_flight: u64) {
        if let Some(window) = self.resume.jump(now, in_flight) {
            self.cubic.end_rapid_start();
            self.cubic.open(window.max(self.cubic.window_bytes()));
        }
    }

    /// Takes in `acked` bytes, the last of which were sent at `sent`, with `in_flight` bytes left.
    pub(crate) fn validate(&mut self, now: Instant, sent: Instant, acked: u64, in_flight: u64) {
        let flight = (in_flight + acked) as f64;
        match self.resume.acked(now, sent, acked, flight) {
            Validated::Nothing => {}
            Validated::Window(window) => {
                let window = window.max(self.cubic.initial_window());
                self.cubic.open(window.min(self.cubic.window_bytes()));
            }
            Validated::Threshold(threshold) => self.cubic.limit_slow_start(threshold),
        }
    }

    fn bdp(&self, path: &Path) -> f64 {
        path.bdp(self.loss()).unwrap_or(0.0)
    }

    fn leave_startup(&mut self) {
        self.rule.leave_startup();
        if !matches!(self.resume, Resume::Retreat { .. }) {
            self.resume = Resume::Off;
        }
    }

    /// Raises the window to the path's measured BDP, unless there is a queue now.
    fn raise(&mut self, now: Instant, path: &Path) {
        let bdp = self.bdp(path);
        if bdp > self.cubic.window_bytes() && !path.queued(now) {
            self.cubic.settle(bdp);
        }
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
        self.cubic.end_rapid_start();
        let answer = if persistent {
            self.rule.doubt(path.round());
            Answer::Congestion
        } else if bytes == 0 {
            self.rule.give_up_probe();
            Answer::Congestion
        } else {
            let packets = bytes as f64 / self.mss;
            self.started.lost += packets;
            self.rule.lost(packets, self.is_congested(sent, path), path)
        };
        match answer {
            Answer::Forgiven => self.forgive(now, sent, path),
            Answer::Probe => {}
            Answer::Congestion => self.answer(now, sent, persistent),
        }
    }

    /// Whether the loss of a packet sent at `sent` is congestion.
    ///
    /// A connection that begins in a standing queue has met no shorter RTT. So a slow start that
    /// loses a fifth is congestion, too, whatever its RTTs.
    fn is_congested(&self, sent: Instant, path: &Path) -> bool {
        path.queued(sent) || (self.cubic.in_slow_start() && self.started.is_flooded())
    }

    /// Answers congestion as CUBIC does, or retreats from a jump.
    fn answer(&mut self, now: Instant, sent: Instant, persistent: bool) {
        if self.resume.is_unconfirmed() {
            let usual = self.cubic.window_bytes() - self.unearned;
            self.cubic.open(usual);
        }
        let retreat = self.resume.retreat(now).filter(|_| !persistent);
        self.leave_startup();
        self.cubic.congested(now, sent, persistent);
        if let Some(window) = retreat {
            self.cubic.settle(window.min(self.cubic.window_bytes()));
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
/// The lost part of slow start's packets from which on the path is congested.
const FLOODED: f64 = 0.2;
/// The fewest lost packets that show it. At 5 % random loss, four of twenty are lost once in sixty
/// times.
const FLOODED_PACKETS: f64 = 4.0;
