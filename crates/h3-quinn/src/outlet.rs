//! The unidirectional streams of this endpoint: control and QPACK (RFC 9114 §6.2).

use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use hikyaku_h3::connection::Outgoing;
use quinn::{ConnectionError, SendStream, WriteError};

use crate::sending::Acknowledged;
use crate::shared::Shared;

type Opening = Pin<Box<dyn Stream<Item = Result<SendStream, ConnectionError>> + Send + Sync>>;

/// Why the streams end.
pub(crate) enum Ended {
    /// The peer asked to stop one of the streams.
    Stopped(Outgoing),
    Connection(ConnectionError),
}

/// Opens the streams, and writes the engine's bytes to them.
pub(crate) struct Outlets {
    opening: Opening,
    open: Vec<Outlet>,
    /// The bytes that were last taken from the engine, until they are written.
    pending: Option<(Outgoing, Bytes)>,
}

struct Outlet {
    kind: Outgoing,
    stream: SendStream,
    stopped: Acknowledged,
}

impl Outlets {
    pub(crate) fn new(quic: quinn::Connection) -> Self {
        // quinn's futures forget their wakers when dropped, and so are kept in a stream.
        let opening = stream::unfold(quic, |quic| async { Some((quic.open_uni().await, quic)) });
        Self {
            opening: Box::pin(opening),
            open: Vec::with_capacity(3),
            pending: None,
        }
    }

    /// Writes the bytes that can be written. Pending as long as there is no error.
    pub(crate) fn poll(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Poll<Ended> {
        for outlet in &mut self.open {
            if outlet.stopped.as_mut().poll(cx).is_ready() {
                let ended = shared.quic.close_reason().map(Ended::Connection);
                return Poll::Ready(ended.unwrap_or(Ended::Stopped(outlet.kind)));
            }
        }
        loop {
            if self.pending.is_none() {
                let output = shared.http().poll_output();
                self.pending = output.map(|output| (output.stream, output.bytes));
            }
            let Some((kind, mut bytes)) = self.pending.take() else {
                return Poll::Pending;
            };
            let written = self.poll_write(kind, &mut bytes, cx);
            if !bytes.is_empty() {
                self.pending = Some((kind, bytes));
            }
            if let Err(ended) = ready!(written) {
                return Poll::Ready(ended);
            }
        }
    }

    fn poll_write(
        &mut self,
        kind: Outgoing,
        bytes: &mut Bytes,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Ended>> {
        let index = match self.open.iter().position(|outlet| outlet.kind == kind) {
            Some(index) => index,
            None => match ready!(self.opening.as_mut().poll_next(cx)) {
                Some(Ok(stream)) => self.add(kind, stream),
                Some(Err(error)) => return Poll::Ready(Err(Ended::Connection(error))),
                // Unfolding never ends.
                None => return Poll::Pending,
            },
        };
        let stream = &mut self.open[index].stream;
        while !bytes.is_empty() {
            // Cancel-safe: while it is pending, no byte is written.
            let write = pin!(stream.write_chunks(std::slice::from_mut(bytes)));
            match ready!(write.poll(cx)) {
                Ok(_) => {}
                Err(WriteError::ConnectionLost(error)) => {
                    return Poll::Ready(Err(Ended::Connection(error)));
                }
                Err(_) => return Poll::Ready(Err(Ended::Stopped(kind))),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn add(&mut self, kind: Outgoing, stream: SendStream) -> usize {
        // Settings and compression leave before any response.
        let _ = stream.set_priority(PRIORITY);
        let stopped = Box::pin(stream.stopped());
        self.open.push(Outlet {
            kind,
            stream,
            stopped,
        });
        self.open.len() - 1
    }
}

/// A priority above that of any request.
const PRIORITY: i32 = 16;
