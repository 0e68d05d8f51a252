//! How long responses take.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hikyaku_content::LatencySnapshot;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;

use super::{add, value};

/// Upper bounds of the response time buckets, in milliseconds.
pub(super) const RESPONSE_MS: [u64; 14] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000,
];

/// Number of buckets: the last one has no bound.
pub(crate) const BUCKETS: usize = RESPONSE_MS.len() + 1;

/// Response times, counted without a lock.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Histogram {
    pub(super) fn observe(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = RESPONSE_MS.partition_point(|ms| ms * 1000 < us);
        add(&self.buckets[bucket], 1);
        add(&self.sum_us, us);
    }

    /// Responses so far, by bucket.
    pub(super) fn counts(&self) -> [u64; BUCKETS] {
        self.buckets.each_ref().map(value)
    }

    pub(super) fn snapshot(&self) -> HistogramSnapshot {
        let bounds = RESPONSE_MS.iter().map(|ms| *ms as f64 / 1000.0);
        HistogramSnapshot {
            buckets: bounds
                .chain([f64::INFINITY])
                .zip(self.buckets.iter().map(value))
                .collect(),
            sum: value(&self.sum_us) as f64 / 1e6,
        }
    }
}

#[derive(Debug)]
pub(super) struct HistogramSnapshot {
    buckets: Vec<(f64, u64)>,
    sum: f64,
}

impl From<&LatencySnapshot> for HistogramSnapshot {
    fn from(latency: &LatencySnapshot) -> Self {
        Self {
            buckets: latency.buckets(),
            sum: latency.sum().as_secs_f64(),
        }
    }
}

/// A histogram for each value of a label.
#[derive(Debug)]
pub(super) struct Histograms {
    label: &'static str,
    values: Vec<(String, HistogramSnapshot)>,
}

impl Histograms {
    pub(super) const fn by(label: &'static str, values: Vec<(String, HistogramSnapshot)>) -> Self {
        Self { label, values }
    }
}

impl EncodeMetric for Histograms {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (value, HistogramSnapshot { buckets, sum }) in &self.values {
            let labels = [(self.label, value.as_str())];
            let mut encoder = encoder.encode_family(&labels)?;
            let count = buckets.iter().map(|(_, n)| n).sum();
            encoder.encode_histogram::<[(&str, &str); 0]>(*sum, count, buckets, None)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
