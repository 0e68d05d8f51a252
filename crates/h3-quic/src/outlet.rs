//! The unidirectional streams of this endpoint: control and QPACK (RFC 9114 §6.2).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hikyaku_h3::connection::Outgoing;
use hikyaku_quic::proto::ConnectionError;
use hikyaku_quic::{SendStream, WriteError};

use crate::sending::Acknowledged;
use crate::shared::Shared;

/// Why the streams end.
pub(crate) enum Ended {
    /// The peer asked to stop one of the streams.
    Stopped(Outgoing),
    Connection(ConnectionError),
}

/// Opens the streams, and writes the engine's bytes to them.
#[derive(Default)]
pub(crate) struct Outlets {
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
    /// Writes the bytes that can be written. Pending as long as there is no error.
    pub(crate) fn poll(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Poll<Ended> {
        for outlet in &mut self.open {
            if Pin::new(&mut outlet.stopped).poll(cx).is_ready() {
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
            let written = self.poll_write(shared, kind, &mut bytes, cx);
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
        shared: &Shared,
        kind: Outgoing,
        bytes: &mut Bytes,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Ended>> {
        let index = match self.open.iter().position(|outlet| outlet.kind == kind) {
            Some(index) => index,
            None => match ready!(shared.quic.poll_open_uni(cx)) {
                Ok(stream) => self.add(kind, stream),
                Err(error) => return Poll::Ready(Err(Ended::Connection(error))),
            },
        };
        let stream = &mut self.open[index].stream;
        while !bytes.is_empty() {
            match ready!(stream.poll_write_chunks(cx, std::slice::from_mut(bytes))) {
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
        let stopped = stream.stopped();
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
