//! The bytes of unidirectional streams, moved between the engine and QUIC.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hikyaku_h3::connection::{Event, Incoming};
use hikyaku_h3::error::Error;
use hikyaku_quic::{ReadError, RecvStream};

use crate::error::StreamError;
use crate::outlet::{Ended, Outlets};
use crate::shared::{Shared, number, varint};

/// Bytes taken from a unidirectional stream at once.
const MAX_READ: usize = 16 * 1024;

/// The driver of the control and QPACK streams.
pub(crate) struct Unidirectional {
    shared: Arc<Shared>,
    incoming: Vec<RecvStream>,
    outlets: Outlets,
}

impl Unidirectional {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            incoming: Vec::new(),
            outlets: Outlets::default(),
            shared,
        }
    }

    /// Moves the bytes that there are. Pending until the connection ends.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<StreamError> {
        self.shared.driver.register(cx.waker());
        if let Poll::Ready(error) = self.poll_incoming(cx) {
            return Poll::Ready(error);
        }
        let mut updates = Vec::new();
        loop {
            let event = self.shared.http().poll_event();
            let Some(event) = event else { break };
            match event {
                Event::Unblocked { stream } => self.shared.unblocked(stream),
                Event::GoAway { .. } => self.shared.going_away.store(true, Ordering::Relaxed),
                Event::Priority { stream, priority } => updates.push((stream, priority)),
                // They are looked up when needed.
                Event::Settings(_) => {}
            }
        }
        if !updates.is_empty() {
            self.shared.reorder(|order| {
                for (stream, priority) in updates {
                    order.by_client(stream, priority);
                }
                order.refresh();
            });
        }
        let ended = ready!(self.outlets.poll(&self.shared, cx));
        Poll::Ready(match ended {
            Ended::Connection(error) => error.into(),
            Ended::Stopped(kind) => {
                let error = self.shared.http().stopped(kind);
                self.shared.close(error.code(), error.reason());
                error.into()
            }
        })
    }

    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<StreamError> {
        loop {
            match self.shared.quic.poll_accept_uni(cx) {
                Poll::Ready(Ok(stream)) => self.incoming.push(stream),
                Poll::Ready(Err(error)) => return Poll::Ready(error.into()),
                Poll::Pending => break,
            }
        }
        let mut index = 0;
        while index < self.incoming.len() {
            match self.poll_read(index, cx) {
                Ok(true) => index += 1,
                Ok(false) => drop(self.incoming.swap_remove(index)),
                Err(error) => {
                    // `check` has closed the connection.
                    return Poll::Ready(error.into());
                }
            }
        }
        Poll::Pending
    }

    /// Reads the bytes of a stream that have arrived. Returns whether more are to be read.
    fn poll_read(&mut self, index: usize, cx: &mut Context<'_>) -> Result<bool, Error> {
        let shared = &self.shared;
        let stream = &mut self.incoming[index];
        let id = number(stream.id());
        loop {
            let Poll::Ready(read) = stream.poll_read_chunk(cx, MAX_READ, true) else {
                return Ok(true);
            };
            let ended = !matches!(read, Ok(Some(_)));
            let received = match read {
                Ok(Some(chunk)) => shared.http().receive(id, chunk.bytes, false),
                Ok(None) => shared.http().receive(id, Bytes::new(), true),
                Err(ReadError::Reset(_)) => {
                    let reset = shared.http().reset(id);
                    return shared.check(reset).map(|()| false);
                }
                // Those that wait for requests get the error.
                Err(_) => return Ok(false),
            };
            match shared.check(received)? {
                Incoming::Read if ended => return Ok(false),
                Incoming::Read => {}
                Incoming::Stop(code) => {
                    // It fails only if the stream is closed already.
                    let _ = stream.stop(varint(code.value()));
                    return Ok(false);
                }
            }
        }
    }
}
