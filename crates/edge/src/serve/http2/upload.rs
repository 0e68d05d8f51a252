//! Request bodies of HTTP/2.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::Reason;
use http_body::{Body, Frame, SizeHint};

use hikyaku_content::BoxError;
use hikyaku_content::Http2Body;

/// A request's body.
pub(super) struct Upload(pub(super) Http2Body);

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll_frame(cx)) {
            // The client has seen enough of the response, and sends no more (RFC 9113 §8.1).
            Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => None,
            frame => frame.map(|frame| frame.map_err(Into::into)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
