use std::time::Duration;

use super::Timestamp;

/// A [`Timestamp`] in whole seconds, rounded down, in four bytes. For records of which there are
/// millions.
///
/// It reaches to the year 2106 and saturates there. Sums of elapsed seconds do not drift, since
/// each second is counted between exactly one pair of readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secs(u32);

impl Secs {
    /// The time `secs` seconds after the epoch.
    #[must_use]
    pub const fn new(secs: u32) -> Self {
        Self(secs)
    }

    /// Seconds since the epoch.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The start of this second.
    #[must_use]
    pub const fn timestamp(self) -> Timestamp {
        Timestamp::from_secs(self.0 as u64)
    }

    /// The time that passed since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0) as u64)
    }

    /// The time `duration` later; `duration` is rounded down to whole seconds.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        let secs = u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
        Self(self.0.saturating_add(secs))
    }
}

impl From<Timestamp> for Secs {
    fn from(time: Timestamp) -> Self {
        Self(u32::try_from(time.as_secs()).unwrap_or(u32::MAX))
    }
}
