//! Request bodies, bounded in size and time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::config::Config;
use crate::content::{BoxError, RequestBody};

type Refusal = (StatusCode, &'static str);

const TOO_LARGE: Refusal = (
    StatusCode::PAYLOAD_TOO_LARGE,
    "the request's body is larger than limits.body_size",
);
const TOO_SLOW: Refusal = (
    StatusCode::REQUEST_TIMEOUT,
    "no byte of the request's body came for timeouts.body",
);

/// How reading a body went, for the response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome(Option<Arc<AtomicU8>>);

impl Outcome {
    /// The status to answer with instead, if the body was refused while it was read.
    pub(crate) fn failure(&self) -> Option<Refusal> {
        match self.0.as_ref()?.load(Ordering::Relaxed) {
            1 => Some(TOO_LARGE),
            2 => Some(TOO_SLOW),
            _ => None,
        }
    }
}

/// A request's body that ends with an error when it grows too large or comes too slowly.
pub(crate) struct LimitedBody {
    inner: RequestBody,
    left: u64,
    patience: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    outcome: Arc<AtomicU8>,
}

impl LimitedBody {
    /// Bounds the body of a request, or refuses it for the size that it announces.
    pub(crate) fn limit(
        request: Request<RequestBody>,
        config: &Config,
    ) -> (Result<Request<RequestBody>, Refusal>, Outcome) {
        let max = config.limits.body_size.bytes();
        if request.body().is_end_stream() {
            return (Ok(request), Outcome::default());
        }
        if request.body().size_hint().lower() > max {
            return (Err(TOO_LARGE), Outcome::default());
        }
        let outcome = Arc::new(AtomicU8::new(0));
        let request = request.map(|inner| {
            RequestBody::new(Self {
                inner,
                left: max,
                patience: config.timeouts.body,
                timer: None,
                outcome: Arc::clone(&outcome),
            })
        });
        (Ok(request), Outcome(Some(outcome)))
    }

    fn refuse(&self, code: u8, (_, reason): Refusal) -> BoxError {
        self.outcome.store(code, Ordering::Relaxed);
        reason.into()
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let patience = self.patience;
        self.timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)))
            .as_mut()
            .poll(cx)
    }
}

impl Body for LimitedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) else {
            ready!(self.poll_patience(cx));
            return Poll::Ready(Some(Err(self.refuse(2, TOO_SLOW))));
        };
        let patience = self.patience;
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(Instant::now() + patience);
        }
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let Some(left) = self.left.checked_sub(data.len() as u64) else {
                return Poll::Ready(Some(Err(self.refuse(1, TOO_LARGE))));
            };
            self.left = left;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
