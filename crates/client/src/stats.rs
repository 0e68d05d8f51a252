//! Statistics of repeated measurements.

use serde::Serialize;

/// A distribution of measured values, in the unit of the values.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Distribution {
    /// Number of values; all other fields are `None` if it is zero.
    pub(super) count: usize,
    pub(super) min: Option<u64>,
    pub(super) median: Option<u64>,
    /// 95 % confidence interval of the median; needs at least six values.
    pub(super) median_ci95: Option<[u64; 2]>,
    pub(super) mean: Option<u64>,
    pub(super) p95: Option<u64>,
    pub(super) max: Option<u64>,
}

impl Distribution {
    pub(super) fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        Self {
            count: values.len(),
            min: values.first().copied(),
            median: percentile(&values, 50.0),
            median_ci95: median_ci95(&values),
            mean: mean(&values),
            p95: percentile(&values, 95.0),
            max: values.last().copied(),
        }
    }
}

/// Returns the value below which `percent` of the sorted values lie. It interpolates linearly
/// between the two nearest (Hyndman and Fan's type 7, the default of R and NumPy).
pub(super) fn percentile(sorted: &[u64], percent: f64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    let position = last as f64 * (percent / 100.0).clamp(0.0, 1.0);
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    let step = (above - below) as f64 * position.fract();
    Some(below + step.round() as u64)
}

pub(super) fn mean(values: &[u64]) -> Option<u64> {
    let count = values.len() as u128;
    let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
    // Rounded to the nearest; a mean lies among its values, so it fits.
    (count > 0).then(|| ((sum + count / 2) / count) as u64)
}

/// Returns the order statistics that contain the median with a probability of at least 95 %, for
/// any distribution. The number of `n` values below the median is binomial with p = 1/2.
fn median_ci95(sorted: &[u64]) -> Option<[u64; 2]> {
    let rank = lower_rank(sorted.len())?;
    Some([sorted[rank], sorted[sorted.len() - 1 - rank]])
}

/// Returns the largest rank, counted from 0, for the lower bound. At most 2.5 % of all samples of
/// `n` have more than that many values above the median.
fn lower_rank(n: usize) -> Option<usize> {
    // 2^-n underflows near 1,074; the normal approximation is good long before.
    if n > 1000 {
        let half_width = 1.96 * (n as f64).sqrt() / 2.0;
        // With a continuity correction.
        return Some((n as f64 / 2.0 - half_width - 0.5).floor() as usize);
    }
    let mut probability = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut cumulative = probability;
    let mut rank = None;
    let mut below = 0;
    while cumulative <= 0.025 {
        rank = Some(below);
        below += 1;
        probability *= (n - below + 1) as f64 / below as f64;
        cumulative += probability;
    }
    rank
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles() {
        let cases: &[(&[u64], f64, Option<u64>)] = &[
            (&[], 50.0, None),
            (&[7], 0.0, Some(7)),
            (&[7], 95.0, Some(7)),
            (&[1, 2], 50.0, Some(2)), // 1.5, rounded
            (&[10, 20, 30], 50.0, Some(20)),
            (&[10, 20, 30, 40], 50.0, Some(25)),
            (&[0, 100], 95.0, Some(95)),
            (&[10, 20, 30, 40, 50], 95.0, Some(48)),
            (&[10, 20, 30, 40, 50], 100.0, Some(50)),
            (&[u64::MAX, u64::MAX], 50.0, Some(u64::MAX)),
        ];
        for (values, percent, want) in cases {
            assert_eq!(percentile(values, *percent), *want, "{values:?} {percent}");
        }
    }

    #[test]
    fn ranks_of_the_median_s_interval() {
        // Ranks r from 1, by the table in W. J. Conover, Practical Nonparametric Statistics.
        let cases = [
            (5, None),
            (6, Some(1)),
            (8, Some(1)),
            (9, Some(2)),
            (10, Some(2)),
            (20, Some(6)),
            (30, Some(10)),
            (50, Some(18)),
            (100, Some(40)),
            (1000, Some(469)),
            (10_000, Some(4902)),
        ];
        for (n, want) in cases {
            assert_eq!(lower_rank(n).map(|rank| rank + 1), want, "{n}");
        }
    }

    #[test]
    fn nothing_measured() {
        assert_eq!(Distribution::of(vec![]), Distribution::default());
    }

    #[test]
    fn a_known_sample() {
        let got = Distribution::of((1..=100).rev().collect());
        let want = Distribution {
            count: 100,
            min: Some(1),
            median: Some(51),
            median_ci95: Some([40, 61]),
            mean: Some(51),
            p95: Some(95),
            max: Some(100),
        };
        assert_eq!(got, want);
    }

    proptest! {
        #[test]
        fn the_order_holds(values in prop::collection::vec(any::<u64>(), 1..200)) {
            let d = Distribution::of(values);
            let inner = [d.min, d.median, d.p95, d.max];
            prop_assert!(inner.is_sorted(), "{d:?}");
            if let Some([low, high]) = d.median_ci95 {
                prop_assert!(d.min <= Some(low) && Some(low) <= d.median);
                prop_assert!(d.median <= Some(high) && Some(high) <= d.max);
            }
        }
    }
}
