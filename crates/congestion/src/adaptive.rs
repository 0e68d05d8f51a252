//! A window floor that is fair: CUBIC that knows the path.

mod path;
#[cfg(test)]
mod tests;
mod trust;

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use self::path::Path;
use self::trust::Trust;
use crate::Cubic;
use crate::delivery::{Delivery, Sample};

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
/// - A path that loses is probed with a quarter more each fourth round.
/// - Where losses answer to our rate (probes lose more, or a round a fifth), as at policers
///   and very short queues, the floor is given up for 32 to 256 rounds.
/// - A path that is known begins with half of what it carried, one round trip after the first
///   packet (draft-ietf-tsvwg-careful-resume), and goes back if that meets a queue.
#[derive(Clone, Debug)]
pub struct Adaptive {
    cubic: Cubic,
    delivery: Delivery,
    path: Path,
    trust: Trust,
    mss: f64,
    startup: Option<Startup>,
    probe: Option<Probe>,
    /// The round of the last loss that was forgiven.
    forgiven: Option<u64>,
    /// The round in which the last probe began.
    probed: u64,
    /// The newest packet of the acknowledgements under way.
    newest: Option<Instant>,
    known: Option<Known>,
    jump: Option<Jump>,
}

/// What a path has shown before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Bytes that filled it.
    pub bdp: u64,
    /// Its least RTT.
    pub min_rtt: Duration,
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

/// Makes [`Adaptive`] controllers.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdaptiveFactory {
    /// What is known of the path.
    pub known: Option<Known>,
}

impl ControllerFactory for AdaptiveFactory {
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Adaptive::new(current_mtu, self.known))
    }
}

impl Adaptive {
    /// A connection that begins, with packets of `mtu` bytes.
    #[must_use]
    pub fn new(mtu: u16, known: Option<Known>) -> Self {
        Self {
            cubic: Cubic::new(mtu),
            delivery: Delivery::default(),
            path: Path::default(),
            trust: Trust::default(),
            mss: f64::from(mtu),
            startup: Some(Startup::default()),
            probe: None,
            forgiven: None,
            probed: 0,
            newest: None,
            known,
            jump: None,
        }
    }

    fn acked(&mut self, now: Instant, sent: Instant, bytes: u64, limited: bool, srtt: Duration) {
        self.delivery.on_ack(bytes);
        self.trust.on_ack(sent, bytes as f64 / self.mss);
        self.newest = self.newest.max(Some(sent));
        self.cubic.acked(now, sent, bytes as f64, limited, srtt);
    }

    fn sampled(&mut self, now: Instant, sample: &Sample) {
        let delivered = self.delivery.delivered();
        if self.path.on_sample(now, sample, delivered) {
            self.end_round(now);
        }
        self.resume(now, sample);
    }

    fn end_round(&mut self, now: Instant) {
        let round = self.path.round();
        if self.trust.end_round(round) {
            self.leave_startup();
            self.stop_probe(now);
            self.cubic.congested(now, now, false);
            return;
        }
        self.look_for_plateau();
        self.step_probe(now, round);
    }

    /// Ends slow start where three rounds have not brought a quarter more.
    fn look_for_plateau(&mut self) {
        if !self.cubic.in_slow_start() {
            self.startup = None;
        }
        let (Some(startup), Some(rate)) = (&mut self.startup, self.path.last_rate()) else {
            return;
        };
        if rate >= startup.rate * STARTUP_GROWTH {
            *startup = Startup { rate, stalled: 0 };
            return;
        }
        startup.stalled += 1;
        if startup.stalled >= STARTUP_ROUNDS && self.forgiven.is_some() {
            let bdp = self.path.bdp().unwrap_or(0.0);
            self.leave_startup();
            self.cubic
                .settle(bdp.max(self.cubic.initial_window() as f64));
        }
    }

    fn leave_startup(&mut self) {
        self.startup = None;
        self.jump = None;
        self.known = None;
    }

    /// Begins and ends probes.
    fn step_probe(&mut self, now: Instant, round: u64) {
        if let Some(probe) = self.probe {
            if round > probe.round {
                self.stop_probe(now);
            }
            return;
        }
        let forgiving = self
            .forgiven
            .is_some_and(|last| round - last <= PROBE_ROUNDS);
        let due = round >= self.probed + PROBE_ROUNDS;
        if forgiving && due && self.startup.is_none() && self.trust.given(round) {
            let rate = self.path.rate().unwrap_or(0.0);
            self.probe = Some(Probe { round, rate });
            self.probed = round;
            self.trust.probe_begins(now);
        }
    }

    fn stop_probe(&mut self, now: Instant) {
        if let Some(probe) = self.probe.take() {
            self.trust.probe_ends(now);
            // More was there: look for yet more in the round after the next.
            if self
                .path
                .rate()
                .is_some_and(|rate| rate > probe.rate * PROBE_GROWTH)
            {
                self.probed = self.probed.saturating_sub(PROBE_ROUNDS - 2);
                self.raise();
            }
        }
    }

    /// To what the path has shown.
    fn raise(&mut self) {
        if let Some(bdp) = self
            .path
            .bdp()
            .filter(|bdp| *bdp > self.cubic.window_bytes())
        {
            self.cubic.settle(bdp);
        }
    }

    /// Jumps to half of what is known, once the first RTT agrees, and goes back where that
    /// meets a queue.
    fn resume(&mut self, now: Instant, sample: &Sample) {
        if let Some(jump) = self.jump {
            if sample.sent >= jump.at {
                self.jump = None;
            }
            return;
        }
        let Some(known) = self.known.take() else {
            return;
        };
        let same = sample.rtt >= known.min_rtt / 2 && sample.rtt <= known.min_rtt * 2;
        let window = known.bdp as f64 / 2.0;
        if same && self.startup.is_some() && window > self.cubic.window_bytes() {
            self.jump = Some(Jump {
                at: now,
                before: self.cubic.window_bytes(),
            });
            self.cubic.open(window);
        }
    }

    /// A loss, or ECN mark where `bytes` is 0, of packets of which the last was sent at `sent`.
    fn congested(&mut self, now: Instant, sent: Instant, persistent: bool, bytes: u64) {
        self.delivery.on_loss(bytes);
        self.trust.on_loss(sent, bytes as f64 / self.mss);
        let round = self.path.round();
        if persistent {
            self.trust.doubt(round);
        }
        let honest = bytes > 0 && !persistent && self.trust.given(round);
        if honest && !self.path.queued(sent) {
            self.forgive(now, sent, round);
        } else if honest && self.trust.probed(sent) {
            // The probe's own queue, or not: without it the next round tells.
            self.stop_probe(now);
        } else {
            self.retreat();
            self.leave_startup();
            self.stop_probe(now);
            self.cubic.congested(now, sent, persistent);
        }
    }

    fn forgive(&mut self, now: Instant, sent: Instant, round: u64) {
        self.forgiven = Some(round);
        if self.cubic.in_slow_start() {
            return;
        }
        let floor = self.path.bdp().unwrap_or(0.0);
        self.cubic.reduce(now, sent, floor);
    }

    /// A jump that met a queue was too far.
    fn retreat(&mut self) {
        if let Some(jump) = self.jump.take() {
            self.cubic.open(jump.before);
        }
    }

    fn current(&self) -> f64 {
        let window = self.cubic.window_bytes();
        if self.probe.is_some() {
            window * PROBE_GAIN
        } else {
            window
        }
    }
}

impl Controller for Adaptive {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.delivery.on_sent(now, bytes);
        self.cubic.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.acked(now, sent, bytes, app_limited, rtt.get());
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        let sample = self.newest.take().and_then(|newest| {
            self.delivery
                .on_end_acks(now, newest, in_flight, app_limited)
        });
        if let Some(sample) = sample {
            self.sampled(now, &sample);
        }
        self.cubic
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.congested(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mss = f64::from(new_mtu);
        self.cubic.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.current() as u64
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.cubic.metrics();
        metrics.congestion_window = self.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.cubic.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Growth of the rate in a round of slow start that does not fill the path yet.
const STARTUP_GROWTH: f64 = 1.25;
/// Rounds without it that end slow start.
const STARTUP_ROUNDS: u32 = 3;
/// Rounds from probe to probe.
const PROBE_ROUNDS: u64 = 4;
/// Of the window.
const PROBE_GAIN: f64 = 1.25;
/// Of the rate, after which the path has more.
const PROBE_GROWTH: f64 = 1.1;
