//! The sending side of a stream.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn_proto as proto;
use quinn_proto::{ClosedStream, FinishError, StreamId, VarInt, Written};

use crate::connection::Connection;
use crate::error::{StoppedError, WriteError};
use crate::state::State;

/// The sending side of a stream. One that is dropped is finished, unless it was reset. It is reset where
/// the peer has asked to stop.
#[derive(Debug)]
pub struct SendStream {
    connection: Connection,
    id: StreamId,
    /// It was opened before the handshake was complete.
    early: bool,
}

impl SendStream {
    pub(crate) const fn new(connection: Connection, id: StreamId, early: bool) -> Self {
        Self {
            connection,
            id,
            early,
        }
    }

    /// The stream's identifier (RFC 9000 §2.1).
    pub const fn id(&self) -> StreamId {
        self.id
    }

    /// Writes some of `bytes` once there is room, and returns how many. Cancel-safe: while it is pending,
    /// nothing is written.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_with(cx, |stream| stream.write(bytes))).await
    }

    /// Writes all of `bytes`. Not cancel-safe.
    ///
    /// # Errors
    /// [`WriteError`]; a part may have been written.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        while !bytes.is_empty() {
            let written = self.write(bytes).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Writes some of `chunks` without copying them, once there is room. Written bytes are taken off
    /// them. Cancel-safe: while it is pending, nothing is written.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write_chunks(&mut self, chunks: &mut [Bytes]) -> Result<Written, WriteError> {
        poll_fn(|cx| self.poll_write_chunks(cx, chunks)).await
    }

    /// Writes all of `chunks` without copying them. Not cancel-safe.
    ///
    /// # Errors
    /// [`WriteError`]; a part may have been written.
    pub async fn write_all_chunks(&mut self, mut chunks: &mut [Bytes]) -> Result<(), WriteError> {
        while !chunks.is_empty() {
            let written = self.write_chunks(chunks).await?;
            chunks = &mut chunks[written.chunks..];
        }
        Ok(())
    }

    /// Polls to write some of `chunks`; see [`SendStream::write_chunks`].
    pub fn poll_write_chunks(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<Written, WriteError>> {
        self.poll_with(cx, |stream| stream.write_chunks(chunks))
    }

    fn poll_with<T>(
        &self,
        cx: &Context<'_>,
        write: impl FnOnce(&mut proto::SendStream<'_>) -> Result<T, proto::WriteError>,
    ) -> Poll<Result<T, WriteError>> {
        let state = &mut *self.connection.0.lock();
        if let Some(error) = &state.error {
            return Poll::Ready(Err(error.clone().into()));
        }
        if self.is_refused(state) {
            return Poll::Ready(Err(WriteError::ZeroRttRejected));
        }
        match write(&mut state.proto.send_stream(self.id)) {
            Ok(written) => {
                self.connection.0.schedule(state);
                Poll::Ready(Ok(written))
            }
            Err(proto::WriteError::Blocked) => {
                // A full window of the connection hides that the peer wants no more of the stream.
                if let Ok(Some(code)) = state.proto.send_stream(self.id).stopped() {
                    return Poll::Ready(Err(WriteError::Stopped(code)));
                }
                state.waiting(self.id).writable.set(cx);
                Poll::Pending
            }
            Err(proto::WriteError::Stopped(code)) => Poll::Ready(Err(WriteError::Stopped(code))),
            Err(proto::WriteError::ClosedStream) => Poll::Ready(Err(WriteError::ClosedStream)),
        }
    }

    /// Ends the stream: no more will be written.
    ///
    /// # Errors
    /// When it has been finished or reset before.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        let state = &mut *self.connection.0.lock();
        if self.is_refused(state) {
            return Ok(());
        }
        match state.proto.send_stream(self.id).finish() {
            Ok(()) => self.finished(state),
            Err(FinishError::Stopped(_)) => {}
            Err(FinishError::ClosedStream) => return Err(ClosedStream::default()),
        }
        Ok(())
    }

    /// Has the end sent.
    fn finished(&self, state: &mut State) {
        state.waiting(self.id).is_finished = true;
        self.connection.0.schedule(state);
    }

    /// Gives the stream up, with all bytes that have not arrived yet (RFC 9000 §3.1).
    ///
    /// # Errors
    /// When it has been reset before, or all of it was acknowledged.
    pub fn reset(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        let state = &mut *self.connection.0.lock();
        if !self.is_refused(state) {
            state.proto.send_stream(self.id).reset(code)?;
            state.change_waiting(self.id, |waiting| waiting.is_finished = false);
            self.connection.0.schedule(state);
        }
        Ok(())
    }

    /// Sets the priority; streams with a higher one send first. It is 0 at first.
    ///
    /// # Errors
    /// When the stream has ended.
    pub fn set_priority(&self, priority: i32) -> Result<(), ClosedStream> {
        let state = &mut *self.connection.0.lock();
        state.proto.send_stream(self.id).set_priority(priority)
    }

    /// The priority.
    ///
    /// # Errors
    /// When the stream has ended.
    pub fn priority(&self) -> Result<i32, ClosedStream> {
        let state = &mut *self.connection.0.lock();
        state.proto.send_stream(self.id).priority()
    }

    /// Completes when the peer stops the stream, with its code, or has acknowledged all of it, with
    /// `None`. One of these futures a stream is woken: the one that was polled last.
    pub fn stopped(&self) -> Stopped {
        Stopped {
            connection: self.connection.clone(),
            id: self.id,
            early: self.early,
            waits: false,
        }
    }

    fn is_refused(&self, state: &State) -> bool {
        self.early && !state.has_early_data()
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let state = &mut *self.connection.0.lock();
        state.change_waiting(self.id, |waiting| waiting.writable.clear());
        if state.error.is_some() || self.is_refused(state) {
            return;
        }
        let mut stream = state.proto.send_stream(self.id);
        match stream.finish() {
            Ok(()) => self.finished(state),
            // Without a reset the peer would wait for the stream's end, and count it as open
            // (RFC 9000 §3.5).
            Err(FinishError::Stopped(code)) => {
                if stream.reset(code).is_ok() {
                    self.connection.0.schedule(state);
                }
            }
            // It has been finished or reset before.
            Err(FinishError::ClosedStream) => {}
        }
    }
}

/// Waits until the peer stops a stream, or has acknowledged all of it; see [`SendStream::stopped`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Stopped {
    connection: Connection,
    id: StreamId,
    early: bool,
    /// Its task is woken when there is news.
    waits: bool,
}

impl Future for Stopped {
    type Output = Result<Option<VarInt>, StoppedError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let state = &mut *this.connection.0.lock();
        if this.early && !state.has_early_data() {
            return Poll::Ready(Err(StoppedError::ZeroRttRejected));
        }
        let code = state.change_waiting(this.id, |waiting| waiting.code.take());
        if let Some(Some(code)) = code {
            return Poll::Ready(Ok(Some(code)));
        }
        match state.proto.send_stream(this.id).stopped() {
            Err(ClosedStream { .. }) => Poll::Ready(Ok(None)),
            Ok(Some(code)) => Poll::Ready(Ok(Some(code))),
            Ok(None) => match &state.error {
                Some(error) => Poll::Ready(Err(error.clone().into())),
                None => {
                    state.waiting(this.id).stopped.set(cx);
                    this.waits = true;
                    Poll::Pending
                }
            },
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if self.waits {
            let mut state = self.connection.0.lock();
            state.change_waiting(self.id, |waiting| {
                waiting.stopped.clear();
                waiting.code = None;
            });
        }
    }
}
