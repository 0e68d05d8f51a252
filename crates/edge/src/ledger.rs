//! Requests and their responses, from arrival until the transport has the last byte.

mod exchange;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::poll_fn;
use futures_util::task::AtomicWaker;
use http::{Request, Response, StatusCode};
use parking_lot::Mutex;

use crate::budget::Account;
use crate::clock;
use crate::egress::{Outstanding, WakeMeter};
use crate::pages::Seen;
use crate::spans::Begun;
pub(crate) use exchange::{Exchange, Exchanges, host};
use hikyaku_content::{BoxError, CacheOutcome, ErrorReason, RequestId, User};

/// The exchanges of one connection, shared by its handlers and its meter. No other
/// connection ever waits for its lock.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    state: Mutex<State>,
    meter: AtomicWaker,
    /// Bytes of content that the transport has taken; on TCP alone.
    content: AtomicU64,
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
    written: Exchanges,
}

/// The exchanges under way on a connection.
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

    /// One whose content counts for `account`.
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
        let mut exchange = Exchange::of(request);
        let mut state = self.state.lock();
        state.idle_since = None;
        state.load.in_flight += 1;
        state.load.waiting += 1;
        exchange.is_first = state.requests == 0;
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
            exchange: Some(Box::new(exchange)),
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
        let now = state.starving_since.map(clock::since);
        state.starved + now.unwrap_or_default()
    }

    /// Bytes of responses' content that have gone to the transport so far; on TCP alone.
    pub(crate) fn content(&self) -> u64 {
        self.content.load(Ordering::Relaxed)
    }

    /// The exchanges under way.
    pub(crate) fn load(&self) -> Load {
        self.state.lock().load
    }

    /// Notes content that has gone to the transport.
    pub(crate) fn note_content(&self, bytes: usize) {
        self.content.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.state.lock().requests
    }

    /// Moves the exchanges that the transport has to `into`, and returns the load that is still under
    /// way. The meter is woken at the next change.
    pub(crate) fn take(&self, cx: &Context<'_>, into: &mut Exchanges) -> Load {
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
    pub(crate) async fn drained(&self, into: &mut Exchanges) {
        poll_fn(|cx| match self.take(cx, into).in_flight {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }

    /// Closes an exchange; it is left to the meter unless that has it already.
    fn close(&self, exchange: Option<Box<Exchange>>, waiting: bool) {
        let mut state = self.state.lock();
        state.load.in_flight -= 1;
        state.load.waiting -= usize::from(waiting);
        if self.watched {
            state.note_starving();
        }
        if state.load.in_flight == 0 {
            state.idle_since = Some(clock::now());
        }
        state.written.extend(exchange);
        drop(state);
        self.meter.wake();
    }
}

impl WakeMeter for Ledger {
    fn wake_meter(&self) {
        self.meter.wake();
    }
}

impl State {
    fn opened(&mut self) {
        if self.load.in_flight == 1 {
            self.busy_since = Some(clock::now());
        }
        self.note_starving();
    }

    fn note_starving(&mut self) {
        let starving = self.load.in_flight > 0 && !self.load.is_sending();
        match (starving, self.starving_since) {
            (true, None) => self.starving_since = Some(clock::now()),
            (false, Some(since)) => {
                self.starved += clock::since(since);
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
    exchange: Option<Box<Exchange>>,
    /// For content, rather than for the client to take it.
    waiting: bool,
    /// Where there are egress paths.
    outstanding: Option<Outstanding>,
}

impl Ticket {
    /// Notes the client that a trusted proxy names.
    pub(crate) fn is_of(&mut self, client: Option<SocketAddr>) {
        if let Some(exchange) = &mut self.exchange {
            exchange.client = client;
        }
    }

    /// Notes whether the access log has it.
    pub(crate) fn logs(&mut self, is_logged: bool) {
        if let Some(exchange) = &mut self.exchange {
            exchange.is_logged = is_logged;
        }
    }

    /// Notes its span.
    pub(crate) fn traces(&mut self, span: Box<Begun>) {
        if let Some(exchange) = &mut self.exchange {
            exchange.span = Some(span);
        }
    }

    /// Notes the response's head.
    pub(crate) fn answered<B>(&mut self, response: &Response<B>) {
        if let Some(exchange) = &mut self.exchange {
            exchange.reason = response.extensions().get::<ErrorReason>().cloned();
            exchange.user = response.extensions().get::<User>().cloned();
            exchange.cache = response.extensions().get::<CacheOutcome>().copied();
            exchange.id = response.extensions().get::<RequestId>().copied();
            exchange.page = response.extensions().get::<Arc<Seen>>().cloned();
        }
        self.answered_with(response.status());
    }

    /// Notes the outcome at the cache.
    pub(crate) fn cached(&mut self, outcome: Option<CacheOutcome>) {
        if let Some(exchange) = &mut self.exchange {
            exchange.cache = outcome;
        }
    }

    /// Notes the status of a response that is no error.
    pub(crate) fn answered_with(&mut self, status: StatusCode) {
        if let Some(exchange) = &mut self.exchange {
            exchange.status = Some(status);
        }
        self.waits(false);
    }

    /// Notes whether the body is `pending`. Then its source is waited for, unless the client first has
    /// to take bytes that are in memory.
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

    /// The connection's ledger.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Notes the response's outstanding bytes, for the choice of a route.
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
            exchange.written = clock::now();
        }
    }

    /// As [`Ticket::complete`], but gives the exchange to `hand_over`, which leaves it to
    /// the meter together with what resolves at its acknowledgement.
    pub(crate) fn complete_with(mut self, hand_over: impl FnOnce(Box<Exchange>)) {
        if let Some(mut exchange) = self.exchange.take() {
            exchange.complete = true;
            exchange.written = clock::now();
            hand_over(exchange);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.ledger.close(self.exchange.take(), self.waiting);
    }
}
