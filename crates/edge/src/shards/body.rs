//! A page's body while it is rewritten.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use tokio::task::coop;

use super::rewrite::Rewriter;
use hikyaku_content::{Body, BoxError};

/// Most bytes that are rewritten at once: less than a millisecond's work. After it other connections get
/// their turn when the task's budget is used up.
const SLICE: usize = 16 << 10;

/// Rewrites a body as it is asked for.
pub(super) struct Rewritten {
    inner: Body,
    rewriter: Option<Rewriter>,
    /// Bytes that arrived and were not rewritten yet.
    waiting: Bytes,
    trailers: VecDeque<HeaderMap>,
}

impl Rewritten {
    pub(super) fn new(inner: Body, rewriter: Rewriter) -> Self {
        Self {
            inner,
            rewriter: Some(rewriter),
            waiting: Bytes::new(),
            trailers: VecDeque::new(),
        }
    }

    /// Rewrites a slice of the waiting bytes; `None` if nothing is ready for it.
    fn rewrite(&mut self) -> Option<Bytes> {
        let slice = self.waiting.split_to(self.waiting.len().min(SLICE));
        let done = match &mut self.rewriter {
            Some(rewriter) => rewriter.write(&slice).into(),
            None => slice,
        };
        (!done.is_empty()).then_some(done)
    }

    /// The rest of the page at the end, the first time.
    fn end(&mut self) -> Option<Bytes> {
        let left = self.rewriter.take()?.end();
        (!left.is_empty()).then(|| left.into())
    }
}

impl http_body::Body for Rewritten {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if !self.waiting.is_empty() {
                let turn = ready!(coop::poll_proceed(cx));
                turn.made_progress();
                match self.rewrite() {
                    Some(done) => return Poll::Ready(Some(Ok(Frame::data(done)))),
                    None => continue,
                }
            }
            if let Some(trailers) = self.trailers.pop_front() {
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            let frame = match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(frame) => frame?,
                None => return Poll::Ready(self.end().map(|left| Ok(Frame::data(left)))),
            };
            match frame.into_data() {
                Ok(data) => self.waiting = data,
                Err(frame) => {
                    self.trailers.extend(frame.into_trailers());
                    if let Some(left) = self.end() {
                        return Poll::Ready(Some(Ok(Frame::data(left))));
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rewriter.is_none()
            && self.waiting.is_empty()
            && self.trailers.is_empty()
            && self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http_body_util::{BodyExt, StreamBody};

    use super::super::tests::spread;
    use super::*;

    #[test]
    fn trailers_come_after_everything() {
        let mut trailers = HeaderMap::new();
        trailers.insert("a", "1".parse().unwrap());
        let page = "<p>é</p><img src=/a.png><b".repeat(3000);
        let frames = [
            Ok::<_, BoxError>(Frame::data(Bytes::from(page.clone()))),
            Ok(Frame::trailers(trailers.clone())),
        ];
        let inner = Body::boxed(StreamBody::new(futures_util::stream::iter(frames)));
        let rewriter = Rewriter::new(spread(1, ""));
        let mut cx = Context::from_waker(Waker::noop());
        let mut collected = Box::pin(Rewritten::new(inner, rewriter).collect());
        let Poll::Ready(Ok(collected)) = collected.as_mut().poll(&mut cx) else {
            panic!("it waits");
        };
        assert_eq!(collected.trailers(), Some(&trailers));
        assert_eq!(collected.to_bytes(), page);
    }
}
