//! Two routes compared by the qualities that a content class wants.

use serde::{Deserialize, Serialize};

use super::{Criterion, Phase, RouteQuality, Wants};
use crate::choice::{Gain, Proof, QUANTILE_90};
use crate::policy::PolicyConfig;
use crate::stat::Stat;

/// The gain of one route over another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteGain {
    /// The quantity that differs.
    pub by: Measure,
    /// How much better it is: 0.5 is half as much more goodput, or two thirds of the RTT, stalls or loss.
    pub gain: Gain,
}

/// The quality that distinguishes two routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Bytes per second.
    Goodput,
    /// Stalls per time of sending.
    Stalls,
    /// Smoothed round-trip time.
    Rtt,
    /// Lost packets.
    Loss,
}

/// The gain of `this` over `that`; `None` while it cannot be determined.
pub(super) fn compare(
    wants: Wants,
    this: &RouteQuality,
    that: &RouteQuality,
    policy: &PolicyConfig,
    proof: Proof,
) -> Option<RouteGain> {
    let rtt = || Difference::of(&that.rtt, &this.rtt, RTT_SD);
    match wants.criterion {
        Criterion::Goodput => {
            goodput(wants.phase, this, that).map(|apart| apart.gain(Measure::Goodput))
        }
        Criterion::Stall => fewer_stalls(this, that, proof)
            .or_else(|| {
                let apart = best_known_goodput(this, that)
                    .filter(|apart| apart.exceeds(ENOUGH_GOODPUT.ln(), proof))?;
                Some(apart.gain(Measure::Goodput))
            })
            .or_else(|| rtt().map(|apart| apart.gain(Measure::Rtt))),
        Criterion::Rtt => {
            let apart = rtt()?;
            let clear = apart.exceeds((policy.min_gain_route as f32).ln_1p(), proof);
            let by_loss = if clear { None } else { less_loss(this, that) };
            Some(by_loss.unwrap_or_else(|| apart.gain(Measure::Rtt)))
        }
    }
}

/// How goodputs differ in a phase: as they do there and, less surely, as the other phase lets expect.
fn goodput(phase: Phase, this: &RouteQuality, that: &RouteQuality) -> Option<Difference> {
    let [like, other] = [phase, phase.other()].map(|phase| {
        let [this, that] = [this, that].map(|quality| quality.goodput_of(phase));
        Difference::of(this, that, GOODPUT_SD)
    });
    let gains_later = f32::from(this.several) - f32::from(that.several);
    let gains = match phase {
        Phase::Startup => -gains_later,
        Phase::Sustained => gains_later,
    };
    let sd = match gains_later {
        0.0 => PHASE_SD,
        _ => SEVERAL_SD,
    };
    let other = other.map(|apart| apart.shifted(gains * SEVERAL_LATER).blurred(sd));
    match (like, other) {
        (Some(like), Some(other)) => Some(like.joined(other)),
        (like, other) => like.or(other),
    }
}

/// How goodputs differ in the phase in which most is known of both.
fn best_known_goodput(this: &RouteQuality, that: &RouteQuality) -> Option<Difference> {
    let phase = this.best_known_phase(that);
    Difference::of(this.goodput_of(phase), that.goodput_of(phase), GOODPUT_SD)
}

/// By how much one route is expected to have more goodput than another, in logarithms; `None` while
/// that cannot be determined.
pub(super) fn goodput_ln_ratio(this: &RouteQuality, that: &RouteQuality) -> Option<f32> {
    best_known_goodput(this, that).map(|apart| apart.ln)
}

/// A logarithm of a ratio, with its standard error.
#[derive(Clone, Copy, Debug)]
struct Difference {
    ln: f32,
    error: f32,
}

impl Difference {
    /// `None` unless both have samples. `sd` is their spread until they show their own.
    fn of(this: &Stat, that: &Stat, sd: f32) -> Option<Self> {
        let known = this.weight > 0.0 && that.weight > 0.0;
        known.then(|| Self {
            ln: this.mean - that.mean,
            error: (this.standard_error_sq(sd) + that.standard_error_sq(sd)).sqrt(),
        })
    }

    fn shifted(self, by: f32) -> Self {
        Self {
            ln: self.ln + by,
            ..self
        }
    }

    /// This difference, known less surely by a standard deviation.
    fn blurred(self, sd: f32) -> Self {
        Self {
            error: self.error.hypot(sd),
            ..self
        }
    }

    /// The joint statement of both: their mean, weighted by the inverse of their variances.
    fn joined(self, other: Self) -> Self {
        let [this, that] = [self, other].map(|apart| apart.error.powi(-2));
        Self {
            ln: (this * self.ln + that * other.ln) / (this + that),
            error: (this + that).sqrt().recip(),
        }
    }

    /// Whether it is farther from zero than `ln`, either way.
    fn exceeds(self, ln: f32, proof: Proof) -> bool {
        let margin = match proof {
            Proof::Expected => 0.0,
            Proof::LowerBound => QUANTILE_90 as f32 * self.error,
        };
        self.ln.abs() - margin > ln
    }

    fn gain(self, by: Measure) -> RouteGain {
        RouteGain {
            by,
            gain: Gain::normal(self.ln, self.error),
        }
    }
}

impl RouteQuality {
    /// Whether there was a stall that has not faded.
    pub(super) fn stalls_matter(&self) -> bool {
        self.stalls.stalls >= MIN_STALLS
    }
}

/// The gain in stalls, where one route has clearly more than the other. A stall counts one, and one
/// more for each second of it.
///
/// The square root of a Poisson count plus 3/8 has a variance of a quarter. See Anscombe, "The
/// transformation of Poisson, binomial and negative-binomial data", Biometrika 1948.
fn fewer_stalls(this: &RouteQuality, that: &RouteQuality, proof: Proof) -> Option<RouteGain> {
    let [(this, this_secs), (that, that_secs)] = [this, that].map(|quality| {
        let stalls = &quality.stalls;
        (stalls.stalls + stalls.stalled, stalls.observed)
    });
    if this_secs <= 0.0 || that_secs <= 0.0 {
        return None;
    }
    // How many more one had than the other's rate explains. Stalls that have faded to less than half of
    // one are over, and a route that was hardly used has not shown anything.
    let [this_fair, that_fair] = [that / that_secs * this_secs, this / this_secs * that_secs];
    let that_is_worse = that - that_fair >= MIN_STALLS;
    if !that_is_worse && this - this_fair < MIN_STALLS {
        return None;
    }
    let root = |count: f32, secs: f32| ((count + ANSCOMBE) / secs).sqrt();
    let [this_root, that_root] = [root(this, this_secs), root(that, that_secs)];
    let margin = QUANTILE_90 as f32 * (0.25 / this_secs + 0.25 / that_secs).sqrt();
    let apart = if that_is_worse {
        that_root - this_root
    } else {
        this_root - that_root
    };
    if proof == Proof::LowerBound && apart <= margin {
        return None;
    }
    let expected = if that_is_worse {
        (that + ANSCOMBE) / (that_fair + ANSCOMBE)
    } else {
        (this_fair + ANSCOMBE) / (this + ANSCOMBE)
    };
    let bound = |root: f32| (root.max(0.0) / this_root).powi(2) - 1.0;
    Some(RouteGain {
        by: Measure::Stalls,
        gain: Gain::of_shares(
            expected - 1.0,
            bound(that_root - margin),
            bound(that_root + margin),
        ),
    })
}

/// The gain in loss, where the bounds of both lie apart.
fn less_loss(this: &RouteQuality, that: &RouteQuality) -> Option<RouteGain> {
    let [this, that] = [this.loss()?, that.loss()?];
    let apart = this.high < that.low || that.high < this.low;
    // A packet in a million for those that lost none.
    let ratio = |a: f64, b: f64| ((a + 1e-6) / (b + 1e-6)) as f32 - 1.0;
    apart.then(|| RouteGain {
        by: Measure::Loss,
        gain: Gain::of_shares(
            ratio(that.mean.fraction(), this.mean.fraction()),
            ratio(that.low.fraction(), this.high.fraction()),
            ratio(that.high.fraction(), this.low.fraction()),
        ),
    })
}

/// Relative spread of goodputs by one route until it shows its own: responses differ in size.
const GOODPUT_SD: f32 = 0.4;
/// How much the ratio of goodputs of two egress routes differs between the phases, in logarithms. It is
/// somewhat more than over the pairs of `experiments/epe-sizes.toml` (root mean square 0.2 of 2 MB
/// against 40 MB).
const PHASE_SD: f32 = 0.3;
/// How much more several egress routes gain over one later than at first, somewhat less than there
/// (mean 0.4). Subflows join after the first one, and each opens its own window.
const SEVERAL_LATER: f32 = 0.3;
/// The standard deviation of [`SEVERAL_LATER`].
const SEVERAL_SD: f32 = 0.2;
/// The standard deviation of smoothed RTTs between phases, in logarithms.
const RTT_SD: f32 = 0.2;
/// For live content a route has enough goodput unless another has more than this many times as much.
const ENOUGH_GOODPUT: f32 = 2.0;
/// Stalls that show a difference.
const MIN_STALLS: f32 = 0.5;
const ANSCOMBE: f32 = 0.375;
