use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::decimal::{Notation, ParseUnitError};
use crate::serde_as_text;

/// A rate of a link or of delivery. 1 Mbps is 1,000,000 bit/s, never 2^20.
///
/// As text `20Mbps`, `1.5Gbps`, `64kbps` or `300bps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    bits_per_sec: u64,
}

impl Rate {
    /// A rate of so many bit/s.
    #[must_use]
    pub const fn from_bits_per_sec(bits_per_sec: u64) -> Self {
        Self { bits_per_sec }
    }

    /// A rate of so many Mbit/s (10^6 bit/s); saturates.
    #[must_use]
    pub const fn from_mbps(mbps: u64) -> Self {
        Self {
            bits_per_sec: mbps.saturating_mul(1_000_000),
        }
    }

    /// The mean rate of `bytes` in `time`; `None` for a time of zero.
    #[must_use]
    pub fn of(bytes: u64, time: Duration) -> Option<Self> {
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        let bits_per_sec = bits.checked_div(time.as_nanos())?;
        Some(Self {
            bits_per_sec: u64::try_from(bits_per_sec).unwrap_or(u64::MAX),
        })
    }

    /// The rate in bit/s.
    #[must_use]
    pub const fn bits_per_sec(self) -> u64 {
        self.bits_per_sec
    }

    /// The rate in Mbit/s (10^6 bit/s).
    #[must_use]
    pub fn mbps(self) -> f64 {
        self.bits_per_sec as f64 / 1e6
    }

    /// The bandwidth-delay product: `rate × min_rtt`, the bytes in flight that fill the path.
    /// Rounds down; saturates.
    ///
    /// It takes `min_rtt` (RFC 9002 §5.2) and not `srtt`, since `srtt` includes our own queue.
    #[must_use]
    pub fn bdp_bytes(self, min_rtt: Duration) -> u64 {
        let bits = u128::from(self.bits_per_sec).saturating_mul(min_rtt.as_nanos());
        u64::try_from(bits / 8 / 1_000_000_000).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NOTATION.write(self.bits_per_sec.into(), f)
    }
}

impl FromStr for Rate {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        NOTATION.parse(text).map(Self::from_bits_per_sec)
    }
}

serde_as_text!(Rate);

const NOTATION: Notation = Notation {
    what: "a rate",
    expected: "a number and one of bps, kbps, Mbps, Gbps, such as `20Mbps`",
    units: &[
        ("bps", 1),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
    ],
    bare: false,
    max: u64::MAX,
};
