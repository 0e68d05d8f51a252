//! HTTP/2 over one connection (RFC 9113).

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use h2::server::{Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{Method, Request, Response, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;

use super::calm::Calm;
use super::head::{date, length_to_announce};
use super::interim::{Coming, Next};
use super::tcp::DriveHttp;
use super::tls_io::FlushedByDriver;
use super::turns::Slice;
use super::{Answerer, Service, executor};
use crate::ledger::Ticket;
use crate::measure::{Content, MeteredIo, TrackedBody};
use crate::uploads::{FIRST_WINDOW, stream_window};
use hikyaku_content::HeaderSize;
use hikyaku_content::{Body, BoxError, Http2Body, Interim, Protocol, RequestBody};
use hikyaku_content::{SendError, send_http2};

/// Bytes of a response that wait for one stream's client.
const SEND_BUFFER: usize = 256 * 1024;
/// Content of a DATA frame that, with its header of 9 bytes, fills one TLS record.
const CHUNK: usize = 16 * 1024 - 9;
/// Stream errors of the client after which its connection ends (CVE-2023-44487).
const STREAM_ERRORS: usize = 1024;

type Io = Calm<FlushedByDriver<MeteredIo>>;

/// A connection.
pub(super) struct Http2 {
    answerer: Arc<Answerer>,
    state: State,
    /// Window that streams shall have, where they do not have it yet.
    stream_window: Option<u32>,
    stopping: bool,
}

// One for each connection, in a box.
#[allow(clippy::large_enum_variant)]
enum State {
    Beginning(Handshake<Io, Content>),
    Serving(Connection<Io, Content>),
}

impl Http2 {
    /// Serves the client at the other end of `io`.
    pub(super) fn new(io: Io, answerer: &Arc<Answerer>, service: &Service) -> Self {
        let header_size = HeaderSize::from(service.limits.header_size);
        let mut settings = h2::server::Builder::new();
        settings
            .max_concurrent_streams(service.limits.streams)
            .max_header_list_size(header_size.list_size())
            .max_send_buffer_size(SEND_BUFFER)
            .max_local_error_reset_streams(Some(STREAM_ERRORS))
            .initial_window_size(stream_window(FIRST_WINDOW))
            .initial_connection_window_size(FIRST_WINDOW);
        if service.content.has_tunnels() {
            settings.enable_connect_protocol();
        }
        Self {
            answerer: Arc::clone(answerer),
            state: State::Beginning(settings.handshake(io)),
            stream_window: None,
            stopping: false,
        }
    }
}

impl DriveHttp for Http2 {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let this = &mut *self;
        let mut slice = Slice::default();
        loop {
            ready!(slice.poll(cx));
            match &mut this.state {
                State::Beginning(handshake) => {
                    let mut connection = ready!(Pin::new(handshake).poll(cx))?;
                    if this.stopping {
                        connection.graceful_shutdown();
                    }
                    this.state = State::Serving(connection);
                }
                State::Serving(connection) => {
                    if let Some(window) = this.answerer.conn.uploads.poll_changed(cx) {
                        connection.set_target_window_size(window);
                        this.stream_window = Some(stream_window(window));
                    }
                    // Refused while the client has former settings to acknowledge.
                    if let Some(window) = this.stream_window
                        && connection.set_initial_window_size(window).is_ok()
                    {
                        this.stream_window = None;
                    }
                    let Some(accepted) = ready!(connection.poll_accept(cx)) else {
                        return Poll::Ready(Ok(()));
                    };
                    let (request, reply) = accepted?;
                    let answering = Box::pin(answer(Arc::clone(&this.answerer), request, reply));
                    if let Some(waiting) = executor::start(answering) {
                        tokio::spawn(waiting);
                    }
                }
            }
        }
    }

    fn stop(mut self: Pin<&mut Self>) {
        self.stopping = true;
        if let State::Serving(connection) = &mut self.state {
            connection.graceful_shutdown();
        }
    }
}

/// Answers a request, unless the client gives it up.
async fn answer(
    answerer: Arc<Answerer>,
    request: Request<RecvStream>,
    mut reply: SendResponse<Content>,
) {
    if let Err(error) = try_answer(&answerer, request, &mut reply).await {
        tracing::debug!("HTTP/2 response: {error}");
    }
}

async fn try_answer(
    answerer: &Answerer,
    mut request: Request<RecvStream>,
    reply: &mut SendResponse<Content>,
) -> Result<(), h2::Error> {
    let mut ticket = answerer.conn.ledger.open(&request);
    let is_head = request.method() == Method::HEAD;
    // RFC 8441 §5: a connection that was reset is a stream that is cancelled.
    let broken_off = match *request.method() {
        Method::CONNECT => Reason::CANCEL,
        _ => Reason::INTERNAL_ERROR,
    };
    let protocol = request.extensions_mut().remove::<h2::ext::Protocol>();
    Protocol::attach(
        protocol.as_ref().map(h2::ext::Protocol::as_str),
        &mut request,
    );
    let (head, stream) = request.into_parts();
    let upload = Http2Body::of_request(stream, &head.headers).map_err(BoxError::from);
    let request = Request::from_parts(head, RequestBody::new(upload));
    // In a box, since it takes more memory than a response that waits for its client.
    let response = Box::pin(respond_in_time(answerer, request, reply, &mut ticket)).await?;
    let length = length_to_announce(&response).filter(|_| !is_head);
    let (mut head, body) = response.into_parts();
    if let Some(length) = length {
        head.headers.insert(header::CONTENT_LENGTH, length.into());
    }
    head.headers.entry(header::DATE).or_insert_with(date);
    let body = TrackedBody::new(body, ticket, CHUNK);
    let is_end = body.is_end_stream();
    match reply.send_response(Response::from_parts(head, ()), is_end) {
        Ok(_) if is_end => Ok(()),
        Ok(stream) => send(stream, body, broken_off).await,
        Err(error) => {
            reply.send_reset(Reason::INTERNAL_ERROR);
            Err(error)
        }
    }
}

/// Waits for the response, and sends the interim ones before it, unless the client gives up.
async fn respond_in_time(
    answerer: &Answerer,
    mut request: Request<RequestBody>,
    reply: &mut SendResponse<Content>,
    ticket: &mut Ticket,
) -> Result<Response<Body>, h2::Error> {
    let has_interim = answerer.site.service().content.has_interim_responses();
    let (interim, heads) = has_interim.then(Interim::channel).unzip();
    if let Some(interim) = interim {
        request.extensions_mut().insert(interim);
    }
    let responding = pin!(answerer.respond(request, ticket));
    let mut coming = Coming::new(heads, responding);
    loop {
        let mut next = pin!(coming.next());
        let next = poll_fn(|cx| match next.as_mut().poll(cx) {
            Poll::Ready(next) => Poll::Ready(Ok::<_, h2::Error>(next)),
            Poll::Pending => reply.poll_reset(cx)?.map(|reason| Err(reason.into())),
        });
        match next.await? {
            Next::Interim(head) => reply.send_informational(head)?,
            Next::Response(response) => return Ok(response),
        }
    }
}

/// Sends content. Where it ends early the stream is reset with `broken_off`.
async fn send(
    stream: SendStream<Content>,
    body: TrackedBody,
    broken_off: Reason,
) -> Result<(), h2::Error> {
    let nothing = body.nothing();
    match send_http2(stream, body, nothing, broken_off).await {
        Ok(()) => Ok(()),
        Err(SendError::Stopped(error)) => Err(error),
        Err(SendError::Content(error)) => {
            tracing::debug!("HTTP/2 response: its content ended early: {error}");
            Ok(())
        }
    }
}
