//! A running flow: its two hosts, configured as the shipped server and client are.

use std::sync::Arc;

use hikyaku_congestion::{Factory, Handle, SEND_WINDOW};
use hikyaku_netsim::derive_seed;
use hikyaku_units::Timestamp;
use quinn_proto::{
    ClientConfig, Connection, ConnectionId, IdleTimeout, ServerConfig, TransportConfig, VarInt,
};

use super::app::{Client, Server};
use super::handshake::Handshakes;
use super::host::{Clock, Host};
use super::keys::Plain;
use super::scenario::{Flow, FlowOutcome, FlowSample};

/// Receive window of `hikyaku get`, its default.
const RECEIVE_WINDOW: u32 = 16 << 20;

/// Idle time after which either end gives up, in ms.
const IDLE: VarInt = VarInt::from_u32(30_000);

/// A flow, started or not.
pub(super) struct Running {
    start: Timestamp,
    /// Configuration, taken at the start.
    config: Option<ClientConfig>,
    pub(super) client: Host<Client>,
    pub(super) server: Host<Server>,
    /// Whether a datagram has arrived.
    pub(super) woken: bool,
    error: Option<String>,
}

impl Running {
    pub(super) fn new(clock: Clock, flow: &Flow, seed: u64) -> Self {
        let client = Client::new(flow.sizes.clone(), flow.page);
        let server = Some(server_config(Factory(flow.settings)));
        Self {
            start: Timestamp::default().saturating_add(flow.start),
            config: Some(client_config()),
            client: Host::new(clock, None, client, derive_seed(seed, &[0])),
            server: Host::new(clock, server, Server::default(), derive_seed(seed, &[1])),
            woken: false,
            error: None,
        }
    }

    /// Starts the flow at its time. Returns whether it needs a drive.
    pub(super) fn wake(&mut self, now: Timestamp) -> bool {
        let started = self.config.take_if(|_| self.start <= now);
        let timeouts = [self.client.timeout(), self.server.timeout()];
        let woken = std::mem::take(&mut self.woken)
            || started.is_some()
            || timeouts.into_iter().flatten().any(|at| at <= now);
        if let Some(config) = started {
            self.error = self.client.connect(now, config).err();
        }
        woken
    }

    /// Returns the time of its next event, if no datagram arrives before.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let start = self.config.is_some().then_some(self.start);
        [start, self.client.timeout(), self.server.timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether everything was transferred and acknowledged, or it failed.
    pub(super) fn ended(&self) -> bool {
        let complete = self.client.app.complete.is_some() && self.server.app.acknowledged.is_some();
        complete || self.failure().is_some()
    }

    fn failure(&self) -> Option<&String> {
        if self.client.app.complete.is_some() {
            return None;
        }
        let apps = [&self.client.app.error, &self.server.app.error];
        self.error.as_ref().or(apps.into_iter().flatten().next())
    }

    pub(super) fn sample(&self) -> FlowSample {
        let received = self.client.app.received;
        let Some(connection) = self.server.connection() else {
            return FlowSample::default();
        };
        let controller = connection.congestion_state();
        FlowSample {
            cwnd: controller.window(),
            in_flight: Handle::of(controller.clone_box()).map_or(0, |handle| handle.in_flight()),
            rtt: u64::try_from(connection.rtt().as_micros()).unwrap_or(u64::MAX),
            received,
        }
    }

    pub(super) fn outcome(self) -> FlowOutcome {
        let error = self.failure().cloned();
        let since = |at: Option<Timestamp>| at.map(|at| at.since(self.start));
        let (client, server) = (&self.client.app, &self.server.app);
        let connection = self.server.connection();
        let min_rtt = connection.map(Connection::min_rtt).unwrap_or_default();
        let stats = connection.map(Connection::stats).unwrap_or_default();
        let path = stats.path;
        FlowOutcome {
            connected: since(client.connected),
            first_byte: since(client.first_byte),
            complete: since(client.complete),
            requested: since(server.requested),
            acknowledged: since(server.acknowledged),
            received: client.received,
            received_of_last: client.received_of_last,
            min_rtt,
            packets_sent: path.sent_packets,
            packets_lost: path.lost_packets,
            datagrams_sent: stats.udp_tx.datagrams,
            congestion_events: path.congestion_events,
            error,
        }
    }
}

/// Returns the configuration of `hikyaku serve`'s connections.
fn server_config(controllers: Factory) -> ServerConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(IdleTimeout::from(IDLE)))
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(None)
        .congestion_controller_factory(Arc::new(controllers));
    let mut config = ServerConfig::new(Arc::new(Handshakes), Arc::new(Plain));
    config.transport_config(Arc::new(transport));
    // Tokens contain the time of day.
    config.validation_token.sent(0);
    config
}

/// Returns the configuration of `hikyaku get`.
fn client_config() -> ClientConfig {
    let window = VarInt::from_u32(RECEIVE_WINDOW);
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(IdleTimeout::from(IDLE)))
        .stream_receive_window(window)
        .receive_window(window)
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    let mut config = ClientConfig::new(Arc::new(Handshakes));
    config
        .transport_config(Arc::new(transport))
        .initial_dst_cid_provider(Arc::new(|| ConnectionId::new(&[0; 20])));
    config
}
