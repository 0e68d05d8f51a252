//! The sending side of a request's stream.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hikyaku_h3::connection::Connection;
use hikyaku_h3::error::Code;
use hikyaku_h3::message::{Prepared, RequestHead};
use hikyaku_h3::priority::{Parameters, Priority};
use hikyaku_h3::stream::Writer;
use hikyaku_quic::{SendStream, Stopped};
use http::{HeaderMap, Method, StatusCode, response};

use crate::error::StreamError;
use crate::shared::{Exchange, Shared, varint};

/// Resolves when the peer has acknowledged a stream to its end, or stopped it with a code.
pub type Acknowledged = Stopped;

/// A message that is sent: head, content, trailers, end.
///
/// Dropped before [`Sending::finish`], it resets the stream.
pub struct Sending<H> {
    shared: Arc<Shared>,
    exchange: Arc<Exchange>,
    stream: SendStream,
    writer: Writer<H>,
    /// Headers of frames, and field sections.
    out: BytesMut,
    /// The bytes to write: first former bytes of `out`, then content. Empty chunks are written.
    pending: [Bytes; 2],
    /// The code with which to reset the stream; `None` once it is finished.
    reset: Option<Code>,
    /// Resolves when the peer stops the stream; set once a caller asks for it.
    stopped: Option<Acknowledged>,
    /// The connection's order of responses has it.
    is_ordered: bool,
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
            is_ordered: false,
        }
    }

    /// The stream's identifier (RFC 9000 §2.1).
    pub fn id(&self) -> u64 {
        self.writer.stream()
    }

    /// Whether the message may have content: not in a response to HEAD, nor in a 204 or 304.
    pub fn takes_content(&self) -> bool {
        self.writer.takes_content()
    }

    /// Sends content, after all that waits to be sent. Ready when QUIC has taken it.
    ///
    /// # Errors
    /// [`StreamError::Unsent`] if the content contradicts the head, and the error that ended the
    /// stream.
    pub async fn data(&mut self, content: Bytes) -> Result<(), StreamError> {
        self.flush().await?;
        self.writer.data(content.len(), &mut self.out)?;
        self.pending = [self.out.split().freeze(), content];
        self.flush().await
    }

    /// Sends trailers, after all that waits to be sent.
    ///
    /// # Errors
    /// [`StreamError::Unsent`] if the trailers contradict the head, and the error that ended the
    /// stream.
    pub async fn trailers(&mut self, trailers: &HeaderMap) -> Result<(), StreamError> {
        let written = self
            .writer
            .trailers(trailers, &mut self.shared.http(), &mut self.out);
        written?;
        self.flush().await
    }

    /// Waits until QUIC has taken all bytes.
    ///
    /// # Errors
    /// The error that ended the stream.
    pub async fn flush(&mut self) -> Result<(), StreamError> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Polls for QUIC to take all bytes; see [`Sending::flush`].
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
            let unwritten = &mut self.pending[written..];
            let wrote = if self.is_ordered {
                let backlog = self.shared.backlog(self.writer.stream());
                self.stream
                    .poll_write_chunks_within(cx, unwritten, &backlog)
            } else {
                self.stream.poll_write_chunks(cx, unwritten)
            };
            if let Err(error) = ready!(wrote) {
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
        let stopped = self.stopped.get_or_insert_with(|| stream.stopped());
        if let Ok(Some(_)) = ready!(Pin::new(stopped).poll(cx)) {
            self.exchange.cancelled();
        }
        Poll::Ready(())
    }

    /// Ends the message, after all that waits to be sent.
    ///
    /// # Errors
    /// [`StreamError::Unsent`] if content is missing, and the error that ended the stream.
    pub async fn finish(mut self) -> Result<Acknowledged, StreamError> {
        poll_fn(|cx| self.poll_finish(cx)).await
    }

    /// Polls for the end of the message; see [`Sending::finish`].
    ///
    /// # Errors
    /// As [`Sending::finish`].
    pub fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<Acknowledged, StreamError>> {
        self.writer.finish()?;
        ready!(self.poll_flush(cx))?;
        self.stream.finish().map_err(|_| StreamError::Closed)?;
        self.reset = None;
        Poll::Ready(Ok(self.stream.stopped()))
    }

    /// Gives the message up, and resets the stream with `code`.
    pub fn reset(mut self, code: Code) {
        self.reset = Some(code);
    }
}

impl Sending<response::Parts> {
    /// Sets the method and priority of the request that is answered. From then on the response has its place in
    /// the order of responses.
    pub fn answers(&mut self, method: &Method, priority: Priority) {
        self.writer.answers(method);
        let stream = self.writer.stream();
        // One that came after the request was read counts.
        let updated = self.shared.http().updated_priority(stream);
        self.is_ordered = true;
        self.shared
            .reorder(|order| order.insert(stream, updated.unwrap_or(priority)));
    }

    /// Has the parameters of the response's own priority replace the client's (RFC 9218 §8).
    fn on_server_priority(&self, parameters: Parameters) {
        if parameters != Parameters::default() {
            self.shared.reorder(|order| {
                order.by_server(self.writer.stream(), parameters);
                order.refresh();
            });
        }
    }

    /// Adds a header section: interim ones (1xx), then the final one. It leaves with the next
    /// content, or at the end.
    ///
    /// # Errors
    /// [`StreamError::Unsent`].
    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap) -> Result<(), StreamError> {
        let written = self
            .writer
            .head(status, headers, &mut self.shared.http(), &mut self.out);
        written?;
        if !status.is_informational() {
            self.on_server_priority(Parameters::of(headers));
        }
        Ok(())
    }

    /// Adds a whole response: a prepared header section with the fields in `more` after its own, and
    /// content. Both leave in one write, with [`Sending::poll_finish`]. Content is left out where the
    /// message may have none.
    ///
    /// # Errors
    /// [`StreamError::Unsent`].
    pub fn whole(
        &mut self,
        prepared: &Prepared,
        more: &[(&str, &[u8])],
        content: &Bytes,
    ) -> Result<(), StreamError> {
        let Self { writer, shared, .. } = self;
        let head = shared.http().head(|http, out| {
            writer.prepared(prepared, more, http, out)?;
            match writer.takes_content() {
                true => writer.data(content.len(), out),
                false => Ok(()),
            }
        })?;
        let content = match self.writer.takes_content() {
            true => content.clone(),
            false => Bytes::new(),
        };
        self.pending = [head, content];
        self.on_server_priority(prepared.priority());
        Ok(())
    }

    /// Counts the response as sent to its end, which earns the client further cancellations.
    pub fn complete(&self) {
        self.exchange.complete();
    }
}

impl Sending<RequestHead> {
    /// Adds the header section. It leaves with the first content, or at the end.
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
        if self.is_ordered {
            let stream = self.writer.stream();
            self.shared.reorder(|order| order.remove(stream));
        }
        if let Some(code) = self.reset {
            // It fails only if the stream is closed already.
            let _ = self.stream.reset(varint(code.value()));
        }
    }
}
