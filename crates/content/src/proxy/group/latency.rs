//! How long an upstream takes to answer.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets, in milliseconds.
const BOUNDS_MS: [u64; 14] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000,
];
/// The buckets of the bounds, and the one above them.
const BUCKETS: usize = BOUNDS_MS.len() + 1;

/// Times from a request to the head of its response, counted without a lock.
#[derive(Debug, Default)]
pub(super) struct Latency {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

/// The times from requests to the heads of their responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencySnapshot {
    buckets: [u64; BUCKETS],
    sum: Duration,
}

impl Latency {
    pub(super) fn observe(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_MS.partition_point(|ms| ms * 1000 < us);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    pub(super) fn snapshot(&self) -> LatencySnapshot {
        LatencySnapshot {
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].load(Relaxed)),
            sum: Duration::from_micros(self.sum_us.load(Relaxed)),
        }
    }
}

impl LatencySnapshot {
    /// The buckets: their upper bounds in seconds, the last one infinite, and the number of times in each,
    /// without those of the buckets before.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS_MS.iter().map(|ms| *ms as f64 / 1000.0);
        let bounds = bounds.chain([f64::INFINITY]);
        bounds.zip(self.buckets).collect()
    }

    /// The sum of all times.
    pub const fn sum(&self) -> Duration {
        self.sum
    }

    /// Adds the times of another part of the same upstream.
    pub(in crate::proxy) fn add(&mut self, other: &Self) {
        for (sum, count) in self.buckets.iter_mut().zip(other.buckets) {
            *sum += count;
        }
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_up_to_their_bound() {
        let latency = Latency::default();
        // time in microseconds, bound of its bucket in seconds
        let cases = [
            (0, 0.001),
            (1000, 0.001),
            (1001, 0.002),
            (30_000_000, 30.0),
            (30_000_001, f64::INFINITY),
        ];
        for (us, bound) in cases {
            let before = latency.snapshot().buckets();
            latency.observe(Duration::from_micros(us));
            let after = latency.snapshot().buckets();
            let changed = before
                .iter()
                .zip(&after)
                .find(|(before, after)| before != after);
            let (_, (got, _)) = changed.unwrap();
            assert!((got - bound).abs() < 1e-9 || got == &bound, "{us}: {got}");
        }
        let mut all = latency.snapshot();
        assert_eq!(all.sum(), Duration::from_micros(60_002_002));
        all.add(&latency.snapshot());
        assert_eq!(all.sum(), Duration::from_micros(120_004_004));
        assert_eq!(
            all.buckets().iter().map(|(_, count)| count).sum::<u64>(),
            10
        );
    }
}
