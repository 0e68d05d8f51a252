//! The outcome of a response.

use std::time::Duration;

use hikyaku_units::arm::Version;

/// A response that ended.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// HTTP version.
    pub version: Version,
    /// Content.
    pub bytes: u64,
    /// From the request's arrival until its last byte was acknowledged. That of a connection's first
    /// response has the handshake's time as well.
    pub time: Duration,
    /// Every byte was acknowledged. Others are counted, and have no outcome.
    pub complete: bool,
}

impl Response {
    /// Its place in [`SIZES`].
    pub(super) fn size(&self) -> usize {
        let above = |limit: &&u64| self.bytes > **limit;
        LIMITS.iter().filter(above).count()
    }

    /// The logarithm of its time in seconds, in millionths. Between 1 ms and 300 s, so that no client
    /// alone moves the mean far.
    pub(super) fn log_time(&self) -> i64 {
        millionths(self.time.as_secs_f64().clamp(MIN_SECS, MAX_SECS).ln())
    }

    /// The logarithm of its time over that of an ordinary path, in millionths: the outcome. The size is
    /// out of it, and does not depend on the group.
    pub(super) fn adjusted(&self) -> i64 {
        let ordinary = LATENCY_SECS + self.bytes as f64 / BYTES_PER_SEC;
        self.log_time() - millionths(ordinary.clamp(MIN_SECS, MAX_SECS).ln())
    }
}

/// A logarithm as it is added up: exactly, in whatever order.
fn millionths(value: f64) -> i64 {
    (value * MILLION).round() as i64
}

/// Classes of sizes.
pub(super) const SIZES: [&str; 4] = [
    "up to 16 KiB",
    "up to 128 KiB",
    "up to 1 MiB",
    "above 1 MiB",
];
const LIMITS: [u64; 3] = [16 << 10, 128 << 10, 1 << 20];

pub(super) const MILLION: f64 = 1e6;
const MIN_SECS: f64 = 1e-3;
const MAX_SECS: f64 = 300.0;
/// Bounds of [`Response::log_time`] and of the size of [`Response::adjusted`], rounded outwards.
pub(super) const LOG_TIMES: std::ops::RangeInclusive<i64> = -6_907_756..=5_703_783;
pub(super) const MAX_ADJUSTED: i64 = 12_611_539;
/// Time and rate of an ordinary path: a covariate that is the same for all.
const LATENCY_SECS: f64 = 0.1;
const BYTES_PER_SEC: f64 = 20e6 / 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn response(bytes: u64, millis: u64) -> Response {
        Response {
            version: Version::H2,
            bytes,
            time: Duration::from_millis(millis),
            complete: true,
        }
    }

    #[test]
    fn outcomes_are_within_their_bounds() {
        for bytes in [0, 1, 250_000, u64::MAX] {
            for millis in [0, 1, 200, 300_000, u64::MAX] {
                let response = response(bytes, millis);
                assert!(LOG_TIMES.contains(&response.log_time()), "{response:?}");
                assert!(response.adjusted().abs() <= MAX_ADJUSTED, "{response:?}");
            }
        }
        // 250 kB take 0.1 s at 20 Mbit/s, and 0.1 s beforehand.
        assert_eq!(response(250_000, 200).adjusted(), 0);
    }

    #[test]
    fn sizes_have_classes() {
        let cases = [(0, 0), (16_384, 0), (16_385, 1), (1 << 20, 2), (2 << 20, 3)];
        for (bytes, want) in cases {
            assert_eq!(response(bytes, 1).size(), want, "{bytes}");
        }
    }
}
