//! `GET /v1/status`.

use std::net::SocketAddr;

use hikyaku_content::UpstreamStatus;
use hikyaku_units::arm::Version;
use serde::Serialize;

use super::Admin;

/// The server in short.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    version: &'static str,
    uptime_s: u64,
    listen: Vec<SocketAddr>,
    /// Of HTTP in the clear.
    cleartext: Vec<SocketAddr>,
    serves: String,
    policy: &'static str,
    congestion: &'static str,
    clients: usize,
    connections: PerVersion,
    requests: PerVersion,
    model: String,
    /// None without upstreams.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    upstreams: Vec<Upstream>,
    /// `None` without egress paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    egress: Option<crate::egress::Summary>,
    /// `None` outside of a fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    fleet: Option<hikyaku_fleet::Status>,
}

/// An upstream, and what it has done so far.
#[derive(Debug, Serialize)]
struct Upstream {
    url: String,
    up: bool,
    requests: u64,
    under_way: u64,
    failures: u64,
    retries: u64,
}

impl From<UpstreamStatus> for Upstream {
    fn from(status: UpstreamStatus) -> Self {
        Self {
            url: status.url,
            up: status.is_up,
            requests: status.requests,
            under_way: status.under_way,
            failures: status.failures,
            retries: status.repeats,
        }
    }
}

#[derive(Debug, Serialize)]
struct PerVersion {
    h1: u64,
    h2: u64,
    h3: u64,
}

impl PerVersion {
    fn of(count: impl Fn(Version) -> u64) -> Self {
        Self {
            h1: count(Version::H1),
            h2: count(Version::H2),
            h3: count(Version::H3),
        }
    }
}

impl Status {
    pub(super) fn of(admin: &Admin) -> Self {
        let (shared, settings) = (&admin.shared, admin.settings.load());
        Self {
            version: env!("CARGO_PKG_VERSION"),
            uptime_s: shared.clock.uptime().as_secs(),
            listen: admin.addresses.clone(),
            cleartext: admin.cleartext.clone(),
            serves: settings.serves.clone(),
            policy: settings.policy,
            congestion: settings.congestion,
            clients: shared.clients.len(),
            connections: PerVersion::of(|version| shared.metrics.open(version)),
            requests: PerVersion::of(|version| shared.metrics.requests(version)),
            model: shared.clients.model_description(),
            upstreams: admin
                .upstreams
                .statuses()
                .into_iter()
                .map(Upstream::from)
                .collect(),
            egress: shared.egress.as_ref().map(|egress| egress.summary()),
            fleet: shared.fleet.status(),
        }
    }
}
