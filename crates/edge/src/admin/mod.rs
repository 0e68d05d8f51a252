//! The admin page, API and metrics, on an address of their own.

mod demand;
mod forget;
mod gain;
mod guard;
mod listener;
mod purge;
mod qlog;
mod status;
mod stream;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hikyaku_acme::Keeper;
use hikyaku_core::client::key::Key;
use hikyaku_core::egress::NetworkSummary;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use serde::Serialize;
use tokio::runtime::Handle;

use crate::gain::{SCRAPED, USUAL};
use crate::limits::Connections;
use crate::live::LiveConnections;
use crate::metrics::{self, Gauges};
use crate::part::Part;
use crate::qlog::Traces;
use crate::shared::Shared;
use crate::tls::{CertificateReport, Certificates, Stapler};
use demand::DemandError;
pub(crate) use demand::Demands;
pub use demand::{Demand, Order};
use forget::forget;
use hikyaku_content::{Body, Caches, Upstreams};
pub use listener::AdminError;
pub(crate) use listener::{Times, bind, serve};
use status::Status;
use stream::EventStream;

const PAGE: &str = include_str!("page.html");
/// The answer of an edge on its own.
const NO_FLEET: &str =
    "this edge is in no fleet: `fleet.store` of its configuration names no store";
/// Most clients of one listing.
const MAX_LISTED: usize = 1000;

/// Parts of the server that the admin API shows and changes.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) live: Arc<LiveConnections>,
    pub(crate) traces: Arc<Traces>,
    pub(crate) certificates: Part<Certificates>,
    /// Addresses that are served.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Those of HTTP in the clear.
    pub(crate) cleartext: Vec<SocketAddr>,
    /// Demands that came over the API.
    pub(crate) demands: Demands,
    pub(crate) settings: Part<Settings>,
    pub(crate) upstreams: Upstreams,
    /// Certificates that are got by ACME.
    pub(crate) acme: Option<Arc<Keeper>>,
    /// The standing of certificates by OCSP.
    pub(crate) stapler: Arc<Stapler>,
    pub(crate) caches: Caches,
}

/// Settings of the admin API that a reload replaces.
#[derive(Debug)]
pub(crate) struct Settings {
    /// `admin.token`.
    pub(crate) token: Option<String>,
    /// `timeouts.send`.
    pub(crate) send_timeout: Duration,
    /// The directory or URL that is served.
    pub(crate) serves: String,
    /// `policy.version`.
    pub(crate) policy: &'static str,
    /// `policy.congestion`.
    pub(crate) congestion: &'static str,
}

async fn respond(request: Request<Incoming>, admin: &Arc<Admin>) -> Response<Body> {
    let settings = admin.settings.load_full();
    let mut response = match guard::check(&request, settings.token.as_deref()) {
        Err(refusal) => problem(refusal.status, refusal.why),
        Ok(()) => route(request, admin).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

async fn route(request: Request<Incoming>, admin: &Arc<Admin>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().map(str::to_owned);
    let query = query.as_deref();
    match (request.method(), path.as_str()) {
        (&Method::GET | &Method::HEAD, "/") => page(),
        (&Method::GET | &Method::HEAD, "/healthz") => text("text/plain; charset=utf-8", "ok\n"),
        (&Method::GET, "/metrics") => apart(admin, exposition).await,
        (&Method::GET, "/v1/status") => json(&Status::of(admin)),
        (&Method::GET, "/v1/clients") => {
            let query = query.map(str::to_owned);
            apart(admin, move |admin| clients(query.as_deref(), &admin.shared)).await
        }
        (&Method::GET, "/v1/networks") => {
            let query = query.map(str::to_owned);
            apart(admin, move |admin| {
                networks(query.as_deref(), &admin.shared)
            })
            .await
        }
        (&Method::GET, "/v1/gain") => {
            let query = query.map(str::to_owned);
            apart(admin, move |admin| {
                gain::gain(query.as_deref(), &admin.shared.gain)
            })
            .await
        }
        (&Method::GET, "/v1/certificates") => json(&certificates(admin)),
        (&Method::GET, "/v1/fleet") => fleet(&admin.shared),
        (&Method::GET, "/v1/events") => events(&admin.shared),
        (&Method::GET, "/v1/qlog") => qlog::trace(query, admin),
        (&Method::POST, "/v1/forget") => forget(request, &admin.shared).await,
        (&Method::POST, "/v1/cache/purge") => purge::purge(request, admin).await,
        (&Method::POST, "/v1/reload") => demand(Order::Reload, "reloaded", admin).await,
        (&Method::POST, "/v1/upgrade") => demand(Order::Upgrade, "upgraded", admin).await,
        (&Method::GET, path) if path.starts_with("/v1/clients/") => {
            client(&path["/v1/clients/".len()..], admin)
        }
        (&Method::GET, path) if path.starts_with("/v1/networks/") => {
            network(&path["/v1/networks/".len()..], &admin.shared)
        }
        (
            _,
            "/" | "/healthz" | "/metrics" | "/v1/status" | "/v1/clients" | "/v1/networks"
            | "/v1/certificates" | "/v1/fleet" | "/v1/gain" | "/v1/events" | "/v1/qlog",
        ) => not_allowed("GET"),
        (_, "/v1/cache/purge" | "/v1/forget" | "/v1/reload" | "/v1/upgrade") => not_allowed("POST"),
        _ => problem(StatusCode::NOT_FOUND, "there is nothing at this path"),
    }
}

/// An answer that looks at all that is known: beside the threads that serve clients.
async fn apart(
    admin: &Arc<Admin>,
    answer: impl FnOnce(&Admin) -> Response<Body> + Send + 'static,
) -> Response<Body> {
    let admin = Arc::clone(admin);
    let answer = tokio::task::spawn_blocking(move || answer(&admin)).await;
    answer.unwrap_or_else(|error| problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))
}

/// Has something done; `done` says that it was.
async fn demand(order: Order, done: &str, admin: &Admin) -> Response<Body> {
    match admin.demands.ask(order).await {
        Ok(()) => json(&serde_json::json!({ done: true })),
        Err(DemandError::Refused(why)) => problem(StatusCode::UNPROCESSABLE_ENTITY, &why),
        Err(DemandError::Busy) => problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "another reload or upgrade is under way, or the server stops",
        ),
    }
}

fn not_allowed(allow: &'static str) -> Response<Body> {
    let mut response = problem(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path takes another method",
    );
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

fn page() -> Response<Body> {
    let mut response = text("text/html; charset=utf-8", PAGE);
    response.headers_mut().insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
             img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
    );
    response
}

fn exposition(admin: &Admin) -> Response<Body> {
    let shared = &admin.shared;
    let gauges = Gauges {
        clients: shared.clients.len(),
        response_memory: admin.connections.memory(),
        tasks: Handle::current().metrics().num_alive_tasks(),
    };
    let mut registry = metrics::registry();
    shared.metrics.register(&mut registry, gauges);
    admin.certificates.load().register(&mut registry);
    if let Some(keeper) = &admin.acme {
        metrics::register_acme(&mut registry, keeper.counts(), &keeper.statuses());
    }
    metrics::register_ocsp(&mut registry, admin.stapler.counts(), &certificates(admin));
    metrics::register_upstreams(&mut registry, &admin.upstreams.statuses());
    metrics::register_caches(&mut registry, &admin.caches.statuses());
    metrics::register_gain(&mut registry, &shared.gain.report(USUAL, None, SCRAPED));
    if let Some(fleet) = shared.fleet.status() {
        metrics::register_fleet(&mut registry, &fleet);
    }
    if let Some(egress) = &shared.egress {
        egress.register(&mut registry);
        shared.metrics.register_failovers(&mut registry);
    }
    match metrics::encode(&registry) {
        Ok(metrics) => text(
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            metrics,
        ),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn certificates(admin: &Admin) -> Vec<CertificateReport> {
    let keeper = admin.acme.as_ref();
    let statuses = keeper.map_or_else(Vec::new, |keeper| keeper.statuses());
    let certificates = admin.certificates.load();
    certificates.reports(&statuses, &admin.stapler.reports())
}

fn fleet(shared: &Shared) -> Response<Body> {
    match shared.fleet.status() {
        Some(status) => json(&status),
        None => problem(StatusCode::NOT_FOUND, NO_FLEET),
    }
}

/// A client in a listing.
#[derive(Debug, Serialize)]
struct Listed {
    address: Key,
    /// Seconds since something was last seen of it.
    age_s: Option<u64>,
    version: &'static str,
    reason: String,
}

/// How much of a list is asked for.
fn limit(query: Option<&str>) -> Result<usize, &'static str> {
    let limit = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .find_map(|pair| pair.strip_prefix("limit="));
    match limit.map(str::parse::<usize>) {
        None => Ok(100),
        Some(Ok(limit)) => Ok(limit.min(MAX_LISTED)),
        Some(Err(_)) => Err("`limit` is no whole number"),
    }
}

/// Client ASes: none where there are no egress paths.
fn networks(query: Option<&str>, shared: &Shared) -> Response<Body> {
    match limit(query) {
        Ok(limit) => json(&known_networks(shared, limit)),
        Err(why) => problem(StatusCode::BAD_REQUEST, why),
    }
}

fn network(number: &str, shared: &Shared) -> Response<Body> {
    let Ok(asn) = number.trim_start_matches("AS").parse::<u32>() else {
        return problem(
            StatusCode::BAD_REQUEST,
            "expected an AS number after /v1/networks/, such as AS64500",
        );
    };
    let mut known = known_networks(shared, usize::MAX).into_iter();
    let Some(network) = known.find(|network| network.asn == asn) else {
        return problem(
            StatusCode::NOT_FOUND,
            "nothing is known of this AS: no client of it has used an egress path lately",
        );
    };
    let Ok(mut value) = serde_json::to_value(&network) else {
        return problem(StatusCode::INTERNAL_SERVER_ERROR, "writing the summary");
    };
    value["text"] = network.to_string().into();
    json(&value)
}

fn known_networks(shared: &Shared, limit: usize) -> Vec<NetworkSummary> {
    let egress = shared.egress.as_ref();
    egress.map_or_else(Vec::new, |egress| egress.networks(limit))
}

fn clients(query: Option<&str>, shared: &Shared) -> Response<Body> {
    let limit = match limit(query) {
        Ok(limit) => limit,
        Err(why) => return problem(StatusCode::BAD_REQUEST, why),
    };
    let now = shared.clock.now();
    let listed: Vec<Listed> = shared
        .clients
        .recent(limit)
        .into_iter()
        .map(|known| {
            let decision = shared.clients.preview(known.address, None);
            Listed {
                address: Key::address(known.address),
                age_s: known.last_seen.map(|seen| now.since(seen).as_secs()),
                version: decision.version.name(),
                reason: decision.to_string(),
            }
        })
        .collect();
    json(&listed)
}

fn client(address: &str, admin: &Admin) -> Response<Body> {
    let shared = &admin.shared;
    // `hikyaku explain` may write an IPv6 address in brackets.
    let bare = address.trim_start_matches("%5B").trim_end_matches("%5D");
    let Ok(address) = bare.parse::<IpAddr>() else {
        return problem(
            StatusCode::BAD_REQUEST,
            "expected an IPv4 or IPv6 address after /v1/clients/",
        );
    };
    let open = admin.live.of(address);
    let open: Vec<_> = open.iter().filter_map(|one| one.look()).collect();
    let mptcp = open.iter().any(|one| !one.subflows.is_empty());
    let mut explanation = shared.clients.explain(address).with_open(open);
    let available = shared.available_connections();
    if available > 1 {
        let decision = shared.clients.preview(address, None);
        let connections = shared.clients.connections(address, &decision, available);
        explanation = explanation.with_connections(connections);
    }
    if let Some(egress) = &shared.egress {
        let visit = shared.clients.preview(address, None).visit();
        explanation = explanation
            .with_routes(egress.explain(address, mptcp, visit))
            .with_routes_from(egress.known_elsewhere(address));
    }
    let Ok(mut value) = serde_json::to_value(&explanation) else {
        return problem(StatusCode::INTERNAL_SERVER_ERROR, "writing the explanation");
    };
    value["text"] = explanation.to_string().into();
    json(&value)
}

fn events(shared: &Shared) -> Response<Body> {
    let mut response = Response::new(Body::boxed(EventStream::new(shared)));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    response
}

fn text(content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn json(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_string(value) {
        Ok(body) => text("application/json", body + "\n"),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn problem(status: StatusCode, why: &str) -> Response<Body> {
    let mut response = text(
        "application/json",
        format!("{}\n", serde_json::json!({ "error": why })),
    );
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

#[cfg(test)]
mod tests;
