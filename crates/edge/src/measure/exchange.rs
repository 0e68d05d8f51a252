//! Requests and their responses, from arrival until the transport has the last byte.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::poll_fn;
use futures_util::task::AtomicWaker;
use http::uri::Authority;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;

use crate::budget::Account;
use crate::content::{Body, BoxError, ErrorReason};
use crate::egress::Outstanding;

/// A request and its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// When the request's header section was complete.
    pub(crate) started: Instant,
    /// When the transport had the response's last byte; equal to `started` until then.
    pub(crate) written: Instant,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) host: String,
    pub(crate) referer: Option<HeaderValue>,
    pub(crate) user_agent: Option<HeaderValue>,
    /// `None` when the client gave up before there was a response.
    pub(crate) status: Option<StatusCode>,
    pub(crate) reason: Option<ErrorReason>,
    /// Bytes of the response's body that went to the transport.
    pub(crate) bytes: u64,
    /// The transport has the whole response.
    pub(crate) complete: bool,
}

impl Exchange {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let headers = request.headers();
        let now = Instant::now();
        Self {
            started: now,
            written: now,
            method: request.method().clone(),
            uri: request.uri().clone(),
            host: host(request).to_owned(),
            referer: headers.get(header::REFERER).cloned(),
            user_agent: headers.get(header::USER_AGENT).cloned(),
            status: None,
            reason: None,
            bytes: 0,
            complete: false,
        }
    }
}

/// The host that a request is for: `:authority`, or `Host` (RFC 9110 §7.2).
pub(crate) fn host<B>(request: &Request<B>) -> &str {
    let host = || request.headers().get(header::HOST)?.to_str().ok();
    let authority = request.uri().authority().map(Authority::as_str);
    authority.or_else(host).unwrap_or_default()
}

/// The exchanges of one connection, shared by its handlers and its meter. No other
/// connection ever waits for its lock.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    state: Mutex<State>,
    meter: AtomicWaker,
    /// Times are noted that are only needed where there are egress paths.
    watched: bool,
    /// Memory for the content.
    account: Option<Arc<Account>>,
}

#[derive(Debug, Default)]
struct State {
    load: Load,
    requests: u64,
    idle_since: Option<Instant>,
    /// When the first exchange was opened while none was, since the meter last asked.
    opened: Option<Instant>,
    busy_since: Option<Instant>,
    starving_since: Option<Instant>,
    starved: Duration,
    written: Vec<Exchange>,
}

/// What is under way on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Exchanges that are open.
    pub(crate) in_flight: usize,
    /// Those among them that wait for content: a slow upstream, not a slow client.
    pub(crate) waiting: usize,
}

impl Load {
    /// Whether there is something to send.
    pub(crate) fn is_sending(self) -> bool {
        self.in_flight > self.waiting
    }
}

impl Ledger {
    /// One that also keeps busy times.
    pub(crate) fn watched() -> Self {
        Self {
            watched: true,
            ..Self::default()
        }
    }

    /// The same for content that counts for `account`.
    pub(crate) fn with_account(self, account: Arc<Account>) -> Self {
        Self {
            account: Some(account),
            ..self
        }
    }

    /// Whether content waits for memory, and so for the client.
    fn is_held_back(&self) -> bool {
        let account = self.account.as_ref();
        account.is_some_and(|account| account.is_full())
    }

    /// Opens an exchange.
    pub(crate) fn open<B>(self: &Arc<Self>, request: &Request<B>) -> Ticket {
        let exchange = Exchange::of(request);
        let mut state = self.state.lock();
        state.idle_since = None;
        state.load.in_flight += 1;
        state.load.waiting += 1;
        state.requests += 1;
        if state.load.in_flight == 1 {
            state.opened.get_or_insert(exchange.started);
            // The meter may have nothing to wait for until now.
            self.meter.wake();
        }
        if self.watched {
            state.opened();
        }
        drop(state);
        Ticket {
            ledger: Arc::clone(self),
            exchange: Some(exchange),
            waiting: true,
            outstanding: None,
        }
    }

    /// Since when no exchange has been open; `None` while one is, or before the first.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.state.lock().idle_since
    }

    /// When the time began in which an exchange is open, or the last such one.
    pub(crate) fn busy_since(&self) -> Option<Instant> {
        self.state.lock().busy_since
    }

    /// For how long so far exchanges were open that all waited for content.
    pub(crate) fn starved(&self) -> Duration {
        let state = self.state.lock();
        let now = state.starving_since.map(|since| since.elapsed());
        state.starved + now.unwrap_or_default()
    }

    /// What is under way.
    pub(crate) fn load(&self) -> Load {
        self.state.lock().load
    }

    /// Wakes the meter.
    pub(crate) fn wake_meter(&self) {
        self.meter.wake();
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.state.lock().requests
    }

    /// Moves the exchanges that the transport has to `into`, and tells what is still
    /// under way. The meter is woken at the next change.
    pub(crate) fn take(&self, cx: &Context<'_>, into: &mut Vec<Exchange>) -> Load {
        self.meter.register(cx.waker());
        let mut state = self.state.lock();
        into.append(&mut state.written);
        state.load
    }

    /// When an exchange was first opened while no other was, since the last call.
    pub(crate) fn take_opened(&self) -> Option<Instant> {
        self.state.lock().opened.take()
    }

    /// Waits until nothing is under way, moving what ends to `into`.
    pub(crate) async fn drained(&self, into: &mut Vec<Exchange>) {
        poll_fn(|cx| match self.take(cx, into).in_flight {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }

    /// Closes an exchange; it is left to the meter unless that has it already.
    fn close(&self, exchange: Option<Exchange>, waiting: bool) {
        let mut state = self.state.lock();
        state.load.in_flight -= 1;
        state.load.waiting -= usize::from(waiting);
        if self.watched {
            state.note_starving();
        }
        if state.load.in_flight == 0 {
            state.idle_since = Some(Instant::now());
        }
        state.written.extend(exchange);
        drop(state);
        self.meter.wake();
    }
}

impl State {
    fn opened(&mut self) {
        if self.load.in_flight == 1 {
            self.busy_since = Some(Instant::now());
        }
        self.note_starving();
    }

    fn note_starving(&mut self) {
        let starving = self.load.in_flight > 0 && !self.load.is_sending();
        match (starving, self.starving_since) {
            (true, None) => self.starving_since = Some(Instant::now()),
            (false, Some(since)) => {
                self.starved += since.elapsed();
                self.starving_since = None;
            }
            _ => {}
        }
    }
}

/// An open exchange. Dropped, it is closed as incomplete.
#[derive(Debug)]
pub(crate) struct Ticket {
    ledger: Arc<Ledger>,
    exchange: Option<Exchange>,
    /// For content, rather than for the client to take it.
    waiting: bool,
    /// Where there are egress paths.
    outstanding: Option<Outstanding>,
}

impl Ticket {
    /// Notes the response's head.
    pub(crate) fn answered<B>(&mut self, response: &Response<B>) {
        if let Some(exchange) = &mut self.exchange {
            exchange.status = Some(response.status());
            exchange.reason = response.extensions().get::<ErrorReason>().cloned();
        }
        self.waits(false);
    }

    /// Notes whether the body is `pending`. Then its source is waited for, unless the client first has
    /// to take what is in memory.
    pub(crate) fn waits(&mut self, pending: bool) {
        let waiting = pending && !self.ledger.is_held_back();
        if self.waiting != waiting {
            self.waiting = waiting;
            let mut state = self.ledger.state.lock();
            match waiting {
                true => state.load.waiting += 1,
                false => state.load.waiting -= 1,
            }
            if self.ledger.watched {
                state.note_starving();
            }
        }
    }

    /// Notes bytes of the body that are handed to the transport.
    pub(crate) fn sent(&mut self, bytes: usize) {
        if let Some(exchange) = &mut self.exchange {
            exchange.bytes += bytes as u64;
        }
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.sent(bytes);
        }
    }

    /// Notes what is to be sent, for the choice of a path.
    pub(crate) fn sends(&mut self, outstanding: Outstanding) {
        self.outstanding = Some(outstanding);
    }

    /// Notes why the body ended early.
    pub(crate) fn failed(&mut self, error: &BoxError) {
        if let Some(exchange) = &mut self.exchange {
            exchange.reason = Some(ErrorReason::from_error(error.as_ref()));
        }
    }

    /// Closes the exchange: the transport has the whole response.
    pub(crate) fn complete(mut self) {
        if let Some(exchange) = &mut self.exchange {
            exchange.complete = true;
            exchange.written = Instant::now();
        }
    }

    /// As [`Ticket::complete`], but gives the exchange to `hand_over`, which leaves it to
    /// the meter together with what tells of its acknowledgement.
    pub(crate) fn complete_with(mut self, hand_over: impl FnOnce(Exchange)) {
        if let Some(mut exchange) = self.exchange.take() {
            exchange.complete = true;
            exchange.written = Instant::now();
            hand_over(exchange);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.ledger.close(self.exchange.take(), self.waiting);
    }
}

/// A response's body on TCP, which closes its exchange when the last byte is written.
///
/// That is later than when the last byte is *read* from the body: HTTP/2 may hold it
/// back for flow control. So the ticket travels with the last bytes themselves, and the
/// exchange is closed when the connection has written and dropped them.
#[derive(Debug)]
pub(crate) struct TrackedBody {
    body: Body,
    /// Of the body, read but not yet handed on.
    rest: Bytes,
    max_chunk: usize,
    ticket: Option<Ticket>,
}

impl TrackedBody {
    /// Tracks `body`, which is handed on in chunks of at most `max_chunk` bytes.
    pub(crate) fn new(body: Body, ticket: Ticket, max_chunk: usize) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            max_chunk,
            ticket: Some(ticket),
        }
    }

    fn track(&mut self, mut bytes: Bytes) -> Bytes {
        if bytes.len() > self.max_chunk {
            self.rest = bytes.split_off(self.max_chunk);
        }
        if let Some(ticket) = &mut self.ticket {
            ticket.sent(bytes.len());
        }
        if !self.is_end_stream() {
            return bytes;
        }
        match self.ticket.take() {
            Some(ticket) => Bytes::from_owner(LastBytes {
                bytes,
                ticket: Some(ticket),
            }),
            None => bytes,
        }
    }
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(Frame::data(self.track(rest)))));
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Some(ticket) = &mut self.ticket {
            ticket.waits(frame.is_pending());
        }
        Poll::Ready(match ready!(frame) {
            Some(Ok(frame)) => {
                // hyper does not read past trailers.
                if frame.is_trailers()
                    && let Some(ticket) = self.ticket.take()
                {
                    ticket.complete();
                }
                Some(Ok(frame.map_data(|bytes| self.track(bytes))))
            }
            Some(Err(error)) => {
                if let Some(mut ticket) = self.ticket.take() {
                    ticket.failed(&error);
                }
                Some(Err(error))
            }
            None => {
                if let Some(ticket) = self.ticket.take() {
                    ticket.complete();
                }
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        // A body known to be empty is dropped without being read.
        if self.is_end_stream()
            && let Some(ticket) = self.ticket.take()
        {
            ticket.complete();
        }
    }
}

#[derive(Debug)]
struct LastBytes {
    bytes: Bytes,
    ticket: Option<Ticket>,
}

impl AsRef<[u8]> for LastBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for LastBytes {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.complete();
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    fn ticket(ledger: &Arc<Ledger>) -> Ticket {
        ledger.open(&Request::get("https://a.example/x").body(()).unwrap())
    }

    fn ended(ledger: &Ledger) -> Vec<(bool, u64)> {
        let mut ended = Vec::new();
        ledger.take(&Context::from_waker(std::task::Waker::noop()), &mut ended);
        ended.iter().map(|e| (e.complete, e.bytes)).collect()
    }

    #[tokio::test]
    async fn an_exchange_ends_when_its_last_bytes_are_dropped() {
        let ledger = Arc::<Ledger>::default();
        let body = Body::from(Bytes::from_static(&[7; 10]));
        let mut body = TrackedBody::new(body, ticket(&ledger), 4);
        let mut chunks = Vec::new();
        while let Some(frame) = body.frame().await {
            chunks.push(frame.unwrap().into_data().unwrap());
        }
        drop(body);
        let lengths: Vec<usize> = chunks.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [4, 4, 2]);
        assert_eq!(ended(&ledger), [], "the last chunk is still to be written");
        assert_eq!(ledger.load().in_flight, 1);
        drop(chunks);
        assert_eq!(ended(&ledger), [(true, 10)]);
        assert_eq!(ledger.load(), Load::default());
    }

    #[tokio::test]
    async fn bodies_given_up_are_incomplete() {
        let ledger = Arc::<Ledger>::default();
        drop(ticket(&ledger));
        assert_eq!(ended(&ledger), [(false, 0)], "no response at all");

        drop(TrackedBody::new(Body::empty(), ticket(&ledger), usize::MAX));
        assert_eq!(ended(&ledger), [(true, 0)], "nothing to send");

        let body = Body::from(Bytes::from_static(&[7; 10]));
        drop(TrackedBody::new(body, ticket(&ledger), usize::MAX));
        assert_eq!(ended(&ledger), [(false, 0)], "never read");

        let frames = [
            Ok(Frame::data(Bytes::from_static(b"abc"))),
            Err("broke off"),
        ];
        let broken = StreamBody::new(futures_util::stream::iter(frames));
        let mut body = TrackedBody::new(Body::boxed(broken), ticket(&ledger), usize::MAX);
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.unwrap().is_err());
        drop(body);
        assert_eq!(ended(&ledger), [(false, 3)], "its source failed");
    }
}
