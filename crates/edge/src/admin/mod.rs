//! The admin page, API and metrics, on an address of their own.

mod guard;
mod listener;
mod qlog;
mod reload;
mod stream;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hikyaku_core::client::key::Key;
use hikyaku_core::client::table::Scope;
use hikyaku_core::egress::NetworkSummary;
use hikyaku_units::arm::Version;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::metrics::Gauges;
use crate::shared::Shared;
use hikyaku_content::Body;
pub use listener::AdminError;
pub(crate) use listener::{bind, serve};
use reload::ReloadError;
pub use reload::ReloadRequest;
pub(crate) use reload::Reloads;
use stream::EventStream;

const PAGE: &str = include_str!("page.html");
/// Longest request body, in bytes.
const MAX_BODY: usize = 4096;
/// Most clients of one listing.
const MAX_LISTED: usize = 1000;

async fn respond(request: Request<Incoming>, shared: &Arc<Shared>) -> Response<Body> {
    let token = shared.live().config.admin.token.clone();
    let mut response = match guard::check(&request, token.as_deref()) {
        Err(refusal) => problem(refusal.status, refusal.why),
        Ok(()) => route(request, shared).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

async fn route(request: Request<Incoming>, shared: &Arc<Shared>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    match (request.method(), path.as_str()) {
        (&Method::GET | &Method::HEAD, "/") => page(),
        (&Method::GET | &Method::HEAD, "/healthz") => text("text/plain; charset=utf-8", "ok\n"),
        (&Method::GET, "/metrics") => apart(shared, metrics).await,
        (&Method::GET, "/v1/status") => json(&Status::of(shared)),
        (&Method::GET, "/v1/clients") => {
            apart(shared, move |shared| clients(request.uri().query(), shared)).await
        }
        (&Method::GET, "/v1/networks") => {
            apart(shared, move |shared| {
                networks(request.uri().query(), shared)
            })
            .await
        }
        (&Method::GET, "/v1/events") => events(shared),
        (&Method::GET, "/v1/qlog") => qlog::trace(request.uri().query(), shared),
        (&Method::POST, "/v1/forget") => forget(request, shared).await,
        (&Method::POST, "/v1/reload") => reload(shared).await,
        (&Method::GET, path) if path.starts_with("/v1/clients/") => {
            client(&path["/v1/clients/".len()..], shared)
        }
        (&Method::GET, path) if path.starts_with("/v1/networks/") => {
            network(&path["/v1/networks/".len()..], shared)
        }
        (
            _,
            "/" | "/healthz" | "/metrics" | "/v1/status" | "/v1/clients" | "/v1/networks"
            | "/v1/events" | "/v1/qlog",
        ) => not_allowed("GET"),
        (_, "/v1/forget" | "/v1/reload") => not_allowed("POST"),
        _ => problem(StatusCode::NOT_FOUND, "there is nothing at this path"),
    }
}

/// An answer that looks at all that is known: beside the threads that serve clients.
async fn apart(
    shared: &Arc<Shared>,
    answer: impl FnOnce(&Shared) -> Response<Body> + Send + 'static,
) -> Response<Body> {
    let shared = Arc::clone(shared);
    let answer = tokio::task::spawn_blocking(move || answer(&shared)).await;
    answer.unwrap_or_else(|error| problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))
}

async fn reload(shared: &Shared) -> Response<Body> {
    match shared.reloads.ask().await {
        Ok(()) => json(&serde_json::json!({ "reloaded": true })),
        Err(ReloadError::Refused(why)) => problem(StatusCode::UNPROCESSABLE_ENTITY, &why),
        Err(ReloadError::Busy) => problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "another reload waits, or the server stops",
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

fn metrics(shared: &Shared) -> Response<Body> {
    let gauges = Gauges {
        clients: shared.clients.len(),
        response_memory: shared.connections.memory(),
        tasks: Handle::current().metrics().num_alive_tasks(),
    };
    match shared
        .metrics
        .encode(gauges, &shared.certificate, shared.egress.as_deref())
    {
        Ok(metrics) => text(
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            metrics,
        ),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// The server in short.
#[derive(Debug, Serialize)]
struct Status {
    version: &'static str,
    uptime_s: u64,
    listen: Vec<SocketAddr>,
    serves: String,
    policy: String,
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
    fn of(shared: &Shared) -> Self {
        let live = shared.live();
        let config = &live.config;
        let root = config.root.as_ref().map(|root| root.display().to_string());
        let version = match config.policy.version.pinned() {
            None => "adaptive",
            Some(version) => version.name(),
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            uptime_s: shared.clock.uptime().as_secs(),
            listen: shared.addresses.clone(),
            serves: root.or(config.upstream.clone()).unwrap_or_default(),
            policy: version.to_owned(),
            congestion: config.policy.congestion.name(),
            clients: shared.clients.len(),
            connections: PerVersion::of(|version| shared.metrics.open(version)),
            requests: PerVersion::of(|version| shared.metrics.requests(version)),
            model: shared.clients.model_description(),
            egress: shared.egress.as_ref().map(|egress| egress.summary()),
        }
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
            let decision = shared.clients.preview(known.address);
            Listed {
                address: Key::address(known.address),
                age_s: known.last_seen.map(|seen| now.since(seen).as_secs()),
                version: decision.version.name(),
                reason: decision.reason.to_string(),
            }
        })
        .collect();
    json(&listed)
}

fn client(address: &str, shared: &Shared) -> Response<Body> {
    // `hikyaku explain` may write an IPv6 address in brackets.
    let bare = address.trim_start_matches("%5B").trim_end_matches("%5D");
    let Ok(address) = bare.parse::<IpAddr>() else {
        return problem(
            StatusCode::BAD_REQUEST,
            "expected an IPv4 or IPv6 address after /v1/clients/",
        );
    };
    let open = shared.connections.of(address);
    let open: Vec<_> = open.iter().filter_map(|one| one.look()).collect();
    let mptcp = open.iter().any(|one| !one.subflows.is_empty());
    let mut explanation = shared.clients.explain(address).with_open(open);
    let available = shared.available_connections();
    if available > 1 {
        let decision = shared.clients.preview(address);
        let connections = shared.clients.connections(address, &decision, available);
        explanation = explanation.with_connections(connections);
    }
    if let Some(egress) = &shared.egress {
        let visit = shared.clients.preview(address).visit();
        explanation = explanation.with_routes(egress.explain(address, mptcp, visit));
    }
    let Ok(mut value) = serde_json::to_value(&explanation) else {
        return problem(StatusCode::INTERNAL_SERVER_ERROR, "writing the explanation");
    };
    value["text"] = explanation.to_string().into();
    json(&value)
}

/// What to forget: exactly one of the keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Forget {
    address: Option<IpAddr>,
    prefix: Option<hikyaku_core::client::key::Prefix>,
    #[serde(default)]
    all: bool,
}

async fn forget(request: Request<Incoming>, shared: &Shared) -> Response<Body> {
    let Ok(body) = Limited::new(request.into_body(), MAX_BODY).collect().await else {
        return problem(StatusCode::BAD_REQUEST, "reading the request's body");
    };
    let scope = match serde_json::from_slice(&body.to_bytes()) {
        Err(error) => return problem(StatusCode::BAD_REQUEST, &error.to_string()),
        Ok(Forget {
            address: Some(address),
            prefix: None,
            all: false,
        }) => Scope::Address(address),
        Ok(Forget {
            address: None,
            prefix: Some(prefix),
            all: false,
        }) => Scope::Prefix(prefix),
        Ok(Forget {
            address: None,
            prefix: None,
            all: true,
        }) => Scope::All,
        Ok(_) => {
            return problem(
                StatusCode::BAD_REQUEST,
                "give one of \"address\", \"prefix\" and \"all\": true",
            );
        }
    };
    let routes = shared.egress.as_ref().map(|egress| egress.forget(scope));
    let forgotten = shared.clients.forget(scope) + routes.unwrap_or_default();
    json(&serde_json::json!({ "forgotten": forgotten }))
}

fn events(shared: &Arc<Shared>) -> Response<Body> {
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
