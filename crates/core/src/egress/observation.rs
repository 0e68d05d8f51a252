//! The edge's reports about a route.

use std::time::Duration;

use super::Phase;
use hikyaku_units::Rate;

/// The measurement of a route by one response, or by one busy period of a connection.
///
/// A long response may be reported in parts, of a second or more each. A part that was sent partly by
/// another route says nothing of either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteObservation {
    /// Body bytes that were acknowledged.
    pub bytes: u64,
    /// The time in which they were, from the request's arrival or the end of the part before.
    pub duration: Duration,
    /// When in the response, or the busy period, it began.
    pub phase: Phase,
    /// There was nothing to send for part of the time, so the goodput understates the route.
    pub app_limited: bool,
    /// Smoothed round-trip time at the end (RFC 9002 §5.3).
    pub rtt: Option<Duration>,
    /// Packets (TCP: segments) sent in that time.
    pub packets_sent: u32,
    /// Packets lost in it; losses found to be spurious are taken out.
    pub packets_lost: u32,
    /// For how much of the time nothing was acknowledged although something was in flight. The stalls
    /// themselves are reported when they are noticed ([`RouteTable::stalled`](super::RouteTable::stalled)).
    pub stalled: Duration,
}

impl RouteObservation {
    /// Bytes below which a goodput is that of the handshake and of slow start rather than of the route.
    pub const MIN_BYTES: u64 = 65_536;

    /// Bytes per time; `None` where there are too few for a rate.
    #[must_use]
    pub fn goodput(&self) -> Option<Rate> {
        let goodput = Rate::of(self.bytes, self.duration)?;
        let is_enough = self.bytes >= Self::MIN_BYTES && goodput.bits_per_sec() > 0;
        is_enough.then_some(goodput)
    }
}
