//! The time, for everything that has to be tested against it.
//!
//! It is the time of tokio's timers. A test that stops it (`start_paused`) and moves it on by
//! [`tokio::time::advance`] moves instants, timers and [`Clock`]s together.

use std::time::{Duration, Instant, SystemTime};

use hikyaku_units::Timestamp;

/// The instant that it is now.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time since `instant`; zero where that lies ahead.
pub(crate) fn since(instant: Instant) -> Duration {
    now().saturating_duration_since(instant)
}

/// The time as `core` counts it. It starts with the system's time, and never goes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    epoch: Timestamp,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self::starting_at(Timestamp::from_micros(0).saturating_add(since_epoch))
    }

    /// A clock that is at `epoch` now.
    pub(crate) fn starting_at(epoch: Timestamp) -> Self {
        Self {
            started: now(),
            epoch,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.epoch.saturating_add(self.uptime())
    }

    /// The time since the start.
    pub(crate) fn uptime(&self) -> Duration {
        since(self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clocks_and_instants_stop_and_move_on_together() {
        let (clock, begun) = (Clock::start(), now());
        let first = clock.now();
        assert_eq!((clock.now(), since(begun)), (first, Duration::ZERO));
        let hour = Duration::from_secs(3600);
        tokio::time::advance(hour).await;
        assert_eq!(clock.now(), first.saturating_add(hour));
        assert_eq!((clock.uptime(), since(begun)), (hour, hour));
        assert_eq!(since(now() + hour), Duration::ZERO, "ahead");
    }
}
