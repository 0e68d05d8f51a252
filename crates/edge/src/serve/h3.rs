//! HTTP/3 over one QUIC connection.

mod receive;
mod send;
mod stop;
mod whole;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hikyaku_congestion::SEND_WINDOW;
use hikyaku_core::client::sample::UdpEvent;
use hikyaku_h3_quic::{
    Code, Config, Receiving, Request as Incoming, RequestHead, Server, Shutdown, StreamError,
};
use hikyaku_quic::proto::{ConnectionError, VarInt};
use hikyaku_quic::{Connection, Stopped};
use http::{Method, Request, Response, StatusCode};
use tokio::task::JoinSet;

use super::idle::IdleTimer;
use super::interim::{Coming, Next};
use super::quic::max_idle;
use super::turns::Slice;
use super::{Answerer, Service, executor};
use crate::conn::Conn;
use crate::ledger::Ticket;
use crate::measure::{Acknowledged, QuicConnection, QuicMeter};
use crate::metrics::{Metrics, Refusal};
use hikyaku_content::{Body, Interim, Protocol, Refused};
use send::{Answer, Unsent};
use stop::{Step, Stopping};
use whole::Answered;

/// Serves a connection until it ends, or until the server stops and its requests are answered.
/// `complete` is set once its handshake is complete.
pub(super) async fn serve(
    answerer: Answerer,
    quic: Connection,
    complete: Arc<AtomicBool>,
) -> Result<(), StreamError> {
    let Answerer { conn, site } = &answerer;
    let (conn, site) = (Arc::clone(conn), Arc::clone(site));
    let service = site.service_full();
    let acknowledged = Arc::new(Acknowledged::default());
    let handler = Handler {
        acknowledged: Arc::clone(&acknowledged),
        complete,
        answerer,
    };
    let mut meter = QuicMeter::new(
        Arc::clone(&conn),
        QuicConnection::from(quic.clone()),
        acknowledged,
        Arc::clone(&site.marks),
        service.terms(),
        max_idle(&service.timeouts),
    );
    let mut requests = JoinSet::new();
    let result = run(&quic, handler, &mut requests, &mut meter, &service).await;
    // Fatal for UDP's reputation only if the client was left waiting.
    let died = matches!(quic.close_reason(), Some(ConnectionError::TimedOut));
    if died && (meter.has_unacknowledged() || conn.ledger.load().in_flight > 0) {
        conn.udp(UdpEvent::Broke);
    }
    requests.shutdown().await;
    // In a box, since the task would keep room for it beside the meter.
    Box::pin(meter.close()).await;
    result
}

async fn run(
    quic: &Connection,
    handler: Handler,
    requests: &mut JoinSet<()>,
    meter: &mut QuicMeter,
    service: &Service,
) -> Result<(), StreamError> {
    let handler = Arc::new(handler);
    let Answerer { conn, site } = &handler.answerer;
    let mut waiting = Waiting {
        conn: Arc::clone(conn),
        http: Server::new(quic.clone(), config(service), SEND_WINDOW),
        stopping: Stopping::new(site.stop(), quic.clone()),
        idle: IdleTimer::new(service.timeouts.idle),
        slice: Slice::default(),
    };
    loop {
        match poll_fn(|cx| waiting.poll(meter, cx)).await {
            Event::Accepted(Ok(request)) => start(&handler, request, requests),
            Event::Accepted(Err(error)) => return ended(&waiting.conn, error),
            Event::Stop(Step::Announce) => waiting.http.shutdown(Shutdown::Announce),
            Event::Stop(Step::Refuse) => waiting.http.shutdown(Shutdown::Refuse),
            Event::Stop(Step::Look) => {
                let handled = Arc::strong_count(&handler) == 1;
                if handled && !meter.has_unacknowledged() {
                    break;
                }
            }
            Event::Stalled => {
                waiting.conn.shared.metrics.on_refusal(Refusal::Stalled);
                close(quic, Code::ExcessiveLoad, "nothing was taken");
                return Ok(());
            }
        }
    }
    close(quic, Code::NoError, "");
    Ok(())
}

/// Begins to answer a request. One that waits becomes a task, and those that have ended go.
fn start(handler: &Arc<Handler>, request: Incoming, requests: &mut JoinSet<()>) {
    match handler.answer_whole(request) {
        Answered::Whole => {}
        Answered::Sending(rest) => drop(requests.spawn(rest)),
        Answered::Not { request, head } => {
            let service = handler.answerer.site.service();
            let handling = Box::pin(Arc::clone(handler).handle(request, head));
            // Those of an upstream always wait, so that to begin here would cost a turn more.
            let rest = match service.content.has_interim_responses() {
                true => Some(handling as executor::Waiting),
                false => executor::start(handling),
            };
            if let Some(rest) = rest {
                requests.spawn(rest);
            }
        }
    }
    while requests.try_join_next().is_some() {}
}

/// A connection that waits for its next event.
struct Waiting {
    conn: Arc<Conn>,
    http: Server,
    stopping: Stopping,
    idle: IdleTimer,
    slice: Slice,
}

impl Waiting {
    fn poll(&mut self, meter: &mut QuicMeter, cx: &mut Context<'_>) -> Poll<Event> {
        // The requests that have arrived come first, so that the rest is done once for all of them.
        let has_time = self.slice.poll(cx).is_ready();
        if has_time {
            if let Poll::Ready(accepted) = self.http.poll_accept(cx) {
                return Poll::Ready(Event::Accepted(accepted));
            }
            self.slice.pause();
        }
        meter.poll(cx);
        if meter.is_stalled() {
            return Poll::Ready(Event::Stalled);
        }
        if let Poll::Ready(step) = self.stopping.poll(cx) {
            return Poll::Ready(Event::Stop(step));
        }
        if !self.stopping.has_begun() && self.idle.poll(cx, &self.conn).is_ready() {
            self.stopping.begin();
            return Poll::Ready(Event::Stop(Step::Announce));
        }
        Poll::Pending
    }
}

/// Limits of a connection for its client.
fn config(service: &Service) -> Config {
    let limits = &service.limits;
    Config {
        max_field_section_size: limits.header_size.bytes(),
        max_requests: limits.streams.into(),
        connect_protocol: service.content.has_tunnels(),
        ..Config::default()
    }
}

/// A client that leaves is no error; one that floods is counted.
fn ended(conn: &Conn, error: StreamError) -> Result<(), StreamError> {
    if error.fault() == Some(Code::ExcessiveLoad) {
        conn.shared.metrics.on_refusal(Refusal::Flood);
    }
    match &error {
        StreamError::Connection(ConnectionError::ApplicationClosed(close))
            if close.error_code.into_inner() == Code::NoError.value() =>
        {
            Ok(())
        }
        _ => Err(error),
    }
}

fn close(quic: &Connection, code: Code, reason: &str) {
    let code = VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX);
    quic.close(code, reason.as_bytes());
}

/// Event that a connection waits for.
// Lives for a moment on the stack; a box would cost an allocation a request.
#[allow(clippy::large_enum_variant)]
enum Event {
    Accepted(Result<Incoming, StreamError>),
    Stop(Step),
    Stalled,
}

/// Answers a request whose header section cannot be used.
async fn refuse(answer: Answer, error: &StreamError, metrics: &Metrics) {
    if let StreamError::TooLarge = error {
        metrics.on_refused_request(Refused::HeaderSize);
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return answer.refuse(status).await;
    }
    tracing::debug!("HTTP/3 request: {error}");
    answer.reset(error.fault().unwrap_or(Code::RequestCancelled));
}

/// Answers the requests of a connection.
struct Handler {
    answerer: Answerer,
    acknowledged: Arc<Acknowledged<Stopped>>,
    /// The handshake is, so that no request may have been replayed any more (RFC 8470).
    complete: Arc<AtomicBool>,
}

impl Handler {
    /// Answers a request, of which the `head` may have been read.
    async fn handle(self: Arc<Self>, request: Incoming, head: Option<RequestHead>) {
        let Incoming {
            mut receiving,
            sending,
        } = request;
        let mut answer = Answer::new(sending);
        let patience = self.answerer.site.service().timeouts.header;
        let metrics = &self.answerer.conn.shared.metrics;
        let reading = async {
            match head {
                Some(head) => Ok(head),
                None => receiving.head().await,
            }
        };
        let head = match tokio::time::timeout(patience, reading).await {
            Ok(Ok(head)) => head,
            Ok(Err(error)) => return refuse(answer, &error, metrics).await,
            Err(_) => {
                tracing::debug!("HTTP/3 request: its header section came too slowly");
                metrics.on_refused_request(Refused::Slow);
                return answer.refuse(StatusCode::REQUEST_TIMEOUT).await;
            }
        };
        answer.answers(&head);
        let request = request_of(head);
        let mut ticket = self.answerer.conn.ledger.open(&request);
        // In a box, since it takes more memory than a response that waits for its client.
        let responding = Box::pin(self.respond(request, receiving, &mut answer, &mut ticket));
        let Some(response) = responding.await else {
            return;
        };
        match answer.send(response, &mut ticket).await {
            Ok(acknowledged) => {
                ticket.complete_with(|exchange| {
                    self.acknowledged.hand_over(exchange, acknowledged);
                });
            }
            Err(Unsent::Content(error)) => ticket.failed(&error),
            Err(Unsent::Stream(error)) => tracing::debug!("HTTP/3 response: {error}"),
        }
    }

    /// Waits for the response, and sends the interim ones before it; `None` if the client gives up.
    async fn respond(
        &self,
        request: Request<()>,
        receiving: Receiving<RequestHead>,
        answer: &mut Answer,
        ticket: &mut Ticket,
    ) -> Option<Response<Body>> {
        if !self.complete.load(Ordering::Relaxed) && !is_safe(request.method()) {
            // RFC 8470 §5.2: the client asks again when the handshake is complete.
            return Some(self.refused(StatusCode::TOO_EARLY, ticket));
        }
        let has_interim = self.answerer.site.service().content.has_interim_responses();
        let (interim, heads) = has_interim.then(Interim::channel).unzip();
        let responding = async {
            let mut request = match receive::with_body(request, receiving).await {
                Ok(request) => request,
                Err(error) => {
                    tracing::debug!("HTTP/3 request: {error}");
                    return self.refused(StatusCode::BAD_REQUEST, ticket);
                }
            };
            if let Some(interim) = interim {
                request.extensions_mut().insert(interim);
            }
            self.answerer.respond(request, ticket).await
        };
        let responding = pin!(responding);
        let mut coming = Coming::new(heads, responding);
        loop {
            match answer.unless_stopped(coming.next()).await? {
                Next::Response(response) => return Some(response),
                Next::Interim(head) => {
                    if let Err(error) = answer.interim(head).await {
                        tracing::debug!("HTTP/3 interim response: {error}");
                    }
                }
            }
        }
    }

    /// An empty response to a request that no content may see.
    fn refused(&self, status: StatusCode, ticket: &mut Ticket) -> Response<Body> {
        let metrics = &self.answerer.conn.shared.metrics;
        metrics.on_refused_request(Refused::of_status(status));
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        ticket.answered(&response);
        response
    }
}

/// The request of a header section.
fn request_of(head: RequestHead) -> Request<()> {
    let mut request = Request::from_parts(head.parts, ());
    let protocol = head.protocol.as_ref();
    Protocol::attach(
        protocol.map(hikyaku_h3_quic::Protocol::as_str),
        &mut request,
    );
    request
}

/// Methods whose replay does no harm.
fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
