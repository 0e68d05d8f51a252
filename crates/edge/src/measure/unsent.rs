//! The bytes that the kernel holds unsent of an HTTP/2 connection (`TCP_NOTSENT_LOWAT`, tcp(7)).
//!
//! They go before any response that is more urgent (RFC 9218), so a slow path has few. A fast one needs more: the
//! kernel sends them while this process is busy elsewhere. So they last for a [`TIME`] at the rate of the socket.

use std::time::{Duration, Instant};

use crate::listen::UNSENT;

/// How long they last. The kernel asks for more when half of them are left.
const TIME: Duration = Duration::from_millis(20);
/// The fewest: a record of TLS.
const MIN: u32 = 16 * 1024;
/// Those of a socket whose rate is not known yet.
pub(super) const FIRST: u32 = 64 * 1024;
/// Between looks at the rate.
const INTERVAL: Duration = Duration::from_millis(50);
/// A socket that was not full for so long may have had nothing to send.
const STALE: Duration = Duration::from_secs(1);

/// The bytes of a socket.
#[derive(Debug)]
pub(super) struct Unsent {
    bytes: u32,
    /// When the socket was full, and all bytes that it had taken by then.
    full: Option<(Instant, u64)>,
}

impl Unsent {
    pub(super) const fn new() -> Self {
        Self {
            bytes: FIRST,
            full: None,
        }
    }

    /// Takes note that the socket is full at `now`, and has taken `written` bytes in all. Returns how many bytes it
    /// shall hold from now on, if these are others.
    pub(super) fn on_full(&mut self, now: Instant, written: u64) -> Option<u32> {
        let Some((since, before)) = self.full else {
            self.full = Some((now, written));
            return None;
        };
        let time = now.saturating_duration_since(since);
        if time < INTERVAL {
            return None;
        }
        self.full = Some((now, written));
        if time > STALE {
            return None;
        }
        let taken = u128::from(written.saturating_sub(before));
        let bytes = taken * TIME.as_micros() / time.as_micros().max(1);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).clamp(MIN, UNSENT);
        // Not for each little change, which would cost a system call.
        let is_other = bytes >= self.bytes.saturating_mul(2)
            || bytes <= self.bytes / 2
            || bytes != self.bytes && [MIN, UNSENT].contains(&bytes);
        is_other.then(|| {
            self.bytes = bytes;
            bytes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsent_bytes_last_as_long_at_any_rate() {
        // Name, bit/s, bytes that are held in the end.
        let cases: &[(&str, u64, u32)] = &[
            ("5 Mbit/s", 5_000_000, MIN),
            ("30 Mbit/s, by the first ones", 30_000_000, FIRST),
            ("200 Mbit/s", 200_000_000, 500_000),
            ("1 Gbit/s", 1_000_000_000, UNSENT),
        ];
        for (name, rate, want) in cases {
            let mut unsent = Unsent::new();
            let begun = Instant::now();
            for tick in 0..100u32 {
                let time = Duration::from_millis(10) * tick;
                let written = u64::from(tick) * rate / 8 / 100;
                unsent.on_full(begun + time, written);
            }
            assert_eq!(unsent.bytes, *want, "{name}");
        }
    }

    #[test]
    fn a_change_is_reported_once_and_a_pause_shows_no_rate() {
        let mut unsent = Unsent::new();
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        assert_eq!(unsent.on_full(at(0), 1_000_000), None);
        assert_eq!(unsent.on_full(at(10), 1_010_000), None, "too soon");
        assert_eq!(unsent.on_full(at(100), 1_050_000), Some(MIN));
        assert_eq!(unsent.on_full(at(200), 1_100_000), None, "as before");
        assert_eq!(unsent.on_full(at(5_000), 90_000_000), None, "a pause");
        assert_eq!(unsent.on_full(at(5_100), 92_500_000), Some(500_000));
    }
}
