//! The task that moves the datagrams of an endpoint.

use std::fmt;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use quinn_proto::{ConnectionError, TransportError, TransportErrorCode};
use tokio::time::Sleep;

use crate::clock;
use crate::core::Core;
use crate::forwarding::Forwarded;
use crate::hub::Hub;

/// Rounds of receiving and sending after which other tasks have their turn.
const ROUNDS: usize = 16;

/// Drives an endpoint with all its connections. It has to be polled: spawn it onto the worker's runtime.
///
/// A round receives a batch of datagrams and handles all of them. It wakes the tasks that wait for what
/// came, and lets them run. Only then each connection that something happened to is polled once for what
/// it sends. So responses travel with the acknowledgements, and each burst is one call of the system.
///
/// It resolves when the endpoint and all its connections have ended, and to an error when the socket
/// fails. Dropping it ends all connections without a word to the peers.
#[must_use = "an endpoint does nothing without its driver"]
pub struct Driver {
    hub: Arc<Hub>,
    sleep: Option<Pin<Box<Sleep>>>,
    /// When `sleep` ends; `None` once it has.
    wakes_at: Option<Instant>,
    /// Tasks were woken, and had their turn before anything is sent.
    yielded: bool,
    /// Exchanged with the hub's lists, and empty between polls.
    scheduled: Vec<usize>,
    forwarded: Vec<Forwarded>,
}

impl Driver {
    pub(crate) const fn new(hub: Arc<Hub>) -> Self {
        Self {
            hub,
            sleep: None,
            wakes_at: None,
            yielded: false,
            scheduled: Vec::new(),
            forwarded: Vec::new(),
        }
    }

    /// Takes over what tasks and other workers have left.
    fn take(&mut self, core: &mut Core, now: Instant) {
        self.hub.take(&mut self.scheduled, &mut self.forwarded);
        core.dirty.append(&mut self.scheduled);
        for datagram in self.forwarded.drain(..) {
            core.handle(datagram, &*self.hub.socket, now);
        }
    }

    /// A round. Ready unless there is nothing left to do.
    fn round(&mut self, core: &mut Core, cx: &mut Context<'_>) -> Poll<io::Result<Next>> {
        let now = clock::now();
        let socket = &*Arc::clone(&self.hub.socket);
        self.take(core, now);
        // After a turn of others the socket is asked again before the driver sleeps.
        let mut received = mem::take(&mut self.yielded);
        if !received {
            match core.receive(cx, socket, now) {
                Poll::Ready(Ok(())) => received = true,
                // The kernel reports by it that a peer is gone, which anybody could forge.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => {
                    received = true;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
            core.expire(now);
            if core.report() > 0 {
                self.yielded = true;
                return Poll::Ready(Ok(Next::Yield));
            }
        }
        if core.outbox.retry(socket) {
            core.transmit(socket, now);
        }
        self.rest(core, cx, received)
    }

    /// Decides about the next step after a round.
    fn rest(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_>,
        received: bool,
    ) -> Poll<io::Result<Next>> {
        let has_work = if core.outbox.is_blocked() {
            self.hub.socket.poll_writable(cx).is_ready()
        } else {
            !core.dirty.is_empty()
        };
        if received || has_work || self.is_due(core, cx) {
            return Poll::Ready(Ok(Next::Round));
        }
        match self.hub.sleep(cx.waker(), core.count()) {
            Asleep::Work => Poll::Ready(Ok(Next::Round)),
            Asleep::Nothing => Poll::Pending,
            Asleep::Unused => Poll::Ready(Ok(Next::End)),
        }
    }

    /// Has the driver woken for the next deadline. Returns true if it has come.
    fn is_due(&mut self, core: &Core, cx: &mut Context<'_>) -> bool {
        let Some(at) = core.timers.next() else {
            return false;
        };
        let deadline = tokio::time::Instant::from_std(at);
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        // One that ends earlier is left: setting it costs more than waking.
        if self.wakes_at.is_none_or(|wakes_at| at < wakes_at) {
            sleep.as_mut().reset(deadline);
            self.wakes_at = Some(at);
        }
        let is_over = sleep.as_mut().poll(cx).is_ready();
        if is_over {
            self.wakes_at = None;
        }
        is_over
    }
}

/// The next step of a driver.
enum Next {
    Round,
    /// Let others run.
    Yield,
    End,
}

impl Future for Driver {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let hub = Arc::clone(&this.hub);
        let mut core = hub.core.lock();
        for _ in 0..ROUNDS {
            match this.round(&mut core, cx) {
                Poll::Ready(Ok(Next::Round)) => {}
                Poll::Ready(Ok(Next::Yield)) => break,
                Poll::Ready(Ok(Next::End)) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let reason = ConnectionError::TransportError(TransportError {
            code: TransportErrorCode::INTERNAL_ERROR,
            frame: None,
            reason: "the endpoint's driver has ended".to_owned(),
        });
        self.hub.core.lock().abandon(&reason);
        self.hub.end();
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// Whether a driver that wants to sleep can.
pub(crate) enum Asleep {
    /// It is woken for the next piece of work.
    Nothing,
    /// There is work already.
    Work,
    /// Nobody uses the endpoint any more.
    Unused,
}
