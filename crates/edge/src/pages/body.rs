//! A page's body while it is rewritten.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use tokio::task::coop;

use hikyaku_content::{Body, BoxError};

/// Most bytes that are rewritten at once: less than a millisecond's work. After it other connections get
/// their turn when the task's budget is used up.
const SLICE: usize = 16 << 10;

/// Rewrites one page, piece by piece.
pub(crate) trait Rewrite {
    /// Takes the next piece of the page, and returns the bytes that are ready; parts of it may come
    /// later.
    fn write(&mut self, data: &[u8]) -> Vec<u8>;

    /// The rest of the bytes at the page's end.
    fn end(&mut self) -> Vec<u8>;
}

/// Rewrites a body as it is asked for.
pub(crate) struct Rewritten<R> {
    inner: Body,
    rewriter: Option<R>,
    /// Bytes that arrived and were not rewritten yet.
    waiting: Bytes,
    trailers: VecDeque<HeaderMap>,
}

impl<R: Rewrite> Rewritten<R> {
    pub(crate) fn new(inner: Body, rewriter: R) -> Self {
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

impl<R: Rewrite + Unpin> http_body::Body for Rewritten<R> {
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

    use super::*;

    /// Holds the last byte of each piece back.
    #[derive(Default)]
    struct Late(Vec<u8>);

    impl Rewrite for Late {
        fn write(&mut self, data: &[u8]) -> Vec<u8> {
            self.0.extend_from_slice(data);
            let last = self.0.pop();
            let ready = std::mem::take(&mut self.0);
            self.0.extend(last);
            ready
        }

        fn end(&mut self) -> Vec<u8> {
            std::mem::take(&mut self.0)
        }
    }

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
        let mut cx = Context::from_waker(Waker::noop());
        let mut collected = Box::pin(Rewritten::new(inner, Late::default()).collect());
        let Poll::Ready(Ok(collected)) = collected.as_mut().poll(&mut cx) else {
            panic!("it waits");
        };
        assert_eq!(collected.trailers(), Some(&trailers));
        assert_eq!(collected.to_bytes(), page);
    }
}
