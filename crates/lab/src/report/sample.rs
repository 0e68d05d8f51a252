//! Samples in which some sessions did not end, and their statistics.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::stats::{self, MedianRanks};

#[cfg(test)]
mod tests;

/// The known value of one session's metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// The measured value.
    Exact(f64),
    /// The session was given up at this value, so the full value would be larger.
    Over(f64),
    /// The session failed, which is worse than any other value.
    Failed,
}

impl Value {
    /// Returns its rank: failed sessions after those that were given up, these after all others.
    fn rank(self) -> (u8, f64) {
        match self {
            Self::Exact(value) => (0, value),
            Self::Over(value) => (1, value),
            Self::Failed => (2, 0.0),
        }
    }

    /// Returns the smallest possible value.
    pub(super) fn at_least(self) -> f64 {
        match self {
            Self::Exact(value) | Self::Over(value) => value,
            Self::Failed => f64::INFINITY,
        }
    }

    /// Returns the value if it is known.
    pub(super) fn exact(self) -> Option<f64> {
        match self {
            Self::Exact(value) => Some(value),
            Self::Over(_) | Self::Failed => None,
        }
    }

    /// Compares the ranks.
    pub(super) fn rank_cmp(&self, other: &Self) -> Ordering {
        let ((class, value), (other_class, other_value)) = (self.rank(), other.rank());
        class.cmp(&other_class).then(value.total_cmp(&other_value))
    }

    /// Applies a function that never falls.
    pub(super) fn map(self, f: impl Fn(f64) -> f64) -> Self {
        match self {
            Self::Exact(value) => Self::Exact(f(value)),
            Self::Over(value) => Self::Over(f(value)),
            Self::Failed => Self::Failed,
        }
    }

    /// Returns the point half-way between two successive values.
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
pub(super) struct Sample {
    values: Vec<Value>,
    /// Values by run. Sessions of one run share a server and its knowledge, so that only runs are
    /// independent.
    runs: Vec<Vec<Value>>,
}

/// Makes a sample from runs of one session each.
impl FromIterator<Value> for Sample {
    fn from_iter<T: IntoIterator<Item = Value>>(values: T) -> Self {
        (0..).zip(values).collect()
    }
}

/// Makes a sample from values with the number of their run.
impl FromIterator<(u32, Value)> for Sample {
    fn from_iter<T: IntoIterator<Item = (u32, Value)>>(values: T) -> Self {
        let mut runs: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
        for (run, value) in values {
            runs.entry(run).or_default().push(value);
        }
        let runs: Vec<Vec<Value>> = runs.into_values().collect();
        let mut values = runs.concat();
        values.sort_by(Value::rank_cmp);
        Self { values, runs }
    }
}

/// The confidence interval of a median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    /// Lower limit.
    pub(super) low: Value,
    /// Upper limit.
    pub(super) high: Value,
    /// Confidence: below 0.95 with fewer than six values or runs.
    pub(super) coverage: f64,
}

impl Sample {
    /// Returns all values, ascending.
    pub(super) fn values(&self) -> &[Value] {
        &self.values
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether it has no values.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the number of runs.
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Formats the number of values for people: `30`, or `3 × 10` for three runs of ten sessions.
    pub(super) fn size(&self) -> String {
        let (values, runs) = (self.len(), self.runs());
        match self.runs.first() {
            Some(run) if run.len() > 1 && run.len() * runs == values => {
                format!("{runs} × {}", run.len())
            }
            _ if runs < values => format!("{values} of {runs} runs"),
            _ => values.to_string(),
        }
    }

    /// Returns the measured values, ascending.
    pub(super) fn exact(&self) -> Vec<f64> {
        self.values
            .iter()
            .filter_map(|value| value.exact())
            .collect()
    }

    /// Returns the median. With an even number it is half-way between the two middle values.
    pub(super) fn median(&self) -> Option<Value> {
        median(&self.values)
    }

    /// Returns the confidence interval of the median by order statistics. If runs have several
    /// sessions, it uses a bootstrap over the runs, and below six runs the range of their medians.
    pub(super) fn interval(&self) -> Option<Interval> {
        let several = self.runs() < self.len();
        if several && self.runs() >= stats::MIN_BOOTSTRAP {
            return self.bootstrapped();
        }
        let values = if several {
            self.run_medians()
        } else {
            self.values.clone()
        };
        let MedianRanks {
            low,
            high,
            coverage,
        } = stats::median_ranks(values.len())?;
        Some(Interval {
            low: values[low],
            high: values[high],
            coverage,
        })
    }

    fn bootstrapped(&self) -> Option<Interval> {
        let mut medians = stats::resampled(&self.runs, &[], 0, |values, _| {
            values.sort_by(Value::rank_cmp);
            median(values).unwrap_or(Value::Failed)
        });
        medians.sort_by(Value::rank_cmp);
        let (low, high) = stats::middle_ranks(medians.len())?;
        Some(Interval {
            low: medians[low],
            high: medians[high],
            coverage: stats::CONFIDENCE,
        })
    }

    /// Returns the median of each run, ascending.
    fn run_medians(&self) -> Vec<Value> {
        let of_run = |run: &Vec<Value>| {
            let mut values = run.clone();
            values.sort_by(Value::rank_cmp);
            median(&values)
        };
        let mut medians: Vec<Value> = self.runs.iter().filter_map(of_run).collect();
        medians.sort_by(Value::rank_cmp);
        medians
    }

    /// Returns the mean. It is a lower limit if a value is one.
    pub(super) fn mean(&self) -> Option<Value> {
        let known: Vec<f64> = self.values.iter().map(|value| value.at_least()).collect();
        let mean = stats::mean(&known)?;
        Some(self.worst()?.map(|_| mean))
    }

    /// Returns the last value by rank.
    pub(super) fn worst(&self) -> Option<Value> {
        self.values.last().copied()
    }

    /// Returns the quantile `p`, type 7 as [`stats::quantile`].
    pub(super) fn quantile(&self, p: f64) -> Option<Value> {
        let last = self.len().checked_sub(1)?;
        let position = last as f64 * p.clamp(0.0, 1.0);
        let (below, above) = (
            self.values[position.floor() as usize],
            self.values[position.ceil() as usize],
        );
        Some(match (below, above) {
            (Value::Exact(low), Value::Exact(high)) => {
                Value::Exact(low + (high - low) * position.fract())
            }
            _ if position.fract() == 0.0 => below,
            _ => above,
        })
    }

    /// Returns how much larger this sample's median is than another's, as a share of the other's.
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
        let limits = match certainty {
            Certainty::Exact => self.excess_limits(other, seed),
            _ => None,
        };
        Some(Excess {
            value,
            certainty,
            interval: limits.map(|(limits, _)| limits),
            coverage: limits.map_or(0.0, |(_, coverage)| coverage),
        })
    }

    /// Returns the limits of the excess and their confidence, by a bootstrap over the runs. With
    /// too few runs it uses the exact rank-sum test of the runs' medians.
    fn excess_limits(&self, other: &Self, seed: u64) -> Option<((f64, f64), f64)> {
        if self.runs().min(other.runs()) < stats::MIN_BOOTSTRAP {
            return self.rank_sum_limits(other);
        }
        let mut values = stats::resampled(&self.runs, &other.runs, seed, |a, b| {
            a.sort_by(Value::rank_cmp);
            b.sort_by(Value::rank_cmp);
            median(a)
                .zip(median(b))
                .map_or(0.0, |(a, b)| relative(a, b))
        });
        values.sort_by(f64::total_cmp);
        Some((stats::middle(&values)?, stats::CONFIDENCE))
    }

    fn rank_sum_limits(&self, other: &Self) -> Option<((f64, f64), f64)> {
        if self.runs().min(other.runs()) < 2 {
            return None;
        }
        let (left_out, coverage) = stats::shift_ranks(self.runs(), other.runs())?;
        let (ours, others) = (self.run_medians(), other.run_medians());
        let pairs = ours
            .iter()
            .flat_map(|a| others.iter().map(|b| relative(*a, *b)));
        let mut values: Vec<f64> = pairs.collect();
        values.sort_by(f64::total_cmp);
        let limits = (values[left_out], values[values.len() - 1 - left_out]);
        Some((limits, coverage))
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

/// Returns `(a - b) / b` of the known values; 0 if both failed.
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

/// Describes the confidence of intervals in words. It is `95 % confidence interval`, `75–94 % ..`
/// for differing ones, or `no interval`. 95 % stands for that and more.
pub(super) fn confidence(coverages: impl IntoIterator<Item = f64>) -> String {
    let percent = |coverage: f64| (coverage.min(stats::CONFIDENCE) * 100.0).round();
    let mut percents: Vec<f64> = coverages
        .into_iter()
        .filter(|coverage| *coverage > 0.0)
        .map(percent)
        .collect();
    percents.sort_by(f64::total_cmp);
    match (percents.first(), percents.last()) {
        (Some(low), Some(high)) if low == high => format!("{low} % confidence interval"),
        (Some(low), Some(high)) => format!("{low}–{high} % confidence interval"),
        _ => "no interval of one value".to_owned(),
    }
}

/// The certainty of an [`Excess`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// Both medians are known.
    Exact,
    /// The first median was given up: the excess is this or more.
    AtLeast,
    /// The second median was given up: the excess is this or less.
    AtMost,
    /// Neither median is known.
    Unknown,
}

/// How much larger one median is than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Excess {
    /// `(a - b) / b`, 0.05 for 5 % more.
    pub(super) value: f64,
    /// Certainty of the value.
    pub(super) certainty: Certainty,
    /// Interval of the value; `None` with fewer than two runs.
    pub(super) interval: Option<(f64, f64)>,
    /// Confidence of the interval: at least 0.95, but less for two or three runs, which do not
    /// allow it.
    pub(super) coverage: f64,
}

impl Excess {
    /// Returns it as a value, which is a lower limit if the excess is one; `None` if nothing is
    /// known.
    pub(super) fn known(&self) -> Option<Value> {
        match self.certainty {
            // An upper limit counts as no better.
            Certainty::Exact | Certainty::AtMost => Some(Value::Exact(self.value)),
            Certainty::AtLeast if self.value.is_infinite() => Some(Value::Failed),
            Certainty::AtLeast => Some(Value::Over(self.value)),
            Certainty::Unknown => None,
        }
    }

    /// Whether it is on one side of zero with 95 % confidence; unknown for few runs. A median that
    /// timed out exceeds any noise.
    pub(super) fn is_significant(&self) -> bool {
        match self.certainty {
            Certainty::Exact => {
                let apart = |(low, high)| low > 0.0 || high < 0.0;
                self.coverage >= stats::CONFIDENCE && self.interval.is_some_and(apart)
            }
            Certainty::AtLeast => self.value > 0.0,
            Certainty::AtMost => self.value < 0.0,
            Certainty::Unknown => false,
        }
    }
}
