//! The times of many responses to one client.

use super::super::fetch::Request;
use super::super::measured::Measured;

/// Records the median and the 95th percentile of the times from a request to its last byte.
pub(super) fn record(requests: &[Request], measured: &mut Measured) {
    let complete = requests.iter().filter(|request| request.error.is_none());
    let mut times: Vec<u64> = complete.map(Request::since_request_us).collect();
    times.sort_unstable();
    for (name, percent) in [("response_p50_ms", 50), ("response_p95_ms", 95)] {
        if let Some(us) = percentile(&times, percent) {
            measured.metric(name, us as f64 / 1e3);
        }
    }
}

/// The smallest value that at least `percent` of all do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let hundred: Vec<u64> = (1..=100).collect();
        let cases: [(&[u64], usize, Option<u64>); 5] = [
            (&[], 50, None),
            (&[7], 95, Some(7)),
            (&[1, 2, 9], 50, Some(2)),
            (&hundred, 50, Some(50)),
            (&hundred, 95, Some(95)),
        ];
        for (sorted, percent, want) in cases {
            assert_eq!(percentile(sorted, percent), want, "{percent} of {sorted:?}");
        }
    }
}
