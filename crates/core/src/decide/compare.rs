//! Both arms' load times for one client, corrected by what really happened.

use super::reason::Missing;
use super::{Comparison, Load};
use crate::arm::{Arm, Transport, Version};
use crate::estimate::LossBounds;
use crate::model::{LogLoad, Model, Point, load_time};
use crate::policy::PolicyConfig;
use crate::stat::Stat;
use crate::view::PathView;

/// A comparison with what the way back looks at.
pub(super) struct Compared {
    pub(super) comparison: Comparison,
    /// HTTP/3's load time by the client's own outcomes alone, less one standard error, over HTTP/2's by
    /// outcomes and model (logarithm); `None` with too few outcomes.
    pub(super) own_h3_excess: Option<f32>,
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
    let point = model.at(min_rtt, rate, size.bytes());
    let arm = |version| Arm::new(version, policy.congestion);
    let [tcp, quic] = Transport::ALL.map(Transport::index);
    let predicted = |version| predict(&point, arm(version), &view.loss_for(version));
    let h2 = predicted(Version::H2).ok_or(Missing::Arm)?;
    let h3 = predicted(Version::H3).ok_or(Missing::Arm)?;

    let corrected_h2 = correct(&h2, &view.outcome[tcp], &view.outcome[quic]);
    let corrected_h3 = correct(&h3, &view.outcome[quic], &view.outcome[tcp]);
    let gain = corrected_h2.ln_secs - corrected_h3.ln_secs;
    let margin = Z * corrected_h2.rel_sd.hypot(corrected_h3.rel_sd);
    let measured_loss = view.loss.map(|loss| loss.unwrap_or_default().mean);
    let comparison = Comparison {
        h2: load(&corrected_h2),
        h3: load(&corrected_h3),
        size,
        min_rtt,
        loss_tcp: measured_loss[tcp],
        loss_quic: measured_loss[quic],
        rate,
        h3_gain: gain.exp_m1(),
        h3_gain_low: (gain - margin).exp_m1(),
        h2_gain_low: (-gain - margin).exp_m1(),
    };
    Ok(Compared {
        comparison,
        own_h3_excess: own_h3_excess(view, &h2, &h3),
    })
}

/// See [`Compared::own_h3_excess`]. Nothing is borrowed here: what HTTP/3 took is held against what
/// HTTP/2 takes, or is predicted to.
fn own_h3_excess(view: &PathView, h2: &LogLoad, h3: &LogLoad) -> Option<f32> {
    let [tcp, quic] = Transport::ALL.map(Transport::index);
    let proven = |outcome: &&Stat| outcome.weight >= MIN_OWN_OUTCOMES;
    let own = Some(&view.own_outcome[quic]).filter(proven)?;
    let h2_outcome = Some(&view.outcome[tcp]).filter(proven);
    let h2_ln_secs = h2.ln_secs + h2_outcome.map_or(0.0, |outcome| outcome.mean);
    let least_h3_ln_secs = h3.ln_secs + own.mean - own.standard_error_sq(OUTCOME_SD).sqrt();
    Some(least_h3_ln_secs - h2_ln_secs)
}

/// The model's prediction; its uncertainty holds that of the loss.
fn predict(point: &Point<'_>, arm: Arm, loss: &LossBounds) -> Option<LogLoad> {
    let mean = point.log_load(arm, loss.mean)?;
    let high = point.log_load(arm, loss.high)?;
    let loss_sd = (high.ln_secs - mean.ln_secs).abs() / Z;
    Some(LogLoad {
        rel_sd: mean.rel_sd.hypot(loss_sd),
        ..mean
    })
}

/// Moves a prediction by the arm's own outcomes as far as these are trusted, and for the rest by half of
/// the other arm's: a slow client is slow by both, but by how much is not known, so what is borrowed is
/// as uncertain as it is large.
fn correct(predicted: &LogLoad, own: &Stat, other: &Stat) -> LogLoad {
    let trust = trust(own);
    let borrowed = SHARED * self::trust(other) * other.mean;
    let unproven = MODEL_SD.hypot(borrowed) * (1.0 - trust);
    let proven = if trust > 0.0 {
        trust * own.standard_error_sq(OUTCOME_SD).sqrt()
    } else {
        0.0
    };
    LogLoad {
        ln_secs: predicted.ln_secs + trust * own.mean + (1.0 - trust) * borrowed,
        rel_sd: predicted.rel_sd.hypot(unproven).hypot(proven),
    }
}

/// How far outcomes replace the model, from 0 to 1.
fn trust(outcomes: &Stat) -> f32 {
    outcomes.weight / (outcomes.weight + MODEL_WEIGHT)
}

fn load(log_load: &LogLoad) -> Load {
    Load {
        time: load_time(log_load.ln_secs),
        rel_sd: log_load.rel_sd,
    }
}

/// The model counts as so many outcomes.
const MODEL_WEIGHT: f32 = 2.0;
/// Share of the other arm's correction that is borrowed.
const SHARED: f32 = 0.5;
/// How far a model fitted elsewhere is off for one client, relative to the other arm.
const MODEL_SD: f32 = 0.05;
/// Spread of single outcomes until a client shows its own: they differ in size and luck.
const OUTCOME_SD: f32 = 0.3;
/// Own outcomes needed for the way back.
const MIN_OWN_OUTCOMES: f32 = 3.0;
/// The normal distribution's 90 % quantile: bounds are one-sided.
const Z: f32 = 1.2816;
