//! Connections whose requests wait.

use std::time::{Duration, Instant};

/// Keeps a connection alive while its requests wait (RFC 9000 §10.1.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct KeepAlive {
    /// Silence after which the client is asked for a sign of life.
    pub(super) interval: Duration,
    /// Datagrams that came so far.
    datagrams: u64,
    /// When another was seen, or asked for.
    at: Option<Instant>,
}

impl KeepAlive {
    /// For a connection that is over after `max_idle` without a packet.
    pub(super) const fn new(max_idle: Duration) -> Self {
        Self {
            // Several may be lost.
            interval: Duration::from_millis(max_idle.as_millis() as u64 / 4),
            datagrams: 0,
            at: None,
        }
    }

    /// Notes how many datagrams came so far. Returns whether to ask for another.
    pub(super) fn look(&mut self, now: Instant, datagrams: u64) -> bool {
        let heard = self.datagrams != datagrams;
        let silent = self.at.is_some_and(|at| now >= at + self.interval);
        self.datagrams = datagrams;
        if heard || silent || self.at.is_none() {
            self.at = Some(now);
        }
        silent && !heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_asked_into() {
        let start = Instant::now();
        // name, at seconds, datagrams so far, ask
        let looks = [
            ("the first look", 0, 4, false),
            ("a moment later", 7, 4, false),
            ("a quarter of the time", 8, 4, true),
            ("asked just now", 9, 5, false),
            ("silent again", 17, 5, true),
            ("no answer", 20, 5, false),
            ("still none", 25, 5, true),
        ];
        let mut keep_alive = KeepAlive::new(Duration::from_secs(30));
        for (name, secs, datagrams, want) in looks {
            let now = start + Duration::from_secs(secs);
            assert_eq!(keep_alive.look(now, datagrams), want, "{name}");
        }
    }
}
