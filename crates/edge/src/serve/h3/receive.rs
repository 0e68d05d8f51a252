//! Request bodies.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::server::RequestStream;
use hikyaku_h3::{Payload, RecvStream};
use http::{Request, header};
use http_body::{Frame, SizeHint};

use crate::content::BoxError;

/// The receiving side of a request's stream.
pub(super) type Receiving = RequestStream<RecvStream, Payload>;

/// A request's body.
pub(super) struct Receiver {
    stream: Receiving,
    /// What `Content-Length` says is still to come.
    expected: Option<u64>,
    /// What came with the request's head.
    first: Option<Result<Bytes, BoxError>>,
    state: ReceiverState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReceiverState {
    Data,
    Trailers,
    End,
}

const LENGTH: &str = "the body's length is not its Content-Length";

/// How often `h3` may say that a body is over before it is believed: it says so for every
/// empty DATA frame, too.
const ENDS: usize = 16;

impl Receiver {
    pub(super) fn new<B>(stream: Receiving, request: &Request<B>) -> Self {
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        let mut receiver = Self {
            stream,
            expected: length,
            first: None,
            state: ReceiverState::Data,
        };
        receiver.look_for_end();
        receiver
    }

    /// Most requests end with their head, and are then known to have no content.
    fn look_for_end(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        match self.poll_data(&mut cx) {
            Poll::Ready(Ok(None)) if self.expected.is_none_or(|expected| expected == 0) => {
                self.state = ReceiverState::Trailers;
                if let Poll::Ready(Ok(None)) = self.stream.poll_recv_trailers(&mut cx) {
                    self.state = ReceiverState::End;
                }
            }
            Poll::Ready(Ok(None)) => self.first = Some(Err(LENGTH.into())),
            Poll::Ready(Ok(Some(data))) => self.first = Some(Ok(data)),
            Poll::Ready(Err(error)) => self.first = Some(Err(error)),
            Poll::Pending => {}
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BoxError>> {
        for _ in 0..ENDS {
            if let Some(mut data) = ready!(self.stream.poll_recv_data(cx))? {
                return Poll::Ready(Ok(Some(data.copy_to_bytes(data.remaining()))));
            }
        }
        Poll::Ready(Ok(None))
    }

    /// Counts data against `Content-Length` (RFC 9114 §4.1.2).
    fn count(&mut self, data: Option<usize>) -> Result<(), BoxError> {
        let Some(expected) = self.expected else {
            return Ok(());
        };
        let left = match data {
            Some(came) => expected.checked_sub(came as u64),
            None => (expected == 0).then_some(0),
        };
        self.expected = left;
        left.map(drop).ok_or_else(|| LENGTH.into())
    }
}

impl http_body::Body for Receiver {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.state == ReceiverState::Data {
            let data = match self.first.take() {
                Some(first) => Some(first?),
                None => ready!(self.poll_data(cx))?,
            };
            self.count(data.as_ref().map(Bytes::len))?;
            match data {
                Some(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                None => self.state = ReceiverState::Trailers,
            }
        }
        if self.state == ReceiverState::Trailers {
            let trailers = ready!(self.stream.poll_recv_trailers(cx))?;
            self.state = ReceiverState::End;
            return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.state == ReceiverState::End
    }

    fn size_hint(&self) -> SizeHint {
        self.expected
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.state != ReceiverState::End {
            // Takes the end of a request without a body, so that the client is not asked
            // to stop what it has already finished.
            let mut cx = Context::from_waker(Waker::noop());
            if !matches!(self.poll_data(&mut cx), Poll::Ready(Ok(None))) {
                // RFC 9114 §4.1: the answer does not depend on the rest.
                self.stream.stop_sending(Code::H3_NO_ERROR);
            }
        }
    }
}
