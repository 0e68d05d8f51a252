//! Streams of a connection.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h3::quic::{self, StreamErrorIncoming, StreamId, WriteBuf};
use quinn::VarInt;

use super::error;
use super::guard::FrameGuard;
use super::payload::{self, Payload};

/// Told when the last byte of a stream has been handed to quinn.
pub trait FinishObserver: Send + Sync {
    /// `stream` is finished; [`quinn::SendStream::stopped`] tells when the peer has
    /// acknowledged all of it.
    fn finished(&self, stream: &quinn::SendStream);
}

/// The sending side of a stream.
pub struct SendStream {
    stream: quinn::SendStream,
    /// What `send_data` left to be written; empty chunks are done with.
    pending: [Bytes; 2],
    observer: Option<Arc<dyn FinishObserver>>,
}

impl SendStream {
    pub(crate) fn new(
        stream: quinn::SendStream,
        observer: Option<Arc<dyn FinishObserver>>,
    ) -> Self {
        Self {
            stream,
            pending: [Bytes::new(), Bytes::new()],
            observer,
        }
    }

    fn unwritten(&mut self) -> &mut [Bytes] {
        let written = self.pending.iter().take_while(|c| c.is_empty()).count();
        &mut self.pending[written..]
    }
}

impl quic::SendStream<Payload> for SendStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        loop {
            let written = self.pending.iter().take_while(|c| c.is_empty()).count();
            if written == self.pending.len() {
                return Poll::Ready(Ok(()));
            }
            // Cancel-safe: as long as it is pending nothing was written.
            let write = pin!(self.stream.write_chunks(&mut self.pending[written..]));
            ready!(write.poll(cx)).map_err(error::write)?;
        }
    }

    fn send_data<T: Into<WriteBuf<Payload>>>(
        &mut self,
        data: T,
    ) -> Result<(), StreamErrorIncoming> {
        if !self.unwritten().is_empty() {
            return Err(StreamErrorIncoming::ConnectionErrorIncoming {
                connection_error: quic::ConnectionErrorIncoming::InternalError(
                    "send_data called before poll_ready was ready".to_owned(),
                ),
            });
        }
        self.pending = payload::split(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(cx))?;
        // Fails only where the stream was finished or reset before: it is over either way.
        if self.stream.finish().is_ok()
            && let Some(observer) = &self.observer
        {
            observer.finished(&self.stream);
        }
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, reset_code: u64) {
        // Fails only where the stream is closed already.
        let _ = self.stream.reset(code(reset_code));
    }

    fn send_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

/// The receiving side of a stream.
pub struct RecvStream {
    stream: quinn::RecvStream,
    guard: FrameGuard,
}

impl RecvStream {
    pub(crate) fn new(stream: quinn::RecvStream, guard: FrameGuard) -> Self {
        Self { stream, guard }
    }
}

/// A server that has answered may leave the rest of a request alone, and says so by `H3_NO_ERROR`
/// (RFC 9114 §4.1); quinn would give 0, which is no code of HTTP/3.
impl Drop for RecvStream {
    fn drop(&mut self) {
        quic::RecvStream::stop_sending(self, h3::error::Code::H3_NO_ERROR.value());
    }
}

/// Most bytes taken from quinn at once.
const MAX_READ: usize = 64 * 1024;

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let chunk = {
            // Cancel-safe: as long as it is pending nothing was read.
            let read = pin!(self.stream.read_chunk(MAX_READ, true));
            ready!(read.poll(cx)).map_err(error::read)?
        };
        let Some(chunk) = chunk else {
            return Poll::Ready(Ok(None));
        };
        if let Err(too_large) = self.guard.observe(&chunk.bytes) {
            let excessive_load = h3::error::Code::H3_EXCESSIVE_LOAD.value();
            quic::RecvStream::stop_sending(self, excessive_load);
            return Poll::Ready(Err(StreamErrorIncoming::Unknown(Box::new(too_large))));
        }
        Poll::Ready(Ok(Some(chunk.bytes)))
    }

    fn stop_sending(&mut self, error_code: u64) {
        // Fails only where the stream is closed already.
        let _ = self.stream.stop(code(error_code));
    }

    fn recv_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

/// Both sides of a request's stream.
pub struct BidiStream {
    send: SendStream,
    recv: RecvStream,
}

impl BidiStream {
    pub(crate) fn new(send: SendStream, recv: RecvStream) -> Self {
        Self { send, recv }
    }
}

impl quic::BidiStream<Payload> for BidiStream {
    type SendStream = SendStream;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream, RecvStream) {
        (self.send, self.recv)
    }
}

impl quic::SendStream<Payload> for BidiStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Payload>>>(
        &mut self,
        data: T,
    ) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl quic::RecvStream for BidiStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

fn code(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}

fn id(id: quinn::StreamId) -> StreamId {
    // Both count in 62 bits (RFC 9000 §2.1).
    VarInt::from(id)
        .into_inner()
        .try_into()
        .expect("a QUIC stream id fits h3's")
}
