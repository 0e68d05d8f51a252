//! Sums over weighted samples, which add and fade.

use std::time::Duration;

use crate::stat::Stat;

/// The weights of samples, and their first two moments: Σw, Σwx and Σwx².
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moments {
    pub(crate) weight: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    /// Samples of a weight that are all `value`.
    pub(crate) fn new(value: f64, weight: f64) -> Self {
        Self::scattered(value, 0.0, weight)
    }

    /// Samples of a weight, by their mean and variance.
    pub(crate) fn scattered(mean: f64, variance: f64, weight: f64) -> Self {
        Self {
            weight,
            sum: weight * mean,
            squares: weight * (mean * mean + variance),
        }
    }

    pub(crate) fn of(stat: &Stat) -> Self {
        Self::scattered(stat.mean.into(), stat.var.into(), stat.weight.into())
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.weight += other.weight;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Keeps `share` of the weight.
    pub(crate) fn fade(&mut self, share: f64) {
        self.weight *= share;
        self.sum *= share;
        self.squares *= share;
    }

    /// The sums of samples that all lie higher by `by`.
    pub(crate) fn moved(&self, by: f64) -> Self {
        let Self {
            weight,
            sum,
            squares,
        } = *self;
        Self {
            weight,
            sum: sum + weight * by,
            squares: squares + 2.0 * by * sum + weight * by * by,
        }
    }

    /// The mean; `None` where too little weight is left to speak.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.weight >= DUST).then(|| self.sum / self.weight)
    }

    /// The variance around the mean; 0 without a mean.
    pub(crate) fn variance(&self) -> f64 {
        let of = |mean: f64| self.squares / self.weight - mean * mean;
        // Rounding may leave it just below zero.
        self.mean().map_or(0.0, of).max(0.0)
    }

    /// Mean, variance and weight; empty without a mean.
    pub(crate) fn stat(&self) -> Stat {
        self.mean().map_or_else(Stat::default, |mean| Stat {
            mean: mean as f32,
            var: self.variance() as f32,
            weight: self.weight as f32,
        })
    }
}

/// The share that is left after `elapsed`.
pub(crate) fn share(elapsed: Duration, half_life: Duration) -> f64 {
    (-elapsed.as_secs_f64() / half_life.as_secs_f64()).exp2()
}

/// A thousandth of a sample: ten half-lives after one.
pub(crate) const DUST: f64 = 0.001;
