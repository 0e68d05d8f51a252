//! What all connections share.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Once};
use std::time::{Instant, SystemTime};

use arc_swap::{ArcSwap, Guard};
use hikyaku_core::client::sample::{Observation, UdpEvent};
use hikyaku_units::Timestamp;
use hikyaku_units::arm::{Congestion, Transport};
use tokio_util::sync::CancellationToken;

use crate::access_log::AccessLog;
use crate::admin::Reloads;
use crate::clients::{Changes, Clients};
use crate::config::Config;
use crate::egress::Egress;
use crate::events::{Event, Events};
use crate::limits::{Connections, OnceASecond};
use crate::measure::Socket;
use crate::metrics::{Metrics, Refusal, UDP_EVENTS};
use crate::qlog::Traces;
use crate::serve::{Marks, Turns};
use crate::shards::Shards;
use crate::tcp_cc::{Control, Controls};
use crate::tls::Certificate;
use hikyaku_content::Content;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) clients: Clients,
    pub(crate) connections: Arc<Connections>,
    refusals: OnceASecond,
    pub(crate) metrics: Metrics,
    pub(crate) events: Events,
    pub(crate) traces: Traces,
    /// What sets the congestion control of TCP connections.
    pub(crate) controls: Controls,
    /// What chooses the path of QUIC packets, for all sockets.
    pub(crate) marks: Arc<Marks>,
    /// Who may go on with a handshake.
    pub(crate) turns: Arc<Turns>,
    /// Where there is an agent of egress paths.
    pub(crate) egress: Option<Arc<Egress>>,
    /// Addresses that are served.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Reloads that the admin API is asked for.
    pub(crate) reloads: Reloads,
    pub(crate) certificate: Arc<Certificate>,
    /// Cancelled when the server stops.
    pub(crate) stop: CancellationToken,
    live: ArcSwap<Live>,
}

/// What a reload replaces.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) config: Config,
    pub(crate) content: Content,
    /// `None` where there are none.
    pub(crate) shards: Option<Arc<Shards>>,
    pub(crate) access_log: Arc<AccessLog>,
}

impl Shared {
    pub(crate) fn new(
        clients: Clients,
        clock: Clock,
        controls: Controls,
        egress: Option<Arc<Egress>>,
        addresses: Vec<SocketAddr>,
        certificate: Arc<Certificate>,
        live: Live,
    ) -> Self {
        Self {
            connections: Arc::new(Connections::new(&live.config.limits)),
            refusals: OnceASecond::default(),
            clock,
            clients,
            metrics: Metrics::of(live.access_log.counts()),
            events: Events::default(),
            traces: Traces::default(),
            controls,
            marks: Arc::default(),
            turns: Turns::new(std::thread::available_parallelism().map_or(1, usize::from)),
            egress,
            addresses,
            reloads: Reloads::default(),
            certificate,
            stop: CancellationToken::new(),
            live: ArcSwap::from_pointee(live),
        }
    }

    /// The configuration and content in force.
    pub(crate) fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// The same, to be kept over an `await`.
    pub(crate) fn live_full(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// Puts another configuration into force.
    pub(crate) fn set_live(&self, live: Live) {
        self.connections.set_limits(&live.config.limits);
        self.live.store(Arc::new(live));
    }

    /// Connections that a page can be spread over, its own included.
    pub(crate) fn available_connections(&self) -> u8 {
        let live = self.live.load();
        live.shards.as_ref().map_or(1, |shards| shards.available())
    }

    /// Gives a TCP connection another congestion control. Returns what it has now, if that has
    /// changed.
    pub(crate) fn set_congestion(&self, socket: &Socket, control: Control) -> Option<Congestion> {
        match socket.set_congestion(&self.controls, control) {
            Ok(changed) => changed.then(|| control.congestion()),
            Err(error) => {
                self.controls.warn_once(control, &error);
                None
            }
        }
    }

    /// Holds a TCP connection to the policy's largest rate.
    pub(crate) fn set_pacing(&self, socket: &Socket) {
        if let Err(error) = socket.set_max_pacing_rate(self.clients.max_pacing_rate()) {
            static WARNED: Once = Once::new();
            WARNED.call_once(|| {
                tracing::warn!(
                    "setting policy.max_pacing_rate on a TCP connection: {error}; such \
                     connections are held to no rate"
                );
            });
        }
    }

    /// Lets the packets of a TCP connection take the path of `mark`.
    pub(crate) fn set_mark(&self, socket: &Socket, mark: u32) {
        let moved = socket.set_mark(mark);
        if matches!(moved, Ok(true))
            && let Err(error) = socket.begin_anew(&self.controls)
        {
            tracing::debug!("beginning congestion control anew on another path: {error}");
        }
        if let Err(error) = moved {
            static WARNED: Once = Once::new();
            WARNED.call_once(|| {
                tracing::warn!(
                    "setting the mark {mark:#x} of a path on a TCP connection: {error}; such \
                     connections keep the path that they have (CAP_NET_ADMIN is needed)"
                );
            });
        }
    }

    /// Makes a TCP connection send at once over another path.
    pub(crate) fn failover(&self, socket: &Socket) {
        match socket.failover(&self.controls) {
            Ok(()) => self.metrics.on_failover(Transport::Tcp),
            Err(error) => tracing::debug!("sending at once over another path: {error}"),
        }
    }

    /// Up to about `limit` changes of each kind since the last call, for the store.
    pub(crate) fn changes(&self, limit: usize) -> Changes {
        let routes = self.egress.as_ref().map(|egress| egress.changes(limit));
        Changes {
            routes: routes.unwrap_or_default(),
            ..self.clients.changes(limit)
        }
    }

    /// Notes everything that is known as changed, for a store that has lost it.
    pub(crate) fn mark_all_changed(&self) {
        self.clients.mark_all_changed();
        if let Some(egress) = &self.egress {
            egress.mark_all_changed();
        }
    }

    /// The access log in force.
    pub(crate) fn access_log(&self) -> Arc<AccessLog> {
        Arc::clone(&self.live.load().access_log)
    }

    /// Counts a connection of `client` that was refused for a limit, and says so at most once a
    /// second.
    pub(crate) fn refuse(&self, client: IpAddr, refusal: Refusal) {
        self.metrics.on_refusal(refusal);
        let Some(unsaid) = self.refusals.say(Instant::now()) else {
            return;
        };
        let limits = &self.live.load().config.limits;
        let (key, limit) = match refusal {
            Refusal::PerAddress => ("connections_per_address", limits.connections_per_address),
            _ => ("connections", limits.connections),
        };
        let client = client.to_canonical();
        tracing::warn!(
            "a connection from {client} is refused: limits.{key} = {limit} are open ({unsaid} more \
             refused since the last such line)"
        );
    }

    /// Learns about UDP to a client.
    pub(crate) fn udp(&self, client: IpAddr, event: UdpEvent) {
        let name = match event {
            UdpEvent::Advertised => UDP_EVENTS[0],
            UdpEvent::SessionEnded => UDP_EVENTS[1],
            UdpEvent::Arrived => UDP_EVENTS[2],
            UdpEvent::Broke => UDP_EVENTS[3],
            UdpEvent::BackOnTcp => UDP_EVENTS[4],
        };
        self.metrics.on_udp(name);
        self.events.send(|| Event::udp(client, name));
        self.clients.observe(client, &Observation::Udp(event));
    }
}

/// The time as `core` counts it: that of the system when the server started, and from
/// then on never back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    epoch: Timestamp,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: Instant::now(),
            epoch: Timestamp::from_micros(0).saturating_add(since_epoch),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.epoch.saturating_add(self.started.elapsed())
    }

    pub(crate) fn uptime(&self) -> std::time::Duration {
        self.started.elapsed()
    }
}
