//! `GET /v1/status`.

use std::net::SocketAddr;

use hikyaku_units::arm::Version;
use serde::Serialize;

use super::Admin;

/// The server in short.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    version: &'static str,
    uptime_s: u64,
    listen: Vec<SocketAddr>,
    serves: String,
    policy: &'static str,
    congestion: &'static str,
    clients: usize,
    connections: PerVersion,
    requests: PerVersion,
    model: String,
    /// `None` without egress paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    egress: Option<crate::egress::Summary>,
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
            serves: settings.serves.clone(),
            policy: settings.policy,
            congestion: settings.congestion,
            clients: shared.clients.len(),
            connections: PerVersion::of(|version| shared.metrics.open(version)),
            requests: PerVersion::of(|version| shared.metrics.requests(version)),
            model: shared.clients.model_description(),
            egress: shared.egress.as_ref().map(|egress| egress.summary()),
        }
    }
}
