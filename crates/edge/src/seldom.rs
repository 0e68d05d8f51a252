//! Reports of events that may happen thousands of times a second.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lets one report through a minute.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    last: Mutex<Option<Instant>>,
}

impl Seldom {
    const INTERVAL: Duration = Duration::from_secs(60);

    /// Whether the report of what happens at `now` is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let mut last = self.last.lock();
        let due = last.is_none_or(|last| now.saturating_duration_since(last) >= Self::INTERVAL);
        if due {
            *last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_report_a_minute() {
        let (seldom, begun) = (Seldom::default(), Instant::now());
        let after = |secs| begun + Duration::from_secs(secs);
        let cases = [
            (0, true),
            (1, false),
            (59, false),
            (60, true),
            (119, false),
            (200, true),
        ];
        for (secs, want) in cases {
            assert_eq!(seldom.is_due(after(secs)), want, "after {secs} s");
        }
    }
}
