//! Both arms' load times for one client, corrected by what really happened.

use super::reason::Missing;
use super::{Comparison, Load};
use crate::arm::{Arm, Version};
use crate::estimate::LossBounds;
use crate::model::{LogLoad, Model, Point, load_time};
use crate::policy::PolicyConfig;
use crate::stat::Stat;
use crate::view::PathView;

/// A comparison with what trials look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    pub(super) comparison: Comparison,
    /// By [`Transport`](crate::arm::Transport): the client's own outcomes, less one standard error, are
    /// worse than what the model, or an outcome, says of the other version.
    pub(super) disappoints: [bool; 2],
}

/// Compares HTTP/2 and HTTP/3 for the client's path and its typical response.
pub(super) fn compare(
    view: &PathView,
    model: &Model,
    policy: &PolicyConfig,
) -> Result<Compared, Missing> {
    let min_rtt = view.min_rtt.ok_or(Missing::Rtt)?;
    let rate = view.rate.ok_or(Missing::Rate)?;
    let size = view.size.unwrap_or(policy.typical_size);
    let rate_for = |version| view.rate_for(version, policy.congestion);
    let rate_h2 = rate_for(Version::H2).ok_or(Missing::Rate)?;
    let rate_h3 = rate_for(Version::H3).ok_or(Missing::Rate)?;
    let at = |rate| model.at(min_rtt, rate, size.bytes());
    let point_h2 = at(rate_h2);
    let apart = (rate_h3 != rate_h2).then(|| at(rate_h3));
    let predicted = |version, point: &Point<'_>| {
        let arm = Arm::new(version, policy.congestion);
        Predicted::new(point, arm, &view.loss_for(version)).ok_or(Missing::Arm)
    };
    let h2 = predicted(Version::H2, &point_h2)?;
    let h3 = predicted(Version::H3, apart.as_ref().unwrap_or(&point_h2))?;
    let corrected = Corrected::new(&h2, &h3, &view.outcome);
    let [tcp, quic] = view.loss.map(|loss| loss.unwrap_or_default().mean);
    let (gain, margin) = (corrected.gain(), corrected.margin());
    let comparison = Comparison {
        h2: corrected.load(0),
        h3: corrected.load(1),
        size,
        min_rtt,
        loss_tcp: tcp,
        loss_quic: quic,
        rate,
        h3_gain: gain.exp_m1(),
        h3_gain_low: (gain - margin).exp_m1(),
        h2_gain_low: (-gain - margin).exp_m1(),
    };
    let [own_h2, own_h3] = &view.own_outcome;
    let disappoints = [
        disappoints([own_h2, own_h3], [&h2, &h3], policy),
        disappoints([own_h3, own_h2], [&h3, &h2], policy),
    ];
    Ok(Compared {
        comparison,
        disappoints,
    })
}

/// The model's prediction for one arm.
struct Predicted {
    mean: LogLoad,
    /// How much its logarithm rises by one standard error of the loss.
    per_loss: f32,
}

impl Predicted {
    fn new(point: &Point<'_>, arm: Arm, loss: &LossBounds) -> Option<Self> {
        let mean = point.log_load(arm, loss.mean)?;
        let high = point.log_load(arm, loss.high)?;
        Some(Self {
            mean,
            per_loss: (high.ln_secs - mean.ln_secs) / Z,
        })
    }

    /// Spread of single outcomes until a client shows its own.
    fn outcome_sd(&self) -> f32 {
        self.mean.scatter.hypot(CLIENT_SD)
    }
}

/// Both arms' load times as they are to be expected after the outcomes, with the covariance of their
/// errors: those of two normal variables (logarithms), each measured with an error of its own.
///
/// What is wrong with a prediction is mostly wrong with both: a slow client is slow by both, and an
/// uncertain loss is so for both. It cancels when they are compared, and what one arm's outcomes tell of
/// it holds for the other.
struct Corrected {
    ln_secs: [f32; 2],
    covariance: Matrix,
}

/// Symmetric: HTTP/2's variance, the covariance, HTTP/3's variance.
#[derive(Clone, Copy)]
struct Matrix {
    h2: f32,
    both: f32,
    h3: f32,
}

impl Corrected {
    fn new(h2: &Predicted, h3: &Predicted, outcome: &[Stat; 2]) -> Self {
        let error_sq = [(h2, &outcome[0]), (h3, &outcome[1])]
            .map(|(predicted, outcome)| outcome.standard_error_sq(predicted.outcome_sd()));
        let own = |predicted: &Predicted| {
            let LogLoad { rel_sd, .. } = predicted.mean;
            rel_sd * rel_sd + MODEL_SD * MODEL_SD + predicted.per_loss * predicted.per_loss
        };
        let [own_h2, own_h3] = [own(h2), own(h3)];
        // Where both arms' outcomes say that the model is wrong about their difference, it is.
        let expected = own_h2 + own_h3 + error_sq[0] + error_sq[1];
        let excess = ((outcome[0].mean - outcome[1].mean).powi(2) - expected).max(0.0) / 2.0;
        let prior = Matrix {
            h2: own_h2 + excess + COMMON_SD * COMMON_SD,
            both: h2.per_loss * h3.per_loss + COMMON_SD * COMMON_SD,
            h3: own_h3 + excess + COMMON_SD * COMMON_SD,
        };
        let weights = error_sq.map(f32::recip);
        let covariance = prior.measured(weights);
        let told = [outcome[0].mean * weights[0], outcome[1].mean * weights[1]];
        Self {
            ln_secs: [
                h2.mean.ln_secs + covariance.h2 * told[0] + covariance.both * told[1],
                h3.mean.ln_secs + covariance.both * told[0] + covariance.h3 * told[1],
            ],
            covariance,
        }
    }

    /// Logarithm of HTTP/2's time over HTTP/3's.
    fn gain(&self) -> f32 {
        self.ln_secs[0] - self.ln_secs[1]
    }

    /// How far its 90 % bounds are away.
    fn margin(&self) -> f32 {
        let Matrix { h2, both, h3 } = self.covariance;
        Z * (h2 + h3 - 2.0 * both).max(0.0).sqrt()
    }

    fn load(&self, arm: usize) -> Load {
        let Matrix { h2, h3, .. } = self.covariance;
        Load {
            time: load_time(self.ln_secs[arm]),
            rel_sd: [h2, h3][arm].sqrt(),
        }
    }
}

impl Matrix {
    /// What is left of a covariance after measurements, whose reciprocal variances are `weights`.
    fn measured(self, [h2, h3]: [f32; 2]) -> Self {
        let determinant = self.h2 * self.h3 - self.both * self.both;
        let scale = 1.0 + h2 * self.h2 + h3 * self.h3 + h2 * h3 * determinant;
        Self {
            h2: (self.h2 + h3 * determinant) / scale,
            both: self.both / scale,
            h3: (self.h3 + h2 * determinant) / scale,
        }
    }
}

/// See [`Compared::disappoints`], of the first version against the second. Nothing is borrowed here: it
/// may be that the client is slow by both versions, but only the other's outcomes can tell. One is enough.
fn disappoints(
    [own, others]: [&Stat; 2],
    [this, other]: [&Predicted; 2],
    policy: &PolicyConfig,
) -> bool {
    let error = own.standard_error_sq(this.outcome_sd()).sqrt();
    let least = this.mean.ln_secs + own.mean - error;
    let told = if others.weight >= TOLD {
        others.mean
    } else {
        0.0
    };
    let much = (policy.min_gain as f32).ln_1p();
    own.weight >= MIN_OUTCOMES && least > other.mean.ln_secs + told + much
}

/// How far a model fitted elsewhere is off for one client, by both arms alike.
const COMMON_SD: f32 = 0.5;
/// How far it is off by one arm alone, besides its own uncertainty.
const MODEL_SD: f32 = 0.05;
/// How much a client's outcomes scatter besides what the model says of a steady path: they differ in
/// size, and paths are not steady.
const CLIENT_SD: f32 = 0.1;
/// Outcomes of the other version that count instead of what the model says of it: one that has hardly
/// faded.
const TOLD: f32 = 0.75;
/// Outcomes that can disappoint: one response may have been slow for any reason.
const MIN_OUTCOMES: f32 = 3.0;
/// The normal distribution's 90 % quantile: bounds are one-sided.
const Z: f32 = 1.2816;
