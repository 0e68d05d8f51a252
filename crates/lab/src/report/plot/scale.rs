//! From values to positions.

/// Placement of values along an axis. Positions go from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) enum Scale {
    /// Positions in proportion to the values.
    Linear {
        /// Value at position 0.
        low: f64,
        /// Value at position 1.
        high: f64,
    },
    /// By logarithm. With `zero`, 0 has a place of its own at the low end.
    Log {
        /// The smallest positive value, at position 0 (with `zero` a little above).
        low: f64,
        /// Value at position 1.
        high: f64,
        /// Whether zero is shown.
        zero: bool,
    },
    /// Equal bands, by their number; the value `i` is the middle of band `i`.
    Bands(usize),
}

/// Part of a logarithmic axis that zero takes.
const ZERO: f64 = 0.1;

impl Scale {
    /// Makes a linear scale from 0, or from below if values are negative, to a round value.
    pub(in crate::report) fn linear(values: &[f64]) -> Self {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let low = finite().fold(0.0, f64::min);
        let high = finite().fold(f64::MIN, f64::max).max(low);
        let high = if high == low { low + 1.0 } else { high };
        let step = step((high - low) / 5.0);
        Self::Linear {
            low: (low / step).floor() * step,
            high: (high / step - 1e-9).ceil() * step,
        }
    }

    /// Makes a linear scale that ends with the values.
    pub(in crate::report) fn tight(values: &[f64]) -> Self {
        let low = values.iter().copied().fold(f64::MAX, f64::min);
        let high = values.iter().copied().fold(f64::MIN, f64::max);
        match low < high {
            true => Self::Linear { low, high },
            false => Self::Linear {
                low: low - 0.5,
                high: low + 0.5,
            },
        }
    }

    /// Makes a logarithmic scale around the positive values; linear if there are none.
    pub(in crate::report) fn log(values: &[f64]) -> Self {
        let positive = || {
            let finite = values.iter().copied().filter(|value| value.is_finite());
            finite.filter(|value| *value > 0.0)
        };
        let (low, high) = (
            positive().fold(f64::MAX, f64::min),
            positive().fold(f64::MIN, f64::max),
        );
        if low > high {
            return Self::linear(values);
        }
        Self::Log {
            low: low / 1.15,
            high: high * 1.15,
            zero: values.contains(&0.0),
        }
    }

    /// Returns the position of a value; outside of 0 to 1 if it is outside of the scale.
    pub(in crate::report) fn position(&self, value: f64) -> f64 {
        match *self {
            Self::Linear { low, high } => (value - low) / (high - low),
            Self::Log { low, high, zero } => {
                let start = if zero { ZERO } else { 0.0 };
                if value <= 0.0 {
                    return if zero { ZERO / 4.0 } else { 0.0 };
                }
                start + (1.0 - start) * (value / low).ln() / (high / low).ln()
            }
            Self::Bands(n) => (value + 0.5) / n as f64,
        }
    }

    /// Returns the values to mark, ascending.
    pub(in crate::report) fn ticks(&self) -> Vec<f64> {
        match *self {
            Self::Linear { low, high } => {
                let step = step((high - low) / 5.0);
                let first = (low / step - 1e-9).ceil();
                let last = (high / step + 1e-9).floor();
                let mut ticks = vec![];
                let mut tick = first;
                while tick <= last {
                    // Adding zero turns -0 into 0.
                    ticks.push(tick * step + 0.0);
                    tick += 1.0;
                }
                ticks
            }
            Self::Log { low, high, zero } => {
                let mut ticks = log_ticks(low, high);
                if zero {
                    ticks.insert(0, 0.0);
                }
                ticks
            }
            Self::Bands(n) => (0..n).map(|i| i as f64).collect(),
        }
    }
}

/// Returns 1, 2 or 5 times a power of ten, not below `rough`.
fn step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= rough * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Returns powers of ten; over few decades also 2 and 5 times them.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let factors: &[f64] = match decades {
        d if d < 0.6 => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
        d if d < 2.2 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    (first..=last)
        .flat_map(|power| {
            factors
                .iter()
                .map(move |factor| factor * 10_f64.powi(power))
        })
        .filter(|tick| (low..=high).contains(tick))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_scales_start_at_zero_and_end_round() {
        let scale = Scale::linear(&[3.0, 87.0]);
        assert_eq!(
            scale,
            Scale::Linear {
                low: 0.0,
                high: 100.0
            }
        );
        assert_eq!(scale.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(scale.position(50.0), 0.5);
        let scale = Scale::linear(&[-0.03, 0.12]);
        let Scale::Linear { low, high } = scale else {
            unreachable!()
        };
        assert!(low <= -0.03 && high >= 0.12);
    }

    #[test]
    fn log_scales_keep_a_place_for_zero() {
        let scale = Scale::log(&[0.0, 0.001, 1.0]);
        assert_eq!(scale.ticks(), [0.0, 0.001, 0.01, 0.1, 1.0]);
        let positions: Vec<f64> = scale.ticks().iter().map(|t| scale.position(*t)).collect();
        assert!(positions.is_sorted() && positions[0] < 0.1);
        assert_eq!(
            Scale::log(&[100.0, 900.0]).ticks(),
            [100.0, 200.0, 500.0, 1000.0]
        );
    }

    #[test]
    fn nothing_to_show_is_no_reason_to_fail() {
        for values in [&[][..], &[0.0], &[5.0, 5.0]] {
            for scale in [Scale::linear(values), Scale::log(values)] {
                assert!(scale.position(1.0).is_finite(), "{values:?}");
                assert!(scale.ticks().len() < 20);
            }
        }
    }
}
