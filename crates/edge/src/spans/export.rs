//! Spans on their way to the collector.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::otlp::{self, Now};
use super::{Collector, Span, Tracer, TracingConfig};
use crate::clock;
use crate::seed::random;
use crate::seldom::Seldom;

/// Spans of one request, and the time for which they are gathered.
const BATCH: usize = 512;
const GATHER: Duration = Duration::from_secs(1);
/// For connection, request and response.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Pauses before the same spans are sent again. Meanwhile new ones wait in the queue.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// For the last spans when the server stops.
const LAST: Duration = Duration::from_secs(1);
const MAX_ANSWER: usize = 64 * 1024;

/// Why spans did not reach the collector.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("connecting")]
    Connect(#[source] std::io::Error),
    #[error("no answer within {}s", TIMEOUT.as_secs())]
    Late,
    #[error("sending")]
    Http(#[from] hyper::Error),
    #[error("its URL is unusable")]
    Target(#[from] http::Error),
    #[error("it answers with {0}")]
    Status(StatusCode),
}

impl ExportError {
    /// Whether the same spans may be taken later (OTLP 1.9, OTLP/HTTP response).
    fn may_pass(&self) -> bool {
        match self {
            Self::Status(status) => matches!(status.as_u16(), 429 | 502..=504),
            Self::Target(_) => false,
            Self::Connect(_) | Self::Late | Self::Http(_) => true,
        }
    }
}

/// Sends spans to the collector until the `end`, then those that are left.
pub(crate) async fn export(
    config: TracingConfig,
    collector: Collector,
    tracer: Arc<Tracer>,
    mut spans: mpsc::Receiver<Span>,
    end: CancellationToken,
) {
    let exporter = Exporter {
        service: config.service,
        instance: format!("{:016x}", random()),
        collector,
        tracer,
        failures: Seldom::default(),
    };
    let mut batch = Vec::new();
    loop {
        let gathered = end.run_until_cancelled(gather(&mut spans, &mut batch));
        if gathered.await.is_none() {
            break;
        }
        let sent = end.run_until_cancelled(exporter.send_again(&batch)).await;
        if sent.is_none() {
            break;
        }
        batch.clear();
    }
    while batch.len() < BATCH
        && let Ok(span) = spans.try_recv()
    {
        batch.push(span);
    }
    if !batch.is_empty() {
        let sent = tokio::time::timeout(LAST, exporter.send(&batch)).await;
        exporter.note(&batch, &sent.unwrap_or(Err(ExportError::Late)));
    }
}

/// Waits for spans, and gathers those that come in the time after the first.
async fn gather(spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
    if spans.recv_many(batch, BATCH).await == 0 {
        // The tracer lives as long as the server.
        return std::future::pending().await;
    }
    let more = async {
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            spans.recv_many(batch, room).await;
        }
    };
    let _ = tokio::time::timeout(GATHER, more).await;
}

struct Exporter {
    service: String,
    instance: String,
    collector: Collector,
    tracer: Arc<Tracer>,
    failures: Seldom,
}

impl Exporter {
    /// Sends spans, and again where that may help.
    async fn send_again(&self, batch: &[Span]) {
        let mut sent = self.send(batch).await;
        for pause in PAUSES {
            match &sent {
                Err(error) if error.may_pass() => tokio::time::sleep(pause).await,
                _ => break,
            }
            sent = self.send(batch).await;
        }
        self.note(batch, &sent);
    }

    /// Notes what became of spans.
    fn note(&self, batch: &[Span], sent: &Result<(), ExportError>) {
        let count = match sent {
            Ok(()) => &self.tracer.exported,
            Err(_) => &self.tracer.dropped,
        };
        count.fetch_add(batch.len() as u64, Relaxed);
        if let Err(error) = sent
            && self.failures.is_due(clock::now())
        {
            let (lost, cause) = (batch.len(), crate::causes::chain(error));
            tracing::warn!("`tracing.otlp` does not take spans, and {lost} are lost: {cause}");
        }
    }

    async fn send(&self, batch: &[Span]) -> Result<(), ExportError> {
        let now = Now {
            instant: clock::now(),
            system: SystemTime::now(),
        };
        let body = otlp::request(&self.service, &self.instance, batch, now).to_string();
        let posted = tokio::time::timeout(TIMEOUT, self.post(body)).await;
        posted.unwrap_or(Err(ExportError::Late))
    }

    async fn post(&self, body: String) -> Result<(), ExportError> {
        let Collector {
            host,
            port,
            authority,
            path,
        } = &self.collector;
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, authority)
            .header(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            )
            .body(Full::new(Bytes::from(body)))?;
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(ExportError::Connect)?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Ends with the sender. The request's own error reports a failure.
        tokio::spawn(connection);
        let response = sender.send_request(request).await?;
        let status = response.status();
        let _ = Limited::new(response.into_body(), MAX_ANSWER)
            .collect()
            .await;
        match status.is_success() {
            true => Ok(()),
            false => Err(ExportError::Status(status)),
        }
    }
}
