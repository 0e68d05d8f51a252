//! Sums as steps between bounds.

use super::moments::Moments;
use crate::codec::{Reader, Writer};

/// The values that sums over samples can have in a contribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    /// Most weight of one contribution.
    pub(crate) weight: f64,
    /// Least and largest mean; `None` where the weight says all.
    pub(crate) mean: Option<[f64; 2]>,
    /// Whether the variance is shared.
    pub(crate) scatters: bool,
}

/// Sums as three numbers, each one of 65,536 steps.
#[derive(Default)]
pub(crate) struct Codes {
    /// Steps of the logarithm of one more than the weight; 0 where there is too little to speak.
    weight: u16,
    mean: u16,
    /// Of the standard deviation, which is half of the mean's range at most.
    sd: u16,
}

impl Bounds {
    /// Length of the codes as bytes.
    pub(crate) const fn encoded_len(&self) -> usize {
        2 * (1 + self.mean.is_some() as usize + self.scatters as usize)
    }
}

impl Codes {
    /// The nearest steps. Means are counted from `origin`.
    pub(crate) fn of(part: &Moments, bounds: &Bounds, origin: f64) -> Self {
        let steps = |value: f64, [low, high]: [f64; 2]| {
            let place = (value - low) / (high - low);
            // Converting a float saturates.
            (place * STEPS).round() as u16
        };
        let Some(value) = part.mean() else {
            return Self::default();
        };
        let value = value - origin;
        Self {
            weight: steps(part.weight.ln_1p(), [0.0, bounds.weight.ln_1p()]),
            mean: bounds.mean.map_or(0, |range| steps(value, range)),
            sd: bounds
                .mean
                .map_or(0, |range| steps(part.variance().sqrt(), [0.0, half(range)])),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.weight == 0
    }

    pub(crate) fn moments(&self, bounds: &Bounds, origin: f64) -> Moments {
        let value =
            |steps: u16, [low, high]: [f64; 2]| low + f64::from(steps) / STEPS * (high - low);
        let most = bounds.weight;
        // Rounding may leave it just above the most.
        let weight = value(self.weight, [0.0, most.ln_1p()]).exp_m1().min(most);
        let sd = bounds
            .mean
            .map_or(0.0, |range| value(self.sd, [0.0, half(range)]));
        let mean = bounds.mean.map_or(0.0, |range| value(self.mean, range));
        Moments::scattered(mean + origin, sd * sd, weight)
    }

    pub(crate) fn write(&self, bounds: &Bounds, to: &mut Writer<'_>) {
        to.u16(self.weight);
        if bounds.mean.is_some() {
            to.u16(self.mean);
        }
        if bounds.scatters {
            to.u16(self.sd);
        }
    }

    pub(crate) fn read(bounds: &Bounds, from: &mut Reader<'_>) -> Self {
        Self {
            weight: from.u16(),
            mean: if bounds.mean.is_some() { from.u16() } else { 0 },
            sd: if bounds.scatters { from.u16() } else { 0 },
        }
    }
}

const fn half([low, high]: [f64; 2]) -> f64 {
    (high - low) / 2.0
}

const STEPS: f64 = u16::MAX as f64;
