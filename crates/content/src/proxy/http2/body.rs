//! Content of upstreams' responses over HTTP/2.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::{HeaderMap, header};
use http_body::{Body, Frame, SizeHint};

/// Content of a message. Reading it makes room in the flow control windows.
#[derive(Debug)]
pub(super) struct Http2Body {
    stream: RecvStream,
    /// The number of bytes still to come, if the message announced a length.
    left: Option<u64>,
    data_is_over: bool,
}

impl Http2Body {
    /// Makes the content of a response that comes on `stream` after a head with these fields.
    pub(super) fn new(stream: RecvStream, headers: &HeaderMap) -> Self {
        let left = match stream.is_end_stream() {
            true => Some(0),
            false => announced_length(headers),
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
            // It fails only if the stream is over.
            let _ = self.stream.flow_control().release_capacity(data.len());
            let length = data.len() as u64;
            self.left = self.left.map(|left| left.saturating_sub(length));
        }
        Poll::Ready(data)
    }
}

impl Body for Http2Body {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.data_is_over {
            match ready!(self.poll_data(cx)) {
                Some(data) => return Poll::Ready(Some(data.map(Frame::data))),
                None => self.data_is_over = true,
            }
        }
        let trailers = ready!(self.stream.poll_trailers(cx));
        Poll::Ready(trailers.map(|it| it.map(Frame::trailers)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// The length that a message announces; `None` if it announces none, or several.
fn announced_length(headers: &HeaderMap) -> Option<u64> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let first = lengths.next()?;
    let same = lengths.all(|length| length == first);
    first.to_str().ok()?.parse().ok().filter(|_| same)
}
