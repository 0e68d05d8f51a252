//! `GET /v1/series`: the traffic of the last quarter of an hour.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hikyaku_units::Timestamp;
use hikyaku_units::arm::Version;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Admin;
use crate::metrics::{BUCKETS, Totals, quantile};

/// Between two points.
const INTERVAL: Duration = Duration::from_secs(5);
/// Points that are kept, and the one before them: a quarter of an hour.
const KEPT: usize = 181;
/// Ticks a second in which the kernel counts CPU time (proc_pid_stat(5)).
const TICKS: u64 = 100;

/// Counters at the ends of the latest intervals.
#[derive(Debug, Default)]
pub(crate) struct Series {
    ends: Mutex<VecDeque<End>>,
    is_kept: AtomicBool,
}

#[derive(Clone, Debug)]
struct End {
    at: Timestamp,
    /// CPU time of this process; `None` without /proc.
    cpu: Option<Duration>,
    totals: Totals,
}

/// The traffic of an interval.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    /// The end, in seconds since the Unix epoch.
    t: u64,
    /// Its length.
    seconds: f64,
    requests_per_s: ByVersion<f64>,
    client_errors_per_s: f64,
    server_errors_per_s: f64,
    /// Of response bodies.
    bits_per_s: f64,
    /// Median response time in microseconds; `None` without responses.
    p50_us: ByVersion<Option<u64>>,
    p95_us: ByVersion<Option<u64>>,
    /// Cores in use.
    cpu: Option<f64>,
    /// Open at the end.
    connections: ByVersion<u64>,
}

#[derive(Debug, Serialize)]
struct ByVersion<T> {
    h1: T,
    h2: T,
    h3: T,
}

impl<T> ByVersion<T> {
    fn of(mut of: impl FnMut(usize) -> T) -> Self {
        Self {
            h1: of(Version::H1.index()),
            h2: of(Version::H2.index()),
            h3: of(Version::H3.index()),
        }
    }
}

impl Series {
    /// The intervals so far, the oldest first.
    pub(super) fn points(&self) -> Vec<Point> {
        let ends = self.ends.lock();
        let pairs = ends.iter().zip(ends.iter().skip(1));
        pairs.filter_map(|(from, to)| Point::of(from, to)).collect()
    }

    /// Ends an interval.
    pub(super) fn record(&self, admin: &Admin) {
        let end = End {
            at: admin.shared.clock.now(),
            cpu: cpu_time(),
            totals: admin.shared.metrics.totals(),
        };
        let mut ends = self.ends.lock();
        ends.push_back(end);
        while ends.len() > KEPT {
            ends.pop_front();
        }
    }
}

/// Ends intervals until the admin address closes. One task does that, however often it is begun.
pub(super) async fn keep(admin: Arc<Admin>, closing: CancellationToken) {
    if admin.series.is_kept.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while closing.run_until_cancelled(ticks.tick()).await.is_some() {
        admin.series.record(&admin);
    }
    admin.series.is_kept.store(false, Ordering::Relaxed);
}

impl Point {
    fn of(from: &End, to: &End) -> Option<Self> {
        let seconds = to.at.since(from.at).as_secs_f64();
        let (a, b) = (&from.totals, &to.totals);
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        let times = |version: usize| -> [u64; BUCKETS] {
            let (from, to) = (&a.times[version], &b.times[version]);
            std::array::from_fn(|bucket| to[bucket].saturating_sub(from[bucket]))
        };
        let cpu = from.cpu.zip(to.cpu);
        (seconds > 0.0).then(|| Self {
            t: to.at.as_micros() / 1_000_000,
            seconds,
            requests_per_s: ByVersion::of(|v| rate(a.requests[v], b.requests[v])),
            client_errors_per_s: rate(a.client_errors, b.client_errors),
            server_errors_per_s: rate(a.server_errors, b.server_errors),
            bits_per_s: 8.0 * rate(a.bytes, b.bytes),
            p50_us: ByVersion::of(|v| quantile(&times(v), 0.5)),
            p95_us: ByVersion::of(|v| quantile(&times(v), 0.95)),
            cpu: cpu.map(|(from, to)| to.saturating_sub(from).as_secs_f64() / seconds),
            connections: ByVersion::of(|v| b.open[v]),
        })
    }
}

/// CPU time that all threads of this process have had.
fn cpu_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name, in brackets, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let ticks = ticks(11)?.checked_add(ticks(12)?)?;
    Some(Duration::from_millis(ticks.saturating_mul(1000 / TICKS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_rates_and_quantiles() {
        let mut from = End {
            at: Timestamp::from_secs(100),
            cpu: Some(Duration::from_secs(1)),
            totals: Totals::default(),
        };
        from.totals.requests[2] = 7;
        let mut to = from.clone();
        to.at = Timestamp::from_secs(105);
        to.cpu = Some(Duration::from_secs(2));
        to.totals.requests[2] = 57;
        to.totals.bytes = 5_000_000;
        to.totals.server_errors = 5;
        to.totals.times[2][4] = 50;
        let point = Point::of(&from, &to).unwrap();
        assert_eq!(point.t, 105);
        assert!((point.requests_per_s.h3 - 10.0).abs() < 1e-9);
        assert!((point.bits_per_s - 8e6).abs() < 1e-3);
        assert!((point.server_errors_per_s - 1.0).abs() < 1e-9);
        assert!((point.cpu.unwrap() - 0.2).abs() < 1e-9);
        assert!(point.p50_us.h3.is_some() && point.p50_us.h2.is_none());
        assert!(Point::of(&to, &to).is_none(), "of no length");
        assert!(cpu_time().is_some());
    }
}
