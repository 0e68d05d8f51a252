//! Days and times in UTC, as text.

use hikyaku_units::Timestamp;

/// A day in UTC, as the number of days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u32);

impl Day {
    /// The day of a time.
    #[must_use]
    pub fn of(time: Timestamp) -> Self {
        Self(u32::try_from(time.as_secs() / SECS).unwrap_or(u32::MAX))
    }

    /// When it begins.
    #[must_use]
    pub fn start(self) -> Timestamp {
        Timestamp::from_secs(u64::from(self.0) * SECS)
    }

    /// The day that lies so many days earlier; not before 1970.
    #[must_use]
    pub const fn earlier(self, days: u32) -> Self {
        Self(self.0.saturating_sub(days))
    }
}

/// The day of a time: `2026-11-21`.
#[must_use]
pub fn date(time: Timestamp) -> String {
    let (year, month, day) = civil(time.as_secs() / SECS);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A time to the second (RFC 3339): `2026-11-21T09:15:00Z`.
#[must_use]
pub fn rfc3339(time: Timestamp) -> String {
    let secs = time.as_secs() % SECS;
    let (hour, minute, second) = (secs / 3600, secs / 60 % 60, secs % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", date(time))
}

/// Year, month and day of a number of days since 1970-01-01.
///
/// Hinnant: "chrono-compatible low-level date algorithms", `civil_from_days`.
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

const SECS: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_800_000_000, "2027-01-15T08:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (secs, want) in cases {
            let time = Timestamp::from_secs(secs);
            assert_eq!(rfc3339(time), want);
            assert_eq!(date(Day::of(time).start()), want[..10]);
        }
    }
}
