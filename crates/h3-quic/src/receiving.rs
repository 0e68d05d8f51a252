//! The receiving side of a request's stream.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use hikyaku_h3::error::Code;
use hikyaku_h3::message::Head;
use hikyaku_h3::stream::{Read, Reader};
use hikyaku_quic::RecvStream;
use http_body::{Body, Frame, SizeHint};

use crate::error::StreamError;
use crate::shared::{Exchange, Shared, varint};

/// Bytes taken from a stream at once.
const MAX_READ: usize = 64 * 1024;

/// A message that is received: first its head, then its body.
///
/// Dropped before its end, it asks the peer to stop.
pub struct Receiving<H: Head> {
    shared: Arc<Shared>,
    exchange: Arc<Exchange>,
    stream: RecvStream,
    reader: Reader<H>,
    /// The code with which to ask the peer to stop.
    stop: Code,
    /// Whether the stream has ended, or was reset.
    over: bool,
    /// The next part, if a caller has looked whether there is one.
    peeked: Option<Read<H>>,
    size: SizeHint,
}

impl<H: Head> Receiving<H> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        exchange: Arc<Exchange>,
        stream: RecvStream,
        reader: Reader<H>,
        stop: Code,
    ) -> Self {
        Self {
            shared,
            exchange,
            stream,
            reader,
            stop,
            over: false,
            peeked: None,
            size: SizeHint::default(),
        }
    }

    /// Waits for a header section: a request's, or the next one of a response.
    ///
    /// # Errors
    /// [`StreamError::TooLarge`], and the error that ended the stream before.
    pub async fn head(&mut self) -> Result<H, StreamError> {
        match poll_fn(|cx| self.poll_read(cx)).await? {
            Read::Head(head) => Ok(head),
            Read::TooLarge => Err(StreamError::TooLarge),
            // The engine returns no other part before the head.
            _ => Err(StreamError::Closed),
        }
    }

    /// Returns the first header section, if it is there without waiting. Otherwise
    /// [`Receiving::head`] returns it, or the error.
    pub fn try_head(&mut self) -> Option<H> {
        let mut cx = Context::from_waker(Waker::noop());
        match self.poll_read(&mut cx) {
            Poll::Ready(Ok(Read::Head(head))) => Some(head),
            _ => None,
        }
    }

    /// Sets the announced length of the body in bytes, such as by Content-Length.
    pub fn expect(&mut self, length: u64) {
        self.size = SizeHint::with_exact(length);
    }

    /// Waits until it is known whether a body follows the head. Returns whether one does.
    ///
    /// # Errors
    /// The error that ended the stream.
    pub async fn has_body(&mut self) -> Result<bool, StreamError> {
        poll_fn(|cx| self.poll_has_body(cx)).await
    }

    /// Whether it is known, without waiting, that no body follows the head.
    pub fn is_known_empty(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        // Reading the body returns the error again.
        matches!(self.poll_has_body(&mut cx), Poll::Ready(Ok(false)))
    }

    fn poll_has_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, StreamError>> {
        if self.peeked.is_none() && !self.reader.is_complete() {
            self.peeked = Some(ready!(self.poll_read(cx))?);
        }
        Poll::Ready(Ok(!self.reader.is_complete()))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Read<H>, StreamError>> {
        let mut registered = false;
        loop {
            let read = self.reader.poll(|| self.shared.http());
            match self.shared.check(read) {
                Ok(Read::NeedsInput) => ready!(self.poll_receive(cx))?,
                Ok(Read::Blocked) if registered => return Poll::Pending,
                // The section may be unblocked before the waker is registered.
                Ok(Read::Blocked) => {
                    self.shared.wait_unblocked(self.reader.stream(), cx.waker());
                    registered = true;
                }
                Ok(read) => return Poll::Ready(Ok(read)),
                Err(error) => {
                    self.stop = error.code();
                    return Poll::Ready(Err(self.failed(error.into())));
                }
            }
        }
    }

    /// Takes the stream's next chunk.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        match ready!(self.stream.poll_read_chunk(cx, MAX_READ, true)) {
            Ok(Some(chunk)) => self.reader.receive(chunk.bytes, false),
            Ok(None) => {
                self.over = true;
                self.reader.receive(Bytes::new(), true);
            }
            Err(error) => {
                self.over = true;
                return Poll::Ready(Err(self.failed(error.into())));
            }
        }
        Poll::Ready(Ok(()))
    }

    fn failed(&self, error: StreamError) -> StreamError {
        if error.is_of_peer() {
            self.exchange.cancelled();
        }
        error
    }
}

impl<H: Head + Unpin> Body for Receiving<H> {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let this = self.get_mut();
        let read = match this.peeked.take() {
            Some(read) => Ok(read),
            None => ready!(this.poll_read(cx)),
        };
        Poll::Ready(match read {
            Ok(Read::Data(data)) => {
                if let Some(left) = this.size.exact() {
                    let left = left.saturating_sub(data.len() as u64);
                    this.size = SizeHint::with_exact(left);
                }
                Some(Ok(Frame::data(data)))
            }
            Ok(Read::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Ok(Read::End) => None,
            Ok(Read::TooLarge) => Some(Err(StreamError::TooLarge)),
            // For a second head, the engine returns an error.
            Ok(_) => Some(Err(StreamError::Closed)),
            Err(error) => Some(Err(error)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.reader.is_complete() && !matches!(self.peeked, Some(Read::Data(_) | Read::Trailers(_)))
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

impl<H: Head> Drop for Receiving<H> {
    fn drop(&mut self) {
        // A message that has arrived need not be stopped.
        if self.is_known_empty() {
            return;
        }
        if !self.over {
            // It fails only if the stream is closed already.
            let _ = self.stream.stop(varint(self.stop.value()));
        }
        self.shared.abandon(self.reader.stream());
    }
}
