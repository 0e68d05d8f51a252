//! Detection of requests and responses that stand still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The time of the last progress, and whether the next step is the client's.
#[derive(Debug)]
pub(super) struct Activity {
    started: Instant,
    last_ms: AtomicU64,
    waits_for_client: AtomicBool,
    uploads: AtomicUsize,
    upload_ended: Notify,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            last_ms: AtomicU64::new(0),
            waits_for_client: AtomicBool::new(false),
            uploads: AtomicUsize::new(0),
            upload_ended: Notify::new(),
        })
    }

    /// When the request began.
    pub(super) const fn started(&self) -> Instant {
        self.started
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
        self.upload_ended.notify_one();
    }

    /// Returns once no body of the request is being sent any more. For one caller at a time.
    pub(super) async fn uploaded(&self) {
        while self.is_uploading() {
            self.upload_ended.notified().await;
        }
    }

    /// Whether the request's body is still being sent.
    pub(super) fn is_uploading(&self) -> bool {
        self.uploads.load(Relaxed) > 0
    }

    /// Returns after `limit` without progress. Time that waits for the client does not count.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_an_upload_is_notified_at_once() {
        let activity = Activity::new();
        activity.uploaded().await;
        activity.upload_begins();
        activity.upload_begins();
        let waiting = Arc::clone(&activity);
        let notified = tokio::spawn(async move { waiting.uploaded().await });
        activity.upload_ends();
        tokio::task::yield_now().await;
        assert!(!notified.is_finished(), "another upload is under way");
        activity.upload_ends();
        notified.await.unwrap();
    }
}
