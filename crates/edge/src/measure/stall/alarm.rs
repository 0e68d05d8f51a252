//! An alarm, and whether it was false.

use std::time::{Duration, Instant};

use super::AT_ONCE;
use crate::transport::Flight;

/// An alarm: the path carries nothing any more, as it seems.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    pub(super) raised: Instant,
    /// A round trip over another path takes longer.
    pub(super) soon: Duration,
    /// Counters before.
    pub(super) sent: u64,
    pub(super) acked: u64,
    pub(super) former: u64,
    pub(super) resent: u64,
    pub(super) duplicates: u64,
    /// The last look without an acknowledgement since, and the bytes or packets sent by then.
    pub(super) silent: (Instant, u64),
    /// When to report it again.
    pub(super) again: Instant,
    pub(super) times: u32,
}

impl Alarm {
    /// Raises an alarm at `now`, when `acked` has been acknowledged. A round trip over another path takes
    /// longer than `soon`.
    pub(super) fn raise(now: Instant, soon: Duration, acked: u64, flight: &Flight) -> Self {
        Self {
            raised: now,
            soon,
            sent: flight.sent,
            acked,
            former: flight.former,
            resent: flight.resent,
            duplicates: flight.duplicates,
            silent: (now, flight.sent),
            again: now,
            times: 0,
        }
    }

    /// Whether it is certain that the path delivered the packets acknowledged `at`. A single packet may
    /// be one that the receiver had, and acknowledged late. Retransmissions fill another path's gaps,
    /// too, but two of its round trips later: one until the gaps are reported, one until they are
    /// filled.
    pub(super) fn was_false(&self, at: Instant, flight: &Flight) -> bool {
        let came = flight.former.saturating_sub(self.former);
        let unmixed = flight.resent == self.resent || at < self.raised + self.soon;
        came >= AT_ONCE * flight.former_packet && unmixed
    }

    /// Whether more is acknowledged than was sent before the silence ended: later packets need a round trip.
    /// Unlike in [`Alarm::was_false`], there may be gaps among the packets that came.
    pub(super) fn is_outrun(&self, now: Instant, flight: &Flight) -> bool {
        let (until, sent) = self.silent;
        let acked = flight.acked.saturating_sub(self.acked);
        now < until + self.soon && acked >= sent.saturating_sub(self.sent) + AT_ONCE * flight.packet
    }

    /// Whether most retransmissions since were of packets that had arrived. Behind a black hole nearly
    /// all retransmissions are needed.
    pub(super) fn was_needless(&self, flight: &Flight) -> bool {
        let duplicates = flight.duplicates.saturating_sub(self.duplicates);
        let resent = flight.resent.saturating_sub(self.resent);
        duplicates >= AT_ONCE && 2 * duplicates >= resent
    }
}
