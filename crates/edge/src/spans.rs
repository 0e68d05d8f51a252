//! Spans of requests, for a collector that speaks OTLP (OpenTelemetry).
//!
//! The server takes part in a trace where `tracing.otlp` names a collector: each request is a span, and each
//! request to an upstream one below it. Without one, `traceparent` and `tracestate` pass unchanged. Spans are
//! written as OTLP/JSON by the HTTP client that is there anyway (ADR 23).

mod config;
mod export;
mod otlp;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hikyaku_content::{
    RequestBody, Spans, TRACEPARENT, TRACESTATE, Trace, TraceContext, UpstreamSpan,
};
use hikyaku_units::arm::Version;
use hikyaku_units::mix::mix;
use http::{HeaderMap, HeaderValue, Request};
use tokio::sync::mpsc;

use crate::seed::random;
pub use config::{Collector, ParseCollectorError, TracingConfig};
pub(crate) use export::export;

/// Spans that may wait for the collector. Beyond that they are dropped, and counted.
const QUEUE: usize = 8192;

/// Bytes of a longer `tracestate`, which no span has (Trace Context §3.3.1.5 asks for 512 at least).
const MAX_STATE: usize = 512;
/// Bytes of a text in an attribute.
const MAX_TEXT: usize = 1024;

/// Makes spans, and has those that are sampled exported.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// Traces that begin here are sampled if half of their number's lower part is below.
    threshold: u64,
    takes_parents: bool,
    seeds: [u64; 3],
    count: AtomicU64,
    queue: mpsc::Sender<Span>,
    pub(crate) exported: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// A span that is over.
#[derive(Debug)]
pub(crate) enum Span {
    Server(Box<ServerSpan>),
    Upstream(Box<UpstreamSpan>),
}

/// A request of a client.
#[derive(Debug)]
pub(crate) struct ServerSpan {
    pub(crate) begun: Begun,
    pub(crate) exchange: ExchangeFacts,
}

/// The place of a request in its trace.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) context: TraceContext,
    /// The caller's span.
    pub(crate) parent: Option<u64>,
    pub(crate) state: Option<HeaderValue>,
}

/// The properties of an exchange that a span has.
#[derive(Debug)]
pub(crate) struct ExchangeFacts {
    pub(crate) started: Instant,
    pub(crate) time: Duration,
    pub(crate) method: http::Method,
    pub(crate) path: String,
    pub(crate) scheme: &'static str,
    pub(crate) host: String,
    pub(crate) client: String,
    pub(crate) version: Version,
    pub(crate) user_agent: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) bytes: u64,
    pub(crate) complete: bool,
    /// The version that was chosen for the client, and why.
    pub(crate) decision: &'static str,
    pub(crate) reason: &'static str,
}

impl Tracer {
    /// One with these settings, and the spans that it gives to [`export`].
    pub(crate) fn new(config: &TracingConfig) -> (Self, mpsc::Receiver<Span>) {
        let (queue, spans) = mpsc::channel(QUEUE);
        let tracer = Self {
            // As the sampler `TraceIdRatioBased` of OpenTelemetry's SDKs, so that these agree.
            threshold: (config.sample * (1u64 << 63) as f64) as u64,
            takes_parents: config.parents,
            seeds: [random(), random(), random()],
            count: AtomicU64::new(0),
            queue,
            exported: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        };
        (tracer, spans)
    }

    /// Begins the span of a request, and names it in the fields that upstreams get.
    pub(crate) fn begin(self: &Arc<Self>, request: &mut Request<RequestBody>) -> Box<Begun> {
        let begun = self.place(request.headers());
        let headers = request.headers_mut();
        if begun.parent.is_none() {
            headers.remove(TRACESTATE);
        }
        headers.insert(TRACEPARENT, begun.context.traceparent());
        request.extensions_mut().insert(Trace {
            context: begun.context,
            spans: Arc::<Self>::clone(self),
        });
        Box::new(begun)
    }

    /// The place in the caller's trace, or in a new one.
    fn place(&self, headers: &HeaderMap) -> Begun {
        let parent = TraceContext::of(headers).filter(|_| self.takes_parents);
        let context = match parent {
            Some(parent) => TraceContext {
                span: self.number(),
                ..parent
            },
            None => self.root(),
        };
        let state = headers.get(TRACESTATE).filter(|_| parent.is_some());
        let state = state.filter(|state| state.len() <= MAX_STATE);
        Begun {
            context,
            parent: parent.map(|parent| parent.span),
            state: state.cloned(),
        }
    }

    /// A new trace.
    fn root(&self) -> TraceContext {
        let count = self.count.fetch_add(1, Relaxed);
        let low = mix(count ^ self.seeds[0]);
        TraceContext {
            trace: u128::from(mix(count ^ self.seeds[1])) << 64 | u128::from(low.max(1)),
            span: self.number(),
            sampled: low >> 1 < self.threshold,
        }
    }

    /// Ends the span of a request whose exchange is over.
    pub(crate) fn answered(&self, begun: &Begun, facts: impl FnOnce() -> ExchangeFacts) {
        if begun.context.sampled {
            self.send(Span::Server(Box::new(ServerSpan {
                begun: begun.clone(),
                exchange: facts(),
            })));
        }
    }

    fn send(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
    }
}

impl Spans for Tracer {
    fn number(&self) -> u64 {
        let count = self.count.fetch_add(1, Relaxed);
        mix(count ^ self.seeds[2]).max(1)
    }

    fn asked(&self, span: UpstreamSpan) {
        self.send(Span::Upstream(Box::new(span)));
    }
}

/// The beginning of a text of a client: those that wait for the collector take memory.
pub(crate) fn short(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

#[cfg(test)]
mod tests;
