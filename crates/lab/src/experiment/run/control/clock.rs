//! The clock that all processes of a machine share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time on `CLOCK_MONOTONIC`, which `hikyaku-bgp-feed` reports, too.
pub(super) fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    // Both count from the start of the machine, and are not negative.
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
