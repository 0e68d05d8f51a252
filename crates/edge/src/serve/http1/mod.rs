//! HTTP/1.1 over one connection (RFC 9112).
//!
//! Requests for whole files in memory, which are most that a file server gets, are answered here at once.
//! hyper answers all others: a single request, or where more than a request has to be understood, the
//! remainder of the connection. While it has nothing to answer it is not there, so that an idle
//! connection holds none of its buffers.

mod front;
mod head;
mod hyper;
mod whole;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;

use super::tcp::{DriveHttp, Driving};
use super::tls_io::TlsIo;
use super::{Answerer, Service};
use crate::clock;
use front::{Front, Given};
use head::Head;
use hikyaku_content::BoxError;
use hyper::Task;
use whole::Whole;

/// A connection.
pub(super) struct Http1<T> {
    answerer: Arc<Answerer>,
    front: Arc<Mutex<Front<T>>>,
    /// While it has something to answer.
    hyper: Option<Driving>,
    /// The response that TLS has not taken all of.
    sending: Option<Whole>,
    /// The time for a request's head.
    timeout: Duration,
    /// Since when the connection has been free for a request.
    free: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    stopping: bool,
    /// hyper is to take no more requests, once it has looked whether one has arrived.
    stops_hyper: bool,
    /// No request is taken any more.
    closing: bool,
}

/// The next step after the bytes that have arrived.
enum Step {
    /// They were answered, or are too few yet.
    Wait,
    /// hyper has to go on.
    Hyper(Task),
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Http1<T> {
    /// Serves the client at the other end of `tls`.
    pub(super) fn new(tls: TlsIo<T>, answerer: &Arc<Answerer>, service: &Service) -> Self {
        let front = Front::new(tls, Arc::clone(&answerer.conn.ledger));
        Self {
            answerer: Arc::clone(answerer),
            front: Arc::new(Mutex::new(front)),
            hyper: None,
            sending: None,
            timeout: service.timeouts.header,
            free: clock::now(),
            timer: None,
            stopping: false,
            stops_hyper: false,
            closing: false,
        }
    }

    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        loop {
            if self.closing {
                let mut front = self.front.lock();
                ready!(Pin::new(&mut front.tls).poll_shutdown(cx))?;
                return Poll::Ready(Ok(()));
            }
            if let Some(hyper) = &mut self.hyper {
                if let Poll::Ready(result) = hyper.as_mut().poll(cx) {
                    if let Some(refused) = result.as_ref().err().and_then(hyper::refused) {
                        let metrics = &self.answerer.conn.shared.metrics;
                        metrics.on_refused_request(refused);
                    }
                    return Poll::Ready(result);
                }
                if std::mem::take(&mut self.stops_hyper) {
                    hyper.as_mut().stop();
                    continue;
                }
                if !self.front.lock().is_back() {
                    return Poll::Pending;
                }
                self.hyper = None;
                self.free = clock::now();
            }
            match self.poll_front(cx)? {
                Poll::Ready(Some(task)) => self.begin_hyper(&task),
                Poll::Ready(None) => self.closing = true,
                Poll::Pending => ready!(self.poll_timeout(cx))?,
            }
        }
    }

    /// Answers requests for whole files. Ready with the task that is left to hyper, or `None` at the end.
    fn poll_front(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Task>>> {
        loop {
            let front = Arc::clone(&self.front);
            let mut front = front.lock();
            if let Some(sending) = &mut self.sending {
                ready!(sending.poll_send(&mut front.tls, &self.answerer.conn.ledger, cx))?;
                self.sending = None;
                self.free = clock::now();
            }
            if let Step::Hyper(task) = self.begin(&mut front) {
                // hyper writes after the answers before it.
                ready!(front.tls.poll_write_sealed(cx))?;
                return Poll::Ready(Ok(Some(task)));
            }
            if self.sending.is_some() {
                continue;
            }
            let was_blocked = front.tls.is_blocked();
            ready!(front.tls.poll_write_sealed(cx))?;
            if was_blocked {
                self.free = clock::now();
            }
            if front.is_over {
                return Poll::Ready(Ok(None));
            }
            match front.poll_arrival(cx)? {
                Poll::Ready(()) => {}
                Poll::Pending if self.stopping && !self.may_begin() => {
                    return Poll::Ready(Ok(None));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Begins to answer the first request that has arrived.
    fn begin(&mut self, front: &mut Front<T>) -> Step {
        if front.input.is_empty() {
            return Step::Wait;
        }
        match Head::of(&front.input) {
            // A head that comes bit by bit is not parsed again and again.
            Head::Partial if front.input.len() < LONG && !front.is_over && !self.stopping => {
                Step::Wait
            }
            Head::Plain { request, length } if !self.stopping => {
                let service = self.answerer.site.service();
                match self.answerer.whole_file(&service, &request) {
                    Some(file) => {
                        front.consume(length);
                        self.sending = Some(Whole::new(&self.answerer, &file, &request));
                        Step::Wait
                    }
                    None => {
                        front.give(length);
                        Step::Hyper(Task::Request)
                    }
                }
            }
            _ => {
                front.give_all();
                Step::Hyper(Task::Connection)
            }
        }
    }

    fn begin_hyper(&mut self, task: &Task) {
        let given = Given(Arc::clone(&self.front));
        let service = self.answerer.site.service_full();
        // Without that, hyper would close before it has read anything.
        let last = self.stopping;
        self.hyper = Some(hyper::serve(given, &self.answerer, &service, task, last));
    }

    /// Whether a client that had just come at the stop may still send its first request.
    fn may_begin(&self) -> bool {
        let is_new = self.answerer.conn.ledger.requests() == 0;
        is_new && clock::now() < self.free + FIRST_REQUEST
    }

    /// Ready when the client has had its time for a request's head. After a stop that is no error.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if self.sending.is_some() || self.front.lock().tls.is_blocked() {
            return Poll::Pending;
        }
        let time = match self.stopping {
            true => FIRST_REQUEST,
            false => self.timeout,
        };
        let deadline = self.free + time;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline.into())));
        if timer.deadline() > deadline.into() {
            timer.as_mut().reset(deadline.into());
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= deadline.into() {
                if self.stopping {
                    return Poll::Ready(Ok(()));
                }
                let late = "no request's head in its time (timeouts.header)";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, late).into()));
            }
            timer.as_mut().reset(deadline.into());
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> DriveHttp for Http1<T> {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.drive(cx)
    }

    fn stop(mut self: Pin<&mut Self>) {
        if std::mem::replace(&mut self.stopping, true) {
            return;
        }
        self.stops_hyper = self.hyper.is_some();
        // A client that has just come gets the answer to its first request.
        self.free = clock::now();
    }
}

/// For the first request of a client that has come shortly before a stop.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// Bytes of an incomplete head from which on hyper waits for the remainder.
const LONG: usize = 8 * 1024;
