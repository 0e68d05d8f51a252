//! The receiving side of a stream.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn_proto as proto;
use quinn_proto::{Chunk, ClosedStream, StreamId, VarInt};

use crate::connection::Connection;
use crate::error::{ReadError, ReadToEndError};
use crate::state::State;

/// The receiving side of a stream. One that is dropped before its end is stopped with code 0.
#[derive(Debug)]
pub struct RecvStream {
    connection: Connection,
    id: StreamId,
    /// It was opened before the handshake was complete.
    early: bool,
    /// How it has ended; `None` while there may be more.
    end: Option<End>,
}

/// The end of a stream, as each further read reports it.
#[derive(Clone, Copy, Debug)]
enum End {
    /// All was read.
    Read,
    /// The peer gave it up with this code.
    Reset(VarInt),
    /// We wanted no more of it.
    Stopped,
}

impl End {
    const fn report<T>(self) -> Result<Option<T>, ReadError> {
        match self {
            Self::Read => Ok(None),
            Self::Reset(code) => Err(ReadError::Reset(code)),
            Self::Stopped => Err(ReadError::ClosedStream),
        }
    }
}

impl RecvStream {
    pub(crate) const fn new(connection: Connection, id: StreamId, early: bool) -> Self {
        Self {
            connection,
            id,
            early,
            end: None,
        }
    }

    /// The stream's identifier (RFC 9000 §2.1).
    pub const fn id(&self) -> StreamId {
        self.id
    }

    /// Whether the stream began before the handshake was complete: a server's peer may replay it.
    pub const fn is_0rtt(&self) -> bool {
        self.early
    }

    /// Reads the next bytes, at most `max_len`, without copying them; `None` at the end. With `ordered`
    /// false bytes come in the order of their arrival. Cancel-safe: while it is pending, nothing is read.
    /// After the end, and after a reset, each further read reports the same again.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read_chunk(
        &mut self,
        max_len: usize,
        ordered: bool,
    ) -> Result<Option<Chunk>, ReadError> {
        poll_fn(|cx| self.poll_read_chunk(cx, max_len, ordered)).await
    }

    /// Reads the next bytes into `buffer`, and returns how many; `None` at the end. Cancel-safe.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ReadError> {
        let chunk = self.read_chunk(buffer.len(), true).await?;
        Ok(chunk.map(|Chunk { bytes, .. }| {
            buffer[..bytes.len()].copy_from_slice(&bytes);
            bytes.len()
        }))
    }

    /// Reads all that is left, at most `limit` bytes. Not cancel-safe.
    ///
    /// # Errors
    /// When there is more, and [`ReadError`].
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut all = Vec::new();
        while let Some(Chunk { bytes, .. }) = self.read_chunk(usize::MAX, true).await? {
            if all.len() + bytes.len() > limit {
                return Err(ReadToEndError::TooLong);
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }

    /// Polls for the next bytes; see [`RecvStream::read_chunk`].
    pub fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max_len: usize,
        ordered: bool,
    ) -> Poll<Result<Option<Chunk>, ReadError>> {
        if let Some(end) = self.end {
            return Poll::Ready(end.report());
        }
        let state = &mut *self.connection.0.lock();
        if self.early && !state.has_early_data() {
            return Poll::Ready(Err(ReadError::ZeroRttRejected));
        }
        let mut stream = state.proto.recv_stream(self.id);
        let mut chunks = match stream.read(ordered) {
            Ok(chunks) => chunks,
            Err(error) => return Poll::Ready(Err(error.into())),
        };
        let read = if max_len == 0 {
            Ok(Some(EMPTY))
        } else {
            chunks.next(max_len)
        };
        if chunks.finalize().should_transmit() {
            self.connection.0.schedule(state);
        }
        let end = match read {
            Ok(Some(chunk)) => return Poll::Ready(Ok(Some(chunk))),
            Ok(None) => End::Read,
            Err(proto::ReadError::Reset(code)) => End::Reset(code),
            Err(proto::ReadError::Blocked) => return Self::wait(self.id, state, cx),
        };
        self.end = Some(end);
        Poll::Ready(end.report())
    }

    fn wait<T>(id: StreamId, state: &mut State, cx: &Context<'_>) -> Poll<Result<T, ReadError>> {
        if let Some(error) = &state.error {
            return Poll::Ready(Err(error.clone().into()));
        }
        state.waiting(id).readable.set(cx);
        Poll::Pending
    }

    /// Asks the peer to stop, and drops the bytes that have arrived (RFC 9000 §3.5).
    ///
    /// # Errors
    /// When all was read, or the stream was stopped before.
    pub fn stop(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        let state = &mut *self.connection.0.lock();
        if self.early && !state.has_early_data() {
            return Ok(());
        }
        state.proto.recv_stream(self.id).stop(code)?;
        self.end = Some(End::Stopped);
        self.connection.0.schedule(state);
        Ok(())
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        if self.end.is_none() {
            // It may have ended without being read to its end.
            let _ = self.stop(VarInt::from_u32(0));
            let mut state = self.connection.0.lock();
            state.change_waiting(self.id, |waiting| waiting.readable.clear());
        }
    }
}

/// The result of a read of no bytes.
const EMPTY: Chunk = Chunk {
    offset: 0,
    bytes: Bytes::new(),
};
