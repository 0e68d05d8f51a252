//! The line of the access log for an exchange.

use std::time::Duration;

use hikyaku_core::transport::Decision;
use hikyaku_units::Rate;
use http::HeaderValue;

use super::Conn;
use crate::access_log::{Basis, Entry, Time};
use crate::ledger::Exchange;
use crate::spans::{ExchangeFacts, short};
use crate::transport::Snapshot;
use hikyaku_content::{CacheOutcome, Scheme};

impl Conn {
    /// The log entry of an exchange that took `duration`.
    pub(super) fn entry<'a>(
        &self,
        exchange: &'a Exchange,
        duration: Duration,
        snapshot: &Snapshot,
        decision: &Decision,
    ) -> Entry<'a> {
        let client = exchange.client.unwrap_or(self.peer.remote);
        let (route, route_reason) = self.route.as_ref().map(|route| route.names()).unzip();
        Entry {
            time: Time(self.shared.clock.now()),
            client: client.ip().to_canonical(),
            port: client.port(),
            via: self.via(),
            method: exchange.method.as_str(),
            host: &exchange.host,
            path: path(exchange),
            version: self.peer.version,
            status: exchange.status.map(|status| status.as_u16()),
            bytes: exchange.bytes,
            cache: exchange.cache.map(CacheOutcome::name),
            id: exchange.id.map(|id| id.to_string()),
            complete: exchange.complete,
            duration_us: micros(duration),
            goodput_bps: goodput(exchange.bytes, duration),
            congestion: self.congestion().name(),
            min_rtt_us: micros(snapshot.min_rtt),
            srtt_us: micros(snapshot.srtt),
            packets_sent: snapshot.packets_sent,
            packets_lost: snapshot.packets_lost,
            delivery_rate_bps: snapshot.delivery_rate.map(Rate::bits_per_sec),
            app_limited: snapshot.app_limited,
            decision: decision.version.name(),
            reason: decision.reason.code(),
            group: decision.group.name(),
            basis: Basis::of(decision),
            route,
            route_reason,
            error: exchange.reason.as_ref().map(ToString::to_string),
            page: exchange.page.as_deref(),
            user: exchange.user.as_ref().map_or("", |user| &user.0),
            referer: text(&exchange.referer),
            user_agent: text(&exchange.user_agent),
        }
    }
}

impl Conn {
    /// The properties of an exchange for its span.
    pub(super) fn facts(&self, exchange: &Exchange, time: Duration) -> ExchangeFacts {
        let client = exchange.client.unwrap_or(self.peer.remote);
        let decision = self.decision();
        let agent = text(&exchange.user_agent);
        ExchangeFacts {
            started: exchange.started,
            time,
            method: exchange.method.clone(),
            path: short(exchange.uri.path()),
            scheme: match self.peer.scheme {
                Scheme::Http => "http",
                Scheme::Https => "https",
            },
            host: short(&exchange.host),
            client: client.ip().to_canonical().to_string(),
            version: self.peer.version,
            user_agent: (!agent.is_empty()).then(|| short(agent)),
            status: exchange.status.map(|status| status.as_u16()),
            bytes: exchange.bytes,
            complete: exchange.complete,
            decision: decision.version.name(),
            reason: decision.reason.code(),
        }
    }
}

fn path(exchange: &Exchange) -> &str {
    let path = exchange.uri.path_and_query();
    path.map_or("/", |path| path.as_str())
}

/// The value of a header field; empty where there is none, or one that is no text.
fn text(value: &Option<HeaderValue>) -> &str {
    let value = value.as_ref().and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Bits a second; 0 for a time of less than a microsecond.
fn goodput(bytes: u64, duration: Duration) -> u64 {
    let bits = bytes.saturating_mul(8_000_000);
    bits.checked_div(micros(duration)).unwrap_or_default()
}
