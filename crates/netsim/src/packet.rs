//! Packets on their arrival at a link and on their departure from it.

use std::ops::AddAssign;

use hikyaku_units::Timestamp;
use serde::{Deserialize, Serialize};

/// The properties of a packet that matter to a link. A bare length is a packet
/// that is neither UDP nor ECN-capable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketInfo {
    /// Bytes of the IP packet.
    pub len: u32,
    /// Whether the packet carries UDP ([`UdpPolicy`](crate::UdpPolicy)).
    pub udp: bool,
    /// Whether the packet is ECN-capable and not yet marked: ECT(0) or ECT(1).
    pub ect: bool,
}

impl From<u32> for PacketInfo {
    fn from(len: u32) -> Self {
        Self {
            len,
            ..Self::default()
        }
    }
}

/// The fate of a packet on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The link took the packet. It will be delivered, unless the wire loses it,
    /// or the queue is full when it leaves the shaper of UDP.
    Queued,
    /// The queue had no room.
    Dropped,
    /// The policy on UDP dropped the packet.
    Policed,
}

/// A packet at the far end.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// Time at which the packet is due, rounded up to a microsecond; at most the
    /// time of the poll.
    pub due: Timestamp,
    /// The payload as it was enqueued.
    pub payload: P,
    /// Whether to mark the packet: congestion experienced (CE).
    pub mark_ce: bool,
}

/// A packet that will not be delivered.
#[derive(Debug, PartialEq, Eq)]
pub struct Discarded<P> {
    /// Time of the discard, rounded up to a microsecond.
    pub at: Timestamp,
    /// The payload as it was enqueued.
    pub payload: P,
    /// The reason of the discard.
    pub cause: Discard,
}

/// The reason why a packet is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// The wire lost the packet.
    Lost,
    /// The queue was full.
    Dropped,
    /// The policy on UDP dropped the packet.
    Policed,
}

/// Packets and their bytes, without the wire's overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes as given in [`PacketInfo::len`].
    pub bytes: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }

    pub(crate) fn uncount(&mut self, len: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(len);
    }
}

/// Counts of all packets so far. Every enqueued packet is in exactly one of
/// `delivered`, `lost`, `dropped`, `policed` and
/// [`Link::in_link`](crate::Link::in_link).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Handed out by [`Link::poll`](crate::Link::poll).
    pub delivered: Tally,
    /// Lost on the wire.
    pub lost: Tally,
    /// Dropped because the queue was full.
    pub dropped: Tally,
    /// Dropped by the policy on UDP, or for lack of room in its shaper.
    pub policed: Tally,
    /// Marked CE by the queue. These packets count elsewhere, too.
    pub marked: Tally,
}

/// Adds the packets of the other tally.
impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Adds each tally of the other counters.
impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.dropped += other.dropped;
        self.policed += other.policed;
        self.marked += other.marked;
    }
}

/// A packet inside the link.
#[derive(Debug)]
pub(crate) struct Packet<P> {
    pub(crate) info: PacketInfo,
    pub(crate) payload: P,
    /// Whether the queue marked it.
    pub(crate) marked: bool,
}
