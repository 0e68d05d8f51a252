//! The settings of QUIC.

use std::sync::Arc;
use std::time::Duration;

use hikyaku_congestion::{OfConnection, SEND_WINDOW};
use hikyaku_quic::TlsServer;
use hikyaku_quic::proto::{IdleTimeout, ServerConfig, TransportConfig, VarInt};

use super::super::carrier::Carrier;
use crate::connection_ids::QuicKeys;
use crate::qlog::Trace;
use crate::sections::{Limits, Timeouts};
use crate::transport::TransportChoice;
use crate::uploads::FIRST_WINDOW;

/// Longest idle time: NATs forget UDP flows after about half a minute (RFC 4787 §4.3 asks
/// for two minutes, many do less).
const MAX_IDLE: Duration = Duration::from_secs(30);
/// Time that it takes at most to end a connection in order.
const ORDERLY_END: Duration = Duration::from_secs(1);
/// Unidirectional streams of the client: control and QPACK (RFC 9114 §6.2), and some to
/// spare for greasing.
const UNI_STREAMS: u32 = 8;

/// The initial round-trip time of RFC 9002 §6.2.2, and the least one here.
const RFC_INITIAL_RTT: Duration = Duration::from_millis(333);
const LEAST_INITIAL_RTT: Duration = Duration::from_millis(20);

/// The time without a packet after which a QUIC connection is over (RFC 9000 §10.1). It is longer than
/// the time after which a connection without requests is ended in order, where that comes first.
pub(in crate::serve) fn max_idle(timeouts: &Timeouts) -> Duration {
    let idle = timeouts.idle;
    idle.saturating_add(ORDERLY_END).min(MAX_IDLE)
}

/// Why the QUIC settings can't be made.
#[derive(Debug, thiserror::Error)]
#[error("setting up QUIC: {0}")]
pub struct QuicError(String);

/// The settings of QUIC connections.
pub(crate) struct QuicConfig {
    server: ServerConfig,
    tls: Arc<TlsServer>,
    max_idle: IdleTimeout,
    max_streams: VarInt,
    stream_window: VarInt,
}

impl QuicConfig {
    /// Takes the settings from the configuration.
    ///
    /// # Errors
    /// When TLS lacks what QUIC needs, or a limit can't be expressed.
    pub(crate) fn new(
        tls: rustls::ServerConfig,
        keys: &QuicKeys,
        min_cwnd: Option<u64>,
        limits: &Limits,
        timeouts: &Timeouts,
    ) -> Result<Self, QuicError> {
        check_min_cwnd(min_cwnd)?;
        let tls = TlsServer::new(tls).map_err(|error| QuicError(error.to_string()))?;
        let tls = Arc::new(tls);
        let max_idle = max_idle(timeouts)
            .try_into()
            .map_err(|_| QuicError("timeouts.idle is too long".to_owned()))?;
        Ok(Self {
            server: ServerConfig::new(Arc::clone(&tls) as _, keys.tokens()),
            tls,
            max_idle,
            max_streams: VarInt::from_u32(limits.streams),
            stream_window: VarInt::from_u32(limits.upload_window() / 2),
        })
    }

    /// Settings that an endpoint needs before it knows who comes.
    pub(crate) fn endpoint(&self) -> ServerConfig {
        self.server.clone()
    }

    /// The settings of a connection whose sender shall do `choice`, and whose tickets are the carrier's.
    pub(super) fn of_connection(
        &self,
        choice: &TransportChoice,
        trace: Option<&Trace>,
        carrier: Option<&Arc<Carrier>>,
    ) -> Arc<ServerConfig> {
        let mut transport = TransportConfig::default();
        transport
            .max_idle_timeout(Some(self.max_idle))
            .max_concurrent_bidi_streams(self.max_streams)
            .max_concurrent_uni_streams(VarInt::from_u32(UNI_STREAMS))
            // Fixed from here on; the connection's, which follows the path, bounds all streams.
            .stream_receive_window(self.stream_window)
            .receive_window(VarInt::from_u32(FIRST_WINDOW))
            .send_window(SEND_WINDOW)
            .datagram_receive_buffer_size(None)
            .qlog_stream(trace.map(Trace::stream))
            .congestion_controller_factory(Arc::new(OfConnection::new(choice.quic_settings())));
        if let Some(rtt) = initial_rtt(choice) {
            transport.initial_rtt(rtt);
        }
        let mut server = self.server.clone();
        server.transport_config(Arc::new(transport));
        if let Some(carrier) = carrier {
            server.crypto = Arc::new(self.tls.with_tickets(Arc::clone(carrier) as _));
        }
        Arc::new(server)
    }
}

/// The initial round-trip time of a connection, which former visits have shown (RFC 9002 §6.2.2). The first probe
/// follows after three of it, else after a second. It is twice the least one, for queues and slow clients.
fn initial_rtt(choice: &TransportChoice) -> Option<Duration> {
    let rtt = choice.known?.min_rtt * 2;
    Some(rtt.clamp(LEAST_INITIAL_RTT, RFC_INITIAL_RTT))
}

/// Refuses a floor that no connection can reach.
pub(super) fn check_min_cwnd(min_cwnd: Option<u64>) -> Result<(), QuicError> {
    if let Some(bytes) = min_cwnd
        && bytes > SEND_WINDOW
    {
        return Err(QuicError(format!(
            "policy.min_cwnd is {bytes} bytes, more than the {SEND_WINDOW} that a \
             connection may have in flight"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hikyaku_units::arm::Congestion;
    use hikyaku_units::{ByteSize, SavedPath};

    use super::*;

    #[test]
    fn a_handshake_begins_with_the_round_trip_time_of_former_visits() {
        let cases = [
            (None, None),
            (Some(1), Some(20)),
            (Some(25), Some(50)),
            (Some(400), Some(333)),
        ];
        for (min_rtt, want) in cases {
            let choice = TransportChoice {
                known: min_rtt.map(|min_rtt| SavedPath {
                    bdp: ByteSize::from_bytes(100_000),
                    min_rtt: Duration::from_millis(min_rtt),
                }),
                ..TransportChoice::ordinary(Congestion::Floor)
            };
            let got = initial_rtt(&choice);
            assert_eq!(got, want.map(Duration::from_millis), "{min_rtt:?} ms");
        }
    }
}
