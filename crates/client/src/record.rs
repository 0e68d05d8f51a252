//! The results as data: one JSON object a line. `docs/get.md` describes every field.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::connection::{Connection, PathStats};
use super::error::FetchError;
use super::session::Fetched;
use super::stats::Distribution;
use super::units::us;

/// A line of the results.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Record {
    Request(Box<RequestRecord>),
    Connection(ConnectionRecord),
    Run(RunRecord),
    Summary(Box<SummaryRecord>),
    Load(Box<LoadRecord>),
    Client(Box<ClientRecord>),
}

/// One request, with any outcome.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RequestRecord {
    pub(super) run: u32,
    pub(super) url: String,
    pub(super) page: Option<String>,
    pub(super) resource: Option<&'static str>,
    pub(super) http: Option<&'static str>,
    pub(super) status: Option<u16>,
    pub(super) connection: Option<u64>,
    pub(super) reused: bool,
    pub(super) remote: Option<String>,
    pub(super) local: Option<String>,
    pub(super) tls: Option<&'static str>,
    pub(super) start_us: u64,
    pub(super) blocked_us: u64,
    pub(super) resolve_us: u64,
    pub(super) connect_us: u64,
    pub(super) tls_us: u64,
    pub(super) send_us: u64,
    pub(super) wait_us: u64,
    pub(super) receive_us: u64,
    pub(super) first_byte_us: Option<u64>,
    pub(super) total_us: u64,
    pub(super) body_bytes: u64,
    pub(super) goodput_bps: Option<u64>,
    pub(super) alt_svc: Option<String>,
    pub(super) retry: Option<String>,
    pub(super) timed_out: bool,
    pub(super) error: Option<ErrorRecord>,
    pub(super) path: Option<PathRecord>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ErrorRecord {
    pub(super) kind: &'static str,
    pub(super) message: String,
    pub(super) hint: Option<&'static str>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct PathRecord {
    pub(super) rtt_us: u64,
    pub(super) min_rtt_us: u64,
    pub(super) packets_sent: u64,
    pub(super) packets_lost: u64,
    pub(super) packets_received: u64,
}

/// One connection, at the end of its run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ConnectionRecord {
    pub(super) run: u32,
    pub(super) id: u64,
    pub(super) http: &'static str,
    pub(super) transport: &'static str,
    pub(super) remote: String,
    pub(super) local: String,
    pub(super) tls: Option<&'static str>,
    pub(super) start_us: u64,
    pub(super) resolve_us: u64,
    pub(super) connect_us: u64,
    pub(super) tls_us: u64,
    pub(super) requests: u64,
    pub(super) path: Option<PathRecord>,
}

/// One run: all URLs once, or one page with its resources.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RunRecord {
    pub(super) run: u32,
    pub(super) page: Option<String>,
    pub(super) start_us: u64,
    pub(super) first_byte_us: Option<u64>,
    pub(super) total_us: u64,
    #[serde(flatten)]
    pub(super) tally: Tally,
    pub(super) goodput_bps: Option<u64>,
}

/// Counts of requests by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) timed_out: u64,
    pub(super) retried: u64,
    pub(super) body_bytes: u64,
    /// Requests that were answered, by version.
    pub(super) http: BTreeMap<&'static str, u64>,
}

/// Summary of one URL, one page, or all URLs of a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SummaryRecord {
    pub(super) of: &'static str,
    pub(super) url: Option<String>,
    #[serde(flatten)]
    pub(super) tally: Tally,
    pub(super) first_byte_us: Distribution,
    pub(super) total_us: Distribution,
    pub(super) goodput_bps: Distribution,
}

/// The result of load mode.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LoadRecord {
    pub(super) url: String,
    pub(super) connections: usize,
    pub(super) parallel: usize,
    pub(super) threads: usize,
    #[serde(flatten)]
    pub(super) tally: Tally,
    pub(super) elapsed_us: u64,
    pub(super) requests_per_sec: f64,
    pub(super) goodput_bps: Option<u64>,
    pub(super) latency_us: LatencyRecord,
    pub(super) client_cpu_us: u64,
    pub(super) error: Option<ErrorRecord>,
}

/// The result of one client of a crowd.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ClientRecord {
    pub(super) name: String,
    pub(super) local: String,
    pub(super) http: Option<&'static str>,
    pub(super) requests: u64,
    pub(super) body_bytes: Option<u64>,
    pub(super) measured_us: Option<u64>,
    pub(super) goodput_bps: Option<u64>,
    pub(super) visits_us: Option<Vec<u64>>,
    pub(super) error: Option<ErrorRecord>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct LatencyRecord {
    pub(super) min: Option<u64>,
    pub(super) mean: Option<u64>,
    pub(super) p50: Option<u64>,
    pub(super) p90: Option<u64>,
    pub(super) p95: Option<u64>,
    pub(super) p99: Option<u64>,
    pub(super) p99_9: Option<u64>,
    pub(super) max: Option<u64>,
}

impl RequestRecord {
    pub(super) fn new(run: u32, url: &str, epoch: Instant, fetched: &Fetched) -> Self {
        let timeline = &fetched.timeline;
        let phases = timeline.phases();
        let connection = fetched.connection.as_deref();
        let complete = fetched.error.is_none();
        Self {
            run,
            url: url.to_owned(),
            page: None,
            resource: None,
            http: connection.map(|c| c.version.name()),
            status: fetched.status.map(|status| status.as_u16()),
            connection: connection.map(|c| c.id),
            reused: connection.is_some() && timeline.opening.is_none(),
            remote: connection.map(|c| c.remote.to_string()),
            local: connection.map(|c| c.local.to_string()),
            tls: connection.and_then(|c| c.tls),
            start_us: us(timeline.start.saturating_duration_since(epoch)),
            blocked_us: us(phases.blocked),
            resolve_us: us(phases.opening.resolve),
            connect_us: us(phases.opening.connect),
            tls_us: us(phases.opening.tls.unwrap_or_default()),
            send_us: us(phases.send),
            wait_us: us(phases.wait),
            receive_us: us(phases.receive),
            first_byte_us: timeline.until_first_byte().map(us),
            total_us: us(timeline.total()),
            body_bytes: fetched.body,
            goodput_bps: goodput(fetched.body, timeline.total()).filter(|_| complete),
            alt_svc: fetched.alt_svc(),
            retry: fetched.retry.clone(),
            timed_out: fetched.error.as_ref().is_some_and(FetchError::is_timeout),
            error: fetched.error.as_ref().map(ErrorRecord::new),
            path: fetched.path.map(PathRecord::new),
        }
    }
}

impl ErrorRecord {
    pub(super) fn new(error: &FetchError) -> Self {
        Self {
            kind: error.kind(),
            message: error.chain(),
            hint: error.hint(),
        }
    }
}

impl PathRecord {
    fn new(path: PathStats) -> Self {
        Self {
            rtt_us: us(path.rtt),
            min_rtt_us: us(path.min_rtt),
            packets_sent: path.sent,
            packets_lost: path.lost,
            packets_received: path.received,
        }
    }
}

impl ConnectionRecord {
    pub(super) fn new(run: u32, epoch: Instant, connection: &Connection) -> Self {
        let opening = &connection.opening;
        Self {
            run,
            id: connection.id,
            http: connection.version.name(),
            transport: connection.transport.name(),
            remote: connection.remote.to_string(),
            local: connection.local.to_string(),
            tls: connection.tls,
            start_us: us(connection.begun.saturating_duration_since(epoch)),
            resolve_us: us(opening.resolve),
            connect_us: us(opening.connect),
            tls_us: us(opening.tls.unwrap_or_default()),
            requests: connection.request_count(),
            path: connection.path().map(PathRecord::new),
        }
    }
}

impl RunRecord {
    /// Sums up the requests of a run. It begins with the first and ends with the last.
    pub(super) fn new(run: u32, page: Option<String>, requests: &[RequestRecord]) -> Self {
        let start_us = requests.iter().map(|r| r.start_us).min().unwrap_or(0);
        let ends = requests.iter().map(|r| r.start_us + r.total_us);
        let total_us = ends.max().unwrap_or(0) - start_us;
        let tally = Tally::of(requests);
        let goodput = goodput(tally.body_bytes, Duration::from_micros(total_us));
        let first = requests.iter().min_by_key(|r| r.start_us);
        Self {
            run,
            page,
            start_us,
            first_byte_us: first.and_then(|r| r.first_byte_us),
            total_us,
            goodput_bps: goodput.filter(|_| tally.failed == 0),
            tally,
        }
    }
}

impl Tally {
    pub(super) fn of<'a>(requests: impl IntoIterator<Item = &'a RequestRecord>) -> Self {
        let mut tally = Self::default();
        for request in requests {
            tally.requests += 1;
            tally.failed += u64::from(request.error.is_some());
            tally.timed_out += u64::from(request.timed_out);
            tally.retried += u64::from(request.retry.is_some());
            tally.body_bytes += request.body_bytes;
            if let (Some(http), Some(_)) = (request.http, request.status) {
                *tally.http.entry(http).or_default() += 1;
            }
        }
        tally
    }
}

impl SummaryRecord {
    /// Sums up all requests for one URL.
    ///
    /// A request that timed out counts with its time limit, which is less than it would have taken.
    /// Requests that failed otherwise are only counted.
    pub(super) fn of_url(url: &str, requests: &[&RequestRecord]) -> Self {
        let timed = || requests.iter().filter(|r| r.error.is_none() || r.timed_out);
        Self {
            of: "url",
            url: Some(url.to_owned()),
            tally: Tally::of(requests.iter().copied()),
            first_byte_us: Distribution::of(timed().filter_map(|r| r.first_byte_us).collect()),
            total_us: Distribution::of(timed().map(|r| r.total_us).collect()),
            goodput_bps: Distribution::of(timed().filter_map(|r| r.goodput_bps).collect()),
        }
    }

    /// Sums up the runs of one page, or of all URLs together if `page` is `None`.
    ///
    /// A run counts with the time to the end of its last request, failed or not.
    pub(super) fn of_runs(
        page: Option<&str>,
        runs: &[&RunRecord],
        requests: &[&RequestRecord],
    ) -> Self {
        Self {
            of: if page.is_some() { "page" } else { "run" },
            url: page.map(str::to_owned),
            tally: Tally::of(requests.iter().copied()),
            first_byte_us: Distribution::of(runs.iter().filter_map(|r| r.first_byte_us).collect()),
            total_us: Distribution::of(runs.iter().map(|run| run.total_us).collect()),
            goodput_bps: Distribution::of(runs.iter().filter_map(|r| r.goodput_bps).collect()),
        }
    }
}

/// Body bits per second; `None` if no time passed.
pub(super) fn goodput(bytes: u64, time: Duration) -> Option<u64> {
    let seconds = time.as_secs_f64();
    (seconds > 0.0).then(|| (bytes as f64 * 8.0 / seconds) as u64)
}
