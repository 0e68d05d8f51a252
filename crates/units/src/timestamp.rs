use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time: microseconds since 1970-01-01 00:00:00 UTC.
///
/// `std::time::Instant` has no epoch and cannot be written to a file; this type has and can.
/// Arithmetic saturates. Serde writes the number of microseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp {
    micros: u64,
}

impl Timestamp {
    /// The time `micros` microseconds after the epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self { micros }
    }

    /// The time `secs` seconds after the epoch; saturates.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self {
            micros: secs.saturating_mul(1_000_000),
        }
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.micros
    }

    /// Whole seconds since the epoch.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.micros / 1_000_000
    }

    /// The time `duration` later.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self {
            micros: self.micros.saturating_add(micros),
        }
    }

    /// The time `duration` earlier, but not before the epoch.
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self {
            micros: self.micros.saturating_sub(micros),
        }
    }

    /// The time that passed since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.micros.saturating_sub(earlier.micros))
    }
}
