//! Signals of a path's stalls and returns.

use std::time::Duration;

use crate::transport::Stall;

/// Finding of a look at a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Stalled(Stall),
    /// Acknowledgements come again.
    Resumed {
        /// Since the last one before.
        silent: Duration,
        /// The path that was silent delivers: the packets under way on it have come.
        false_alarm: bool,
    },
    /// A path that had been left delivers, which shows later than [`Signal::Resumed`].
    Delivered,
}
