//! Request bodies of HTTP/2.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::{HeaderMap, header};
use http_body::{Body, Frame, SizeHint};

use crate::content::BoxError;

/// The length that a request announces; `None` where it announces none, or several.
pub(super) fn announced_length(headers: &HeaderMap) -> Option<u64> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let first = lengths.next()?;
    let same = lengths.all(|length| length == first);
    first.to_str().ok()?.parse().ok().filter(|_| same)
}

/// A request's body.
pub(super) struct Upload {
    stream: RecvStream,
    /// What is still to come, where it is known.
    left: Option<u64>,
    data_is_over: bool,
}

impl Upload {
    /// The body that comes on `stream`, of `length` bytes where that is announced.
    pub(super) fn new(stream: RecvStream, length: Option<u64>) -> Self {
        let left = match stream.is_end_stream() {
            true => Some(0),
            false => length,
        };
        Self {
            stream,
            left,
            data_is_over: false,
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, h2::Error>>> {
        let data = ready!(self.stream.poll_data(cx));
        if let Some(Ok(data)) = &data {
            // Fails only where the stream is over.
            let _ = self.stream.flow_control().release_capacity(data.len());
            let length = data.len() as u64;
            self.left = self.left.map(|left| left.saturating_sub(length));
        }
        Poll::Ready(data)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.data_is_over {
            match ready!(self.poll_data(cx)) {
                Some(data) => return Poll::Ready(ended(data.map(Frame::data).map(Some))),
                None => self.data_is_over = true,
            }
        }
        let trailers = ready!(self.stream.poll_trailers(cx));
        Poll::Ready(ended(trailers.map(|it| it.map(Frame::trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// A frame, an error, or the body's end. A client that resets with NO_ERROR has seen enough of the
/// response, and sends no more (RFC 9113 §8.1).
fn ended(frame: Result<Option<Frame<Bytes>>, h2::Error>) -> Option<Result<Frame<Bytes>, BoxError>> {
    match frame {
        Ok(frame) => frame.map(Ok),
        Err(error) if error.reason() == Some(Reason::NO_ERROR) => None,
        Err(error) => Some(Err(error.into())),
    }
}
