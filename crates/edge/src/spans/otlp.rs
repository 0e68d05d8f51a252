//! Spans as OTLP/JSON, with the semantic conventions for HTTP spans (1.23, stable).

use std::time::{Duration, Instant, SystemTime};

use hikyaku_content::UpstreamSpan;
use hikyaku_units::arm::Version;
use http::Method;
use serde_json::{Value, json};

use super::{ExchangeFacts, ServerSpan, Span, short};

/// `SPAN_KIND_SERVER` and `SPAN_KIND_CLIENT`.
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;

/// The time of instants, for spans that have these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) system: SystemTime,
}

impl Now {
    /// Nanoseconds since the Unix epoch, as JSON has 64 bits: in a string.
    fn nanos(&self, at: Instant) -> String {
        let ago = self.instant.saturating_duration_since(at);
        let ahead = at.saturating_duration_since(self.instant);
        let time = self.system + ahead - ago;
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap_or_default().as_nanos().to_string()
    }
}

/// The body of an export request.
pub(super) fn request(service: &str, instance: &str, spans: &[Span], now: Now) -> Value {
    let spans: Vec<_> = spans.iter().map(|span| encode(span, now)).collect();
    let resource = [
        text("service.name", service),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", instance),
    ];
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{
            "scope": {"name": "hikyaku", "version": env!("CARGO_PKG_VERSION")},
            "schemaUrl": "https://opentelemetry.io/schemas/1.23.0",
            "spans": spans,
        }],
    }]})
}

fn encode(span: &Span, now: Now) -> Value {
    match span {
        Span::Server(span) => server(span, now),
        Span::Upstream(span) => upstream(span, now),
    }
}

fn server(span: &ServerSpan, now: Now) -> Value {
    let ServerSpan { begun, exchange } = span;
    let failed = match exchange.status {
        Some(status) if status >= 500 => Some(status.to_string()),
        _ => None,
    };
    let mut attributes = of_exchange(exchange);
    attributes.extend(failed.as_deref().map(|kind| text("error.type", kind)));
    let mut encoded = json!({
        "traceId": format!("{:032x}", begun.context.trace),
        "spanId": format!("{:016x}", begun.context.span),
        "flags": u8::from(begun.context.sampled),
        "name": name(&exchange.method),
        "kind": SERVER,
        "startTimeUnixNano": now.nanos(exchange.started),
        "endTimeUnixNano": end(now, exchange.started, exchange.time),
        "attributes": attributes,
        "status": status(failed.is_some()),
    });
    if let Some(parent) = begun.parent {
        encoded["parentSpanId"] = format!("{parent:016x}").into();
    }
    if let Some(state) = begun.state.as_ref().and_then(|state| state.to_str().ok()) {
        encoded["traceState"] = state.into();
    }
    encoded
}

fn of_exchange(exchange: &ExchangeFacts) -> Vec<Value> {
    let mut attributes = of_method(&exchange.method);
    attributes.extend([
        text("url.scheme", exchange.scheme),
        // Without the query, which may hold secrets.
        text("url.path", &exchange.path),
        text("client.address", &exchange.client),
        text("network.protocol.version", protocol(exchange.version)),
        number("http.response.body.size", exchange.bytes),
        text("hikyaku.decision", exchange.decision),
        text("hikyaku.reason", exchange.reason),
        json!({"key": "hikyaku.complete", "value": {"boolValue": exchange.complete}}),
    ]);
    let (host, port) = match exchange.host.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (&*exchange.host, None),
    };
    attributes.extend((!host.is_empty()).then(|| text("server.address", host)));
    attributes.extend(port.map(|port: u16| number("server.port", port.into())));
    let agent = exchange.user_agent.as_deref();
    attributes.extend(agent.map(|agent| text("user_agent.original", agent)));
    let status = exchange.status;
    attributes.extend(status.map(|status| number("http.response.status_code", status.into())));
    attributes
}

fn upstream(span: &UpstreamSpan, now: Now) -> Value {
    let mut attributes = of_method(&span.method);
    attributes.push(text("url.full", &short(&span.url)));
    attributes.push(text("server.address", &span.address));
    attributes.extend(span.port.map(|port| number("server.port", port.into())));
    if span.resends > 0 {
        attributes.push(number("http.request.resend_count", span.resends as u64));
    }
    let failed = match &span.outcome {
        Ok(status) => {
            attributes.push(number("http.response.status_code", status.as_u16().into()));
            (status.as_u16() >= 400).then(|| status.as_u16().to_string())
        }
        Err(Some(error)) => Some(error.name().to_owned()),
        Err(None) => Some("client".to_owned()),
    };
    attributes.extend(failed.as_deref().map(|kind| text("error.type", kind)));
    json!({
        "traceId": format!("{:032x}", span.context.trace),
        "spanId": format!("{:016x}", span.context.span),
        "parentSpanId": format!("{:016x}", span.parent),
        "flags": u8::from(span.context.sampled),
        "name": name(&span.method),
        "kind": CLIENT,
        "startTimeUnixNano": now.nanos(span.started),
        "endTimeUnixNano": end(now, span.started, span.time),
        "attributes": attributes,
        "status": status(failed.is_some()),
    })
}

fn end(now: Now, started: Instant, time: Duration) -> String {
    now.nanos(started.checked_add(time).unwrap_or(started))
}

fn status(failed: bool) -> Value {
    match failed {
        true => json!({"code": ERROR}),
        false => json!({}),
    }
}

/// Methods that others make up would be as many names of spans.
fn is_known(method: &Method) -> bool {
    [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::CONNECT,
        Method::OPTIONS,
        Method::TRACE,
        Method::PATCH,
    ]
    .contains(method)
}

fn name(method: &Method) -> &str {
    match is_known(method) {
        true => method.as_str(),
        false => "HTTP",
    }
}

fn of_method(method: &Method) -> Vec<Value> {
    match is_known(method) {
        true => vec![text("http.request.method", method.as_str())],
        false => vec![
            text("http.request.method", "_OTHER"),
            text("http.request.method_original", method.as_str()),
        ],
    }
}

const fn protocol(version: Version) -> &'static str {
    match version {
        Version::H1 => "1.1",
        Version::H2 => "2",
        Version::H3 => "3",
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: u64) -> Value {
    // As a string, since JSON's numbers have 53 bits.
    json!({"key": key, "value": {"intValue": value.to_string()}})
}
