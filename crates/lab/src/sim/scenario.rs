//! The input and the outcome of a simulation.

use std::time::Duration;

use hikyaku_congestion::Settings;
use hikyaku_netsim::{Counters, LinkConfig};
use hikyaku_units::Timestamp;

/// Flows that share one link. Each has a client and a server of its own. All servers are at one end
/// of the link, all clients at the other.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Direction from clients to servers.
    pub up: LinkConfig,
    /// Direction from servers to clients.
    pub down: LinkConfig,
    /// The flows, at least one.
    pub flows: Vec<Flow>,
    /// The simulation ends at this time, if the flows have not ended before.
    pub until: Duration,
    /// The same seed gives the same packets at the same times, bit for bit.
    pub seed: u64,
}

/// A QUIC connection over which a client downloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Name of the flow in series and metrics.
    pub name: String,
    /// Congestion control of its server.
    pub settings: Settings,
    /// Time at which the client begins to connect.
    pub start: Duration,
    /// Body bytes of each response, requested one after another over the one connection. Empty for
    /// a single response without end.
    pub sizes: Vec<u64>,
    /// Whether all responses but the first are requested together once that is complete, as the
    /// resources of a page.
    pub page: bool,
}

/// The outcome of a [`Scenario`].
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Outcomes of the flows, in their order.
    pub flows: Vec<FlowOutcome>,
    /// Virtual time at the end.
    pub ended: Duration,
    /// Counts of packets to the servers.
    pub up: Counters,
    /// Counts of packets to the clients.
    pub down: Counters,
    /// Values over time, of the link and of each flow, in the order of time.
    pub samples: Vec<Sample>,
    /// Wait of each packet to the clients, in the order of arrival.
    pub waits: Vec<Wait>,
}

/// The outcome of a flow. Times count from the flow's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowOutcome {
    /// Time at which the handshake was complete for the client.
    pub connected: Option<Duration>,
    /// Time of the first byte of the first response.
    pub first_byte: Option<Duration>,
    /// Time at which the client had everything; `None` if it had not at the end.
    pub complete: Option<Duration>,
    /// Time of the last request's arrival at the server.
    pub requested: Option<Duration>,
    /// Time at which the server knew that all of the responses had arrived.
    pub acknowledged: Option<Duration>,
    /// Body bytes that the client got.
    pub received: u64,
    /// Body bytes that the client received of the response that it requested last.
    pub received_of_last: u64,
    /// Smallest round-trip time that the server saw.
    pub min_rtt: Duration,
    /// Packets that the server sent.
    pub packets_sent: u64,
    /// Packets that the server sent and took for lost.
    pub packets_lost: u64,
    /// UDP datagrams that the server sent. Packets of the handshake share some.
    pub datagrams_sent: u64,
    /// Congestion events of the server's controller.
    pub congestion_events: u64,
    /// Reason for the connection's end, if it came too early.
    pub error: Option<String>,
}

/// The wait of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Time of its arrival.
    pub at: Timestamp,
    /// Time in the queue in µs, with the additions of jitter and reordering.
    pub micros: u32,
}

/// The state at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Virtual time.
    pub at: Duration,
    /// Packets delivered to the clients so far.
    pub packets: u64,
    /// Sum of these packets' waits for the transmitter, in µs.
    pub waited: u64,
    /// State of each flow.
    pub flows: Vec<FlowSample>,
}

/// The state of a flow at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSample {
    /// The server's congestion window in bytes; 0 before there is a connection.
    pub cwnd: u64,
    /// The server's ack-eliciting bytes in flight at the last acknowledgement.
    pub in_flight: u64,
    /// The server's smoothed round-trip time in µs.
    pub rtt: u64,
    /// Body bytes that the client has received so far.
    pub received: u64,
}

impl Outcome {
    /// Returns the waits of the packets that arrived between two times, in µs, in ascending order.
    #[must_use]
    pub fn waits_between(&self, from: Duration, to: Duration) -> Vec<u32> {
        let zero = Timestamp::default();
        let within = self
            .waits
            .iter()
            .filter(|wait| (from..=to).contains(&wait.at.since(zero)));
        let mut waits: Vec<u32> = within.map(|wait| wait.micros).collect();
        waits.sort_unstable();
        waits
    }
}
