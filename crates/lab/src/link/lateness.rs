//! How late the pump was.

use std::time::Duration;

/// Histogram of how long after its due time each packet was handed over, in
/// buckets that double: bucket `i` holds times below `2^i` µs and at least half
/// of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    buckets: [u64; BUCKETS],
    total_us: u64,
    max_us: u64,
}

/// The last bucket begins at 2^22 µs, about 4 s.
const BUCKETS: usize = 24;

impl Lateness {
    pub(super) fn record(&mut self, late_us: u64) {
        let bucket = (u64::BITS - late_us.leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
        self.total_us = self.total_us.saturating_add(late_us);
        self.max_us = self.max_us.max(late_us);
    }

    /// Packets recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Mean lateness; zero if nothing was recorded.
    pub fn mean(&self) -> Duration {
        Duration::from_micros(self.total_us.checked_div(self.count()).unwrap_or(0))
    }

    /// The greatest lateness.
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.max_us)
    }

    /// Upper bound of the bucket that holds the given quantile of `0.0..=1.0`,
    /// at most [`Self::max`]; zero if nothing was recorded.
    pub fn quantile(&self, quantile: f64) -> Duration {
        let rank = (quantile * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_micros((1 << i).min(self.max_us));
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounded_by_their_bucket_and_the_maximum() {
        let us = Duration::from_micros;
        let cases: &[(&str, &[u64], f64, Duration)] = &[
            ("nothing", &[], 0.5, us(0)),
            ("on time", &[0, 0, 0], 0.99, us(0)),
            ("median", &[0, 3, 3, 3, 900], 0.5, us(4)),
            (
                "p99 of few is the maximum",
                &[0, 3, 3, 3, 900],
                0.99,
                us(900),
            ),
            ("beyond the last bucket", &[u64::MAX], 0.5, us(1 << 23)),
        ];
        for (name, samples, quantile, want) in cases {
            let mut lateness = Lateness::default();
            samples.iter().for_each(|&late_us| lateness.record(late_us));
            assert_eq!(lateness.quantile(*quantile), *want, "{name}");
            assert_eq!(lateness.count(), samples.len() as u64, "{name}");
        }
    }

    #[test]
    fn mean_and_maximum_are_exact() {
        let mut lateness = Lateness::default();
        [10, 20, 60]
            .into_iter()
            .for_each(|late_us| lateness.record(late_us));
        assert_eq!(lateness.mean(), Duration::from_micros(30));
        assert_eq!(lateness.max(), Duration::from_micros(60));
    }
}
