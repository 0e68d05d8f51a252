//! Quantiles, intervals and indices. Pure.

use hikyaku_netsim::derive_seed;

#[cfg(test)]
mod tests;

/// Resamples of a bootstrap: enough for the 2.5 % and 97.5 % quantiles to one digit.
const RESAMPLES: u64 = 1000;

/// Confidence of every interval in a report.
const CONFIDENCE: f64 = 0.95;

/// The value below which a share `p` of the ascending values lies, interpolated linearly
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
    /// How surely the median lies between them, whatever the distribution: 0.95 at least
    /// where there are six values, below that the confidence of the whole range.
    pub coverage: f64,
}

/// The narrowest symmetric pair of order statistics of `n` values that holds the median with
/// 95 % confidence (how many of the values lie below it is binomial with p = 1/2); `None` for
/// fewer than two values.
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

/// The 95 % percentile-bootstrap interval of `statistic(a, b)` (Efron, 1979): both samples are
/// drawn anew with replacement, independently. The same seed gives the same interval. `None`
/// if a sample has fewer than two values.
pub fn bootstrap<T: Copy>(
    a: &[T],
    b: &[T],
    seed: u64,
    statistic: impl Fn(&mut [T], &mut [T]) -> f64,
) -> Option<(f64, f64)> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let (mut drawn_a, mut drawn_b) = (a.to_vec(), b.to_vec());
    let mut values: Vec<f64> = (0..RESAMPLES)
        .map(|resample| {
            draw(a, &mut drawn_a, derive_seed(seed, &[resample, 0]));
            draw(b, &mut drawn_b, derive_seed(seed, &[resample, 1]));
            statistic(&mut drawn_a, &mut drawn_b)
        })
        .collect();
    values.sort_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Some((quantile(&values, tail)?, quantile(&values, 1.0 - tail)?))
}

fn draw<T: Copy>(from: &[T], to: &mut [T], seed: u64) {
    for (i, value) in to.iter_mut().enumerate() {
        let random = derive_seed(seed, &[i as u64]);
        *value = from[(random % from.len() as u64) as usize];
    }
}

/// Wilson's 95 % score interval of a share, `hits` of `n` (Wilson, 1927).
pub fn share_interval(hits: usize, n: usize) -> Option<(f64, f64)> {
    const Z: f64 = 1.959_964;
    if n == 0 {
        return None;
    }
    let (n, share) = (n as f64, hits as f64 / n as f64);
    let scale = 1.0 + Z * Z / n;
    let centre = (share + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    Some(((centre - half).max(0.0), (centre + half).min(1.0)))
}

/// Jain's fairness index, from 1/n (one takes all) to 1 (all get the same); `None` without
/// values or if all are 0 (Jain, Chiu and Hawe, DEC-TR-301, 1984).
pub fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// The arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
