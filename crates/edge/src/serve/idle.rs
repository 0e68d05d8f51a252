//! Connections without requests.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;

use crate::clock;
use crate::conn::Conn;

/// Notices that a connection has had no request for a time. Whether the client keeps it alive by
/// other means, such as PING, does not matter.
pub(super) struct IdleTimer {
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
}

impl IdleTimer {
    /// For a connection that may have no request for `timeout`.
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            timer: Box::pin(tokio::time::sleep(timeout)),
        }
    }

    /// Ready when there has been no request for the time.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, conn: &Conn) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let since = match conn.ledger.load().in_flight {
                0 => conn.ledger.idle_since(),
                _ => Some(clock::now()),
            };
            let since = since.unwrap_or_else(|| clock::now() - conn.age());
            let deadline = since + self.timeout;
            if deadline <= clock::now() {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(deadline.into());
        }
    }
}
