//! The sending side of a request's stream.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hikyaku_h3::connection::Connection;
use hikyaku_h3::error::Code;
use hikyaku_h3::message::RequestHead;
use hikyaku_h3::priority::Priority;
use hikyaku_h3::stream::Writer;
use http::{HeaderMap, Method, StatusCode, response};
use quinn::{SendStream, StoppedError, VarInt};

use crate::error::StreamError;
use crate::shared::{Exchange, Shared, varint};

/// Resolves when the peer has acknowledged a stream to its end, or stopped it with a code.
pub type Acknowledged =
    Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync>>;

/// A message that is sent: head, content, trailers, end.
///
/// Dropped before [`Sending::finish`], the stream is reset.
pub struct Sending<H> {
    shared: Arc<Shared>,
    exchange: Arc<Exchange>,
    stream: SendStream,
    writer: Writer<H>,
    /// Frames' headers and field sections.
    out: BytesMut,
    /// What is to be written: `out` as it was, then content. Empty chunks are done with.
    pending: [Bytes; 2],
    /// What the stream is reset with; `None` once it is finished.
    reset: Option<Code>,
    /// Whether the peer stops the stream, once somebody wants to know.
    stopped: Option<Acknowledged>,
}

impl<H> Sending<H> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        exchange: Arc<Exchange>,
        stream: SendStream,
        writer: Writer<H>,
    ) -> Self {
        Self {
            shared,
            exchange,
            stream,
            writer,
            out: BytesMut::new(),
            pending: [Bytes::new(), Bytes::new()],
            reset: Some(Code::RequestCancelled),
            stopped: None,
        }
    }

    /// The stream's identifier (RFC 9000 §2.1).
    pub fn id(&self) -> u64 {
        self.writer.stream()
    }

    /// Whether the message may have content: not a response to HEAD, nor a 204 or 304.
    pub fn takes_content(&self) -> bool {
        self.writer.takes_content()
    }

    /// Sends content, after what waits to be sent. Ready when QUIC has it.
    ///
    /// # Errors
    /// [`StreamError::Unsent`] where it is not as the head says, and what ended the stream.
    pub async fn data(&mut self, content: Bytes) -> Result<(), StreamError> {
        self.flush().await?;
        self.writer.data(content.len(), &mut self.out)?;
        self.pending = [self.out.split().freeze(), content];
        self.flush().await
    }

    /// Sends trailers, after what waits to be sent.
    ///
    /// # Errors
    /// As [`Sending::data`].
    pub async fn trailers(&mut self, trailers: &HeaderMap) -> Result<(), StreamError> {
        let written = self
            .writer
            .trailers(trailers, &mut self.shared.http(), &mut self.out);
        written?;
        self.flush().await
    }

    /// Waits until QUIC has everything.
    ///
    /// # Errors
    /// What ended the stream.
    pub async fn flush(&mut self) -> Result<(), StreamError> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// As [`Sending::flush`].
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        loop {
            let written = self.pending.iter().take_while(|c| c.is_empty()).count();
            if written == self.pending.len() {
                if self.out.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                self.pending[0] = self.out.split().freeze();
                continue;
            }
            let write = {
                // Cancel-safe: as long as it is pending nothing was written.
                let write = pin!(self.stream.write_chunks(&mut self.pending[written..]));
                ready!(write.poll(cx))
            };
            if let Err(error) = write {
                let error = StreamError::from(error);
                if error.is_of_peer() {
                    self.exchange.cancelled();
                }
                return Poll::Ready(Err(error));
            }
        }
    }

    /// Ready when the peer wants no more of the message, or is gone.
    pub fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let stream = &self.stream;
        let stopped = self
            .stopped
            .get_or_insert_with(|| Box::pin(stream.stopped()));
        if let Ok(Some(_)) = ready!(stopped.as_mut().poll(cx)) {
            self.exchange.cancelled();
        }
        Poll::Ready(())
    }

    /// Ends the message, after what waits to be sent.
    ///
    /// # Errors
    /// [`StreamError::Unsent`] where content is missing, and what ended the stream.
    pub async fn finish(mut self) -> Result<Acknowledged, StreamError> {
        self.writer.finish()?;
        self.flush().await?;
        self.stream.finish().map_err(|_| StreamError::Closed)?;
        self.reset = None;
        Ok(Box::pin(self.stream.stopped()))
    }

    /// Gives the message up.
    pub fn reset(mut self, code: Code) {
        self.reset = Some(code);
    }

    fn set_priority(&self, priority: Priority) {
        // Fails only where the stream is closed already.
        let _ = self.stream.set_priority(-i32::from(priority.urgency));
    }
}

impl Sending<response::Parts> {
    /// Takes note of the request that is answered: by its method and priority.
    pub fn answers(&mut self, method: &Method, priority: Priority) {
        self.writer.answers(method);
        self.set_priority(priority);
    }

    /// Has a head sent: interim ones (1xx), then the final one. It leaves with what is sent next.
    ///
    /// # Errors
    /// [`StreamError::Unsent`].
    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap) -> Result<(), StreamError> {
        let http: &mut Connection = &mut self.shared.http();
        Ok(self.writer.head(status, headers, http, &mut self.out)?)
    }

    /// The response was sent whole: what it was sent on counts as used well.
    pub fn complete(&self) {
        self.exchange.complete();
    }
}

impl Sending<RequestHead> {
    /// Has the head sent. It leaves with what is sent next.
    ///
    /// # Errors
    /// [`StreamError::Unsent`].
    pub fn head(&mut self, head: &RequestHead) -> Result<(), StreamError> {
        let http: &mut Connection = &mut self.shared.http();
        Ok(self.writer.head(head, http, &mut self.out)?)
    }
}

impl<H> Drop for Sending<H> {
    fn drop(&mut self) {
        if let Some(code) = self.reset {
            // Fails only where the stream is closed already.
            let _ = self.stream.reset(varint(code.value()));
        }
    }
}
