//! Samples in which some sessions did not end: what can still be said of them.

use std::cmp::Ordering;

use super::stats::{self, MedianRanks};

#[cfg(test)]
mod tests;

/// What is known of one session's metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// It was measured.
    Exact(f64),
    /// The session was given up at this value: it would have been more.
    Over(f64),
    /// The session failed: worse than any other.
    Failed,
}

impl Value {
    /// Where it ranks: failed sessions after those that were given up, these after all others.
    fn rank(self) -> (u8, f64) {
        match self {
            Self::Exact(value) => (0, value),
            Self::Over(value) => (1, value),
            Self::Failed => (2, 0.0),
        }
    }

    /// The least that it can be.
    pub(super) fn at_least(self) -> f64 {
        match self {
            Self::Exact(value) | Self::Over(value) => value,
            Self::Failed => f64::INFINITY,
        }
    }

    /// The value where it is known.
    pub(super) fn exact(self) -> Option<f64> {
        match self {
            Self::Exact(value) => Some(value),
            Self::Over(_) | Self::Failed => None,
        }
    }

    /// The order of ranks.
    pub(super) fn rank_cmp(&self, other: &Self) -> Ordering {
        let ((class, value), (other_class, other_value)) = (self.rank(), other.rank());
        class.cmp(&other_class).then(value.total_cmp(&other_value))
    }

    /// Half-way between two values that follow each other.
    fn midpoint(low: Self, high: Self) -> Self {
        let middle = f64::midpoint(low.at_least(), high.at_least());
        match (low, high) {
            (Self::Exact(_), Self::Exact(_)) => Self::Exact(middle),
            (_, Self::Failed) => Self::Failed,
            _ => Self::Over(middle),
        }
    }
}

/// The values of one metric, of sessions under the same conditions. Ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample(Vec<Value>);

impl FromIterator<Value> for Sample {
    fn from_iter<T: IntoIterator<Item = Value>>(values: T) -> Self {
        let mut values: Vec<Value> = values.into_iter().collect();
        values.sort_by(Value::rank_cmp);
        Self(values)
    }
}

/// The 95 % confidence interval of a median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    /// Lower limit.
    pub(super) low: Value,
    /// Upper limit.
    pub(super) high: Value,
    /// How sure: below 0.95 where there are fewer than six values.
    pub(super) coverage: f64,
}

impl Sample {
    /// All values, ascending.
    pub(super) fn values(&self) -> &[Value] {
        &self.0
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that were measured, ascending.
    pub(super) fn exact(&self) -> Vec<f64> {
        self.0.iter().filter_map(|value| value.exact()).collect()
    }

    /// The median. With an even number it is half-way between the two middle values.
    pub(super) fn median(&self) -> Option<Value> {
        median(&self.0)
    }

    /// The confidence interval of the median, by order statistics.
    pub(super) fn interval(&self) -> Option<Interval> {
        let MedianRanks {
            low,
            high,
            coverage,
        } = stats::median_ranks(self.len())?;
        Some(Interval {
            low: self.0[low],
            high: self.0[high],
            coverage,
        })
    }

    /// The quantile `p`, type 7 as [`stats::quantile`].
    pub(super) fn quantile(&self, p: f64) -> Option<Value> {
        let last = self.len().checked_sub(1)?;
        let position = last as f64 * p.clamp(0.0, 1.0);
        let (below, above) = (
            self.0[position.floor() as usize],
            self.0[position.ceil() as usize],
        );
        Some(match (below, above) {
            (Value::Exact(low), Value::Exact(high)) => {
                Value::Exact(low + (high - low) * position.fract())
            }
            _ if position.fract() == 0.0 => below,
            _ => above,
        })
    }

    /// How much larger this sample's median is than another's, as a share of the other's.
    /// `seed` is that of the bootstrap.
    pub(super) fn excess(&self, other: &Self, seed: u64) -> Option<Excess> {
        let (a, b) = (self.median()?, other.median()?);
        let certainty = match (a, b) {
            (Value::Exact(_), Value::Exact(_)) => Certainty::Exact,
            (_, Value::Exact(_)) => Certainty::AtLeast,
            (Value::Exact(_), _) => Certainty::AtMost,
            _ => Certainty::Unknown,
        };
        let value = relative(a, b);
        let interval = stats::bootstrap(&self.0, &other.0, seed, |a, b| {
            a.sort_by(Value::rank_cmp);
            b.sort_by(Value::rank_cmp);
            median(a)
                .zip(median(b))
                .map_or(0.0, |(a, b)| relative(a, b))
        });
        Some(Excess {
            value,
            certainty,
            interval: interval.filter(|_| certainty == Certainty::Exact),
        })
    }
}

fn median(sorted: &[Value]) -> Option<Value> {
    let n = sorted.len();
    let high = *sorted.get(n / 2)?;
    Some(if n % 2 == 1 {
        high
    } else {
        Value::midpoint(sorted[n / 2 - 1], high)
    })
}

/// `(a - b) / b` of what is known; 0 where both failed.
fn relative(a: Value, b: Value) -> f64 {
    let (a, b) = (a.at_least(), b.at_least());
    if a == b {
        return 0.0;
    }
    if b.is_infinite() {
        return -1.0;
    }
    (a - b) / b
}

/// How surely an [`Excess`] is its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// Both medians are known.
    Exact,
    /// The first median was given up: it is this or more.
    AtLeast,
    /// The second median was given up: it is this or less.
    AtMost,
    /// Neither median is known.
    Unknown,
}

/// How much larger one median is than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Excess {
    /// `(a - b) / b`, 0.05 for 5 % more.
    pub(super) value: f64,
    /// Whether the medians were known.
    pub(super) certainty: Certainty,
    /// 95 % bootstrap interval of the value.
    pub(super) interval: Option<(f64, f64)>,
}

impl Excess {
    /// Whether it is on one side of zero with 95 % confidence; not known of fewer than two
    /// values. A median that timed out stands for more than any noise.
    pub(super) fn is_significant(&self) -> bool {
        match self.certainty {
            Certainty::Exact => self
                .interval
                .is_some_and(|(low, high)| low > 0.0 || high < 0.0),
            Certainty::AtLeast => self.value > 0.0,
            Certainty::AtMost => self.value < 0.0,
            Certainty::Unknown => false,
        }
    }
}
