//! Quantiles of clients' load times, whatever their distribution.
//!
//! The share of clients below the true quantile is a mean of zeros and ones. So the interval for that share
//! ([`super::interval`]) leads to two order statistics, and these hold at every look as well.

use std::collections::BTreeMap;

use super::MIN_CLIENTS;
use super::effect::weights;
use super::interval::{ALPHA, half_width_tuned, variance_at};
use super::report::{LoadTimes, Quantile, Ratio};
use super::units::Unit;
use crate::choice::Assignment;

/// The load times of both groups' clients.
pub(super) fn load_times(units: &[Unit]) -> LoadTimes {
    let weights = weights(units);
    let groups = Assignment::ALL.map(|group| Times::of(units, group, &weights));
    let quantile = |q: f64| {
        let [own, other] = groups.each_ref().map(|times| times.at(q));
        Quantile {
            hikyaku: own.map(f64::exp),
            hold_back: other.map(f64::exp),
            ratio: ratio(&groups, q),
        }
    };
    LoadTimes {
        p50: quantile(0.5),
        p75: quantile(0.75),
        p95: quantile(0.95),
    }
}

/// Hikyaku's quantile over the other group's. Each of the two intervals is missed with half of the
/// probability (Bonferroni).
fn ratio([own, other]: &[Times; 2], q: f64) -> Option<Ratio> {
    let (own_low, own_high) = own.interval(q, ALPHA / 2.0)?;
    let (other_low, other_high) = other.interval(q, ALPHA / 2.0)?;
    Some(Ratio {
        mean: (own.at(q)? - other.at(q)?).exp(),
        low: (own_low - other_high).exp(),
        high: (own_high - other_low).exp(),
    })
}

/// Logarithms of clients' times, ascending, with the weight up to and with each.
struct Times {
    sorted: Vec<(f64, f64)>,
    /// Clients of equal weight that would say as much.
    n: f64,
}

impl Times {
    /// The times of a group, weighted so that both groups have the same part in each stratum. Without a
    /// stratum to compare all clients count the same.
    fn of(units: &[Unit], assignment: Assignment, weights: &BTreeMap<u16, f64>) -> Self {
        let of = || units.iter().filter(|unit| unit.assignment == assignment);
        let mut counts: BTreeMap<u16, f64> = BTreeMap::new();
        for unit in of() {
            *counts.entry(unit.share).or_default() += 1.0;
        }
        let weight = |unit: &Unit| match weights.is_empty() {
            true => 1.0,
            false => weights
                .get(&unit.share)
                .map_or(0.0, |weight| weight / counts[&unit.share]),
        };
        let mut sorted: Vec<(f64, f64)> = of().map(|unit| (unit.log_time, weight(unit))).collect();
        sorted.retain(|(_, weight)| *weight > 0.0);
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (mut sum, mut squares) = (0.0, 0.0);
        for (_, weight) in &mut sorted {
            sum += *weight;
            squares += *weight * *weight;
            *weight = sum;
        }
        for (_, weight) in &mut sorted {
            *weight /= sum;
        }
        let n = if squares > 0.0 {
            sum * sum / squares
        } else {
            0.0
        };
        Self { sorted, n }
    }

    /// The smallest time that a share of `q` of the clients does not exceed.
    fn at(&self, q: f64) -> Option<f64> {
        let place = self
            .sorted
            .partition_point(|(_, below)| *below < q - ROUNDING);
        self.sorted.get(place).map(|(time, _)| *time)
    }

    /// The order statistics between which the quantile lies but for a probability of `alpha`; `None` where
    /// there are too few clients for one of them.
    fn interval(&self, q: f64, alpha: f64) -> Option<(f64, f64)> {
        if self.n < MIN_CLIENTS as f64 {
            return None;
        }
        // Narrowest, in ranks, at the number of clients that is usual for a hold-back group.
        let target = (variance_at(1.0, alpha).recip() * q * (1.0 - q) / USUAL).sqrt();
        let half = half_width_tuned(q * (1.0 - q) / self.n, f64::INFINITY, alpha, target);
        let half = half + self.n.recip();
        let (low, high) = (q - half, q + half);
        (low > 0.0 && high < 1.0).then_some((self.at(low)?, self.at(high)?))
    }
}

const USUAL: f64 = 1000.0;
const ROUNDING: f64 = 1e-9;
