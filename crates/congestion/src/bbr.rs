//! BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), without a pacing rate.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::delivery::Sample;
use crate::initial_window;
use crate::path::Path;

/// BBR for QUIC: models the path by its largest delivery rate and its least RTT, and keeps
/// their product in flight, whatever is lost.
///
/// quinn paces at 1.25 windows a round trip and takes no other rate. The gains of the draft's
/// pacing rate are therefore applied to what may be in flight: with one bandwidth-delay product
/// in flight, acknowledgements clock packets out at the bandwidth, and a queue that another
/// phase or flow has left drains. The draft's second limit, two bandwidth-delay products
/// (§4.2.3), would be the only one without a pacing rate, and a standing queue.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mss: f64,
    window: f64,
    /// `BBR.BtlBwFilter`: the largest rate of each of the last rounds, in bytes a second.
    rates: VecDeque<(u64, f64)>,
    /// `BBR.RTprop` and when it was measured.
    min_rtt: Option<(Instant, Duration)>,
    /// `BBR.round_count`.
    round: u64,
    phase: Phase,
    filled: Filled,
    recovery: Option<Recovery>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Doubles until the rate no longer grows.
    Startup,
    /// Lets go what Startup has queued.
    Drain,
    /// Cruises, and probes in one phase of eight.
    ProbeBw { index: usize, since: Instant },
    /// Empties the path to see its RTT. With the window to return to.
    ProbeRtt { until: Option<Instant>, prior: f64 },
}

/// Whether Startup has filled the path (§4.3.2.2).
#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    rate: f64,
    rounds: u32,
    is: bool,
}

/// Rounds of which each lost something. In the first, only what was delivered is replaced
/// (§4.2.3.4).
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// The first.
    began: u64,
    /// The last.
    last: u64,
    /// The window before.
    prior: f64,
}

impl Bbr {
    /// A connection that begins, with packets of `mtu` bytes.
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

    /// Goes on with a window that another algorithm has left.
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

    /// After acknowledgements of `acked` bytes, of which `sample` was made, and which ended a
    /// round or not.
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

    /// `BBRUpdateRTprop`. Returns whether the RTT before was too old.
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

    /// `BBRInflight`: so many bandwidth-delay products.
    fn inflight(&self, gain: f64) -> f64 {
        match (self.rate(), self.min_rtt) {
            (Some(rate), Some((_, min_rtt))) => {
                gain * rate * min_rtt.as_secs_f64() + QUANTA * self.send_quantum(rate)
            }
            _ => initial_window(self.mss),
        }
    }

    /// `BBR.send_quantum` (§4.2.2): what leaves at once, in bytes.
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
        // Flows that begin together are not to probe together: any phase but the draining one
        // (§4.3.4.4), by what is as good as random.
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
            // The draft ends the probe at a loss, too; on a lossy link each round has one.
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
            // An ECN mark, which this version does not know.
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

/// `BBRHighGain`: 2 / ln 2, with which the rate doubles each round (§4.3.2).
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
/// Growth of a round in which the path is not full yet (§4.3.2.2).
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Send quanta in flight besides, for acknowledgements that are delayed or come in batches
/// (§4.2.3.2).
const QUANTA: f64 = 3.0;
/// Bytes a second below which a packet is sent at a time, and from which on what a millisecond
/// carries, at most so many bytes (§4.2.2).
const SMALL_RATE: f64 = 1.2e6 / 8.0;
const LARGE_RATE: f64 = 24e6 / 8.0;
const LARGE_QUANTUM: f64 = 65_536.0;
