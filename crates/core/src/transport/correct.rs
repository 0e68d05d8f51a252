//! Load times of arms, corrected by the times that their responses really took.

use std::time::Duration;

use super::Load;
use crate::choice::{Gain, QUANTILE_90};
use crate::model::{LogLoad, LossSpan, Point, load_time};
use crate::stat::Stat;
use hikyaku_units::arm::{ARMS, Arm, Transport};

/// The model's prediction for one arm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Predicted {
    pub(super) mean: LogLoad,
    /// How much its logarithm rises by one standard error of the loss.
    per_loss: f32,
}

impl Predicted {
    /// `losses` are the mean and its upper bound.
    pub(super) fn new(point: &Point<'_>, arm: Arm, losses: &LossSpan) -> Option<Self> {
        let (mean, ln_high) = point.log_loads(arm, losses)?;
        Some(Self {
            mean,
            per_loss: (ln_high - mean.ln_secs) / QUANTILE_90 as f32,
        })
    }

    /// Spread of single outcomes until a client shows its own.
    pub(super) fn outcome_sd(&self) -> f32 {
        self.mean.scatter.hypot(CLIENT_SD)
    }

    /// Variance of the error that it shares with no other arm.
    fn own(&self) -> f32 {
        self.mean.rel_sd * self.mean.rel_sd + MODEL_SD * MODEL_SD
    }

    /// How strongly each of the errors that all arms share counts for it. One is that the client is
    /// slower or faster than the model says, and the other is that of the loss.
    const fn shared(&self) -> [f32; 2] {
        [COMMON_SD, self.per_loss]
    }
}

/// All arms' load times as they are to be expected after the outcomes, with the covariance of their
/// errors. The errors are those of normal variables (logarithms), each measured with an error of its
/// own.
///
/// The error of a prediction is mostly common to all arms. A slow client is slow by all arms, and an
/// uncertain loss is so for all. The error cancels when two are compared, and the lesson of one arm's
/// outcomes about it holds for the others. So the error is modelled as two shared factors and a
/// remainder of each arm alone. Given the factors, arms are independent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Corrected {
    arms: [Option<CorrectedArm>; ARMS],
    /// Covariance of the shared factors.
    factors: Symmetric,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct CorrectedArm {
    ln_secs: f32,
    /// Variance of its own error.
    own: f32,
    /// How strongly the shared factors count for it.
    shared: [f32; 2],
}

/// A symmetric matrix of two rows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Symmetric {
    first: f32,
    both: f32,
    second: f32,
}

impl Corrected {
    pub(super) fn new(predicted: &[Option<Predicted>; ARMS], outcomes: &[Stat; ARMS]) -> Self {
        let error_sq = |predicted: &Predicted, outcome: &Stat| {
            outcome.standard_error_sq(predicted.outcome_sd())
        };
        let pairs = || {
            let both = predicted.iter().zip(outcomes);
            both.filter_map(|(predicted, outcome)| Some((predicted.as_ref()?, outcome)))
        };
        let known = pairs().filter(|(_, outcome)| outcome.weight > 0.0);
        let excess = excess(known.clone().map(|(predicted, outcome)| {
            let of_loss = predicted.per_loss * predicted.per_loss;
            (
                outcome.mean,
                predicted.own() + of_loss + error_sq(predicted, outcome),
            )
        }));
        let mut precision = Symmetric {
            first: 1.0,
            both: 0.0,
            second: 1.0,
        };
        let mut pull = [0.0; 2];
        for (predicted, outcome) in known {
            let weight = (predicted.own() + excess + error_sq(predicted, outcome)).recip();
            let [client, loss] = predicted.shared();
            precision.first += client * client * weight;
            precision.both += client * loss * weight;
            precision.second += loss * loss * weight;
            pull[0] += client * outcome.mean * weight;
            pull[1] += loss * outcome.mean * weight;
        }
        let factors = precision.inverse();
        let expected = factors.times(pull);
        let mut arms = [None; ARMS];
        for ((arm, predicted), outcome) in arms.iter_mut().zip(predicted).zip(outcomes) {
            let Some(predicted) = predicted else {
                continue;
            };
            let own = predicted.own() + excess;
            // The arm's share of the error that the factors leave unexplained; the rest is its outcomes' noise.
            let trust = if outcome.weight > 0.0 {
                own / (own + error_sq(predicted, outcome))
            } else {
                0.0
            };
            let shared = predicted.shared().map(|strength| (1.0 - trust) * strength);
            let ln_secs = predicted.mean.ln_secs
                + trust * outcome.mean
                + shared[0] * expected[0]
                + shared[1] * expected[1];
            *arm = Some(CorrectedArm {
                ln_secs,
                own: (1.0 - trust) * own,
                shared,
            });
        }
        Self { arms, factors }
    }

    /// Whether the arm was predicted.
    pub(super) const fn has(&self, arm: Arm) -> bool {
        self.arms[arm.index()].is_some()
    }

    /// The expected load time of the arm; `None` if it was not predicted.
    pub(super) fn load(&self, arm: Arm) -> Option<Load> {
        let arm = self.arms[arm.index()]?;
        Some(Load {
            time: load_time(arm.ln_secs),
            rel_sd: (arm.own + self.factors.variance(arm.shared)).sqrt(),
        })
    }

    /// The gain of `arm` over `other`; `None` unless both were predicted.
    pub(super) fn gain(&self, arm: Arm, other: Arm) -> Option<Gain> {
        let [this, that] = [arm, other].map(|arm| self.arms[arm.index()]);
        let (this, that) = (this?, that?);
        let apart = [0, 1].map(|factor| this.shared[factor] - that.shared[factor]);
        let variance = this.own + that.own + self.factors.variance(apart);
        let error = variance.max(0.0).sqrt();
        Some(Gain::normal(that.ln_secs - this.ln_secs, error))
    }

    /// The load times with the handshake before: the certain part makes the uncertain part count less.
    pub(super) fn after(mut self, handshake: Handshake) -> Self {
        for (arm, corrected) in Arm::ALL.into_iter().zip(&mut self.arms) {
            let Some(corrected) = corrected else {
                continue;
            };
            let ln_secs = handshake.before(arm, corrected.ln_secs);
            let part = (corrected.ln_secs - ln_secs).exp();
            *corrected = CorrectedArm {
                ln_secs,
                own: part * part * corrected.own,
                shared: corrected.shared.map(|strength| part * strength),
            };
        }
        self
    }
}

/// The round trip that TCP's handshake takes before that of TLS, while QUIC makes both in one (RFC 9001
/// §4). A client meets it once a visit: an outcome is a busy period of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    secs: f32,
}

impl Handshake {
    pub(super) fn over(min_rtt: Duration) -> Self {
        Self {
            secs: min_rtt.as_secs_f32(),
        }
    }

    /// The logarithm of a load time with it.
    pub(super) fn before(self, arm: Arm, ln_secs: f32) -> f32 {
        match arm.version.transport() {
            Transport::Tcp => (ln_secs.exp() + self.secs).ln(),
            Transport::Quic => ln_secs,
        }
    }
}

impl Symmetric {
    fn inverse(self) -> Self {
        let determinant = self.first * self.second - self.both * self.both;
        Self {
            first: self.second / determinant,
            both: -self.both / determinant,
            second: self.first / determinant,
        }
    }

    fn times(self, [a, b]: [f32; 2]) -> [f32; 2] {
        [
            self.first * a + self.both * b,
            self.both * a + self.second * b,
        ]
    }

    /// Variance of a sum in which the factors count so strongly.
    fn variance(self, strength: [f32; 2]) -> f32 {
        let [a, b] = self.times(strength);
        strength[0] * a + strength[1] * b
    }
}

/// Where several arms' outcomes say that the model is wrong about their differences, it is. The result
/// is the variance that their expected errors leave unexplained. See DerSimonian and Laird,
/// "Meta-analysis in clinical trials", Controlled Clinical Trials 1986. Takes means with the variances
/// of their errors.
fn excess(known: impl Iterator<Item = (f32, f32)> + Clone) -> f32 {
    let weighted = known.map(|(mean, variance)| (mean, variance.recip()));
    let count = weighted.clone().count();
    if count < 2 {
        return 0.0;
    }
    let (mut sum, mut sum_sq, mut total) = (0.0, 0.0, 0.0);
    for (mean, weight) in weighted.clone() {
        sum += weight;
        sum_sq += weight * weight;
        total += weight * mean;
    }
    let centre = total / sum;
    let apart: f32 = weighted
        .map(|(mean, weight)| weight * (mean - centre) * (mean - centre))
        .sum();
    ((apart - (count as f32 - 1.0)) / (sum - sum_sq / sum)).max(0.0)
}

/// How far a model fitted elsewhere is off for one client, by all arms alike.
const COMMON_SD: f32 = 0.5;
/// How far it is off by one arm alone, besides its own uncertainty.
const MODEL_SD: f32 = 0.05;
/// How much a client's outcomes scatter besides the model's prediction for a steady path: they differ in
/// size, and paths are not steady.
const CLIENT_SD: f32 = 0.1;

#[cfg(test)]
mod tests {
    use super::excess;

    #[test]
    fn two_means_exceed_their_errors_by_half_of_the_remainder() {
        let of = |apart: f32| excess([(apart, 0.02), (0.0, 0.03)].into_iter());
        assert_eq!(of(0.2), 0.0, "explained by their errors");
        assert!((of(0.5) - (0.25 - 0.05) / 2.0).abs() < 1e-5);
        assert_eq!(excess([(9.0, 0.1)].into_iter()), 0.0, "one cannot tell");
        let three = [(0.5, 0.01), (0.0, 0.01), (-0.5, 0.01)];
        assert!((excess(three.into_iter()) - 0.24).abs() < 1e-4);
    }
}
