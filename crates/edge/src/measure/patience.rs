//! Noticing clients that take nothing.

use std::time::{Duration, Instant};

/// Follows how much the client has acknowledged while there is something to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    acked: u64,
    progress: Instant,
    looked: Instant,
}

impl Patience {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            acked: 0,
            progress: now,
            looked: now,
        }
    }

    /// Takes note that `acked` bytes are acknowledged, and whether there is something
    /// to send.
    pub(crate) fn look(&mut self, now: Instant, acked: u64, sending: bool) {
        self.looked = now;
        if acked != self.acked || !sending {
            self.acked = acked;
            self.progress = now;
        }
    }

    /// Time from the last progress to the last look.
    pub(crate) fn duration(&self) -> Duration {
        self.looked.saturating_duration_since(self.progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_that_takes_nothing_stalls() {
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        let cases: &[(&str, &[(u64, u64, bool)], u64)] = &[
            ("nothing to send", &[(9, 0, false), (40, 0, false)], 0),
            ("progress", &[(9, 10, true), (40, 20, true)], 0),
            ("no progress", &[(9, 10, true), (40, 10, true)], 31),
            (
                "waited for content",
                &[(9, 10, true), (30, 10, false), (40, 10, true)],
                10,
            ),
        ];
        for (name, looks, want) in cases {
            let mut patience = Patience::new(start);
            for &(secs, acked, sending) in *looks {
                patience.look(at(secs), acked, sending);
            }
            assert_eq!(patience.duration(), Duration::from_secs(*want), "{name}");
        }
    }
}
