//! Whether QUIC is slowed down, judged from delivery rates of one client.
//!
//! Rates of different clients are not compared: a slow client that uses HTTP/3 most would make a whole
//! prefix look throttled. A prefix counts its clients' verdicts.

use super::{Secs, UdpHealth, UdpPolicy, UdpState};
use crate::choice::QUANTILE_90;
use crate::stat::Stat;

/// Logarithms of a client's delivery rates, which hold no app-limited samples below their mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// Over TCP.
    pub(crate) tcp: Stat,
    /// Over QUIC.
    pub(crate) quic: Stat,
    /// The best mean that the path has shown over either; `None` when unknown.
    pub(crate) best: Option<f32>,
}

/// What a client's rates say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateVerdict {
    /// QUIC was just found to be throttled.
    Throttled,
    /// QUIC is about as fast as TCP.
    Equal,
}

impl Rates {
    /// What QUIC is held against: TCP, or what the path has shown before where TCP was not in use. If it
    /// is the path that became slower, TCP will show that once the client is back on it.
    fn reference(&self) -> Option<Stat> {
        if self.tcp.weight >= MIN_RATES {
            return Some(self.tcp);
        }
        let mean = self.best?;
        Some(Stat {
            mean,
            var: self.quic.var,
            weight: MIN_RATES,
        })
    }

    fn throttled(&self) -> bool {
        let Some(reference) = self.reference().filter(|_| self.quic.weight >= MIN_RATES) else {
            return false;
        };
        let error_sq = reference.standard_error_sq(RATE_SD) + self.quic.standard_error_sq(RATE_SD);
        let slower =
            reference.mean - self.quic.mean - QUANTILE_90 as f32 * error_sq.sqrt() > THROTTLED_LN;
        slower && self.quic.mean < UNTHROTTLED_LN
    }

    /// A client that was sent back to TCP shows there that the path is no faster, or over QUIC that it is
    /// as fast by now, for which a few samples are needed.
    fn equal(&self) -> bool {
        let quic = self.quic.weight;
        let enough = quic >= MIN_RATES || quic > 0.0 && quic <= PROBED_WEIGHT;
        self.tcp.weight >= MIN_RATES && enough && self.tcp.mean - self.quic.mean < EQUAL_LN
    }
}

impl UdpHealth {
    /// Judges a client's rates.
    pub(crate) fn judge_rates(
        &mut self,
        rates: &Rates,
        now: Secs,
        policy: &UdpPolicy,
    ) -> Option<RateVerdict> {
        if rates.equal() {
            self.end_throttling(now);
            return Some(RateVerdict::Equal);
        }
        let throttled = self.failure().is_none() && rates.throttled();
        throttled.then(|| {
            self.begin_throttling(now, policy);
            RateVerdict::Throttled
        })
    }

    /// Takes the verdict on a client in this prefix: two throttled clients make a throttled prefix, one
    /// that is not ends it.
    pub(crate) fn on_client_rates(&mut self, verdict: RateVerdict, now: Secs, policy: &UdpPolicy) {
        match verdict {
            RateVerdict::Equal => {
                self.throttled_clients = 0;
                self.end_throttling(now);
            }
            RateVerdict::Throttled => {
                self.throttled_clients = self.throttled_clients.saturating_add(1);
                if self.throttled_clients >= THROTTLED_CLIENTS && self.failure().is_none() {
                    self.begin_throttling(now, policy);
                }
            }
        }
    }

    fn begin_throttling(&mut self, now: Secs, policy: &UdpPolicy) {
        let next_probe = now.saturating_add(policy.probe_min);
        self.state = UdpState::Throttled {
            since: now,
            next_probe,
        };
        self.offered = Secs::default();
        self.failed_probes = 0;
    }

    fn end_throttling(&mut self, now: Secs) {
        if self.is_throttled() {
            self.state = UdpState::works_since(now);
            self.offered = Secs::default();
            self.failed_probes = 0;
        }
    }
}

/// Logarithm of 2: QUIC is throttled when TCP is surely this many times as fast.
const THROTTLED_LN: f32 = std::f32::consts::LN_2;
/// Logarithm of 100 Mbit/s: networks that slow UDP down do so to far less. A faster client whose TCP is
/// faster still sees the cost of QUIC on a CPU, and its load times tell whether that matters.
const UNTHROTTLED_LN: f32 = 18.420_68;
/// Logarithm of 1.4: QUIC is not throttled when TCP is at most this many times as fast.
const EQUAL_LN: f32 = 0.336_472_24;
/// Rate samples needed on each transport for a judgement, four that have hardly faded; their spread
/// decides how sure it is.
const MIN_RATES: f32 = 3.5;
/// Weight of QUIC's rate from before a probe: a single new sample outweighs it.
pub(crate) const PROBED_WEIGHT: f32 = 0.25;
/// Assumed spread of log rates until samples show their own.
const RATE_SD: f32 = 0.3;
/// Throttled clients that make a throttled prefix.
const THROTTLED_CLIENTS: u8 = 2;
