//! What the edge reports about a client.

use std::time::Duration;

use crate::choice::{Group, Session};
use hikyaku_units::Rate;
use hikyaku_units::arm::{Arm, ByTransport, Congestion, Version};

/// One thing seen of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observation {
    /// A connection's path was measured.
    Path(TransportSample),
    /// A response is complete. Report the path of its connection first: the outcome is compared with
    /// what the model says for that path.
    Outcome(Outcome),
    /// UDP worked or failed.
    Udp(UdpEvent),
    /// A decision was applied.
    Decided(Decided),
}

/// A decision that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The preferred version.
    pub version: Version,
    /// The congestion controls that were chosen from a comparison.
    pub congestion: ByTransport<Option<Congestion>>,
    /// The group whose outcomes the session's count to.
    pub group: Group,
    /// The session the decision holds for.
    pub session: Session,
}

/// An interval of one connection, as its transport measured it (VERSION §3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportSample {
    /// HTTP version on the connection.
    pub version: Version,
    /// Congestion control of the connection.
    pub congestion: Congestion,
    /// Packets (TCP: segments) sent in the interval.
    pub packets_sent: u32,
    /// Packets lost in the interval; losses found to be spurious are taken out.
    pub packets_lost: u32,
    /// Smallest round-trip time of the connection so far (RFC 9002 §5.2); zero when not yet known.
    pub min_rtt: Duration,
    /// Smoothed round-trip time now (RFC 9002 §5.3); zero when not yet known.
    pub srtt: Duration,
    /// Rate at which data was delivered, as the transport measured it over about one round trip.
    pub delivery_rate: Option<Rate>,
    /// The sender had nothing to send for part of the time, so the rate understates the path.
    pub app_limited: bool,
}

/// What a response really took.
///
/// A page's responses run beside each other and each takes longer than alone. Report such a busy period
/// of a connection (from the first request seen while idle until nothing is left to acknowledge) as one
/// outcome with the sum of the sizes; or report its responses one by one with `shared`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it was sent.
    pub arm: Arm,
    /// Size of the response's body in bytes.
    pub size: u64,
    /// From the request's arrival until the last byte was acknowledged, without the time for which the
    /// receiver held the acknowledgement back.
    pub duration: Duration,
    /// Other responses ran beside it on the connection. The time then says nothing of the arm, and only
    /// the size is learnt.
    pub shared: bool,
}

/// What the edge sees of UDP between a client and itself.
///
/// Nothing counts that anybody could have sent from a forged address (RFC 9000 §8.1), and on TCP only what
/// clients do that follow advertisements: browsers, but not scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UdpEvent {
    /// A response on a TCP connection carried `Alt-Svc: h3`.
    Advertised,
    /// A TCP connection ended on which, after `Advertised`, at least one more request came, and in whose
    /// time no QUIC connection of the client arrived.
    SessionEnded,
    /// A QUIC handshake completed.
    Arrived,
    /// A QUIC connection died with data in flight, or the handshake of a validated address never completed.
    Broke,
    /// A request came over TCP. Counts only soon after `Broke`.
    BackOnTcp,
}

impl UdpEvent {
    /// All, in the order of their indices.
    pub const ALL: [Self; 5] = [
        Self::Advertised,
        Self::SessionEnded,
        Self::Arrived,
        Self::Broke,
        Self::BackOnTcp,
    ];

    /// A stable name in snake case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Advertised => "advertised",
            Self::SessionEnded => "session_ended",
            Self::Arrived => "arrived",
            Self::Broke => "broke",
            Self::BackOnTcp => "back_on_tcp",
        }
    }

    /// The position in an array that has an element for each.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::UdpEvent;

    #[test]
    fn every_event_is_counted_at_its_index() {
        let next = |event| match event {
            UdpEvent::Advertised => Some(UdpEvent::SessionEnded),
            UdpEvent::SessionEnded => Some(UdpEvent::Arrived),
            UdpEvent::Arrived => Some(UdpEvent::Broke),
            UdpEvent::Broke => Some(UdpEvent::BackOnTcp),
            UdpEvent::BackOnTcp => None,
        };
        let first = Some(UdpEvent::Advertised);
        let all: Vec<_> = std::iter::successors(first, |event| next(*event)).collect();
        assert_eq!(all, UdpEvent::ALL);
        assert!(
            all.iter()
                .enumerate()
                .all(|(at, event)| event.index() == at)
        );
    }
}
