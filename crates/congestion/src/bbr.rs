//! BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), without a pacing rate.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::delivery::Sample;
use crate::initial_window;
use crate::path::Path;

/// BBR for QUIC. It models the path by its largest delivery rate and its smallest RTT, and keeps
/// their product in flight, whatever is lost.
///
/// quinn paces at 1.25 windows a round trip and takes no other rate. The gains of the draft's
/// pacing rate therefore apply to the limit of the bytes in flight. With one bandwidth-delay
/// product in flight, acknowledgements clock packets out at the bandwidth. A queue of another phase
/// or flow then drains. Without a pacing rate, the draft's second limit of two bandwidth-delay
/// products (§4.2.3) would be the only one. It would leave a standing queue.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mss: f64,
    window: f64,
    /// `BBR.BtlBwFilter`: the largest rate of each of the last rounds, in bytes per second.
    rates: VecDeque<(u64, f64)>,
    /// `BBR.RTprop` with the time at which it was measured.
    min_rtt: Option<(Instant, Duration)>,
    /// `BBR.round_count`.
    round: u64,
    phase: Phase,
    filled: Filled,
    recovery: Option<Recovery>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The window doubles each round until the rate no longer grows.
    Startup,
    /// The queue of Startup drains.
    Drain,
    /// The window cruises, and probes for more bandwidth in one phase of eight.
    ProbeBw { index: usize, since: Instant },
    /// The path empties, so that its RTT shows. `prior` is the window to return to.
    ProbeRtt { until: Option<Instant>, prior: f64 },
}

/// Whether Startup has filled the path (§4.3.2.2).
#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    rate: f64,
    rounds: u32,
    is: bool,
}

/// Consecutive rounds with losses. In the first of them, the window admits one packet for each
/// delivered packet (§4.2.3.4).
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// The first round with a loss.
    began: u64,
    /// The last round with a loss.
    last: u64,
    /// The window before the recovery.
    prior: f64,
}

impl Bbr {
    /// Makes the controller of a new connection with packets of `mtu` bytes.
    pub(crate) fn new(mtu: u16) -> Self {
        let mss = f64::from(mtu);
        Self {
            mss,
            window: initial_window(mss),
            rates: VecDeque::new(),
            min_rtt: None,
            round: 0,
            phase: Phase::Startup,
            filled: Filled::default(),
            recovery: None,
        }
    }

    /// Continues from the `window` of another algorithm.
    pub(crate) fn take_over(&mut self, now: Instant, window: f64, searching: bool, path: &Path) {
        self.window = window;
        let (Some(rate), Some(min_rtt), false) = (path.rate(), path.min_rtt(), searching) else {
            return;
        };
        self.rates.push_back((self.round, rate));
        self.min_rtt = Some((now, min_rtt));
        self.filled.is = true;
        self.enter_probe_bw(now);
    }

    pub(crate) fn in_startup(&self) -> bool {
        self.phase == Phase::Startup
    }

    pub(crate) fn window_bytes(&self) -> f64 {
        self.window
    }

    pub(crate) fn set_mtu(&mut self, mtu: u16) {
        self.mss = f64::from(mtu);
        self.window = self.window.max(PROBE_RTT_PACKETS * self.mss);
    }

    /// Takes in the `sample` of an acknowledgement of `acked` bytes.
    pub(crate) fn sampled(
        &mut self,
        now: Instant,
        sample: &Sample,
        round_ended: bool,
        in_flight: u64,
        acked: u64,
    ) {
        let expired = self.update_min_rtt(now, sample.rtt);
        if round_ended {
            self.round += 1;
            self.end_recovery();
        }
        self.update_rate(sample);
        if round_ended && !sample.limited {
            self.check_filled();
        }
        let in_flight = in_flight as f64;
        self.step(now, in_flight);
        self.step_probe_rtt(now, in_flight, expired);
        self.set_window(acked as f64, in_flight);
    }

    /// `BBRUpdateRTprop`. Returns whether the former RTT had expired.
    fn update_min_rtt(&mut self, now: Instant, rtt: Duration) -> bool {
        let expired = self
            .min_rtt
            .is_some_and(|(at, _)| now.saturating_duration_since(at) > MIN_RTT_LIFE);
        if expired || self.min_rtt.is_none_or(|(_, min)| rtt <= min) {
            self.min_rtt = Some((now, rtt));
        }
        expired
    }

    /// Ends a recovery after a round without a loss.
    fn end_recovery(&mut self) {
        if let Some(recovery) = self
            .recovery
            .filter(|recovery| recovery.last + 1 < self.round)
        {
            self.window = self.window.max(recovery.prior);
            self.recovery = None;
        }
    }

    /// `BBRUpdateBtlBw`.
    fn update_rate(&mut self, sample: &Sample) {
        if sample.limited && self.rate().is_some_and(|rate| sample.rate < rate) {
            return;
        }
        let first = (self.round + 1).saturating_sub(RATE_ROUNDS);
        while self.rates.front().is_some_and(|&(round, _)| round < first) {
            self.rates.pop_front();
        }
        match self.rates.back_mut() {
            Some((round, rate)) if *round == self.round => *rate = rate.max(sample.rate),
            _ => self.rates.push_back((self.round, sample.rate)),
        }
    }

    fn rate(&self) -> Option<f64> {
        self.rates.iter().map(|&(_, rate)| rate).reduce(f64::max)
    }

    /// `BBRCheckFullPipe`.
    fn check_filled(&mut self) {
        let Some(rate) = self.rate().filter(|_| !self.filled.is) else {
            return;
        };
        if rate >= self.filled.rate * FULL_GROWTH {
            self.filled.rate = rate;
            self.filled.rounds = 0;
            return;
        }
        self.filled.rounds += 1;
        self.filled.is = self.filled.rounds >= FULL_ROUNDS;
    }

    /// `BBRInflight`: the bytes of `gain` bandwidth-delay products.
    fn inflight(&self, gain: f64) -> f64 {
        match (self.rate(), self.min_rtt) {
            (Some(rate), Some((_, min_rtt))) => {
                gain * rate * min_rtt.as_secs_f64() + QUANTA * self.send_quantum(rate)
            }
            _ => initial_window(self.mss),
        }
    }

    /// `BBR.send_quantum` (§4.2.2): the bytes that leave in one burst.
    fn send_quantum(&self, rate: f64) -> f64 {
        let packets = if rate < SMALL_RATE { 1.0 } else { 2.0 };
        let millisecond = if rate < LARGE_RATE { 0.0 } else { rate / 1e3 };
        (packets * self.mss).max(millisecond.min(LARGE_QUANTUM))
    }

    /// `BBRCheckDrain` and `BBRCheckCyclePhase`.
    fn step(&mut self, now: Instant, in_flight: f64) {
        match self.phase {
            Phase::Startup if self.filled.is => self.phase = Phase::Drain,
            Phase::Drain if in_flight <= self.inflight(1.0) => self.enter_probe_bw(now),
            Phase::ProbeBw { index, since } if self.is_next_phase(index, since, now, in_flight) => {
                let index = (index + 1) % CYCLE.len();
                self.phase = Phase::ProbeBw { index, since: now };
            }
            _ => {}
        }
    }

    fn enter_probe_bw(&mut self, now: Instant) {
        // Flows that begin together should not probe together. So the first phase is a random one,
        // but not the draining one (§4.3.4.4). The window's bytes are random enough.
        let index = self.window as usize % (CYCLE.len() - 1);
        let index = if index == 0 { 0 } else { index + 1 };
        self.phase = Phase::ProbeBw { index, since: now };
    }

    /// `BBRIsNextCyclePhase`.
    fn is_next_phase(&self, index: usize, since: Instant, now: Instant, in_flight: f64) -> bool {
        let min_rtt = self.min_rtt.map_or(Duration::ZERO, |(_, rtt)| rtt);
        let elapsed = now.saturating_duration_since(since) > min_rtt;
        let gain = CYCLE.get(index).copied().unwrap_or(1.0);
        if gain > 1.0 {
            // The draft also ends the probe at a loss. On a lossy link each round has one.
            let full = self.recovery.is_some() || in_flight >= self.inflight(gain) - self.mss;
            elapsed && full
        } else if gain < 1.0 {
            elapsed || in_flight <= self.inflight(1.0)
        } else {
            elapsed
        }
    }

    /// `BBRCheckProbeRTT`.
    fn step_probe_rtt(&mut self, now: Instant, in_flight: f64, expired: bool) {
        if let Phase::ProbeRtt { until, prior } = &mut self.phase {
            let low = in_flight <= PROBE_RTT_PACKETS * self.mss;
            match *until {
                None if low => *until = Some(now + PROBE_RTT),
                Some(end) if now >= end => {
                    let prior = *prior;
                    self.min_rtt = self.min_rtt.map(|(_, rtt)| (now, rtt));
                    self.window = self.window.max(prior);
                    if self.filled.is {
                        self.enter_probe_bw(now);
                    } else {
                        self.phase = Phase::Startup;
                    }
                }
                _ => {}
            }
        } else if expired {
            let prior = self.window;
            self.phase = Phase::ProbeRtt { until: None, prior };
        }
    }

    /// `BBRSetCwnd`.
    fn set_window(&mut self, acked: f64, in_flight: f64) {
        let target = match self.phase {
            Phase::Startup => self.inflight(HIGH_GAIN).max(self.window),
            Phase::Drain => self.inflight(1.0),
            Phase::ProbeBw { index, .. } => self.inflight(CYCLE.get(index).copied().unwrap_or(1.0)),
            Phase::ProbeRtt { .. } => PROBE_RTT_PACKETS * self.mss,
        };
        self.window = (self.window + acked).min(target);
        if self
            .recovery
            .is_some_and(|recovery| recovery.began == self.round)
        {
            self.window = self.window.min(in_flight + acked);
        }
        self.window = self.window.max(PROBE_RTT_PACKETS * self.mss);
    }

    pub(crate) fn congested(&mut self, persistent: bool, lost: u64) {
        if lost == 0 && !persistent {
            // An ECN mark; BBR version 1 does not react to it.
            return;
        }
        let (round, prior) = (self.round, self.window);
        let recovery = self.recovery.get_or_insert(Recovery {
            began: round,
            last: round,
            prior,
        });
        recovery.last = round;
        if persistent {
            self.window = PROBE_RTT_PACKETS * self.mss;
        }
    }
}

/// `BBRHighGain`: 2 / ln 2, by which the rate doubles each round (§4.3.2).
const HIGH_GAIN: f64 = 2.89;
/// Gains of the phases of ProbeBW (§4.3.4.2).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// `BtlBwFilterLen`.
const RATE_ROUNDS: u64 = 10;
/// `RTpropFilterLen`.
const MIN_RTT_LIFE: Duration = Duration::from_secs(10);
/// `ProbeRTTDuration`.
const PROBE_RTT: Duration = Duration::from_millis(200);
/// `BBRMinPipeCwnd`, in packets.
const PROBE_RTT_PACKETS: f64 = 4.0;
/// Growth of the rate in a round that has not yet filled the path (§4.3.2.2).
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Send quanta in flight in addition, for acknowledgements that are delayed or come in batches
/// (§4.2.3.2).
const QUANTA: f64 = 3.0;
/// Bytes per second below which packets leave one at a time (§4.2.2).
const SMALL_RATE: f64 = 1.2e6 / 8.0;
/// Bytes per second from which on a burst has the bytes of a millisecond (§4.2.2).
const LARGE_RATE: f64 = 24e6 / 8.0;
/// The largest burst in bytes (§4.2.2).
const LARGE_QUANTUM: f64 = 65_536.0;
