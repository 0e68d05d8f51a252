//! The time, which tests of a runtime can stop.

use std::time::Instant;

/// The time of the runtime's clock.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
