//! How many connections a page is spread over (CONNS §6).
//!
//! Several connections help where random losses keep one from filling the path. Each has a window of
//! its own, and a loss halves one of them alone. Where nothing but the path limits a connection,
//! several compete with each other in its queue. They were measured to be slower
//! (`docs/results/conns-*.md`), so the answer is one.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::choice::{
    Bar, Change, Domain, Evidence, Gain, Group, Missing, Pick, Reason, Rival, choose,
};
use crate::client::view::{ClientView, LOSS_LIMITED};
use crate::model::Model;
use crate::policy::{ConnectionsPolicy, MAX_CONNECTIONS, PolicyConfig};
use crate::transport::Decision;
use hikyaku_units::arm::Arm;
use hikyaku_units::human;
use hikyaku_units::{LossRate, Rate};

/// How many connections a client's pages are spread over, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Connections {
    /// 1 to [`MAX_CONNECTIONS`]; 1 leaves pages as they are.
    pub n: u8,
    /// Lower bound of the gain of `n` connections over one, as a share of their load time; 0 where `n` was
    /// not compared with one.
    pub gain: f32,
    /// Why.
    pub reason: PageReason,
}

/// Why a page is spread over so many connections. `Display` gives a sentence, [`PageReason::code`] a stable
/// name.
pub type PageReason = Reason<u8, PageBar, PageGain>;

/// One connection fills the client's path. Losses do not keep it from being faster, or they are of its
/// own making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageBar;

impl Bar for PageBar {
    fn group(&self) -> Group {
        Group::Normal
    }
}

/// Several connections compared with one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageGain {
    /// Load time over one connection.
    pub one: Duration,
    /// Load time over several connections, the opening of the further ones included.
    pub several: Duration,
    /// Lower bound of the gain, as a share of the load time; below 0 for a loss. It is the best one
    /// where none is enough.
    pub low: f32,
    /// The gain that several connections need.
    pub needed: f32,
}

impl PageReason {
    /// A stable name in snake case.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Pinned(_) => "pinned",
            Self::Only => "no_shards",
            Self::HoldBack => "hold_back",
            Self::TooFewSamples(_) => "too_few_samples",
            Self::NotComparable(_) => "not_comparable",
            Self::Barred(PageBar) => "fills_path",
            Self::NoGain(_) => "little_gain",
            Self::Better(_) | Self::Kept(_) | Self::Trial(_) | Self::Explore(_) => "faster",
        }
    }

    /// The comparison that decided.
    const fn gain(&self) -> Option<PageGain> {
        match self {
            Self::NoGain(Some(with)) | Self::Better(with) => with.gain,
            _ => None,
        }
    }
}

impl fmt::Display for PageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned(n) => write!(f, "the configuration pins {n}"),
            Self::Only => f.write_str("there are no shards"),
            Self::HoldBack => f.write_str("held back to measure the gain"),
            Self::TooFewSamples(Evidence { samples, needed }) => {
                write!(f, "{samples:.0} of {needed} samples so far")
            }
            Self::NotComparable(missing) => missing.fmt(f),
            Self::Barred(PageBar) => f.write_str("it is not random losses that limit one"),
            compared => {
                let Some(gain) = compared.gain() else {
                    return f.write_str("no other number is known to be faster");
                };
                if let Self::NoGain(_) = compared {
                    let [low, needed] =
                        [gain.low, gain.needed].map(|share| human::percent(share.into()));
                    return write!(f, "lower bound of the gain {low}, needed {needed}");
                }
                let [one, several] = [gain.one, gain.several].map(human::time);
                write!(f, "predicted {several} against {one} over one")
            }
        }
    }
}

/// Connections as an [`Explanation`](crate::explain::Explanation) shows them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionsSummary {
    /// [`Connections::n`].
    pub n: u8,
    /// [`Connections::gain`].
    pub gain: f32,
    /// [`PageReason::code`].
    pub reason_code: String,
    /// The reason as a sentence.
    pub reason: String,
}

impl From<Connections> for ConnectionsSummary {
    fn from(connections: Connections) -> Self {
        Self {
            n: connections.n,
            gain: connections.gain,
            reason_code: connections.reason.code().to_owned(),
            reason: connections.reason.to_string(),
        }
    }
}

/// Chooses the number of connections for a client's pages, of which `available` have an address.
///
/// A pure function. `decision` is the client's at the same time. A page's size is taken to be that of
/// the client's busy periods on one connection. Where its pages are spread already these are parts of
/// pages, so that the gain is understated.
#[must_use]
pub fn connections(
    view: &ClientView,
    model: &Model,
    policy: &PolicyConfig,
    decision: &Decision,
    available: u8,
) -> Connections {
    let pages = Pages {
        view,
        model,
        policy,
        decision,
        available: available.clamp(1, MAX_CONNECTIONS),
    };
    let (n, reason) = choose(&pages, decision.assignment.is_held_back());
    let gain = match reason {
        PageReason::Better(_) => reason.gain().map_or(0.0, |gain| gain.low),
        _ => 0.0,
    };
    Connections { n, gain, reason }
}

/// The arguments of [`connections`].
struct Pages<'a> {
    view: &'a ClientView,
    model: &'a Model,
    policy: &'a PolicyConfig,
    decision: &'a Decision,
    available: u8,
}

impl Domain for Pages<'_> {
    type Arm = u8;
    type Bar = PageBar;
    type Gain = PageGain;

    fn pinned(&self) -> Option<Pick<Self>> {
        match self.policy.connections {
            // An ordinary server has one for all.
            ConnectionsPolicy::Pinned(_) if self.decision.assignment.is_held_back() => None,
            ConnectionsPolicy::Pinned(n) => Some((n.min(self.available), Reason::Pinned(n))),
            ConnectionsPolicy::Adaptive => (self.available == 1).then_some((1, Reason::Only)),
        }
    }

    fn usual(&self) -> u8 {
        1
    }

    fn evidence(&self) -> Option<Evidence> {
        let (samples, needed) = (self.view.samples, self.policy.min_samples);
        Some(Evidence { samples, needed })
    }

    fn steady(&self) -> Pick<Self> {
        let transport = self.decision.version.transport();
        let congestion = self.decision.congestion.get(transport).congestion;
        let arm = Arm::over(transport, congestion);
        match Prediction::new(self.view, self.model, self.policy, arm) {
            Err(missing) => (1, Reason::NotComparable(missing)),
            Ok(prediction) => prediction.best(self.available, self.policy),
        }
    }

    /// None: a page over more connections is paid for by others.
    fn experiment(&self, _: &Pick<Self>) -> Option<Pick<Self>> {
        None
    }
}

/// The inputs of predictions for a client.
struct Prediction<'a> {
    model: &'a Model,
    arm: Arm,
    min_rtt: Duration,
    /// The delivery rate of one connection, as measured.
    delivered: Rate,
    /// The rate that the model is asked with.
    rate: Rate,
    size: u64,
    loss: LossRate,
    /// With fewer losses one connection is faster, so that this bounds the gain from below.
    loss_low: LossRate,
    /// No queue stands on the path, so that losses are not of our own making.
    queue_is_empty: bool,
}

impl<'a> Prediction<'a> {
    fn new(
        view: &ClientView,
        model: &'a Model,
        policy: &PolicyConfig,
        arm: Arm,
    ) -> Result<Self, Missing> {
        let min_rtt = view.min_rtt.ok_or(Missing::Rtt)?;
        let srtt = view.srtt.ok_or(Missing::Rtt)?;
        let rate = view.rate_for(arm);
        let loss = view.loss_for(arm.version);
        let prediction = Self {
            model,
            arm,
            min_rtt,
            delivered: view.rate.ok_or(Missing::Rate)?,
            rate: rate.ok_or(Missing::Rate)?,
            size: view.size.unwrap_or(policy.typical_size).bytes(),
            loss: loss.mean,
            loss_low: loss.low,
            queue_is_empty: srtt <= min_rtt.mul_f32(1.0 + QUEUE_SHARE) + QUEUE_LEAST,
        };
        let known = prediction.load(1, loss.mean).is_some();
        known.then_some(prediction).ok_or(Missing::Arm)
    }

    fn best(&self, available: u8, policy: &PolicyConfig) -> Pick<Pages<'_>> {
        if !self.is_limited_by_loss() {
            return (1, Reason::Barred(PageBar));
        }
        let candidates = 2..=available.min(MAX_BY_LOSS);
        let gains: Vec<(u8, Gain)> = candidates
            .filter_map(|n| Some((n, self.gain(n)?)))
            .collect();
        let lows = gains.iter().map(|(_, gain)| gain.low());
        let best = lows.fold(-1.0, f32::max);
        // Connections cost memory, handshakes and others' share: the fewest that do nearly as well.
        let enough = (1.0 + best) / (1.0 + TOLERANCE) - 1.0;
        let Some(&(n, gain)) = gains.iter().find(|(_, gain)| gain.low() >= enough) else {
            return (1, Reason::NoGain(None));
        };
        let needed = policy.needed(Change::Connections);
        let with = |arm, low| {
            let [one, several] = [1, n].map(|n| self.load(n, self.loss).unwrap_or_default().time);
            let needed = needed.share;
            Rival::by(
                arm,
                PageGain {
                    one,
                    several,
                    low,
                    needed,
                },
            )
        };
        match needed.is_met(gain, 1.0) {
            true => (n, Reason::Better(with(1, gain.low()))),
            false => (1, Reason::NoGain(Some(with(n, best)))),
        }
    }

    /// Whether losses limit the delivery rate of one connection, and the losses are not of its own
    /// making. At a queue that it fills itself its delivery rate would be the same.
    fn is_limited_by_loss(&self) -> bool {
        let Some(limit) = self.limit(self.loss) else {
            return false;
        };
        let (delivered, limit) = (self.delivered.bits_per_sec(), limit.bits_per_sec());
        let near = limit / 2..=limit.saturating_mul(u64::from(MAX_BY_LOSS));
        self.queue_is_empty && near.contains(&delivered)
    }

    fn limit(&self, loss: LossRate) -> Option<Rate> {
        self.arm.congestion.rate_at_loss(loss, self.min_rtt)
    }

    /// The gain of `n` connections over one: the smaller one of those at the mean loss and at its lower
    /// bound.
    fn gain(&self, n: u8) -> Option<Gain> {
        let at = |loss| {
            let (one, several) = (self.load(1, loss)?, self.load(n, loss)?);
            let log = (one.time.as_secs_f32() / several.time.as_secs_f32()).ln();
            let (a, b) = (one.rel_sd, several.rel_sd);
            let apart = (a * a + b * b - 2.0 * CORRELATION * a * b).max(0.0);
            Some(Gain::normal(log, apart.sqrt().max(MODEL_SD)))
        };
        let [mean, low] = [at(self.loss)?, at(self.loss_low)?];
        Some(if low.low() < mean.low() { low } else { mean })
    }

    /// The load time over `n` connections, each of which carries an equal part; the further ones are
    /// opened when the page's first bytes are there.
    fn load(&self, n: u8, loss: LossRate) -> Option<Load> {
        let part = self.size / u64::from(n);
        let predicted = self
            .model
            .predict(self.arm, self.min_rtt, loss, self.rate, part)?;
        let opening = match n {
            1 => Duration::ZERO,
            _ => self.min_rtt.saturating_mul(OPENING_RTTS),
        };
        let time = predicted.load_time.max(self.at_limit(part, loss));
        Some(Load {
            time: time.saturating_add(opening),
            rel_sd: predicted.rel_sd,
        })
    }

    /// The time of so many bytes under losses. Slow start carries them to the first loss, after which
    /// the rate is the one that losses allow.
    fn at_limit(&self, bytes: u64, loss: LossRate) -> Duration {
        let Some(limit) = self.limit(loss) else {
            return Duration::ZERO;
        };
        let first_loss = f64::from(MSS) / loss.fraction();
        let bits = (bytes as f64 - first_loss).max(0.0) * 8.0;
        let secs = bits / limit.bits_per_sec().max(1) as f64;
        Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX)
    }
}

#[derive(Clone, Copy, Default)]
struct Load {
    time: Duration,
    rel_sd: f32,
}

/// Most connections that the choice takes where losses limit one. How much more the path carries is not
/// known then, and this many are not expected to fill it: see [`ClientView::rate_for`].
const MAX_BY_LOSS: u8 = LOSS_LIMITED as u8;
/// A queue stands where the round-trip time is longer than the smallest by this share of it ...
const QUEUE_SHARE: f32 = 0.15;
/// ... and this much.
const QUEUE_LEAST: Duration = Duration::from_millis(2);
/// Segments that the rates at loss are computed for, in bytes.
const MSS: u32 = 1460;
/// Fewer connections are preferred where they take at most this share longer.
const TOLERANCE: f32 = 0.02;
/// Both load times are of one table at one path, where its errors are nearly the same for all sizes.
const CORRELATION: f32 = 0.9;
/// How far the model is off in their ratio, at least.
const MODEL_SD: f32 = 0.05;
/// TCP's handshake and that of TLS 1.3 (RFC 8446 §2).
const OPENING_RTTS: u32 = 2;

#[cfg(test)]
mod tests;
