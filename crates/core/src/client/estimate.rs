//! Everything that is known of one client address or one prefix.

mod carried;
mod codec;
mod loss;
mod open_rate;
mod outcomes;
mod rtt;

use std::time::Duration;

use super::sample::Decided;
use crate::choice::{Group, Session};
use crate::client::sample::{Outcome, TransportSample, UdpEvent};
use crate::client::udp::{PROBED_WEIGHT, RateVerdict, Rates, UdpHealth};
use crate::client::view::{LOSS_LIMITED, is_loss_limited};
use crate::policy::PolicyConfig;
use crate::stat::{Stat, faded};
use hikyaku_units::arm::{Arm, ByTransport, Congestion, Transport, Version};
use hikyaku_units::{ByteSize, Rate, Secs, Timestamp};

pub use carried::CARRIED_LEN;
pub use codec::ENCODED_LEN;
pub(crate) use codec::Packed;
pub use loss::{LossBounds, LossCount};
pub(crate) use open_rate::OpenRate;
pub(crate) use outcomes::Outcomes;
pub use rtt::MinRtt;

/// The knowledge of one client address or prefix. Tables keep it packed, in 137 bytes.
///
/// All counts fade: at every observation they are brought to its time. Fields that nothing was seen
/// of are empty ([`Option`]s are `None`, counts 0).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Time that the counts are faded to: that of the last observation.
    pub(crate) at: Secs,
    /// Start of the present or last session.
    pub(crate) session: Session,
    /// Path samples, faded.
    pub(crate) samples: f32,
    pub(crate) min_rtt: MinRtt,
    /// Smoothed RTT in µs; 0 when unknown.
    pub(crate) srtt: u32,
    /// Packets lost, by [`Transport`].
    pub(crate) loss: [LossCount; 2],
    /// Natural logarithm of the delivery rate in bit/s, by [`Transport`].
    pub(crate) rate: [Stat; 2],
    /// The best mean of `rate` lately; 0 when unknown.
    pub(crate) best_rate: f32,
    /// The path's delivery rate where nothing else limits it, by [`Transport`].
    pub(crate) open_rate: [OpenRate; 2],
    pub(crate) outcome: Outcomes,
    /// Natural logarithm of the mean response size in bytes.
    pub(crate) size: f32,
    /// Number of responses that `size` is the mean of, faded.
    pub(crate) size_weight: f32,
    pub(crate) udp: UdpHealth,
    /// The version last chosen from a comparison.
    pub(crate) choice: Option<Choice>,
    /// The congestion controls last chosen from a comparison.
    pub(crate) congestion: ByTransport<Option<Congestion>>,
}

/// The version a client is kept on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// HTTP/2 or HTTP/3.
    pub version: Version,
    /// Since when.
    pub since: Secs,
}

impl Estimate {
    /// Time of the last observation; `None` before the first.
    #[must_use]
    pub fn last_seen(&self) -> Option<Timestamp> {
        (self.at != Secs::default()).then(|| self.at.timestamp())
    }

    /// Path samples so far, faded.
    #[must_use]
    pub const fn samples(&self) -> f32 {
        self.samples
    }

    /// Mean delivery rate (geometric) over a transport.
    #[must_use]
    pub fn delivery_rate(&self, transport: Transport) -> Option<Rate> {
        let rate = &self.rate[transport.index()];
        (rate.weight > 0.0).then(|| Rate::from_bits_per_sec(f64::from(rate.mean).exp() as u64))
    }

    /// Smoothed round-trip time (RFC 9002 §5.3), over connections.
    #[must_use]
    pub fn smoothed_rtt(&self) -> Option<Duration> {
        (self.srtt > 0).then(|| Duration::from_micros(self.srtt.into()))
    }

    /// Packets lost over a transport.
    #[must_use]
    pub const fn loss(&self, transport: Transport) -> &LossCount {
        &self.loss[transport.index()]
    }

    /// Mean of the client's response sizes: it waits for large ones.
    #[must_use]
    pub fn response_size(&self) -> Option<ByteSize> {
        (self.size_weight > 0.0).then(|| ByteSize::from_bytes(f64::from(self.size).exp() as u64))
    }

    /// The times that responses really took, as a share of those predicted (geometric mean), by arm. The
    /// second figure is the number of responses, faded.
    pub fn ratios(&self) -> impl Iterator<Item = (Arm, f32, f32)> {
        let known = move |arm| {
            let outcome = self.outcome.of(arm);
            (outcome.weight > 0.0).then(|| (arm, outcome.weight, outcome.mean.exp()))
        };
        Arm::ALL.into_iter().filter_map(known)
    }

    /// UDP between client and server.
    #[must_use]
    pub const fn udp(&self) -> &UdpHealth {
        &self.udp
    }

    /// The version that the client is kept on.
    #[must_use]
    pub const fn choice(&self) -> Option<Choice> {
        self.choice
    }

    /// This estimate as it is at `now`, all counts faded.
    #[must_use]
    pub fn faded_to(&self, now: Timestamp, policy: &PolicyConfig) -> Self {
        let mut estimate = *self;
        estimate.fade_to(now, policy);
        estimate
    }

    fn fade_to(&mut self, now: Timestamp, policy: &PolicyConfig) {
        let now = Secs::from(now);
        let elapsed = now.since(self.at).as_secs_f32();
        // A clock that steps back must not make knowledge younger.
        self.at = self.at.max(now);
        if elapsed == 0.0 {
            return;
        }
        let half_life = &policy.half_life;
        let loss = faded(elapsed, half_life.loss.as_secs_f32());
        let rate = faded(elapsed, half_life.rate.as_secs_f32());
        let outcome = faded(elapsed, half_life.outcome.as_secs_f32());
        for transport in Transport::ALL {
            self.loss[transport.index()].fade(loss);
            self.rate[transport.index()].fade(rate);
        }
        self.outcome.fade(outcome);
        // The best rate sinks towards the present ones.
        let present = self.rate[0].mean.max(self.rate[1].mean);
        self.best_rate = present + (self.best_rate - present) * rate;
        self.size_weight *= outcome;
        self.samples *= faded(elapsed, half_life.samples.as_secs_f32());
    }

    /// Takes a measurement of a client's connection.
    pub(crate) fn on_path(
        &mut self,
        sample: &TransportSample,
        now: Timestamp,
        policy: &PolicyConfig,
    ) -> Option<RateVerdict> {
        self.update_path(sample, now, policy, CLIENT);
        let [tcp, quic] = self.rate;
        let explained = tcp.weight > APP_LIMITED_WEIGHT && self.limited_by_loss(sample);
        let best = (self.best_rate > 0.0 && !explained).then_some(self.best_rate);
        let was_throttled = self.udp.is_throttled();
        let rates = Rates { tcp, quic, best };
        let verdict = self.udp.judge_rates(&rates, self.at, &policy.udp);
        if was_throttled && !self.udp.is_throttled() {
            self.forget_throttling();
        }
        verdict
    }

    /// Whether losses alone explain QUIC's rate: then it falls behind the path's best, which begins with
    /// the rate of slow start, without being throttled. A policer's losses explain it as well, so a
    /// session on TCP has to show first that it is no faster.
    fn limited_by_loss(&self, sample: &TransportSample) -> bool {
        let quic = Transport::Quic.index();
        let explained = || {
            let loss = self.loss[quic].bounds()?.mean;
            let limit = sample.congestion.rate_at_loss(loss, self.min_rtt.get()?)?;
            let limit = LOSS_LIMITED.saturating_mul(limit.bits_per_sec()) as f32;
            // The mean follows the fall from slow start's rate slowly.
            let mean = self.rate[quic].mean.exp();
            let over_quic = sample.version.transport() == Transport::Quic;
            let newest = sample.delivery_rate.filter(|_| over_quic);
            let newest = newest.map(|rate| rate.bits_per_sec() as f32);
            Some(newest.map_or(mean, |rate| rate.min(mean)) <= limit)
        };
        explained().unwrap_or(false)
    }

    /// Takes a measurement of a connection in this prefix, and its lesson about its client.
    pub(crate) fn on_client_path(
        &mut self,
        sample: &TransportSample,
        verdict: Option<RateVerdict>,
        now: Timestamp,
        policy: &PolicyConfig,
    ) {
        self.update_path(sample, now, policy, PREFIX);
        let was_throttled = self.udp.is_throttled();
        if let Some(verdict) = verdict {
            self.udp.on_client_rates(verdict, self.at, &policy.udp);
        }
        if was_throttled && !self.udp.is_throttled() {
            self.forget_throttling();
        }
    }

    fn update_path(
        &mut self,
        sample: &TransportSample,
        now: Timestamp,
        policy: &PolicyConfig,
        window: Window,
    ) {
        self.touch(now, policy);
        self.samples += 1.0;
        self.min_rtt
            .update(sample.min_rtt, self.at, policy.half_life.rtt);
        self.update_srtt(sample);
        let transport = sample.version.transport();
        self.loss[transport.index()].add(sample.packets_sent, sample.packets_lost);
        self.update_rate(transport, sample, window.rates);
        self.update_open_rate(transport, sample, window.rates);
    }

    fn update_srtt(&mut self, sample: &TransportSample) {
        let rtt = u32::try_from(sample.srtt.as_micros()).unwrap_or(u32::MAX);
        if rtt > 0 {
            // The sample is smoothed already, over one connection; this smooths over connections.
            self.srtt = if self.srtt == 0 {
                rtt
            } else {
                self.srtt - self.srtt / 4 + rtt / 4
            };
        }
    }

    fn update_rate(&mut self, transport: Transport, sample: &TransportSample, max: f32) {
        let Some(rate) = sample.delivery_rate.filter(|rate| rate.bits_per_sec() > 0) else {
            return;
        };
        let log_rate = (rate.bits_per_sec() as f32).ln();
        let known = &mut self.rate[transport.index()];
        // App-limited samples understate the path, so they may raise the estimate but never lower it.
        if sample.app_limited {
            if log_rate <= known.mean && known.weight > 0.0 {
                return;
            }
            if known.weight <= APP_LIMITED_WEIGHT {
                // Better than nothing, but any other outweighs it.
                *known = Stat {
                    mean: log_rate,
                    var: 0.0,
                    weight: APP_LIMITED_WEIGHT,
                };
                return;
            }
        }
        known.push(log_rate, max);
        self.best_rate = self.best_rate.max(known.mean);
    }

    fn update_open_rate(&mut self, transport: Transport, sample: &TransportSample, max: f32) {
        let Some(rate) = sample.delivery_rate.filter(|rate| rate.bits_per_sec() > 0) else {
            return;
        };
        let index = transport.index();
        let log_rate = (rate.bits_per_sec() as f32).ln();
        let rises = self.open_rate[index]
            .get()
            .is_some_and(|open| log_rate > open);
        if rises || !(sample.app_limited || self.limits_itself(sample, rate)) {
            self.open_rate[index].push(log_rate, self.rate[index].weight.min(max));
        }
    }

    /// Whether a sender's answer to losses, rather than the path, made this rate. A standing queue
    /// shows that the path was full.
    fn limits_itself(&self, sample: &TransportSample, rate: Rate) -> bool {
        let queues = sample.srtt > sample.min_rtt + STANDING_QUEUE.max(sample.min_rtt / 4);
        let loss = self.loss[sample.version.transport().index()].bounds();
        let limit = loss
            .zip(self.min_rtt.get())
            .and_then(|(loss, min_rtt)| sample.congestion.rate_at_loss(loss.mean, min_rtt));
        !queues && limit.is_some_and(|limit| is_loss_limited(rate, limit))
    }

    /// Times of HTTP/3 while throttled are no evidence any more. The rate that led to the verdict may
    /// be one that the path has no longer.
    fn forget_throttling(&mut self) {
        let [tcp, quic] = [Transport::Tcp, Transport::Quic].map(Transport::index);
        self.outcome.forget(Transport::Quic);
        self.best_rate = self.rate[tcp].mean.max(self.rate[quic].mean);
    }

    /// Takes a response, and the logarithm of its real by its predicted load time where it says something
    /// of its arm. The last of `window` dominate.
    pub(crate) fn on_outcome(
        &mut self,
        outcome: &Outcome,
        log_ratio: Option<f32>,
        now: Timestamp,
        policy: &PolicyConfig,
        window: Window,
    ) {
        self.touch(now, policy);
        if outcome.arm.version == Version::H3 {
            self.udp.on_delivered(self.at);
        }
        let log_size = (outcome.size.max(1) as f32).ln();
        self.size_weight = (self.size_weight + 1.0).min(window.outcomes);
        let (mean, size) = (self.size.exp(), log_size.exp());
        let before = self.size;
        self.size = (mean + (size - mean) / self.size_weight).max(1.0).ln();
        self.outweigh(before);
        let Some(log_ratio) = log_ratio.filter(|ratio| ratio.is_finite()) else {
            return;
        };
        let log_ratio = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO);
        let weight = (log_size - self.size).exp().clamp(MIN_WEIGHT, 1.0);
        self.outcome
            .push(outcome.arm, log_ratio, weight, window.outcomes);
    }

    /// Has outcomes of much smaller responses than the present mean count as little as if they came now.
    fn outweigh(&mut self, mean_before: f32) {
        let share = (mean_before - self.size).exp();
        if share < MUCH_SMALLER {
            self.outcome.fade(share.max(MIN_WEIGHT));
        }
    }

    /// Takes an event of UDP; for a client address.
    pub(crate) fn on_udp(&mut self, event: UdpEvent, now: Timestamp, policy: &PolicyConfig) {
        self.touch(now, policy);
        self.prepare_probe(event);
        self.udp.on_event(event, now, &policy.udp);
    }

    /// Takes an event of UDP of a client in this prefix, whose health it changed.
    pub(crate) fn on_client_udp(
        &mut self,
        event: UdpEvent,
        before: &UdpHealth,
        after: &UdpHealth,
        now: Timestamp,
        policy: &PolicyConfig,
    ) {
        self.touch(now, policy);
        self.prepare_probe(event);
        self.udp
            .on_client_event(event, before, after, now, &policy.udp);
    }

    /// When QUIC comes while throttled, the rates of this probe shall decide, not those that led here.
    fn prepare_probe(&mut self, event: UdpEvent) {
        if event == UdpEvent::Arrived && self.udp.is_throttled() {
            let quic = &mut self.rate[Transport::Quic.index()];
            quic.weight = quic.weight.min(PROBED_WEIGHT);
        }
    }

    /// Remembers a decision that was applied.
    pub(crate) fn on_decided(&mut self, decided: &Decided, now: Timestamp, policy: &PolicyConfig) {
        self.fade_to(now, policy);
        self.session = decided.session;
        let kept = self
            .choice
            .is_some_and(|choice| choice.version == decided.version);
        for transport in Transport::ALL {
            let chosen = *decided.congestion.get(transport);
            let kept = self.congestion.get_mut(transport);
            *kept = chosen.or(*kept);
        }
        if decided.group == Group::Normal && !kept {
            self.choice = Some(Choice {
                version: decided.version,
                since: self.at,
            });
        }
    }

    /// The session that `now` falls into: the present one, or a new one that starts with it.
    #[must_use]
    pub fn session_at(&self, now: Timestamp, policy: &PolicyConfig) -> Session {
        let now = Secs::from(now);
        let idle = now.since(self.at) >= policy.session_idle;
        let long = now.since(Secs::new(self.session.0)) >= policy.session_max;
        if self.session == Session::default() || idle || long {
            Session(now.get())
        } else {
            self.session
        }
    }

    /// The estimate of a prefix when this is its only client.
    pub(crate) fn as_prefix(&self) -> Self {
        let udp = self.udp.as_prefix();
        Self {
            choice: None,
            congestion: ByTransport::default(),
            session: Session::default(),
            udp,
            ..*self
        }
    }

    fn touch(&mut self, now: Timestamp, policy: &PolicyConfig) {
        self.session = self.session_at(now, policy);
        self.fade_to(now, policy);
    }
}

/// How many of the last samples make up a statistic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    rates: f32,
    outcomes: f32,
}

/// A client's rates follow a session, so that throttling shows within one; its outcomes follow a few.
pub(crate) const CLIENT: Window = Window {
    rates: 6.0,
    outcomes: 24.0,
};
/// More than a prefix's busiest client sends in a session.
pub(crate) const PREFIX: Window = Window {
    rates: 256.0,
    outcomes: 256.0,
};
/// Round-trip time above the smallest that shows a standing queue; a quarter of the smallest, if that
/// is more.
const STANDING_QUEUE: Duration = Duration::from_millis(2);
/// Weight of a rate while all were app-limited.
const APP_LIMITED_WEIGHT: f32 = 0.1;
/// A response counts as an outcome as far as it is as large as the mean one, but at least so much.
const MIN_WEIGHT: f32 = 0.001;
/// Part of the mean size.
const MUCH_SMALLER: f32 = 0.5;
/// A response that stalled for a client's own reasons must not count for ever: at most e^2, 7 times.
const MAX_LOG_RATIO: f32 = 2.0;

#[cfg(test)]
mod tests;
