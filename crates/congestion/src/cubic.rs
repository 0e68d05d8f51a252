//! CUBIC (RFC 9438) with HyStart++ (RFC 9406).

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::hystart::{CSS_GROWTH_DIVISOR, Growth, HyStart};
use crate::initial_window;
use crate::rapid::Rapid;

/// CUBIC for QUIC (RFC 9438, with its constants). Windows are in bytes of ack-eliciting packets.
///
/// Slow start ends when round-trip times rise (HyStart++), so that a lossless path loses nothing to
/// its own queue. Times in which the application sent less than the window do not count (§5.8).
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    /// `SMSS`.
    mss: f64,
    /// `cwnd`.
    window: f64,
    /// Infinite until the first congestion.
    ssthresh: f64,
    /// Set until slow start has ended once (RFC 9406 §4.2).
    hystart: Option<HyStart>,
    growth: Growth,
    /// Whether slow start triples; CUBIC's own only doubles.
    rapid: Rapid,
    /// The time of the last congestion event. Losses of packets sent before belong to it.
    recovery: Option<Instant>,
    /// `W_max`.
    w_max: f64,
    /// `cwnd_prior`: the window at the last congestion.
    prior: f64,
    epoch: Option<Epoch>,
}

/// A period of congestion avoidance without a congestion event.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// The begin of the period, moved by the times in which the application was the limit.
    start: Instant,
    /// `K`: seconds until the window is at `W_max` again.
    k: f64,
    /// `W_est`: what Reno's window would be.
    reno: f64,
    last_ack: Instant,
}

impl Cubic {
    /// Makes the controller of a new connection with packets of `mtu` bytes.
    pub(crate) fn new(mtu: u16) -> Self {
        let mss = f64::from(mtu);
        Self {
            mss,
            window: initial_window(mss),
            ssthresh: f64::INFINITY,
            hystart: Some(HyStart::default()),
            growth: Growth::Full,
            rapid: Rapid::new(false),
            recovery: None,
            w_max: 0.0,
            prior: 0.0,
            epoch: None,
        }
    }

    /// Lets slow start triple its window while no queue shows.
    pub(crate) fn start_rapidly(&mut self) {
        self.rapid = Rapid::new(true);
    }

    /// Lets slow start only double its window from now on.
    pub(crate) const fn end_rapid_start(&mut self) {
        self.rapid.end();
    }

    pub(crate) fn acked(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: f64,
        limited: bool,
        srtt: Duration,
    ) {
        if let Some(hystart) = &mut self.hystart {
            let rtt = now.saturating_duration_since(sent);
            hystart.on_rtt(rtt);
            self.rapid.on_rtt(rtt);
        }
        if limited {
            self.pause(now);
            return;
        }
        if self.recovery.is_some_and(|began| sent <= began) {
            return;
        }
        if self.window < self.ssthresh {
            let large = self.window > LARGE * self.mss;
            let growth = match self.growth {
                Growth::Slow if large => 0.0,
                Growth::Slow => bytes / CSS_GROWTH_DIVISOR as f64,
                Growth::Full | Growth::Over if large => bytes / 2.0,
                Growth::Full | Growth::Over => bytes * self.rapid.growth(),
            };
            self.window = (self.window + growth).min(self.ssthresh.max(self.window));
        } else {
            self.avoid(now, bytes, srtt);
        }
    }

    /// Moves the epoch by the time since the last acknowledgement.
    fn pause(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += now.saturating_duration_since(epoch.last_ack);
            epoch.last_ack = now;
        }
    }

    /// Grows the window in congestion avoidance (§4.2 to §4.5).
    fn avoid(&mut self, now: Instant, bytes: f64, srtt: Duration) {
        let (window, mss) = (self.window, self.mss);
        if self.epoch.is_none() {
            self.w_max = self.w_max.max(window);
        }
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start: now,
            k: ((w_max - window) / mss / C).cbrt(),
            reno: window,
            last_ack: now,
        });
        epoch.last_ack = now;
        let cubic = |t: f64| w_max + mss * C * (t - epoch.k).powi(3);
        let t = now.saturating_duration_since(epoch.start).as_secs_f64();
        let alpha = if epoch.reno >= self.prior { 1.0 } else { ALPHA };
        let reno = epoch.reno + alpha * mss * bytes / window;
        let target = cubic(t + srtt.as_secs_f64()).clamp(window, 1.5 * window);
        self.window = if cubic(t) < reno {
            window.max(reno)
        } else {
            window + (target - window) * bytes / window
        };
        epoch.reno = reno;
    }

    /// Reacts to the loss or ECN mark of a packet sent at `sent` (§4.6 to §4.8).
    ///
    /// An outage shows as persistent congestion several times, and loses packets sent before it
    /// was seen. Only the first time reduces the threshold (RFC 5681 §3.1, on timeouts in a row).
    pub(crate) fn congested(&mut self, now: Instant, sent: Instant, persistent: bool) {
        if !persistent || self.window > self.minimum() {
            self.reduce(now, sent, 0.0);
        }
        if persistent {
            self.window = self.minimum();
            self.recovery = Some(now);
            self.growth = Growth::Full;
            self.epoch = None;
        }
    }

    /// Reduces the window at a loss (§4.6), to no less than `floor` bytes, once for each flight.
    pub(crate) fn reduce(&mut self, now: Instant, sent: Instant, floor: f64) {
        if self.recovery.is_some_and(|began| sent <= began) {
            return;
        }
        self.recovery = Some(now);
        self.prior = self.window;
        // Fast convergence: a flow that gets less than before leaves room for others.
        self.w_max = if self.window < self.w_max {
            self.window * (1.0 + BETA) / 2.0
        } else {
            self.window
        };
        self.settle((self.window * BETA).max(floor));
    }

    /// Enters congestion avoidance with a window of `window` bytes.
    pub(crate) fn settle(&mut self, window: f64) {
        self.window = window.max(self.minimum());
        self.ssthresh = self.window;
        self.hystart = None;
        self.growth = Growth::Full;
        self.epoch = None;
    }

    /// Continues slow start with a window of `window` bytes.
    pub(crate) fn open(&mut self, window: f64) {
        self.window = window.max(self.minimum());
    }

    /// Ends slow start at a window of `threshold` bytes.
    pub(crate) fn limit_slow_start(&mut self, threshold: f64) {
        self.ssthresh = threshold.max(self.minimum());
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.window < self.ssthresh
    }

    pub(crate) fn window_bytes(&self) -> f64 {
        self.window
    }

    pub(crate) fn ssthresh(&self) -> Option<u64> {
        self.ssthresh.is_finite().then_some(self.ssthresh as u64)
    }

    pub(crate) fn initial_window(&self) -> f64 {
        initial_window(self.mss)
    }

    pub(crate) fn sent(&mut self, packet: u64) {
        if let Some(hystart) = &mut self.hystart {
            hystart.on_sent(packet);
        }
    }

    /// Ends the processing of acknowledgements up to packet `largest`.
    pub(crate) fn acks_ended(&mut self, largest: Option<u64>) {
        let Some(hystart) = &mut self.hystart else {
            return;
        };
        self.growth = hystart.on_acked(largest);
        if self.growth == Growth::Over {
            self.ssthresh = self.window;
            self.prior = self.window;
            self.hystart = None;
        }
    }

    /// Sets the packet size. Larger packets that are found before slow start has ended add their
    /// share of the initial window (RFC 9002 §7.2).
    pub(crate) fn set_mtu(&mut self, mtu: u16) {
        let before = self.initial_window();
        self.mss = f64::from(mtu);
        if self.ssthresh.is_infinite() {
            self.window += (self.initial_window() - before).max(0.0);
        }
        self.window = self.window.max(self.minimum());
    }

    /// The minimum window (RFC 9002 §7.2).
    fn minimum(&self) -> f64 {
        2.0 * self.mss
    }
}

/// Packets beyond which slow start grows by half in a round.
///
/// It is a round late in noticing that the path is full, and its surplus is lost. Receivers have to
/// keep a gap for each lost packet, and quinn's ends the connection at 1024.
const LARGE: f64 = 512.0;
/// `C` of RFC 9438 §5, in packets per second cubed.
const C: f64 = 0.4;
/// `beta_cubic` (§4.6).
const BETA: f64 = 0.7;
/// `alpha_cubic` (§4.3), which grows as fast as Reno with a reduction to a half.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
