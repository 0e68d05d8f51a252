//! Questions that the meter of a QUIC connection asks of it, and the settings it makes there.

use std::net::SocketAddr;
use std::time::Duration;

use hikyaku_congestion::{Handle, Settings};
use hikyaku_quic::proto::VarInt;
use hikyaku_quic::{Connection, Stopped, StoppedError};
use hikyaku_units::Rate;

use crate::clock;
use crate::transport::{Flight, Snapshot};

/// A QUIC connection, as its meter knows it.
pub(crate) trait QuicTransport {
    /// Resolves when the client has acknowledged a stream to its end, or stopped it with a code.
    type Stopped: Future<Output = Result<Option<VarInt>, StoppedError>> + Unpin;

    /// Counts so far; the delivery rate is the highest since the last call.
    fn count(&self) -> Counts;

    /// Bytes that the client has acknowledged.
    fn acked(&self) -> u64;

    /// The smoothed round-trip time.
    fn rtt(&self) -> Duration;

    /// The address that the client has by now.
    fn remote_address(&self) -> SocketAddr;

    /// Sets the bytes that the client may have in flight. A larger window wakes the connection.
    fn set_receive_window(&self, bytes: u32);

    /// Whether its congestion control is ours, and can be asked and changed.
    fn is_controlled(&self) -> bool;

    /// Gives it another congestion control.
    fn change(&self, settings: Settings);

    /// The packets under way, once there was an acknowledgement.
    fn flight(&self) -> Option<Flight>;

    /// Makes room for new data on another path.
    fn failover(&self);
}

/// Counts of a QUIC connection since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) snapshot: Snapshot,
    /// STREAM frames sent.
    pub(crate) stream_frames: u64,
    /// Datagrams that came.
    pub(crate) datagrams: u64,
}

/// A connection, with its congestion control where that is ours.
pub(crate) struct QuicConnection {
    connection: Connection,
    controller: Option<Handle>,
}

impl From<Connection> for QuicConnection {
    fn from(connection: Connection) -> Self {
        Self {
            controller: Handle::of(connection.congestion_state()),
            connection,
        }
    }
}

impl QuicTransport for QuicConnection {
    type Stopped = Stopped;

    fn count(&self) -> Counts {
        let stats = self.connection.stats();
        let path = stats.path;
        let rate = self
            .controller
            .as_ref()
            .and_then(Handle::take_delivery_rate);
        // Probes for a larger MTU are made to be lost.
        let sent = path.sent_packets.saturating_sub(path.lost_plpmtud_probes);
        Counts {
            snapshot: Snapshot {
                packets_sent: sent,
                packets_lost: path.lost_packets,
                min_rtt: path.min_rtt,
                srtt: path.rtt,
                delivery_rate: rate
                    .map(|(bytes, _)| Rate::from_bits_per_sec(bytes.saturating_mul(8))),
                app_limited: rate.is_some_and(|(_, app_limited)| app_limited),
                acked: self.acked(),
                since_ack: Duration::ZERO,
                closed: false,
            },
            stream_frames: stats.frame_tx.stream,
            datagrams: stats.udp_rx.datagrams,
        }
    }

    fn acked(&self) -> u64 {
        self.controller.as_ref().map_or(0, Handle::acked_bytes)
    }

    fn rtt(&self) -> Duration {
        self.connection.rtt()
    }

    fn remote_address(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    fn set_receive_window(&self, bytes: u32) {
        self.connection.set_receive_window(VarInt::from_u32(bytes));
    }

    fn is_controlled(&self) -> bool {
        self.controller.is_some()
    }

    fn change(&self, settings: Settings) {
        if let Some(controller) = &self.controller {
            controller.change(settings);
        }
    }

    fn flight(&self) -> Option<Flight> {
        let flight = self.controller.as_ref()?.flight();
        (!flight.srtt.is_zero()).then(|| Flight {
            sent: flight.sent,
            in_flight: flight.in_flight,
            acked: flight.acked,
            acked_at: Some(flight.acked_at),
            srtt: flight.srtt,
            rttvar: flight.rttvar,
            min_rtt: flight.min_rtt,
            mark: 0,
            packet: flight.mtu.into(),
            repairing: flight.repairing,
            former: flight.acked_of_former,
            former_packet: flight.mtu.into(),
            resent: 0,
            duplicates: 0,
        })
    }

    fn failover(&self) {
        if let Some(controller) = &self.controller {
            controller.failover(clock::now());
        }
    }
}
