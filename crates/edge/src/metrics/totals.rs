//! The counters that the admin page draws.

use super::histogram::{BUCKETS, RESPONSE_MS};
use super::{Metrics, value};
use hikyaku_units::arm::Version;

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// By [`Version::index`].
    pub(crate) requests: [u64; Version::ALL.len()],
    /// Responses of 4xx.
    pub(crate) client_errors: u64,
    /// Responses of 5xx, and requests without a response.
    pub(crate) server_errors: u64,
    /// Bytes of response bodies.
    pub(crate) bytes: u64,
    /// Response times by version and bucket.
    pub(crate) times: [[u64; BUCKETS]; Version::ALL.len()],
    /// Connections open now, by [`Version::index`].
    pub(crate) open: [u64; Version::ALL.len()],
}

impl Metrics {
    /// The present counts.
    pub(crate) fn totals(&self) -> Totals {
        let of_class = |class: usize| self.requests.iter().map(|by| value(&by[class])).sum();
        let server_errors: u64 = of_class(5);
        Totals {
            requests: Version::ALL.map(|version| self.requests(version)),
            client_errors: of_class(4),
            server_errors: server_errors + of_class(0),
            bytes: self.response_bytes.iter().map(value).sum(),
            times: Version::ALL.map(|version| self.response_time[version.index()].counts()),
            open: Version::ALL.map(|version| self.open(version)),
        }
    }
}

/// The time in microseconds below which a share `q` of the responses in `counts` lies, interpolated within
/// its bucket. `None` without responses.
pub(crate) fn quantile(counts: &[u64; BUCKETS], q: f64) -> Option<u64> {
    let total: u64 = counts.iter().sum();
    let rank = (total > 0).then_some(q * total as f64)?;
    let mut below = 0.0;
    for (bucket, count) in counts.iter().enumerate() {
        let count = *count as f64;
        if count > 0.0 && below + count >= rank {
            let last = RESPONSE_MS[RESPONSE_MS.len() - 1] as f64;
            let high = RESPONSE_MS.get(bucket).map_or(2.0 * last, |ms| *ms as f64);
            let low = match bucket {
                0 => high / 2.0,
                _ => RESPONSE_MS[bucket - 1] as f64,
            };
            let part = (rank - below) / count;
            return Some((1000.0 * low * (high / low).powf(part)) as u64);
        }
        below += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hikyaku_units::arm::Congestion;
    use http::StatusCode;

    use super::*;

    #[test]
    fn totals_add_up_and_quantiles_lie_in_their_bucket() {
        let metrics = Metrics::default();
        let ms = Duration::from_millis;
        for n in 0..100 {
            metrics.on_exchange(
                Version::H2,
                Congestion::Cubic,
                Some(StatusCode::OK),
                10,
                ms(30 + n / 50 * 100),
            );
        }
        metrics.on_exchange(
            Version::H3,
            Congestion::Cubic,
            Some(StatusCode::NOT_FOUND),
            5,
            ms(1),
        );
        metrics.on_exchange(Version::H3, Congestion::Cubic, None, 0, ms(1));
        let totals = metrics.totals();
        assert_eq!(totals.requests, [0, 100, 2]);
        assert_eq!((totals.client_errors, totals.server_errors), (1, 1));
        assert_eq!(totals.bytes, 1005);
        let times = &totals.times[Version::H2.index()];
        let (p25, p75) = (
            quantile(times, 0.25).unwrap(),
            quantile(times, 0.75).unwrap(),
        );
        assert!((20_000..50_000).contains(&p25), "{p25}");
        assert!((100_000..200_000).contains(&p75), "{p75}");
        assert_eq!(quantile(&totals.times[Version::H1.index()], 0.5), None);
    }
}
