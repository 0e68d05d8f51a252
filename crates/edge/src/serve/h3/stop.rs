//! Stopping a connection without losing a request.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hikyaku_quic::Connection;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A step of a graceful stop.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Announce to the client that no more requests will be taken soon: GOAWAY with a late id.
    Announce,
    /// Take no more: GOAWAY with the last request's id.
    Refuse,
    /// Look whether everything is answered.
    Look,
}

/// The steps of a graceful stop, in their time.
pub(super) struct Stopping {
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    quic: Connection,
    timer: Option<Pin<Box<Sleep>>>,
    refused: bool,
}

/// Between looks whether everything is answered.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

impl Stopping {
    pub(super) fn new(stop: CancellationToken, quic: Connection) -> Self {
        Self {
            stop: Box::pin(stop.cancelled_owned()),
            quic,
            timer: None,
            refused: false,
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if let Some(timer) = &mut self.timer {
            ready!(timer.as_mut().poll(cx));
            timer.as_mut().reset(Instant::now() + LOOK_INTERVAL);
            return Poll::Ready(match std::mem::replace(&mut self.refused, true) {
                false => Step::Refuse,
                true => Step::Look,
            });
        }
        ready!(self.stop.as_mut().poll(cx));
        self.begin();
        Poll::Ready(Step::Announce)
    }

    /// Begins with what follows [`Step::Announce`], unless it has begun.
    pub(super) fn begin(&mut self) {
        // By then the client knows, and what it had sent before has arrived.
        let grace = self.quic.rtt() * 2;
        self.timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(grace)));
    }

    /// Whether it has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.timer.is_some()
    }
}
