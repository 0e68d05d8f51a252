//! HTTP/1.1 connections that wait for their next request.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::connect::Http1;

/// Unused connections, the one used last at the end. That one is taken first, so that those beyond
/// the usual need grow old.
pub(super) struct Idle {
    connections: Mutex<Vec<Waiting>>,
    max: usize,
    keep_alive: Duration,
}

struct Waiting {
    connection: Http1,
    until: Instant,
}

impl Idle {
    /// Keeps at most `max` connections, and each no longer than `keep_alive`.
    pub(super) fn new(max: usize, keep_alive: Duration) -> Arc<Self> {
        Arc::new(Self {
            connections: Mutex::default(),
            max,
            keep_alive,
        })
    }

    pub(super) fn take(&self) -> Option<Http1> {
        let mut connections = self.connections.lock();
        while let Some(waiting) = connections.pop() {
            if waiting.connection.sender.is_ready() && Instant::now() < waiting.until {
                return Some(waiting.connection);
            }
        }
        None
    }

    /// Keeps a connection once its response has been read to the end. A lifetime that the upstream
    /// `allows` shortens the usual one.
    pub(super) fn keep(self: &Arc<Self>, mut connection: Http1, allows: Option<Duration>) {
        let time = allows.map_or(self.keep_alive, |allows| allows.min(self.keep_alive));
        if time.is_zero() {
            return;
        }
        let idle = Arc::downgrade(self);
        tokio::spawn(async move {
            if connection.sender.ready().await.is_ok()
                && let Some(idle) = idle.upgrade()
            {
                let until = Instant::now() + time;
                idle.put(Waiting { connection, until });
            }
        });
    }

    fn put(self: &Arc<Self>, waiting: Waiting) {
        let mut connections = self.connections.lock();
        if connections.len() >= self.max {
            return;
        }
        let until = waiting.until;
        connections.push(waiting);
        if connections.len() == 1 {
            tokio::spawn(expire(Arc::downgrade(self), until));
        }
    }

    /// Closes connections that are too old. Returns the time at which the next one will be.
    fn purge(&self) -> Option<Instant> {
        let mut connections = self.connections.lock();
        connections.retain(|waiting| Instant::now() < waiting.until);
        connections.iter().map(|waiting| waiting.until).min()
    }
}

/// Runs while there are idle connections.
async fn expire(idle: Weak<Idle>, first: Instant) {
    let mut next = Some(first);
    while let Some(until) = next {
        tokio::time::sleep_until(until).await;
        next = idle.upgrade().and_then(|idle| idle.purge());
    }
}
