//! What is simulated, and what came of it.

use std::time::Duration;

use hikyaku_congestion::Settings;
use hikyaku_netsim::{Counters, LinkConfig};
use hikyaku_units::Timestamp;

/// Flows that share one path. Each has a client and a server of its own; all servers are at
/// one end of the path, all clients at the other.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// From clients to servers.
    pub up: LinkConfig,
    /// From servers to clients.
    pub down: LinkConfig,
    /// At least one.
    pub flows: Vec<Flow>,
    /// The simulation ends at this time, if the flows have not ended before.
    pub until: Duration,
    /// The same seed gives the same packets at the same times, bit for bit.
    pub seed: u64,
}

/// A QUIC connection over which a client downloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its name in series and metrics.
    pub name: String,
    /// Congestion control of its server.
    pub settings: Settings,
    /// When the client begins to connect.
    pub start: Duration,
    /// Body bytes of each response, requested one after another over the one connection.
    /// Empty: a single response without end.
    pub sizes: Vec<u64>,
}

/// What came of a [`Scenario`].
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// One for each flow, in their order.
    pub flows: Vec<FlowOutcome>,
    /// Virtual time at the end.
    pub ended: Duration,
    /// What became of the packets to the servers.
    pub up: Counters,
    /// What became of the packets to the clients.
    pub down: Counters,
    /// Values over time, of the path and of each flow, in the order of time.
    pub samples: Vec<Sample>,
    /// Of each packet to the clients, in the order of arrival.
    pub waits: Vec<Wait>,
}

/// What came of a flow. Times count from the flow's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowOutcome {
    /// When the handshake was complete for the client.
    pub connected: Option<Duration>,
    /// When the first byte of the first response came.
    pub first_byte: Option<Duration>,
    /// When the client had everything; `None` if it had not at the end.
    pub complete: Option<Duration>,
    /// When the last request arrived at the server.
    pub requested: Option<Duration>,
    /// When the server knew that all of the last response had arrived.
    pub acknowledged: Option<Duration>,
    /// Body bytes that the client got.
    pub received: u64,
    /// Body bytes that the client got of the response that came last.
    pub received_of_last: u64,
    /// Smallest round-trip time that the server saw.
    pub min_rtt: Duration,
    /// Packets that the server sent.
    pub packets_sent: u64,
    /// Packets of these that the server took for lost.
    pub packets_lost: u64,
    /// UDP datagrams that the server sent. Packets of the handshake share some.
    pub datagrams_sent: u64,
    /// Congestion events of the server's controller.
    pub congestion_events: u64,
    /// Why the connection ended, if it did before its time.
    pub error: Option<String>,
}

/// How long a packet waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When it arrived.
    pub at: Timestamp,
    /// Time in the queue in µs, with what jitter and reordering added.
    pub micros: u32,
}

/// The state at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Virtual time.
    pub at: Duration,
    /// Packets delivered to the clients so far.
    pub packets: u64,
    /// How long these had waited for the transmitter, in µs, added up.
    pub waited: u64,
    /// Of each flow.
    pub flows: Vec<FlowSample>,
}

/// The state of a flow at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSample {
    /// The server's congestion window in bytes; 0 before there is a connection.
    pub cwnd: u64,
    /// The server's ack-eliciting bytes in flight when the last acknowledgement came.
    pub in_flight: u64,
    /// The server's smoothed round-trip time in µs.
    pub rtt: u64,
    /// Body bytes that the client has got so far.
    pub received: u64,
}

impl Outcome {
    /// How long the packets waited that arrived between two times, in µs, in ascending order.
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
