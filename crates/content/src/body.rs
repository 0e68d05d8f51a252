//! The body of every response of the server.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

use super::BoxError;
use super::files::FileStream;

/// The body of every response of the server.
///
/// The common bodies carry no box: none, one in memory, one that came with its head, and a file.
/// All of them know their exact length, so that no response of known length is sent chunked.
#[derive(Debug)]
pub struct Body(Kind);

#[derive(Debug)]
enum Kind {
    Empty,
    Full(Bytes),
    Received(Bytes),
    File(FileStream),
    Boxed(UnsyncBoxBody<Bytes, BoxError>),
}

impl Body {
    /// Makes a body of no bytes.
    pub const fn empty() -> Self {
        Self(Kind::Empty)
    }

    /// Makes a body that is read elsewhere, such as an upstream's response or a stream of events.
    pub fn boxed<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Boxed(body.map_err(Into::into).boxed_unsync()))
    }

    /// Returns the bytes that the content takes in memory for this response alone. Content that is
    /// kept in any case, such as a small file, takes none. `None` if it is still to be read.
    pub const fn own_memory(&self) -> Option<usize> {
        match &self.0 {
            Kind::Empty | Kind::Full(_) => Some(0),
            Kind::Received(bytes) => Some(bytes.len()),
            Kind::File(_) | Kind::Boxed(_) => None,
        }
    }

    /// Makes a body of content that was received for this response alone.
    pub(super) fn received(bytes: Bytes) -> Self {
        if bytes.is_empty() {
            Self(Kind::Empty)
        } else {
            Self(Kind::Received(bytes))
        }
    }

    pub(super) const fn file(stream: FileStream) -> Self {
        Self(Kind::File(stream))
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() {
            Self(Kind::Empty)
        } else {
            Self(Kind::Full(bytes))
        }
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Full(bytes) | Kind::Received(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::File(stream) => stream
                .poll_chunk(cx)
                .map(|chunk| chunk.map(|read| read.map(Frame::data).map_err(Into::into))),
            Kind::Boxed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Full(_) | Kind::Received(_) => false,
            Kind::File(stream) => stream.remaining() == 0,
            Kind::Boxed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) | Kind::Received(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::File(stream) => SizeHint::with_exact(stream.remaining()),
            Kind::Boxed(body) => body.size_hint(),
        }
    }
}
