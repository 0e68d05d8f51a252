//! Counters for Prometheus; `docs/metrics.md` lists them.

mod acme;
mod assigned;
mod beacon;
mod caches;
mod compression;
mod congestion;
mod fleet;
mod format;
mod gain;
mod health;
mod histogram;
mod ocsp;
mod process;
mod spans;
mod summaries;
mod totals;
mod upstreams;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hikyaku_content::Refused;
use hikyaku_core::choice::Assignment;
use hikyaku_core::client::sample::UdpEvent;
use hikyaku_core::transport::{Decision, VersionReasonCode};
use hikyaku_units::arm::{Congestion, Transport, Version};
use http::StatusCode;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::lines::LineCounts;
pub(crate) use acme::register_acme;
pub(crate) use beacon::{BeaconCounts, BeaconRefusal, ScriptKind};
pub(crate) use caches::register_caches;
use congestion::Carried;
pub(crate) use fleet::register_fleet;
pub(crate) use format::{Format, accepts_gzip};
pub(crate) use gain::register_gain;
pub(crate) use health::HeaderFault;
pub(crate) use histogram::BUCKETS;
use histogram::{Histogram, Histograms};
pub(crate) use ocsp::register_ocsp;
pub(crate) use process::Process;
pub use process::set_commit;
pub(crate) use spans::register_spans;
pub(crate) use summaries::Summary;
pub(crate) use totals::{Totals, quantile};
pub(crate) use upstreams::register_upstreams;

const STATUS_CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Counts everything; no lock, so that no client waits for another.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: [[AtomicU64; STATUS_CLASSES.len()]; Version::ALL.len()],
    response_bytes: [AtomicU64; Version::ALL.len()],
    response_time: [Histogram; Version::ALL.len()],
    carried: [[Carried; Congestion::ALL.len()]; Version::ALL.len()],
    requests_refused: [AtomicU64; Refused::ALL.len()],
    opened: [AtomicU64; Version::ALL.len()],
    open: [AtomicU64; Version::ALL.len()],
    congestion: [[AtomicU64; Congestion::ALL.len()]; Transport::ALL.len()],
    alt_svc: [AtomicU64; AltSvcAction::ALL.len()],
    decisions: [AtomicU64; VersionReasonCode::ALL.len()],
    assigned: assigned::Assigned,
    /// Decisions of a shadow policy: other ones, and equal ones.
    shadow: [AtomicU64; 2],
    udp: [AtomicU64; UdpEvent::ALL.len()],
    failovers: [AtomicU64; Transport::ALL.len()],
    refused: [AtomicU64; Refusal::ALL.len()],
    pub(crate) quic_retries: AtomicU64,
    pub(crate) pages_spread: AtomicU64,
    pub(crate) handshakes_failed_tcp: AtomicU64,
    pub(crate) handshakes_failed_quic: AtomicU64,
    headers_refused: [AtomicU64; HeaderFault::ALL.len()],
    summaries: [AtomicU64; Summary::ALL.len()],
    pub(crate) beacon: Arc<BeaconCounts>,
    pub(crate) access_log: Arc<LineCounts>,
    pub(crate) stored: AtomicU64,
    /// Where there is a store.
    pub(crate) store: OnceLock<Arc<StoreHealth>>,
    pub(crate) accept_failures: AtomicU64,
    pub(crate) cleartext_connections: AtomicU64,
    pub(crate) reloads: AtomicU64,
    pub(crate) reloads_failed: AtomicU64,
}

/// Present values that other parts of the server keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauges {
    /// Client addresses and prefixes that something is known of.
    pub(crate) clients: usize,
    /// Changes that the store has not taken yet.
    pub(crate) unstored: usize,
    /// Bytes of responses' content in memory.
    pub(crate) response_memory: u64,
    /// Tasks of the runtime that have not ended.
    pub(crate) tasks: usize,
}

/// A response's statement on HTTP/3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AltSvcAction {
    Advertise,
    Withhold,
    Clear,
}

impl AltSvcAction {
    const ALL: [Self; 3] = [Self::Advertise, Self::Withhold, Self::Clear];

    const fn index(self) -> usize {
        self as usize
    }

    const fn name(self) -> &'static str {
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

    const fn index(self) -> usize {
        self as usize
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::PerAddress => "connections_per_address",
            Self::Stalled => "stalled",
            Self::Flood => "flood",
        }
    }
}

/// Whether samples and outcomes reach the store, for those who watch.
#[derive(Debug)]
pub(crate) struct StoreHealth {
    pub(crate) available: AtomicBool,
    /// Tries to open or write the store that failed.
    pub(crate) failures: AtomicU64,
    /// Changes that were taken for a write which failed.
    pub(crate) unwritten: AtomicU64,
}

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
        congestion: Congestion,
        status: Option<StatusCode>,
        bytes: u64,
        time: Duration,
    ) {
        let version = version.index();
        self.carried[version][congestion.index()].add(bytes, time);
        let class = status.map_or(0, |s| usize::from(s.as_u16() / 100).min(5));
        add(&self.requests[version][class], 1);
        add(&self.response_bytes[version], bytes);
        self.response_time[version].observe(time);
    }

    pub(crate) fn on_response(
        &self,
        assignment: Assignment,
        version: Version,
        congestion: Congestion,
        time: Duration,
    ) {
        self.assigned.observe(assignment, version, congestion, time);
    }

    pub(crate) fn on_open(&self, version: Version) {
        add(&self.opened[version.index()], 1);
        add(&self.open[version.index()], 1);
    }

    pub(crate) fn on_close(&self, version: Version) {
        self.open[version.index()].fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn on_congestion(&self, transport: Transport, congestion: Congestion) {
        add(&self.congestion[transport.index()][congestion.index()], 1);
    }

    pub(crate) fn on_alt_svc(&self, action: AltSvcAction) {
        add(&self.alt_svc[action.index()], 1);
    }

    pub(crate) fn on_decision(&self, decision: &Decision) {
        add(&self.decisions[decision.reason.kind().index()], 1);
        if decision.shadow.is_some() {
            let agrees = decision.shadow_apart().is_none();
            add(&self.shadow[usize::from(agrees)], 1);
        }
    }

    pub(crate) fn on_udp(&self, event: UdpEvent) {
        add(&self.udp[event.index()], 1);
    }

    pub(crate) fn on_failover(&self, transport: Transport) {
        add(&self.failovers[transport.index()], 1);
    }

    pub(crate) fn on_refusal(&self, refusal: Refusal) {
        add(&self.refused[refusal.index()], 1);
    }

    /// Counts a request that the server itself refuses.
    pub(crate) fn on_refused_request(&self, refused: Refused) {
        add(&self.requests_refused[refused.index()], 1);
    }

    /// Connections open now.
    pub(crate) fn open(&self, version: Version) -> u64 {
        self.open[version.index()].load(Ordering::Relaxed)
    }

    /// Requests so far.
    pub(crate) fn requests(&self, version: Version) -> u64 {
        self.requests[version.index()].iter().map(value).sum()
    }

    /// Adds these counters to a [`registry`], but for those that need egress routes.
    pub(crate) fn register(&self, registry: &mut Registry, gauges: Gauges) {
        process::register_build(registry);
        self.register_requests(registry);
        self.register_connections(registry, gauges.response_memory);
        self.register_response_time(registry);
        compression::register(registry);
        self.register_choice(registry, gauges.clients);
        self.assigned.register(registry);
        self.register_summaries(registry);
        self.register_congestion(registry);
        self.register_udp(registry);
        self.register_health(registry, gauges.tasks);
        self.register_store(registry, gauges.unstored);
        self.beacon.register(registry);
    }

    fn register_requests(&self, registry: &mut Registry) {
        let mut requests = Vec::new();
        for version in Version::ALL {
            for (class, status) in STATUS_CLASSES.into_iter().enumerate() {
                let count = value(&self.requests[version.index()][class]);
                requests.push((vec![("version", version.name()), ("status", status)], count));
            }
        }
        counters(registry, "requests", "Requests answered", requests);
        counters(
            registry,
            "response_body_bytes",
            "Bytes of response bodies handed to the transport",
            by_version(&self.response_bytes),
        );
        let refused = Refused::ALL.map(|reason| {
            let count = value(&self.requests_refused[reason.index()]);
            (vec![("reason", reason.name())], count)
        });
        counters(
            registry,
            "requests_refused",
            "Requests that the server itself refused, by the reason",
            refused.to_vec(),
        );
    }

    fn register_connections(&self, registry: &mut Registry, response_memory: u64) {
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
    }

    fn register_response_time(&self, registry: &mut Registry) {
        let times = Version::ALL.map(|version| {
            let time = &self.response_time[version.index()];
            (version.name().to_owned(), time.snapshot())
        });
        registry.register_with_unit(
            "response_time",
            "From a request's arrival until its response's last byte is acknowledged",
            Unit::Seconds,
            Histograms::by("version", times.into()),
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
                .map(|a| (vec![("action", a.name())], value(&self.alt_svc[a.index()])))
                .to_vec(),
        );
        let decisions = VersionReasonCode::ALL.map(|code| {
            let count = value(&self.decisions[code.index()]);
            (vec![("reason", code.name())], count)
        });
        counters(
            registry,
            "decisions",
            "Changes of a connection's decision, by the new one's reason",
            decisions.to_vec(),
        );
        let shadow = ["false", "true"].into_iter().zip(&self.shadow);
        let shadow = shadow.map(|(agrees, count)| (vec![("agrees", agrees)], value(count)));
        counters(
            registry,
            "shadow_decisions",
            "The same of the shadow policy, by whether it prefers the same arm",
            shadow.collect(),
        );
    }

    fn register_congestion(&self, registry: &mut Registry) {
        let mut congestion = Vec::new();
        for transport in Transport::ALL {
            for control in Congestion::ALL {
                let count = value(&self.congestion[transport.index()][control.index()]);
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
        self.register_carried(registry);
    }

    fn register_udp(&self, registry: &mut Registry) {
        let udp = UdpEvent::ALL.map(|event| {
            let count = value(&self.udp[event.index()]);
            (vec![("event", event.name())], count)
        });
        counters(
            registry,
            "udp_events",
            "What was seen of UDP between clients and the server",
            udp.to_vec(),
        );
    }

    /// Adds the counters of failovers, where there are egress routes.
    pub(crate) fn register_failovers(&self, registry: &mut Registry) {
        let failovers = Transport::ALL.map(|transport| {
            let labels = vec![("transport", transport.name())];
            (labels, value(&self.failovers[transport.index()]))
        });
        counters(
            registry,
            "route_failovers",
            "Connections made to send at once over another path than the silent one that they left",
            failovers.to_vec(),
        );
    }
}

/// A registry with the prefix of all metrics.
pub(crate) fn registry() -> Registry {
    Registry::with_prefix("hikyaku")
}

/// Encodes the registry's metrics, and those of the process, in the OpenMetrics text format.
pub(crate) fn encode(registry: &Registry, process: &Process) -> Result<String, fmt::Error> {
    // Their names have no prefix.
    let mut others = Registry::default();
    process.register(&mut others);
    let mut out = String::new();
    text::encode_registry(&mut out, registry)?;
    text::encode_registry(&mut out, &others)?;
    text::encode_eof(&mut out)?;
    Ok(out)
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge = Gauge::<i64>::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    registry.register(name, help, gauge);
}

type Labels = Vec<(&'static str, &'static str)>;

fn by_version(counters: &[AtomicU64; Version::ALL.len()]) -> Vec<(Labels, u64)> {
    Version::ALL
        .map(|v| (vec![("version", v.name())], value(&counters[v.index()])))
        .to_vec()
}

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

#[cfg(test)]
mod tests;
