//! Noticing that a path carries nothing any more.

use std::time::{Duration, Instant};

/// Acknowledgements that were due stay away: the path in use may have become a black hole.
///
/// False alarms are possible, so what answers one should be cheap and easily taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// When the client last acknowledged anything.
    pub(crate) since: Instant,
    /// Packets in flight.
    pub(crate) in_flight: u64,
    /// Those of them whose acknowledgement is overdue.
    pub(crate) overdue: u64,
    /// Smoothed round-trip time before.
    pub(crate) srtt: Duration,
}
