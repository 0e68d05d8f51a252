//! A transport's account of a connection.

use std::time::{Duration, Instant};

use hikyaku_units::Rate;

/// A transport's own account of a connection, since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    /// Packets sent; on TCP segments with data.
    pub(crate) packets_sent: u64,
    /// Packets lost, without losses that turned out to be spurious.
    pub(crate) packets_lost: u64,
    /// Smallest round-trip time; zero while unknown.
    pub(crate) min_rtt: Duration,
    /// Smoothed round-trip time; zero while unknown.
    pub(crate) srtt: Duration,
    /// Highest delivery rate since the last sample (see `measure::report`).
    pub(crate) delivery_rate: Option<Rate>,
    /// That rate may be less than what the path carries.
    pub(crate) app_limited: bool,
    /// Bytes that the peer has acknowledged.
    pub(crate) acked: u64,
    /// Time since an acknowledgement last arrived.
    pub(crate) since_ack: Duration,
    /// Nothing more will be acknowledged.
    pub(crate) closed: bool,
}

/// Bytes that a sender may have in flight, in the words of its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The congestion control.
    pub(crate) algorithm: String,
    /// The congestion window; of MPTCP those of all subflows together.
    pub(crate) bytes: u64,
    /// Smoothed round-trip time; of MPTCP the smallest of all subflows. `None` before the first.
    pub(crate) rtt: Option<Duration>,
    /// It still looks for the path's rate.
    pub(crate) slow_start: bool,
}

/// A transport's account of the packets under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flight {
    /// Packets or bytes sent since the beginning, without those that nobody acknowledges.
    pub(crate) sent: u64,
    /// Of `sent`, those that are neither acknowledged nor taken for lost.
    pub(crate) in_flight: u64,
    /// Grows with every acknowledgement of something new.
    pub(crate) acked: u64,
    /// When the last one came, as far as is known.
    pub(crate) acked_at: Option<Instant>,
    /// Of the oldest packets of each acknowledgement.
    pub(crate) srtt: Duration,
    /// Mean deviation of these.
    pub(crate) rttvar: Duration,
    /// Shortest of these over the path in use; zero where it is not known.
    pub(crate) min_rtt: Duration,
    /// Mark that packets bear now, by which paths are distinguished.
    pub(crate) mark: u32,
    /// Bytes that one packet counts.
    pub(crate) packet: u64,
    /// Packets were taken for lost, and those sent because of that are not acknowledged.
    pub(crate) repairing: bool,
    /// Grows with packets or bytes that the path last left delivers. On QUIC these are the ones sent
    /// before. On TCP they are the ones acknowledged in order, as long as nothing is sent again.
    pub(crate) former: u64,
    /// Bytes that one packet counts there.
    pub(crate) former_packet: u64,
    /// Packets sent again, where that makes `former` uncertain.
    pub(crate) resent: u64,
    /// Of `resent`, packets that the receiver had already, as far as it reports that.
    pub(crate) duplicates: u64,
}

impl Flight {
    /// Packets in flight, the last of them perhaps not whole.
    pub(crate) fn packets_in_flight(&self) -> u64 {
        self.in_flight.div_ceil(self.packet.max(1))
    }

    /// Of a connection with this mark. Its min_rtt is that of the path in use if it has had no other.
    pub(crate) fn on(self, mark: u32, has_moved: bool) -> Self {
        let min_rtt = match has_moved {
            true => Duration::ZERO,
            false => self.min_rtt,
        };
        Self {
            min_rtt,
            mark,
            ..self
        }
    }
}

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
