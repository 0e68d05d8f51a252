//! A response's body on its way to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Either;
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep};

use super::activity::Activity;
use super::error::BodyError;
use super::group::Kept;
use super::trailers;
use super::{http1, http2};
use crate::BoxError;

/// A response's content from the upstream, over HTTP/1.1 (left) or HTTP/2 (right).
pub(super) type Incoming = Either<http1::ResponseBody, http2::ResponseBody>;

/// A response's body on its way to the client. It fails if the upstream sends nothing for a time in
/// which it is waited for and gets nothing itself.
pub(super) struct Download {
    body: Incoming,
    request: Arc<Activity>,
    /// The task that sends the rest of the request.
    rest: Option<AbortHandle>,
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
    /// An error that is reported at the next poll.
    failure: Option<BodyError>,
    turn: Kept,
}

impl Download {
    pub(super) const fn new(
        body: Incoming,
        request: Arc<Activity>,
        rest: Option<AbortHandle>,
        limit: Duration,
        turn: Kept,
    ) -> Self {
        Self {
            body,
            request,
            rest,
            limit,
            timer: None,
            is_waiting: false,
            failure: None,
            turn,
        }
    }

    /// Fails at the next poll. The client's connection first sends what it has: an error ends it.
    fn fail(
        &mut self,
        error: BoxError,
        cx: &Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.turn.broke_off();
        self.failure = Some(BodyError::Upstream(error));
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Counts the time from the first poll without data on.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(now + self.limit)));
        if !self.is_waiting {
            self.is_waiting = true;
            timer.as_mut().reset(now + self.limit);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            let deadline = self.request.last() + self.limit;
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Some(Err(failure)));
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.is_waiting = false;
            return match trailers::without_forbidden(frame) {
                Some(Err(error)) => self.fail(error, cx),
                frame => Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Upstream))),
            };
        }
        ready!(self.poll_idle(cx));
        self.turn.broke_off();
        Poll::Ready(Some(Err(BodyError::Idle { limit: self.limit })))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Ends the upload: an upstream that has answered may never take the rest of the request.
impl Drop for Download {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take()
            && self.request.is_uploading()
        {
            let (request, limit) = (Arc::clone(&self.request), self.limit);
            tokio::spawn(async move {
                tokio::select! {
                    () = request.uploaded() => {}
                    () = request.stalled(limit) => rest.abort(),
                }
            });
        }
    }
}
