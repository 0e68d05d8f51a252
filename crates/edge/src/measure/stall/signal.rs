//! What is noticed of a path.

use std::time::Duration;

use crate::transport::Stall;

/// What a look at a transport shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Stalled(Stall),
    /// Acknowledgements come again.
    Resumed {
        /// Since the last one before.
        silent: Duration,
        /// The path that was silent delivers: what was under way on it has come.
        false_alarm: bool,
    },
    /// A path that had been left delivers, which shows later than [`Signal::Resumed`].
    Delivered,
}
