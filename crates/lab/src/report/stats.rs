//! Quantiles, intervals and indices. Pure.

use hikyaku_netsim::derive_seed;

#[cfg(test)]
mod tests;

/// Number of resamples of a bootstrap: enough for the 2.5 % and 97.5 % quantiles to one digit.
const RESAMPLES: u64 = 1000;

/// Confidence of every interval in a report, if it has enough values.
pub const CONFIDENCE: f64 = 0.95;

/// Returns the value below which a share `p` of the ascending values lies. It interpolates linearly
/// between the two nearest (Hyndman and Fan's type 7, the default of R and `NumPy`).
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = last as f64 * p.clamp(0.0, 1.0);
    let (below, above) = (
        sorted[position.floor() as usize],
        sorted[position.ceil() as usize],
    );
    // Infinite values stay infinite instead of becoming NaN.
    if below == above {
        return Some(below);
    }
    Some(below + (above - below) * position.fract())
}

/// The order statistics between which the median lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianRanks {
    /// Rank of the lower limit, from 0.
    pub low: usize,
    /// Rank of the upper limit, from 0.
    pub high: usize,
    /// Confidence that the median lies between them, for any distribution. It is at least 0.95 with
    /// six values, and with fewer that of the whole range.
    pub coverage: f64,
}

/// Returns the narrowest symmetric pair of order statistics of `n` values that contains the median
/// with 95 % confidence. The number of values below the median is binomial with p = 1/2. The result
/// is `None` for fewer than two values.
pub fn median_ranks(n: usize) -> Option<MedianRanks> {
    if n < 2 {
        return None;
    }
    // In logarithms, since 2^-n underflows.
    let mut ln_probability = n as f64 * 0.5_f64.ln();
    let mut below = 0.0;
    let mut ranks = None;
    for low in 0..n / 2 {
        below += ln_probability.exp();
        let coverage = 1.0 - 2.0 * below;
        if low > 0 && coverage < CONFIDENCE {
            break;
        }
        ranks = Some(MedianRanks {
            low,
            high: n - 1 - low,
            coverage,
        });
        ln_probability += ((n - low) as f64 / (low + 1) as f64).ln();
    }
    ranks
}

/// Smallest number of values, or runs, for a bootstrap. It draws from the given values, and would
/// rarely miss the ends of so few.
pub const MIN_BOOTSTRAP: usize = 6;

/// Returns the values of `statistic` over resamples of the runs of both samples (cluster bootstrap:
/// Davison and Hinkley, 1997, section 3.8). Whole runs are drawn with replacement, the samples
/// independently, and given as one list of values each. The same seed gives the same values.
pub fn resampled<T: Copy, S>(
    a: &[Vec<T>],
    b: &[Vec<T>],
    seed: u64,
    statistic: impl Fn(&mut [T], &mut [T]) -> S,
) -> Vec<S> {
    let (mut drawn_a, mut drawn_b) = (vec![], vec![]);
    let resample = |resample| {
        draw(a, &mut drawn_a, derive_seed(seed, &[resample, 0]));
        draw(b, &mut drawn_b, derive_seed(seed, &[resample, 1]));
        statistic(&mut drawn_a, &mut drawn_b)
    };
    (0..RESAMPLES).map(resample).collect()
}

/// Returns the limits around 95 % of ascending values.
pub fn middle(sorted: &[f64]) -> Option<(f64, f64)> {
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Some((quantile(sorted, tail)?, quantile(sorted, 1.0 - tail)?))
}

/// Returns the ranks of the first and last of ascending values around the middle 95 %.
pub fn middle_ranks(n: usize) -> Option<(usize, usize)> {
    let last = n.checked_sub(1)?;
    let low = ((1.0 - CONFIDENCE) / 2.0 * last as f64).floor() as usize;
    Some((low, last - low))
}

fn draw<T: Copy>(from: &[Vec<T>], to: &mut Vec<T>, seed: u64) {
    to.clear();
    for i in 0..from.len() {
        let random = derive_seed(seed, &[i as u64]);
        to.extend(&from[(random % from.len() as u64) as usize]);
    }
}

/// Returns the number of ascending `m x n` ratios (or differences) of two samples to leave out at
/// either end. The others contain the shift between the samples with the returned confidence. It is
/// the exact rank-sum test, turned around (Moses, 1953). The confidence is at least 0.95 if the
/// numbers allow it. With three and three, all nine contain the shift with 0.9. The result is
/// `None` without values.
pub fn shift_ranks(m: usize, n: usize) -> Option<(usize, f64)> {
    if m == 0 || n == 0 {
        return None;
    }
    let orders = rank_sums(m, n);
    let all: f64 = orders.iter().sum();
    let mut below = orders[0];
    let mut left_out = 0;
    for count in &orders[1..] {
        if 1.0 - 2.0 * (below + count) / all < CONFIDENCE {
            break;
        }
        below += count;
        left_out += 1;
    }
    Some((left_out, 1.0 - 2.0 * below / all))
}

/// Returns the numbers of orders of `m` and `n` values by the pairs in which the first come before
/// the second: 0, 1, and so on. They are the coefficients of the Gaussian binomial.
fn rank_sums(m: usize, n: usize) -> Vec<f64> {
    let (few, many) = (m.min(n), m.max(n));
    let mut orders = vec![0.0; m * n + 1];
    orders[0] = 1.0;
    for i in 1..=few {
        for k in (many + i..orders.len()).rev() {
            orders[k] -= orders[k - many - i];
        }
        for k in i..orders.len() {
            orders[k] += orders[k - i];
        }
    }
    orders
}

/// Returns Wilson's 95 % score interval of a share among `n` (Wilson, 1927).
pub fn share_interval(share: f64, n: usize) -> Option<(f64, f64)> {
    const Z: f64 = 1.959_964;
    if n == 0 {
        return None;
    }
    let n = n as f64;
    let scale = 1.0 + Z * Z / n;
    let centre = (share + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    Some(((centre - half).max(0.0), (centre + half).min(1.0)))
}

/// Returns Jain's fairness index, from 1/n (one takes all) to 1 (all get the same). It is `None`
/// without values or if all are 0 (Jain, Chiu and Hawe, DEC-TR-301, 1984).
pub fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// Returns the arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
