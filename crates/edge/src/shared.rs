//! The state that all connections share: the estimates of clients, the records of routes, and reports.

use std::net::IpAddr;
use std::sync::{Arc, Once, OnceLock};

use hikyaku_core::client::sample::{Observation, UdpEvent};
use hikyaku_core::policy::PolicyConfig;

use crate::access_log::AccessLog;
use crate::beacon::Receiver;
use crate::behind::BehindConfig;
use crate::clients::{Changes, Clients};
use crate::clock::Clock;
use crate::egress::Egress;
use crate::events::{Event, Events};
use crate::fleet::Membership;
use crate::gain::Gain;
use crate::metrics::Metrics;
use crate::part::{Look, Part};
use crate::sections::Limits;
use crate::shards::Shards;
use crate::spans::Tracer;

/// State that all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) clients: Arc<Clients>,
    /// Where there is an agent of egress paths.
    pub(crate) egress: Option<Arc<Egress>>,
    /// This edge's part in a fleet.
    pub(crate) fleet: Arc<Membership>,
    /// Counts of all responses, by assignment.
    pub(crate) gain: Arc<Gain>,
    pub(crate) metrics: Metrics,
    pub(crate) events: Events,
    /// Takes the reports of browsers.
    pub(crate) receiver: Arc<Receiver>,
    /// Where a collector takes spans.
    pub(crate) tracer: OnceLock<Arc<Tracer>>,
    mapping: Once,
    terms: Part<Terms>,
}

/// Part of the shared state that a reload replaces.
#[derive(Debug)]
pub(crate) struct Terms {
    /// Seconds for which an advertisement of another address holds at least.
    pub(crate) ma_min: u64,
    /// Bytes of requests' bodies that a connection may have in flight.
    pub(crate) upload_window: u32,
    /// `None` where there are none.
    pub(crate) shards: Option<Arc<Shards>>,
    pub(crate) access_log: Arc<AccessLog>,
    /// The intermediaries between clients and this server.
    pub(crate) behind: BehindConfig,
    /// There is HTTP/3.
    pub(crate) has_quic: bool,
}

impl Terms {
    pub(crate) fn new(
        policy: &PolicyConfig,
        limits: &Limits,
        shards: Option<Arc<Shards>>,
        access_log: Arc<AccessLog>,
        behind: BehindConfig,
        has_quic: bool,
    ) -> Self {
        Self {
            ma_min: policy.ma_min.as_secs().max(1),
            upload_window: limits.upload_window(),
            shards,
            access_log,
            behind,
            has_quic,
        }
    }
}

impl Shared {
    pub(crate) fn new(
        clock: Clock,
        clients: Clients,
        egress: Option<Arc<Egress>>,
        gain: Gain,
        terms: Part<Terms>,
    ) -> Self {
        let clients = Arc::new(clients);
        let metrics = Metrics::of(terms.load().access_log.counts());
        let counts = Arc::clone(&metrics.beacon);
        Self {
            receiver: Arc::new(Receiver::new(Arc::clone(&clients), counts)),
            fleet: Membership::new(Arc::clone(&clients), egress.clone(), clock),
            clock,
            clients,
            egress,
            metrics,
            gain: Arc::new(gain),
            events: Events::default(),
            tracer: OnceLock::new(),
            mapping: Once::new(),
            terms,
        }
    }

    /// The terms in force.
    pub(crate) fn terms(&self) -> Look<'_, Arc<Terms>> {
        self.terms.load()
    }

    /// Warns once that a client has reached the port `own` as `asked`.
    pub(crate) fn warn_of_mapping(&self, own: u16, asked: u16) {
        self.mapping.call_once(|| {
            tracing::warn!(
                "a request names port {asked}, and this server has port {own}: Alt-Svc names {asked} to such \
                 clients, so UDP of port {asked} has to come here, too (behind.advertise sets the port for all)"
            );
        });
    }

    /// The access log in force.
    pub(crate) fn access_log(&self) -> Arc<AccessLog> {
        Arc::clone(&self.terms.load().access_log)
    }

    /// Connections that a page can be spread over, its own included.
    pub(crate) fn available_connections(&self) -> u8 {
        let terms = self.terms();
        terms.shards.as_ref().map_or(1, |shards| shards.available())
    }

    /// Up to about `limit` changes of each kind since the last call, for the store.
    pub(crate) fn changes(&self, limit: usize) -> Changes {
        let routes = self.egress.as_ref().map(|egress| egress.changes(limit));
        Changes {
            routes: routes.unwrap_or_default(),
            gain: self.gain.changes(),
            ..self.clients.changes(limit)
        }
    }

    /// The number of changes that the store has not taken yet.
    pub(crate) fn unstored(&self) -> usize {
        let routes = self.egress.as_ref().map_or(0, |egress| egress.unstored());
        self.clients.unstored() + routes
    }

    /// Notes everything that is known as changed, for a store that has lost it.
    pub(crate) fn mark_all_changed(&self) {
        self.clients.mark_all_changed();
        self.gain.mark_all_changed();
        if let Some(egress) = &self.egress {
            egress.mark_all_changed();
        }
    }

    /// Learns about UDP to a client.
    pub(crate) fn udp(&self, client: IpAddr, event: UdpEvent) {
        self.metrics.on_udp(event);
        self.events.send(|| Event::udp(client, event.name()));
        self.clients.observe(client, &Observation::Udp(event));
    }
}
