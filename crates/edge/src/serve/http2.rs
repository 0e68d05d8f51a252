//! HTTP/2 over one connection (RFC 9113).
//!
//! The connection's task has the engine, the TLS stream and all responses. It reads, begins the
//! responses that were asked for, goes on with those that were woken, and writes what there is.

mod inbox;
mod receive;
mod stream;
mod streams;
mod upload;
mod whole;
mod windows;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Buf as _;
use hikyaku_h2::connection::{Config, Connection, Shutdown};
use hikyaku_h2::error::{Code, Error};
use hikyaku_h2::output::Output;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;

use super::tcp::DriveHttp;
use super::tls_io::TlsIo;
use super::turns::Slice;
use super::{Answerer, Service};
use crate::clock;
use crate::metrics::Refusal;
use crate::uploads::{FIRST_WINDOW, stream_window};
use hikyaku_content::{BoxError, HeaderSize};
use inbox::{Inbox, Note, StreamWaker};
use stream::{Stream, Wait};
use streams::Streams;
use windows::Windows;

/// A connection.
pub(super) struct Http2<T> {
    answerer: Arc<Answerer>,
    engine: Connection,
    tls: TlsIo<T>,
    /// Bytes that TLS has not taken.
    output: Output,
    streams: Streams,
    inbox: Arc<Inbox>,
    windows: Windows,
    /// For the engine's timeout, if there is one.
    timer: Option<Pin<Box<Sleep>>>,
    slice: Slice,
    /// The connection ends so, once the output is written.
    end: Option<Result<(), Error>>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Http2<T> {
    /// Serves the client at the other end of `tls`.
    pub(super) fn new(tls: TlsIo<T>, answerer: &Arc<Answerer>, service: &Service) -> Self {
        let header_size = HeaderSize::from(service.limits.header_size);
        let config = Config {
            max_streams: service.limits.streams,
            stream_window: stream_window(FIRST_WINDOW),
            connection_window: FIRST_WINDOW,
            max_section_size: header_size.list_size(),
            connect_protocol: service.content.has_tunnels(),
            ..Config::default()
        };
        Self {
            answerer: Arc::clone(answerer),
            engine: Connection::server(config, clock::now()),
            tls,
            output: Output::new(),
            streams: Streams::default(),
            inbox: Arc::default(),
            windows: Windows::default(),
            timer: None,
            slice: Slice::default(),
            end: None,
        }
    }

    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inbox.register(cx);
        self.fit_windows(cx);
        loop {
            ready!(self.slice.poll(cx));
            self.poll_timeout(cx);
            if self.end.is_some() {
                return self.poll_end(cx);
            }
            self.read_notes();
            let read = self.poll_read(cx)?;
            let written = self.poll_transmit(cx)?;
            if let Poll::Ready(false) = read {
                return Poll::Ready(Ok(()));
            }
            if self.engine.is_finished() {
                self.end.get_or_insert(Ok(()));
            } else if read.is_pending() && !self.inbox.has_notes() {
                if written.is_ready() && self.streams.is_empty() {
                    self.release_memory();
                }
                self.slice.pause();
                return Poll::Pending;
            }
        }
    }

    /// Gives memory back that an idle connection does not need.
    fn release_memory(&mut self) {
        self.engine.release_memory();
        self.output.release_memory();
        self.streams.clear();
    }

    /// Fits the windows for uploads to the client's path.
    fn fit_windows(&mut self, cx: &Context<'_>) {
        if let Some(window) = self.answerer.conn.uploads.poll_changed(cx) {
            self.windows.widen(&mut self.engine, window, clock::now());
        }
    }

    fn poll_timeout(&mut self, cx: &mut Context<'_>) {
        while let Some(deadline) = self.engine.poll_timeout() {
            let deadline = deadline.into();
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
            if timer.deadline() != deadline {
                timer.as_mut().reset(deadline);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return;
            }
            if let Err(error) = self.engine.handle_timeout(clock::now()) {
                self.fail(error);
            }
        }
        self.timer = None;
    }

    /// Ends the connection because of the client's fault.
    fn fail(&mut self, error: Error) {
        if error.code == Code::ENHANCE_YOUR_CALM {
            self.answerer.conn.shared.metrics.on_refusal(Refusal::Flood);
        }
        self.streams.clear();
        self.end = Some(Err(error));
    }

    /// Sends what there is, and closes.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        ready!(self.poll_transmit(cx))?;
        ready!(Pin::new(&mut self.tls).poll_shutdown(cx))?;
        Poll::Ready(match self.end.take() {
            Some(Err(error)) => Err(error.into()),
            _ => Ok(()),
        })
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Http2<T> {
    fn read_notes(&mut self) {
        let mut notes = Vec::new();
        if !self.inbox.take(&mut notes) {
            return;
        }
        for note in notes {
            match note {
                Note::Woken(stream) => self.go_on(stream),
                Note::Read { stream, bytes } => self.on_read(stream, bytes),
                Note::Dropped { stream, bytes } => self.on_dropped(stream, bytes),
            }
        }
    }

    /// Goes on with a response.
    fn go_on(&mut self, id: u32) {
        let Some(stream) = self.streams.get(id) else {
            return;
        };
        if poll(stream, &mut self.engine, &self.inbox) == Wait::Nothing {
            self.streams.remove(id);
        }
    }

    /// Makes room for as much of the content as was read.
    fn on_read(&mut self, id: u32, bytes: usize) {
        let (engine, windows) = (&mut self.engine, &mut self.windows);
        windows.on_read(engine, bytes);
        if let Some(stream) = self.streams.get(id) {
            windows.on_stream_read(engine, id, &mut stream.unclaimed, bytes);
        }
    }

    /// Has the client send no more of a request.
    fn on_dropped(&mut self, id: u32, bytes: usize) {
        self.windows.on_read(&mut self.engine, bytes);
        self.engine.stop_reading(id);
        let Some(stream) = self.streams.get(id) else {
            return;
        };
        stream.upload = None;
        if stream.is_over() {
            self.streams.remove(id);
        }
    }

    /// Writes what there is; pending while the socket takes no more.
    fn poll_transmit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if !self.tls.has_room() {
                ready!(self.tls.poll_write_sealed(cx))?;
                // Bodies have been called, of which the most urgent gets the room.
                self.read_notes();
            }
            if self.output.is_empty() {
                self.engine
                    .poll_transmit(&mut self.output, self.tls.batch());
            }
            if self.output.is_empty() {
                self.on_sent();
                if !self.engine.has_output() {
                    return self.tls.poll_write_sealed(cx);
                }
                continue;
            }
            let content = self.output.remaining_content();
            self.tls.seal(&mut self.output)?;
            let taken = content - self.output.remaining_content();
            self.answerer.conn.ledger.note_content(taken);
            if !self.output.has_remaining() {
                self.on_sent();
            }
        }
    }

    /// Goes on with responses whose content so far was sent, and ends those that are complete.
    fn on_sent(&mut self) {
        self.read_notes();
        while let Some(sent) = self.engine.poll_sent() {
            if !sent.is_complete {
                self.go_on(sent.stream);
            } else if let Some(stream) = self.streams.get(sent.stream) {
                stream.complete();
                if stream.is_over() {
                    self.streams.remove(sent.stream);
                }
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> DriveHttp for Http2<T> {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.drive(cx)
    }

    fn stop(mut self: Pin<&mut Self>) {
        self.engine.shutdown(Shutdown::Announce, clock::now());
    }
}

/// Goes on with a response, which wakes the connection for its stream if it has to wait.
fn poll(stream: &mut Stream, engine: &mut Connection, inbox: &Arc<Inbox>) -> Wait {
    let id = stream.id;
    let waker = stream
        .waker
        .get_or_insert_with(|| StreamWaker::new(id, Arc::clone(inbox)));
    waker.rearm();
    let waker = Waker::from(Arc::clone(waker));
    stream.poll(engine, &mut Context::from_waker(&waker))
}
