//! QUIC: accepting connections, and their settings.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use hikyaku_congestion::{Factory, SEND_WINDOW};
use hikyaku_core::arm::{Congestion, Transport, Version};
use hikyaku_core::policy::PolicyConfig;
use hikyaku_core::sample::UdpEvent;
use quinn::crypto::rustls::{HandshakeData, QuicServerConfig};
use quinn::{
    Connecting, ConnectionError, Endpoint, IdleTimeout, Incoming, TransportConfig, VarInt,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::h3;
use super::window::FIRST_WINDOW;
use crate::config::Config;
use crate::conn::Conn;
use crate::content::Peer;
use crate::limits::Admission;
use crate::live::LiveConnection;
use crate::metrics::add;
use crate::mptcp::Mptcp;
use crate::qlog::Trace;
use crate::shared::Shared;
use crate::transport::TransportChoice;

/// Longest idle time: NATs forget UDP flows after about half a minute (RFC 4787 §4.3 asks
/// for two minutes, many do less).
const MAX_IDLE: Duration = Duration::from_secs(30);
/// Unidirectional streams of the client: control and QPACK (RFC 9114 §6.2), and some to
/// spare for greasing.
const UNI_STREAMS: u32 = 8;

/// The time without a packet after which a QUIC connection is over (RFC 9000 §10.1).
pub(crate) fn max_idle(config: &Config) -> Duration {
    config.timeouts.idle.min(MAX_IDLE)
}

/// Why the QUIC settings can't be made.
#[derive(Debug, thiserror::Error)]
#[error("setting up QUIC: {0}")]
pub struct QuicError(String);

/// The settings of QUIC connections.
pub(crate) struct QuicConfig {
    server: quinn::ServerConfig,
    max_idle: IdleTimeout,
    max_streams: VarInt,
    stream_window: VarInt,
}

impl QuicConfig {
    /// Takes the settings from the configuration.
    ///
    /// # Errors
    /// When TLS lacks what QUIC needs, or a limit can't be expressed.
    pub(crate) fn new(tls: rustls::ServerConfig, config: &Config) -> Result<Self, QuicError> {
        check_min_cwnd(&config.policy)?;
        let crypto =
            QuicServerConfig::try_from(tls).map_err(|error| QuicError(error.to_string()))?;
        let max_idle = max_idle(config)
            .try_into()
            .map_err(|_| QuicError("timeouts.idle is too long".to_owned()))?;
        Ok(Self {
            server: quinn::ServerConfig::with_crypto(Arc::new(crypto)),
            max_idle,
            max_streams: VarInt::from_u32(config.limits.streams),
            stream_window: VarInt::from_u32(config.limits.upload_window() / 2),
        })
    }

    /// What an endpoint needs before it knows who comes.
    pub(crate) fn endpoint(&self) -> quinn::ServerConfig {
        self.server.clone()
    }

    /// The settings of a connection whose sender shall do `choice`.
    fn of_connection(
        &self,
        choice: &TransportChoice,
        trace: Option<&Trace>,
    ) -> Arc<quinn::ServerConfig> {
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
            .congestion_controller_factory(Arc::new(Factory(choice.quic_settings())));
        let mut server = self.server.clone();
        server.transport_config(Arc::new(transport));
        Arc::new(server)
    }
}

/// Refuses a floor that no connection can reach.
fn check_min_cwnd(policy: &PolicyConfig) -> Result<(), QuicError> {
    let Some(bytes) = policy.min_cwnd.bytes() else {
        return Ok(());
    };
    if bytes > SEND_WINDOW {
        return Err(QuicError(format!(
            "policy.min_cwnd is {bytes} bytes, more than the {SEND_WINDOW} that a \
             connection may have in flight"
        )));
    }
    Ok(())
}

/// Accepts QUIC connections on one socket.
pub(crate) struct QuicListener {
    pub(crate) endpoint: Endpoint,
    pub(crate) local: SocketAddr,
    pub(crate) config: Arc<ArcSwap<QuicConfig>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    pub(crate) handshakes: Arc<AtomicUsize>,
}

impl QuicListener {
    /// Accepts until the server stops.
    pub(crate) async fn run(self) {
        let stop = self.stop.clone();
        while let Some(Some(incoming)) = stop.run_until_cancelled(self.endpoint.accept()).await {
            self.accept(incoming);
        }
    }

    fn accept(&self, incoming: Incoming) {
        let remote = incoming.remote_address();
        let limits = &self.shared.live().config.limits;
        let under_way = self.handshakes.load(Ordering::Relaxed);
        if under_way >= limits.quic_retry_above && incoming.may_retry() {
            add(&self.shared.metrics.quic_retries, 1);
            // Fails only where `may_retry` would have been false.
            let _ = incoming.retry();
            return;
        }
        let admission = match self.shared.connections.admit(remote.ip()) {
            Ok(admission) => admission,
            Err(refusal) => {
                self.shared.metrics.on_refusal(refusal);
                // A refusal would make browsers avoid HTTP/3 for days; silence makes them
                // use TCP.
                incoming.ignore();
                return;
            }
        };
        let local_ip = incoming.local_ip().unwrap_or(self.local.ip());
        let local = SocketAddr::new(local_ip, self.local.port());
        let choice = self.shared.clients.transport(remote.ip(), Transport::Quic);
        tracing::debug!(client = %remote, ?choice, "QUIC connection begins");
        let group = || incoming.orig_dst_cid().to_string();
        let trace = self.shared.traces.of_connection(remote, local, group);
        let config = self.config.load().of_connection(&choice, trace.as_ref());
        match incoming.accept_with(config) {
            Ok(connecting) => {
                let peer = (remote, local);
                self.spawn(connecting, peer, choice.congestion, trace, admission);
            }
            Err(error) => {
                add(&self.shared.metrics.handshakes_failed_quic, 1);
                tracing::debug!(client = %remote, "QUIC connection: {error}");
            }
        }
    }

    fn spawn(
        &self,
        connecting: Connecting,
        (remote, local): (SocketAddr, SocketAddr),
        congestion: Congestion,
        trace: Option<Trace>,
        mut admission: Admission,
    ) {
        let shared = Arc::clone(&self.shared);
        let stop = self.stop.clone();
        self.handshakes.fetch_add(1, Ordering::Relaxed);
        let handshake = Handshake(Arc::clone(&self.handshakes));
        self.tasks.spawn(async move {
            match establish(connecting, &shared).await {
                Ok(established) => {
                    drop(handshake);
                    if let Some(trace) = trace {
                        trace.follow(&established.quic);
                    }
                    let peer = Peer {
                        remote,
                        local,
                        version: Version::H3,
                        server_name: established.server_name.clone(),
                    };
                    let conn =
                        Conn::open(shared, peer, congestion, Some(Arc::default()), Mptcp::None);
                    admission.serves(LiveConnection::quic(&conn, established.quic.clone()));
                    serve(conn, established, stop).await;
                }
                Err(error) => {
                    add(&shared.metrics.handshakes_failed_quic, 1);
                    if error.kind() == io::ErrorKind::TimedOut {
                        shared.udp(remote.ip(), UdpEvent::Broke);
                    }
                    tracing::debug!(client = %remote, "QUIC handshake: {error}");
                }
            }
        });
    }
}

/// A handshake under way.
struct Handshake(Arc<AtomicUsize>);

impl Drop for Handshake {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that may be used.
struct Established {
    quic: quinn::Connection,
    server_name: Option<Arc<str>>,
    /// Completes with the handshake; `None` when it is complete already.
    early: Option<quinn::ZeroRttAccepted>,
}

async fn establish(mut connecting: Connecting, shared: &Shared) -> io::Result<Established> {
    let live = shared.live_full();
    let handshake = async {
        let data = connecting.handshake_data().await?;
        let data = data.downcast::<HandshakeData>().ok();
        let server_name = data.and_then(|data| data.server_name).map(Arc::from);
        if !live.config.tls.early_data {
            return Ok((connecting.await?, server_name, None));
        }
        Ok(match connecting.into_0rtt() {
            Ok((quic, accepted)) => (quic, server_name, Some(accepted)),
            Err(connecting) => (connecting.await?, server_name, None),
        })
    };
    let timeout = live.config.timeouts.handshake;
    let established: Result<_, ConnectionError> = tokio::time::timeout(timeout, handshake).await?;
    let (quic, server_name, early) = established.map_err(io::Error::from)?;
    Ok(Established {
        quic,
        server_name,
        early,
    })
}

async fn serve(conn: Arc<Conn>, established: Established, stop: CancellationToken) {
    let client = conn.peer.remote;
    if let Err(error) = h3::serve(conn, established.quic, established.early, stop).await {
        tracing::debug!(%client, "HTTP/3 connection: {error}");
    }
}
