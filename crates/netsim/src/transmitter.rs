//! Serialisation at a rate.

use hikyaku_core::units::Rate;

/// Sends one packet after another and says when the last bit of each has left.
///
/// Times are whole nanoseconds; what division cuts off is carried to the next
/// packet, so a busy period of any length takes exactly `bits / rate`.
#[derive(Debug)]
pub(crate) struct Transmitter {
    rate: Option<Rate>,
    finish_ns: u64,
    /// Bits times nanoseconds per second not yet accounted for, below the rate.
    carry: u64,
}

impl Transmitter {
    pub(crate) fn new(rate: Option<Rate>) -> Self {
        Self {
            rate,
            finish_ns: 0,
            carry: 0,
        }
    }

    /// Sends `wire_bytes` from `start_ns` on, or from the end of the packet
    /// before if that is later. Returns when the last bit has left.
    pub(crate) fn send(&mut self, start_ns: u64, wire_bytes: u64) -> u64 {
        if start_ns > self.finish_ns {
            self.finish_ns = start_ns;
            self.carry = 0;
        }
        let (duration_ns, carry) = self.duration(wire_bytes, self.carry);
        self.finish_ns = self.finish_ns.saturating_add(duration_ns);
        self.carry = carry;
        self.finish_ns
    }

    /// Time that `wire_bytes` take, in nanoseconds rounded down.
    pub(crate) fn duration_ns(&self, wire_bytes: u64) -> u64 {
        self.duration(wire_bytes, 0).0
    }

    fn duration(&self, wire_bytes: u64, carry: u64) -> (u64, u64) {
        let Some(rate) = self.rate else { return (0, 0) };
        // A rate of zero would never finish; the slowest link sends 1 bit/s.
        let rate = u128::from(rate.bits_per_sec().max(1));
        let work = u128::from(wire_bytes) * 8 * 1_000_000_000 + u128::from(carry);
        let duration = u64::try_from(work / rate).unwrap_or(u64::MAX);
        // A remainder is below its divisor, which came from a `u64`.
        (duration, (work % rate) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_periods_are_exact() {
        for (name, bits_per_sec, bytes, packets) in [
            ("slow", 3, 1, 3_u64),
            ("not a divisor", 7_000_000, 1_514, 7_000),
            ("fast", 600_000_000, 1_514, 600_000),
            (
                "faster than a nanosecond a bit",
                9_999_999_999,
                64,
                9_999_999,
            ),
        ] {
            let mut transmitter = Transmitter::new(Some(Rate::from_bits_per_sec(bits_per_sec)));
            let mut finish_ns = 0;
            for _ in 0..packets {
                finish_ns = transmitter.send(0, bytes);
            }
            let exact = u128::from(packets * bytes * 8) * 1_000_000_000 / u128::from(bits_per_sec);
            assert_eq!(u128::from(finish_ns), exact, "{name}");
        }
    }

    #[test]
    fn an_idle_transmitter_starts_at_arrival() {
        let mut transmitter = Transmitter::new(Some(Rate::from_bits_per_sec(8_000_000)));
        assert_eq!(transmitter.send(1_000, 1), 2_000);
        assert_eq!(
            transmitter.send(1_500, 1),
            3_000,
            "waits for the one before"
        );
        assert_eq!(transmitter.send(9_000, 1), 10_000);
    }

    #[test]
    fn no_rate_takes_no_time() {
        let mut transmitter = Transmitter::new(None);
        assert_eq!(transmitter.send(5, 1_000_000), 5);
        assert_eq!(transmitter.duration_ns(1_000_000), 0);
    }
}
