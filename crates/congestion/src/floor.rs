//! A window floor that is fair: CUBIC that knows the path.

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

/// CUBIC whose window does not fall below the path's bandwidth-delay product at losses that
/// come without a queue.
///
/// FLOOR (§5) raises the least congestion window, which fills lossy links and takes the share
/// of others where the link is shared. Here the floor is what the path has shown, delivery
/// rate times least RTT, and it holds only at a loss whose neighbours met no standing queue.
/// At any other loss, and at ECN marks, this is [`Cubic`].
///
/// - Slow start survives losses without a queue. It ends with the queue (HyStart++), or when
///   the delivery rate has not grown by a quarter for three rounds.
/// - A path that loses is probed with a quarter more each fourth round, and half as often each time
///   that this meets a queue.
/// - Where losses answer to our rate (probes lose more, or a round a fifth), as at policers
///   and very short queues, the floor is given up for 32 to 256 rounds.
/// - A path that is known begins with a quarter of what it carried, within 10 and 32 packets, and
///   one round trip later has half of it (draft-ietf-tsvwg-careful-resume). It goes back to
///   CUBIC's if that meets a queue, or if the RTT tells of another path.
#[derive(Clone, Debug)]
pub(crate) struct Floor {
    cubic: Cubic,
    trust: Trust,
    mss: f64,
    startup: Option<Startup>,
    probe: Option<Probe>,
    /// The round of the last loss that was forgiven.
    forgiven: Option<u64>,
    /// The round in which the last probe began.
    probed: u64,
    /// Rounds from it to the next.
    interval: u64,
    /// Until the first acknowledgement tells whether it is the same path.
    known: Option<SavedPath>,
    /// Bytes of the window until then that CUBIC would not have begun with.
    unearned: f64,
    jump: Option<Jump>,
}

/// Slow start looks for the round in which the rate no longer grows.
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

/// A window that was not earned in this connection, until its packets are acknowledged.
#[derive(Clone, Copy, Debug)]
struct Jump {
    at: Instant,
    before: f64,
}

impl Floor {
    /// A connection that begins, with packets of `mtu` bytes.
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

    /// Goes on with a window that another algorithm has left.
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

    /// Rounds for which losses are not trusted to say nothing of our rate.
    pub(crate) fn doubt_rounds(&self, path: &Path) -> u16 {
        let rounds = self.trust.doubt_left(path.round());
        u16::try_from(rounds).unwrap_or(u16::MAX)
    }

    /// The part of packets that the path loses.
    pub(crate) fn loss(&self) -> f64 {
        self.trust.loss()
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

    /// After `path` has taken `sample` in, which ended a round or not.
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

    /// Ends slow start where three rounds have not brought a quarter more.
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
            let bdp = path.bdp(self.loss()).unwrap_or(0.0);
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
            // More was there: look for yet more in the round after the next.
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

    /// The path has no more: a probe has met a queue.
    fn cut_probe_short(&mut self, now: Instant, path: &Path) {
        if self.probe.is_some() {
            self.interval = (self.interval * 2).min(MAX_PROBE_ROUNDS);
            self.stop_probe(now, path);
        }
    }

    /// To what the path has shown.
    fn raise(&mut self, path: &Path) {
        if let Some(bdp) = path
            .bdp(self.loss())
            .filter(|bdp| *bdp > self.cubic.window_bytes())
        {
            self.cubic.settle(bdp);
        }
    }

    /// Jumps to half of what is known, once the first RTT agrees, and otherwise goes back to what
    /// CUBIC would have.
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

    /// A loss, or ECN mark where `bytes` is 0, of packets of which the last was sent at `sent`.
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
            // The probe's own queue, or not: without it the next round tells.
            self.cut_probe_short(now, path);
        } else {
            self.retreat();
            self.leave_startup();
            self.stop_probe(now, path);
            self.cubic.congested(now, sent, persistent);
        }
    }

    /// While the rate grows it lags the window by a round or two, and so does the floor.
    fn forgive(&mut self, now: Instant, sent: Instant, path: &Path) {
        self.forgiven = Some(path.round());
        if self.cubic.in_slow_start() || path.growing() {
            return;
        }
        let floor = path.bdp(self.loss()).unwrap_or(0.0);
        self.cubic.reduce(now, sent, floor);
    }

    /// What was not earned and met a queue was too much.
    fn retreat(&mut self) {
        let earned = match (self.jump.take(), self.known.take()) {
            (Some(jump), _) => jump.before,
            (None, Some(_)) => self.cubic.window_bytes() - self.unearned,
            (None, None) => return,
        };
        self.cubic.open(earned);
    }

    /// With what a probe adds.
    pub(crate) fn window_bytes(&self) -> f64 {
        let window = self.cubic.window_bytes();
        if self.probe.is_some() {
            window * PROBE_GAIN
        } else {
            window
        }
    }
}

/// Growth of the rate in a round of slow start that does not fill the path yet.
const STARTUP_GROWTH: f64 = 1.25;
/// Rounds without it that end slow start.
const STARTUP_ROUNDS: u32 = 3;
/// Rounds from probe to probe,
const PROBE_ROUNDS: u64 = 4;
/// and at most, where they meet a queue.
const MAX_PROBE_ROUNDS: u64 = 64;
/// Of the window.
const PROBE_GAIN: f64 = 1.25;
/// Of the rate, after which the path has more.
const PROBE_GROWTH: f64 = 1.1;
