//! Bodies that are watched for standing still.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::error::BodyError;
use crate::content::{BoxError, RequestBody};

/// When something last moved, and whether it is the client's turn.
#[derive(Debug)]
pub(super) struct Activity {
    started: Instant,
    last_ms: AtomicU64,
    waits_for_client: AtomicBool,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            last_ms: AtomicU64::new(0),
            waits_for_client: AtomicBool::new(false),
        })
    }

    pub(super) fn touch(&self) {
        let elapsed = self.started.elapsed().as_millis();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        self.last_ms.store(elapsed, Relaxed);
    }

    /// Returns once nothing has moved for `limit`. Time in which it is the
    /// client's turn does not count.
    pub(super) async fn stalled(&self, limit: Duration) {
        loop {
            let deadline = self.last() + limit;
            if deadline <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }

    fn last(&self) -> Instant {
        if self.waits_for_client.load(Relaxed) {
            self.touch();
        }
        self.started + Duration::from_millis(self.last_ms.load(Relaxed))
    }
}

/// A request's body on its way to the upstream.
#[derive(Debug)]
pub(super) struct Upload {
    body: RequestBody,
    activity: Arc<Activity>,
}

impl Upload {
    pub(super) const fn new(body: RequestBody, activity: Arc<Activity>) -> Self {
        Self { body, activity }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.activity
            .waits_for_client
            .store(frame.is_pending(), Relaxed);
        if frame.is_ready() {
            self.activity.touch();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.activity.waits_for_client.store(false, Relaxed);
        self.activity.touch();
    }
}

/// A response's body on its way to the client. It fails when the upstream sends
/// nothing for a time in which it was waited for, and nothing was sent to it.
#[derive(Debug)]
pub(super) struct Download {
    body: Incoming,
    request: Arc<Activity>,
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl Download {
    pub(super) const fn new(body: Incoming, request: Arc<Activity>, limit: Duration) -> Self {
        Self {
            body,
            request,
            limit,
            timer: None,
            is_waiting: false,
        }
    }

    /// Runs from the first time that there was nothing to send.
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
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.is_waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Upstream)));
        }
        ready!(self.poll_idle(cx));
        Poll::Ready(Some(Err(BodyError::Idle { limit: self.limit })))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
