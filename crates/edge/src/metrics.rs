//! Counters for Prometheus; `docs/metrics.md` lists them.

mod health;
mod histogram;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hikyaku_units::arm::{Congestion, Transport, Version};
use http::StatusCode;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::egress::Egress;
use crate::lines::LineCounts;
use crate::store::Health;
use crate::tls::Certificate;
use histogram::{Histogram, Histograms};

const STATUS_CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];
const VERSIONS: [Version; 3] = [Version::H1, Version::H2, Version::H3];

/// Counts everything; no lock, so that no client waits for another.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: [[AtomicU64; STATUS_CLASSES.len()]; VERSIONS.len()],
    response_bytes: [AtomicU64; VERSIONS.len()],
    response_time: [Histogram; VERSIONS.len()],
    opened: [AtomicU64; VERSIONS.len()],
    open: [AtomicU64; VERSIONS.len()],
    congestion: [[AtomicU64; Congestion::ALL.len()]; Transport::ALL.len()],
    alt_svc: [AtomicU64; AltSvcAction::ALL.len()],
    decisions: [AtomicU64; DECISIONS.len()],
    udp: [AtomicU64; UDP_EVENTS.len()],
    failovers: [AtomicU64; Transport::ALL.len()],
    refused: [AtomicU64; Refusal::ALL.len()],
    pub(crate) quic_retries: AtomicU64,
    pub(crate) pages_spread: AtomicU64,
    pub(crate) handshakes_failed_tcp: AtomicU64,
    pub(crate) handshakes_failed_quic: AtomicU64,
    pub(crate) access_log: Arc<LineCounts>,
    pub(crate) stored: AtomicU64,
    /// Where there is a store.
    pub(crate) store: OnceLock<Arc<Health>>,
    pub(crate) accept_failures: AtomicU64,
    pub(crate) reloads: AtomicU64,
    pub(crate) reloads_failed: AtomicU64,
}

/// What is there now, as others know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauges {
    /// Client addresses and prefixes that something is known of.
    pub(crate) clients: usize,
    /// Bytes of responses' content in memory.
    pub(crate) response_memory: u64,
    /// Tasks of the runtime that have not ended.
    pub(crate) tasks: usize,
}

/// What a response said of HTTP/3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AltSvcAction {
    Advertise,
    Withhold,
    Clear,
}

impl AltSvcAction {
    const ALL: [Self; 3] = [Self::Advertise, Self::Withhold, Self::Clear];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Advertise => "advertise",
            Self::Withhold => "withhold",
            Self::Clear => "clear",
        }
    }
}

/// Why a connection was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// `limits.connections`.
    Connections,
    /// `limits.connections_per_address`.
    PerAddress,
    /// The client took too little (`timeouts.send`, `limits.min_send_rate`).
    Stalled,
    /// The client sent too many frames that ask for nothing.
    Flood,
}

impl Refusal {
    const ALL: [Self; 4] = [
        Self::Connections,
        Self::PerAddress,
        Self::Stalled,
        Self::Flood,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::PerAddress => "connections_per_address",
            Self::Stalled => "stalled",
            Self::Flood => "flood",
        }
    }
}

/// Codes of [`hikyaku_core::transport::Reason`].
const DECISIONS: [&str; 16] = [
    "pinned",
    "hold_back",
    "too_few_samples",
    "not_comparable",
    "udp_never_came",
    "udp_broken",
    "udp_throttled",
    "udp_probe",
    "quic_loss",
    "explore",
    "trial",
    "h3_faster",
    "h2_faster",
    "h3_kept",
    "h2_kept",
    "other",
];

/// Names of [`hikyaku_core::client::sample::UdpEvent`].
pub(crate) const UDP_EVENTS: [&str; 5] = [
    "advertised",
    "session_ended",
    "arrived",
    "broke",
    "back_on_tcp",
];

impl Metrics {
    /// No counts but those of the access log.
    pub(crate) fn of(access_log: &Arc<LineCounts>) -> Self {
        Self {
            access_log: Arc::clone(access_log),
            ..Self::default()
        }
    }

    pub(crate) fn on_exchange(
        &self,
        version: Version,
        status: Option<StatusCode>,
        bytes: u64,
        time: Duration,
    ) {
        let version = version as usize;
        let class = status.map_or(0, |s| usize::from(s.as_u16() / 100).min(5));
        add(&self.requests[version][class], 1);
        add(&self.response_bytes[version], bytes);
        self.response_time[version].observe(time);
    }

    pub(crate) fn on_open(&self, version: Version) {
        add(&self.opened[version as usize], 1);
        add(&self.open[version as usize], 1);
    }

    pub(crate) fn on_close(&self, version: Version) {
        self.open[version as usize].fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn on_congestion(&self, transport: Transport, congestion: Congestion) {
        add(&self.congestion[transport as usize][congestion as usize], 1);
    }

    pub(crate) fn on_alt_svc(&self, action: AltSvcAction) {
        add(&self.alt_svc[action as usize], 1);
    }

    pub(crate) fn on_decision(&self, code: &str) {
        let index = DECISIONS.iter().position(|name| *name == code);
        add(&self.decisions[index.unwrap_or(DECISIONS.len() - 1)], 1);
    }

    pub(crate) fn on_udp(&self, event: &str) {
        if let Some(index) = UDP_EVENTS.iter().position(|name| *name == event) {
            add(&self.udp[index], 1);
        }
    }

    pub(crate) fn on_failover(&self, transport: Transport) {
        add(&self.failovers[transport as usize], 1);
    }

    pub(crate) fn on_refusal(&self, refusal: Refusal) {
        add(&self.refused[refusal as usize], 1);
    }

    /// Connections open now.
    pub(crate) fn open(&self, version: Version) -> u64 {
        self.open[version as usize].load(Ordering::Relaxed)
    }

    /// Requests so far.
    pub(crate) fn requests(&self, version: Version) -> u64 {
        self.requests[version as usize].iter().map(value).sum()
    }

    /// Everything in the OpenMetrics text format.
    pub(crate) fn encode(
        &self,
        gauges: Gauges,
        certificate: &Certificate,
        egress: Option<&Egress>,
    ) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("hikyaku");
        self.register_traffic(&mut registry, gauges.response_memory);
        self.register_choice(&mut registry, gauges.clients);
        self.register_health(&mut registry, gauges.tasks);
        self.register_store(&mut registry);
        certificate.register(&mut registry);
        if let Some(egress) = egress {
            egress.register(&mut registry);
            self.register_failovers(&mut registry);
        }
        let mut out = String::new();
        text::encode(&mut out, &registry)?;
        Ok(out)
    }

    fn register_traffic(&self, registry: &mut Registry, response_memory: u64) {
        let mut requests = Vec::new();
        for version in VERSIONS {
            for (class, status) in STATUS_CLASSES.into_iter().enumerate() {
                let count = value(&self.requests[version as usize][class]);
                requests.push((vec![("version", version.name()), ("status", status)], count));
            }
        }
        counters(registry, "requests", "Requests answered", requests);
        let by_version = |counters: &[AtomicU64; VERSIONS.len()]| {
            VERSIONS
                .map(|v| (vec![("version", v.name())], value(&counters[v as usize])))
                .to_vec()
        };
        counters(
            registry,
            "response_body_bytes",
            "Bytes of response bodies handed to the transport",
            by_version(&self.response_bytes),
        );
        counters(
            registry,
            "connections_opened",
            "Connections that completed their handshake",
            by_version(&self.opened),
        );
        let open = Family::<Vec<(&'static str, &'static str)>, Gauge>::default();
        for (labels, count) in by_version(&self.open) {
            open.get_or_create(&labels).set(count.cast_signed());
        }
        registry.register("connections", "Connections open now", open);
        gauge(
            registry,
            "response_memory_bytes",
            "Content of responses in memory, read but not yet taken by the client",
            response_memory,
        );
        let times = Histograms(VERSIONS.map(|v| (v, self.response_time[v as usize].snapshot())));
        registry.register_with_unit(
            "response_time",
            "From a request's arrival until its response's last byte is acknowledged",
            Unit::Seconds,
            times,
        );
    }

    fn register_choice(&self, registry: &mut Registry, clients: usize) {
        gauge(
            registry,
            "clients",
            "Client addresses and prefixes that something is known of",
            clients as u64,
        );
        counters(
            registry,
            "responses_by_alt_svc",
            "Responses by what they said of HTTP/3",
            AltSvcAction::ALL
                .map(|a| (vec![("action", a.name())], value(&self.alt_svc[a as usize])))
                .to_vec(),
        );
        let decisions = DECISIONS.iter().zip(&self.decisions);
        counters(
            registry,
            "decisions",
            "Changes of a connection's decision, by the new one's reason",
            decisions
                .map(|(code, count)| (vec![("reason", *code)], value(count)))
                .collect(),
        );
        let mut congestion = Vec::new();
        for transport in Transport::ALL {
            for control in Congestion::ALL {
                let count = value(&self.congestion[transport as usize][control as usize]);
                let labels = vec![
                    ("transport", transport.name()),
                    ("congestion", control.name()),
                ];
                congestion.push((labels, count));
            }
        }
        counters(
            registry,
            "congestion_controls",
            "Connections that began with a congestion control, or were switched to it",
            congestion,
        );
        let udp = UDP_EVENTS.iter().zip(&self.udp);
        counters(
            registry,
            "udp_events",
            "What was seen of UDP between clients and the server",
            udp.map(|(event, count)| (vec![("event", *event)], value(count)))
                .collect(),
        );
    }

    fn register_failovers(&self, registry: &mut Registry) {
        let failovers = Transport::ALL.map(|transport| {
            let labels = vec![("transport", transport.name())];
            (labels, value(&self.failovers[transport as usize]))
        });
        counters(
            registry,
            "route_failovers",
            "Connections made to send at once over another path than the silent one that they left",
            failovers.to_vec(),
        );
    }
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge = Gauge::<i64>::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    registry.register(name, help, gauge);
}

type Labels = Vec<(&'static str, &'static str)>;

pub(crate) fn counters<L>(registry: &mut Registry, name: &str, help: &str, values: Vec<(L, u64)>)
where
    L: EncodeLabelSet + Clone + std::hash::Hash + Eq + fmt::Debug + Send + Sync + 'static,
{
    let family = Family::<L, Counter>::default();
    for (labels, count) in values {
        family.get_or_create(&labels).inc_by(count);
    }
    registry.register(name, help, family);
}

pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
