//! One end of a flow: quinn's endpoint and connection, driven by virtual time.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use hikyaku_netsim::derive_seed;
use hikyaku_units::Timestamp;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint,
    EndpointConfig, Incoming, ServerConfig,
};

use super::app::App;
use super::keys::{CountedIds, ResetKey};

/// Packets that quinn builds at a time for segmentation offload, as in the server.
const BATCH: usize = 10;

/// A UDP datagram.
pub(super) struct Datagram {
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) bytes: BytesMut,
}

/// Virtual time in quinn's form.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    /// An arbitrary instant, since only differences matter.
    zero: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            zero: Instant::now(),
        }
    }

    fn instant(self, now: Timestamp) -> Instant {
        self.zero + Duration::from_micros(now.as_micros())
    }

    /// Returns the first µs at which `instant` has passed.
    fn timestamp(self, instant: Instant) -> Timestamp {
        let nanos = instant.saturating_duration_since(self.zero).as_nanos();
        Timestamp::from_micros(u64::try_from(nanos.div_ceil(1_000)).unwrap_or(u64::MAX))
    }
}

/// An endpoint with at most one connection, and its application.
pub(super) struct Host<A> {
    clock: Clock,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    pub(super) app: A,
    timeout: Option<Timestamp>,
    buffer: Vec<u8>,
}

impl<A: App> Host<A> {
    /// Makes a host that accepts connections if it has a `server`.
    pub(super) fn new(clock: Clock, server: Option<ServerConfig>, app: A, seed: u64) -> Self {
        let mut config = EndpointConfig::new(Arc::new(ResetKey));
        config
            .cid_generator(|| Box::new(CountedIds::default()))
            .rng_seed(Some(wide(seed)));
        Self {
            clock,
            endpoint: Endpoint::new(Arc::new(config), server.map(Arc::new), true, None),
            connection: None,
            app,
            timeout: None,
            buffer: Vec::new(),
        }
    }

    /// Begins to connect.
    ///
    /// # Errors
    /// If quinn refuses the configuration.
    pub(super) fn connect(&mut self, now: Timestamp, config: ClientConfig) -> Result<(), String> {
        let connection = self
            .endpoint
            .connect(self.clock.instant(now), config, PEER, "simulation")
            .map_err(|error| error.to_string())?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Handles a datagram that arrives.
    pub(super) fn receive(&mut self, now: Timestamp, datagram: Datagram) {
        let now = self.clock.instant(now);
        self.buffer.clear();
        let event = self.endpoint.handle(
            now,
            PEER,
            None,
            datagram.ecn,
            datagram.bytes,
            &mut self.buffer,
        );
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(now, incoming),
            // These datagrams belong to no connection, so nobody would read the answers.
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    fn accept(&mut self, now: Instant, incoming: Incoming) {
        if self.connection.is_some() {
            self.endpoint.ignore(incoming);
            return;
        }
        self.buffer.clear();
        self.connection = self
            .endpoint
            .accept(incoming, now, &mut self.buffer, None)
            .ok();
    }

    /// Does everything that is due at `now`, and passes outgoing datagrams to `send`.
    pub(super) fn drive(&mut self, now: Timestamp, mut send: impl FnMut(Datagram)) {
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        let instant = self.clock.instant(now);
        if self.timeout.is_some_and(|timeout| timeout <= now) {
            connection.handle_timeout(instant);
        }
        loop {
            let mut again = false;
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                    again = true;
                }
            }
            while let Some(event) = connection.poll() {
                self.app.on_event(now, connection, event);
                again = true;
            }
            again |= transmit(connection, instant, &mut self.buffer, &mut send);
            if !again {
                break;
            }
        }
        // At least a µs later, so that time advances in spite of rounding.
        let soonest = now.saturating_add(Duration::from_micros(1));
        self.timeout = connection
            .poll_timeout()
            .map(|timeout| self.clock.timestamp(timeout).max(soonest));
    }

    /// Returns the time of the next drive, if no datagram comes before.
    pub(super) fn timeout(&self) -> Option<Timestamp> {
        self.timeout
    }

    pub(super) fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref().map(|(_, connection)| connection)
    }
}

/// Sends datagrams, and returns whether there were any.
fn transmit(
    connection: &mut Connection,
    now: Instant,
    buffer: &mut Vec<u8>,
    send: &mut impl FnMut(Datagram),
) -> bool {
    let mut any = false;
    loop {
        buffer.clear();
        let Some(transmit) = connection.poll_transmit(now, BATCH, buffer) else {
            return any;
        };
        any = true;
        let segment = transmit.segment_size.unwrap_or(transmit.size);
        for bytes in buffer[..transmit.size].chunks(segment) {
            send(Datagram {
                ecn: transmit.ecn,
                bytes: BytesMut::from(bytes),
            });
        }
    }
}

/// The address of the other end, which is the same for all, since no two hosts know each other.
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 443);

/// Returns a seed of quinn's width.
fn wide(seed: u64) -> [u8; 32] {
    let mut wide = [0; 32];
    for (i, chunk) in wide.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&derive_seed(seed, &[i as u64]).to_be_bytes());
    }
    wide
}
