//! Connections of HTTP/1.1 that wait for their next request.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::activity::Upload;

/// Unused connections, the one used last at the end: it is taken first, so that
/// those beyond the usual need grow old.
pub(super) struct Idle {
    senders: Mutex<Vec<Waiting>>,
    most: usize,
    keep_alive: Duration,
}

struct Waiting {
    sender: SendRequest<Upload>,
    since: Instant,
}

impl Idle {
    /// Keeps at most `most` connections, and each no longer than `keep_alive`.
    pub(super) fn new(most: usize, keep_alive: Duration) -> Arc<Self> {
        Arc::new(Self {
            senders: Mutex::default(),
            most,
            keep_alive,
        })
    }

    pub(super) fn take(&self) -> Option<SendRequest<Upload>> {
        let mut senders = self.senders.lock();
        while let Some(waiting) = senders.pop() {
            if waiting.sender.is_ready() && waiting.since.elapsed() < self.keep_alive {
                return Some(waiting.sender);
            }
        }
        None
    }

    /// Keeps a connection once its response has been read to the end.
    pub(super) fn keep(self: &Arc<Self>, mut sender: SendRequest<Upload>) {
        let idle = Arc::downgrade(self);
        tokio::spawn(async move {
            if sender.ready().await.is_ok()
                && let Some(idle) = idle.upgrade()
            {
                idle.put(sender);
            }
        });
    }

    fn put(self: &Arc<Self>, sender: SendRequest<Upload>) {
        let since = Instant::now();
        let mut senders = self.senders.lock();
        if senders.len() >= self.most {
            return;
        }
        senders.push(Waiting { sender, since });
        if senders.len() == 1 {
            tokio::spawn(expire(Arc::downgrade(self), self.keep_alive));
        }
    }

    /// Closes what is too old, and tells whether anything is left.
    fn purge(&self) -> bool {
        let mut senders = self.senders.lock();
        senders.retain(|waiting| waiting.since.elapsed() < self.keep_alive);
        !senders.is_empty()
    }
}

/// Runs while there are idle connections.
async fn expire(idle: Weak<Idle>, keep_alive: Duration) {
    loop {
        tokio::time::sleep(keep_alive).await;
        if !idle.upgrade().is_some_and(|idle| idle.purge()) {
            return;
        }
    }
}
