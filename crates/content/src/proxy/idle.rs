//! HTTP/1.1 connections that wait for their next request.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use super::http1::Http1;

/// Unused connections, the one used last at the end. That one is taken first, so that those beyond
/// the usual need grow old.
pub(super) struct Idle {
    state: Mutex<State>,
    max: usize,
    keep_alive: Duration,
    age: Duration,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// The task that closes connections, while there are any.
    sweeper: Option<Waker>,
}

struct Waiting {
    connection: Http1,
    until: Instant,
}

impl Idle {
    /// Keeps at most `max` connections, each no longer than `keep_alive`, and none beyond the `age`.
    pub(super) fn new(max: usize, keep_alive: Duration, age: Duration) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            max,
            keep_alive,
            age,
        })
    }

    pub(super) fn take(&self) -> Option<Http1> {
        let mut state = self.state.lock();
        while let Some(mut waiting) = state.waiting.pop() {
            if Instant::now() < waiting.until && waiting.connection.is_usable_now() {
                return Some(waiting.connection);
            }
        }
        None
    }

    /// Keeps a connection whose response has been read to the end. A lifetime that the upstream
    /// `allows` shortens the usual one.
    pub(super) fn keep(self: &Arc<Self>, connection: Http1, allows: Option<Duration>) {
        let time = allows.map_or(self.keep_alive, |allows| allows.min(self.keep_alive));
        let now = Instant::now();
        let until = (now + time).min(connection.since() + self.age);
        let mut state = self.state.lock();
        if until <= now || state.waiting.len() >= self.max {
            return;
        }
        let mut waiting = Waiting { connection, until };
        match &state.sweeper {
            Some(sweeper) => {
                let mut cx = Context::from_waker(sweeper);
                if waiting.connection.is_usable(&mut cx) {
                    state.waiting.push(waiting);
                }
            }
            None => {
                state.waiting.push(waiting);
                state.sweeper = Some(Waker::noop().clone());
                tokio::spawn(sweep(Arc::downgrade(self)));
            }
        }
    }

    /// Closes connections that are too old, or that the upstream has closed. Returns the time at which
    /// the next one will be too old.
    fn sweep(&self, cx: &mut Context<'_>) -> Option<Instant> {
        let mut state = self.state.lock();
        let now = Instant::now();
        state
            .waiting
            .retain_mut(|waiting| now < waiting.until && waiting.connection.is_usable(cx));
        let next = state.waiting.iter().map(|waiting| waiting.until).min();
        state.sweeper = next.map(|_| cx.waker().clone());
        next
    }
}

/// Runs while there are idle connections.
async fn sweep(idle: Weak<Idle>) {
    let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
    poll_fn(|cx| {
        loop {
            let Some(next) = idle.upgrade().and_then(|idle| idle.sweep(cx)) else {
                return Poll::Ready(());
            };
            Sleep::reset(timer.as_mut(), next);
            ready!(timer.as_mut().poll(cx));
        }
    })
    .await;
}
