//! Lateness of the pump.

use std::time::Duration;

/// Histogram of the time from each packet's due time to its delivery. A bucket is at most an eighth
/// as wide as its times are long; those below 8 µs have one each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lateness {
    buckets: [u64; BUCKETS],
    total_us: u64,
    max_us: u64,
}

/// Each doubling is divided into `2^SUB_BITS` buckets.
const SUB_BITS: u32 = 3;

/// The last bucket has everything later than 2^23 µs, about 8 s.
const BUCKETS: usize = bucket((1 << 23) - 1) + 1;

impl Default for Lateness {
    fn default() -> Self {
        Self {
            buckets: [0; BUCKETS],
            total_us: 0,
            max_us: 0,
        }
    }
}

impl Lateness {
    pub(super) fn record(&mut self, late_us: u64) {
        self.buckets[bucket(late_us).min(BUCKETS - 1)] += 1;
        self.total_us = self.total_us.saturating_add(late_us);
        self.max_us = self.max_us.max(late_us);
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (count, more) in self.buckets.iter_mut().zip(other.buckets) {
            *count += more;
        }
        self.total_us = self.total_us.saturating_add(other.total_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    /// Packets recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Mean lateness; zero if nothing was recorded.
    pub fn mean(&self) -> Duration {
        Duration::from_micros(self.total_us.checked_div(self.count()).unwrap_or(0))
    }

    /// Largest lateness.
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.max_us)
    }

    /// The largest time of the bucket at the given quantile of `0.0..=1.0`. It is at most
    /// [`Self::max`], and less than an eighth too large. Zero if nothing was recorded.
    pub fn quantile(&self, quantile: f64) -> Duration {
        let rank = (quantile * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_micros(greatest(i).min(self.max_us));
            }
        }
        Duration::ZERO
    }
}

/// The bucket of a time in µs, by its highest bits, counted over all doublings.
const fn bucket(late_us: u64) -> usize {
    let bits = u64::BITS - late_us.leading_zeros();
    let dropped = bits.saturating_sub(SUB_BITS + 1);
    ((dropped as usize) << SUB_BITS) + (late_us >> dropped) as usize
}

/// The largest time in µs of a bucket.
const fn greatest(bucket: usize) -> u64 {
    let dropped = (bucket >> SUB_BITS).saturating_sub(1);
    let highest = (bucket - (dropped << SUB_BITS)) as u64;
    ((highest + 1) << dropped) - 1
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
            ("median", &[0, 3, 3, 3, 900], 0.5, us(3)),
            (
                "p99 of few is the maximum",
                &[0, 3, 3, 3, 900],
                0.99,
                us(900),
            ),
            (
                "beyond the last bucket",
                &[u64::MAX],
                0.5,
                us((1 << 23) - 1),
            ),
        ];
        for (name, samples, quantile, want) in cases {
            let mut lateness = Lateness::default();
            samples.iter().for_each(|&late_us| lateness.record(late_us));
            assert_eq!(lateness.quantile(*quantile), *want, "{name}");
            assert_eq!(lateness.count(), samples.len() as u64, "{name}");
        }
    }

    #[test]
    fn a_quantile_is_less_than_an_eighth_too_much() {
        for late_us in (0..10_000).chain([1 << 20, (1 << 22) + 1, (1 << 23) - 1]) {
            let mut lateness = Lateness::default();
            lateness.record(late_us);
            lateness.record(u64::MAX);
            let found = lateness.quantile(0.5).as_micros() as u64;
            assert!(found >= late_us, "{late_us}: {found}");
            assert!((found - late_us) * 8 <= late_us, "{late_us}: {found}");
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
