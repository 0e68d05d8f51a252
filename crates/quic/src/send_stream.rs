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
        poll_fn(|cx| self.poll_with(cx, |proto, id| proto.send_stream(id).write(bytes))).await
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
        self.poll_with(cx, |proto, id| proto.send_stream(id).write_chunks(chunks))
    }

    /// Polls to write some of `chunks`, while the connection holds less than its backlog allows; see
    /// [`SendStream::write_chunks`]. Streams with more headroom find room while others wait.
    pub fn poll_write_chunks_within(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
        backlog: &Backlog,
    ) -> Poll<Result<Written, WriteError>> {
        self.poll_with(cx, |proto, id| {
            backlog.set(proto, backlog.headroom);
            let written = proto.send_stream(id).write_chunks(chunks);
            // Who waits is woken as soon as the stream with the most headroom has room.
            backlog.set(proto, backlog.most_headroom);
            written
        })
    }

    fn poll_with<T>(
        &self,
        cx: &Context<'_>,
        write: impl FnOnce(&mut proto::Connection, StreamId) -> Result<T, proto::WriteError>,
    ) -> Poll<Result<T, WriteError>> {
        let state = &mut *self.connection.0.lock();
        if let Some(error) = &state.error {
            return Poll::Ready(Err(error.clone().into()));
        }
        if self.is_refused(state) {
            return Poll::Ready(Err(WriteError::ZeroRttRejected));
        }
        match write(&mut state.proto, self.id) {
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

/// The bytes that a connection may hold, sent or not, until the peer acknowledges them.
///
/// They are four congestion windows, of which one is in flight and others may wait for a packet that was lost,
/// and [`Backlog::MIN_UNSENT`]. So little waits unsent that an urgent stream, which begins late, finds room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The most bytes that may be held.
    pub max: u64,
    /// Bytes that this stream may have held beyond those of a stream without headroom.
    pub headroom: u64,
    /// The largest headroom of all streams that are open.
    pub most_headroom: u64,
}

impl Backlog {
    /// Bytes that may wait unsent though the congestion window is small.
    pub const MIN_UNSENT: u64 = 64 * 1024;

    fn set(&self, connection: &mut proto::Connection, headroom: u64) {
        let window = connection.congestion_state().window();
        connection.set_send_window(self.bytes(window, headroom));
    }

    /// The bytes that may be held at a congestion window.
    fn bytes(&self, window: u64, headroom: u64) -> u64 {
        let most = self.max.saturating_sub(self.most_headroom);
        let without = window.saturating_mul(4).saturating_add(Self::MIN_UNSENT);
        without.min(most).saturating_add(headroom)
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

#[cfg(test)]
mod tests {
    use super::Backlog;

    #[test]
    fn a_backlog_follows_the_congestion_window() {
        let of = |max, headroom| Backlog {
            max,
            headroom,
            most_headroom: 240_000,
        };
        let min = Backlog::MIN_UNSENT;
        let cases = [
            ("a slow path", of(12_000_000, 0), 30_000, 120_000 + min),
            (
                "with headroom",
                of(12_000_000, 16_000),
                30_000,
                136_000 + min,
            ),
            ("a fast path", of(12_000_000, 0), 9_000_000, 11_760_000),
            (
                "a fast path, with headroom",
                of(12_000_000, 240_000),
                9_000_000,
                12_000_000,
            ),
            ("no room at all", of(0, 16_000), 30_000, 16_000),
        ];
        for (name, backlog, window, expected) in cases {
            assert_eq!(backlog.bytes(window, backlog.headroom), expected, "{name}");
        }
    }
}
