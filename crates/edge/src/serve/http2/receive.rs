//! Reading, and beginning what the client asks for.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hikyaku_h2::connection::Event;
use hikyaku_h2::error::Code;
use hikyaku_h2::message::RequestHead;
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::Answerer;
use super::stream::{Stream, Wait};
use super::upload::{End, Upload, UploadBody};
use super::{Http2, poll};
use crate::clock;
use crate::ledger::Ticket;
use hikyaku_content::{Body, Interim, Protocol, Refused, RequestBody};

impl<T: AsyncRead + AsyncWrite + Unpin> Http2<T> {
    /// Reads once; `false` at the connection's end.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        // A client that takes no answers cannot cause more of them.
        if self.tls.is_blocked() && self.engine.queued_frames() > MAX_FRAMES {
            return Poll::Pending;
        }
        thread_local! {
            /// Decrypted bytes, which connections need one after the other.
            static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        let mut buffer = BUFFER.take();
        buffer.clear();
        let read = self.tls.poll_decrypt(cx, &mut buffer);
        if let Poll::Ready(Ok(true)) = read {
            self.receive(&buffer, cx);
        }
        BUFFER.set(buffer);
        read
    }

    fn receive(&mut self, mut input: &[u8], cx: &mut Context<'_>) {
        let now = clock::now();
        let mut answers = 0;
        loop {
            match self.engine.recv(&mut input, now) {
                Ok(None) => return,
                Ok(Some(Event::Request { stream, head, end })) => {
                    let length = head.content_length();
                    match request_of(&head) {
                        Ok(request) => self.begin(stream, request, length, end),
                        Err(error) => {
                            tracing::debug!("HTTP/2 request: {error}");
                            self.engine.reset(stream, Code::PROTOCOL_ERROR);
                        }
                    }
                    answers += 1;
                }
                Ok(Some(Event::TooLarge { stream, .. })) => self.refuse(stream),
                Ok(Some(Event::Data { stream, data, end })) => {
                    let left = self
                        .streams
                        .keep(stream, data, end.then_some(End::Complete));
                    self.on_data(stream, left, end);
                }
                Ok(Some(Event::Trailers { stream, trailers })) => {
                    let trailers = trailers.to_headers().unwrap_or_default();
                    self.on_trailers(stream, trailers);
                }
                Ok(Some(Event::Reset {
                    stream,
                    code,
                    fault,
                })) => self.on_reset(stream, code, fault),
                Ok(Some(Event::Pong { .. } | Event::GoAway { .. })) => {}
                Err(error) => return self.fail(error),
            }
            if answers == ANSWERS {
                answers = 0;
                // An error shows again at the next write.
                let _ = self.poll_transmit(cx);
            }
        }
    }

    /// Begins to answer a request, whose content may have a `length`.
    fn begin(&mut self, stream: u32, request: Request<()>, length: Option<u64>, end: bool) {
        let answerer = &self.answerer;
        let ticket = Box::new(answerer.conn.ledger.open(&request));
        if end {
            let file = answerer.whole_file(&answerer.site.service(), &request);
            if let Some(file) = file {
                return self.send_whole(stream, &file, &request, ticket);
            }
        }
        let method = request.method().clone();
        let upload = (!end).then(Arc::<Upload>::default);
        let body = match &upload {
            Some(upload) => {
                let (upload, inbox) = (Arc::clone(upload), Arc::clone(&self.inbox));
                RequestBody::new(UploadBody::new(upload, inbox, stream, length))
            }
            None => RequestBody::default(),
        };
        let mut request = request.map(|()| body);
        let has_interim = answerer.site.service().content.has_interim_responses();
        let (interim, heads) = has_interim.then(Interim::channel).unzip();
        if let Some(interim) = interim {
            request.extensions_mut().insert(interim);
        }
        let responding = Box::pin(respond(Arc::clone(answerer), request, ticket));
        let stream = Stream::new(stream, &method, upload, responding, heads);
        self.start(stream, has_interim);
    }

    /// Begins a response. Most for files never wait: their content is in memory or in the page cache.
    /// Those of an upstream always do.
    fn start(&mut self, mut stream: Box<Stream>, waits: bool) {
        let mut wait = Wait::Waker;
        if !waits {
            let mut cx = Context::from_waker(Waker::noop());
            wait = stream.poll(&mut self.engine, &mut cx);
        }
        if wait == Wait::Waker {
            wait = poll(&mut stream, &mut self.engine, &self.inbox);
        }
        if wait != Wait::Nothing {
            self.streams.insert(stream);
        }
    }

    /// Answers a request whose header section is too large (RFC 6585 §5).
    fn refuse(&mut self, stream: u32) {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        let metrics = &self.answerer.conn.shared.metrics;
        metrics.on_refused_request(Refused::HeaderSize);
        self.engine.stop_reading(stream);
        if let Err(error) = self
            .engine
            .send_head(stream, status, &HeaderMap::new(), true)
        {
            tracing::debug!("HTTP/2 response: {error}");
        }
    }

    /// Takes note of content, of which nobody reads `left` bytes.
    fn on_data(&mut self, id: u32, left: usize, end: bool) {
        if left > 0 {
            self.windows.on_read(&mut self.engine, left);
        }
        if end && self.streams.get(id).is_some_and(|stream| stream.is_over()) {
            self.streams.remove(id);
        }
    }

    fn on_trailers(&mut self, id: u32, trailers: HeaderMap) {
        let Some(stream) = self.streams.get(id) else {
            return;
        };
        if let Some(upload) = &stream.upload {
            upload.trailers(trailers);
        }
        if stream.is_over() {
            self.streams.remove(id);
        }
    }

    fn on_reset(&mut self, id: u32, code: Code, fault: Option<&'static str>) {
        if let Some(fault) = fault {
            tracing::debug!("HTTP/2 request: {fault}");
        }
        if let Some(stream) = self.streams.remove(id)
            && let Some(upload) = &stream.upload
        {
            upload.end(End::Reset(code));
        }
    }
}

async fn respond(
    answerer: Arc<Answerer>,
    request: Request<RequestBody>,
    mut ticket: Box<Ticket>,
) -> (Response<Body>, Box<Ticket>) {
    let response = answerer.respond(request, &mut ticket).await;
    (response, ticket)
}

fn request_of(head: &RequestHead<'_>) -> Result<Request<()>, http::Error> {
    let mut request = Request::from_parts(head.to_parts()?, ());
    Protocol::attach(head.protocol(), &mut request);
    Ok(request)
}

/// Requests that are answered before the answers are written, while more have arrived. The client
/// goes on with the first ones meanwhile.
const ANSWERS: u32 = 16;
/// Bytes of frames that wait for a client which takes nothing, and from which on nothing is read.
const MAX_FRAMES: usize = 8 * 1024;
