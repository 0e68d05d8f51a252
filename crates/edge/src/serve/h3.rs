//! HTTP/3 over one QUIC connection.

mod receive;
mod stop;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures_util::future::poll_fn;
use h3::error::{Code, ConnectionError, StreamError};
use h3::server::{RequestResolver, RequestStream};
use hikyaku_core::sample::UdpEvent;
use hikyaku_h3::{Connection, Payload, SendStream};
use http::{Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use quinn::VarInt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::interim::{Coming, Next};
use super::head::{announced_length, date};
use super::idle::IdleTimer;
use super::{executor, respond};
use crate::conn::Conn;
use crate::content::{Body, BoxError, Interim, RequestBody};
use crate::measure::{Acknowledged, QuicMeter, Ticket};
use crate::metrics::Refusal;
use receive::{Receiver, Receiving};
use stop::{Step, Stopping};

type Resolver = RequestResolver<Connection, Payload>;
type Sending = RequestStream<SendStream, Payload>;

/// Requests that may still come in between the two GOAWAYs of a graceful stop
/// (RFC 9114 §5.2).
const GRACE_REQUESTS: usize = 1 << 20;

/// Serves a connection until it ends, or until the server stops and its requests are
/// answered. `complete` tells whether its handshake is.
pub(super) async fn serve(
    conn: Arc<Conn>,
    quic: quinn::Connection,
    complete: Arc<AtomicBool>,
    stop: CancellationToken,
) -> Result<(), ConnectionError> {
    let acknowledged = Arc::new(Acknowledged::default());
    let handler = Handler {
        acknowledged: Arc::clone(&acknowledged),
        complete,
        conn: Arc::clone(&conn),
    };
    let mut meter = QuicMeter::new(Arc::clone(&conn), quic.clone(), Arc::clone(&acknowledged));
    let mut requests = JoinSet::new();
    let result = run(&conn, &quic, handler, &mut requests, &mut meter, stop).await;
    // Fatal for UDP's reputation only if the client was left waiting.
    let died = matches!(quic.close_reason(), Some(quinn::ConnectionError::TimedOut));
    if died && (meter.has_unacknowledged() || conn.ledger.load().in_flight > 0) {
        conn.udp(UdpEvent::Broke);
    }
    requests.shutdown().await;
    meter.close().await;
    result
}

async fn run(
    conn: &Conn,
    quic: &quinn::Connection,
    handler: Handler,
    requests: &mut JoinSet<()>,
    meter: &mut QuicMeter,
    stop: CancellationToken,
) -> Result<(), ConnectionError> {
    let live = conn.shared.live_full();
    let transport = Connection::new(quic.clone()).with_observer(handler.acknowledged.clone());
    let mut http = h3::server::builder()
        .max_field_section_size(live.config.limits.header_size.bytes())
        .send_grease(false)
        .build::<_, Payload>(transport)
        .await?;
    let handler = Arc::new(handler);
    let mut stopping = Stopping::new(stop, quic.clone());
    let mut idle = IdleTimer::new(live.config.timeouts.idle);
    loop {
        let event = {
            let mut accept = pin!(http.accept());
            poll_fn(|cx| {
                meter.poll(cx);
                if meter.is_stalled() {
                    return Poll::Ready(Event::Stalled);
                }
                if let Poll::Ready(step) = stopping.poll(cx) {
                    return Poll::Ready(Event::Stop(step));
                }
                if !stopping.has_begun() && idle.poll(cx, conn).is_ready() {
                    stopping.begin();
                    return Poll::Ready(Event::Stop(Step::Announce));
                }
                accept.as_mut().poll(cx).map(Event::Accepted)
            })
            .await
        };
        match event {
            Event::Accepted(Ok(Some(resolver))) => {
                let handling = Box::pin(Arc::clone(&handler).handle(resolver));
                if let Some(waiting) = executor::start(handling) {
                    requests.spawn(waiting);
                }
                while requests.try_join_next().is_some() {}
            }
            Event::Accepted(Ok(None)) => break,
            Event::Accepted(Err(error)) => return Err(error),
            Event::Stop(Step::Announce) => http.shutdown(GRACE_REQUESTS).await?,
            Event::Stop(Step::Refuse) => http.shutdown(0).await?,
            Event::Stop(Step::Look) => {
                let handled = Arc::strong_count(&handler) == 1;
                if handled && !meter.has_unacknowledged() {
                    break;
                }
            }
            Event::Stalled => {
                conn.shared.metrics.on_refusal(Refusal::Stalled);
                quic.close(code(Code::H3_EXCESSIVE_LOAD), b"nothing was taken");
                return Ok(());
            }
        }
    }
    quic.close(code(Code::H3_NO_ERROR), b"");
    Ok(())
}

/// What a connection waits for.
// Lives for a moment on the stack; a box would cost an allocation a request.
#[allow(clippy::large_enum_variant)]
enum Event {
    Accepted(Result<Option<Resolver>, ConnectionError>),
    Stop(Step),
    Stalled,
}

/// Answers the requests of a connection.
struct Handler {
    conn: Arc<Conn>,
    acknowledged: Arc<Acknowledged>,
    /// The handshake is, so that no request may have been replayed any more (RFC 8470).
    complete: Arc<AtomicBool>,
}

impl Handler {
    async fn handle(self: Arc<Self>, resolver: Resolver) {
        let patience = self.conn.shared.live().config.timeouts.header;
        let resolved = tokio::time::timeout(patience, resolver.resolve_request()).await;
        let (request, stream) = match resolved {
            Ok(Ok(resolved)) => resolved,
            Ok(Err(error)) => return tracing::debug!("HTTP/3 request: {error}"),
            Err(_) => return tracing::debug!("HTTP/3 request: its header section came too slowly"),
        };
        let mut ticket = self.conn.ledger.open(&request);
        let (mut sending, receiving) = stream.split();
        let response = self
            .respond(request, receiving, &mut sending, &mut ticket)
            .await;
        match send(&mut sending, response, &mut ticket).await {
            Ok(()) => self.complete(&sending, ticket),
            Err(Unsent::Content(error)) => {
                ticket.failed(&error);
                sending.stop_stream(Code::H3_INTERNAL_ERROR);
            }
            Err(Unsent::Stream(error)) => {
                tracing::debug!("HTTP/3 response: {error}");
                sending.stop_stream(Code::H3_REQUEST_CANCELLED);
            }
        }
    }

    async fn respond(
        &self,
        request: Request<()>,
        receiving: Receiving,
        sending: &mut Sending,
        ticket: &mut Ticket,
    ) -> Response<Body> {
        if !self.complete.load(Ordering::Relaxed) && !is_safe(request.method()) {
            // RFC 8470 §5.2: the client asks again when the handshake is complete.
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::TOO_EARLY;
            ticket.answered(&response);
            return response;
        }
        let is_head = request.method() == Method::HEAD;
        let receiver = Receiver::new(receiving, &request);
        let request = request.map(|()| RequestBody::new(receiver));
        let mut response = self.answer(request, sending, ticket).await;
        // hyper does these for HTTP/1.1 and 2.
        if !is_head && let Some(length) = announced_length(&response) {
            response
                .headers_mut()
                .insert(header::CONTENT_LENGTH, length.into());
        }
        if !response.headers().contains_key(header::DATE) {
            response.headers_mut().insert(header::DATE, date());
        }
        response
    }

    /// Lets the content answer, and passes interim responses on.
    async fn answer(
        &self,
        mut request: Request<RequestBody>,
        sending: &mut Sending,
        ticket: &mut Ticket,
    ) -> Response<Body> {
        let content = &self.conn.shared.live_full().content;
        if !content.has_interim_responses() {
            return respond(&self.conn, request, ticket).await;
        }
        let (interim, heads) = Interim::channel();
        request.extensions_mut().insert(interim);
        let responding = pin!(respond(&self.conn, request, ticket));
        let mut coming = Coming::new(heads, responding);
        loop {
            match coming.next().await {
                Next::Interim(head) => {
                    if let Err(error) = sending.send_response(head).await {
                        tracing::debug!("HTTP/3 interim response: {error}");
                    }
                }
                Next::Response(response) => return response,
            }
        }
    }

    fn complete(&self, sending: &Sending, ticket: Ticket) {
        let id = sending.send_id();
        match self.acknowledged.of_stream(id.into_inner()) {
            Some(stopped) => {
                ticket.complete_with(|exchange| self.acknowledged.hand_over(exchange, stopped));
            }
            None => ticket.complete(),
        }
    }
}

/// Why a response was not sent whole.
enum Unsent {
    /// Its content ended early.
    Content(BoxError),
    /// The client wants no more, or is gone.
    Stream(StreamError),
}

impl From<StreamError> for Unsent {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

async fn send(
    sending: &mut Sending,
    response: Response<Body>,
    ticket: &mut Ticket,
) -> Result<(), Unsent> {
    let (head, body) = response.into_parts();
    sending
        .send_response(Response::from_parts(head, ()))
        .await?;
    let mut body = pin!(body);
    let mut trailers = None;
    while !body.is_end_stream() {
        let frame = poll_fn(|cx| {
            let frame = body.as_mut().poll_frame(cx);
            ticket.waits(frame.is_pending());
            frame
        });
        let Some(frame) = frame.await else {
            break;
        };
        match frame.map_err(Unsent::Content)?.into_data() {
            // An empty DATA frame would only cost bytes.
            Ok(data) if data.is_empty() => {}
            Ok(data) => {
                ticket.sent(data.len());
                sending.send_data(data.into()).await?;
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    if let Some(trailers) = trailers {
        sending.send_trailers(trailers).await?;
    }
    Ok(sending.finish().await?)
}

}

/// Methods whose replay does no harm.
fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn code(code: Code) -> VarInt {
    VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX)
}
