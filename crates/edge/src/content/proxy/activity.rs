//! Requests and responses that are watched for standing still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// When something last moved, and whether it is the client's turn.
#[derive(Debug)]
pub(super) struct Activity {
    started: Instant,
    last_ms: AtomicU64,
    waits_for_client: AtomicBool,
    uploads: AtomicUsize,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            last_ms: AtomicU64::new(0),
            waits_for_client: AtomicBool::new(false),
            uploads: AtomicUsize::new(0),
        })
    }

    pub(super) fn touch(&self) {
        let elapsed = self.started.elapsed().as_millis();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        self.last_ms.store(elapsed, Relaxed);
    }

    pub(super) fn waits_for_client(&self, waits: bool) {
        self.waits_for_client.store(waits, Relaxed);
    }

    pub(super) fn upload_begins(&self) {
        self.uploads.fetch_add(1, Relaxed);
    }

    pub(super) fn upload_ends(&self) {
        self.uploads.fetch_sub(1, Relaxed);
        self.waits_for_client(false);
        self.touch();
    }

    /// Whether the request's body is still being sent.
    pub(super) fn is_uploading(&self) -> bool {
        self.uploads.load(Relaxed) > 0
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

    pub(super) fn last(&self) -> Instant {
        if self.waits_for_client.load(Relaxed) {
            self.touch();
        }
        self.started + Duration::from_millis(self.last_ms.load(Relaxed))
    }
}
