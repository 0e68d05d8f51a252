//! What a connection has still to send, which gives it its class of content.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::ClassId;
use super::super::lookups::Reroute;
use super::ConnRoute;

/// Bytes that a response without an announced length counts for.
const UNKNOWN_LENGTH: u64 = 1_000_000;

impl ConnRoute {
    /// Counts a response to a request for `path` among what is to be sent, until it is dropped.
    pub(crate) fn begin(
        self: &Arc<Self>,
        path: &str,
        headers: &http::HeaderMap,
        length: Option<u64>,
    ) -> Outstanding {
        let class = self.egress.rules.load().classes.of(path, headers);
        let left = length.unwrap_or(UNKNOWN_LENGTH);
        self.ask(left);
        self.outstanding[class.index()].fetch_add(left, Ordering::Relaxed);
        self.classify();
        Outstanding {
            route: Arc::clone(self),
            class,
            left,
            sent: 0,
        }
    }

    /// The class of most of what it has carried; `None` of one that has carried nothing.
    pub(super) fn main_class(&self) -> Option<ClassId> {
        let carried = self
            .carried
            .iter()
            .map(|bytes| bytes.load(Ordering::Relaxed));
        let carried = carried.enumerate().filter(|(_, bytes)| *bytes > 0);
        let most = carried.max_by_key(|(_, bytes)| *bytes);
        most.map(|(place, _)| ClassId::at(place))
    }

    /// Counts what is asked for, which may be far more or less than the decision was taken for.
    fn ask(&self, bytes: u64) {
        let sending = |left: &AtomicU64| left.load(Ordering::Relaxed) > 0;
        if self.outstanding.iter().any(sending) {
            self.asked.fetch_add(bytes, Ordering::Relaxed);
            return;
        }
        let before = self.asked.swap(bytes, Ordering::Relaxed);
        if before / 2 > bytes || bytes / 2 > before {
            self.reroute();
        }
    }

    fn classify(&self) {
        let bytes = self
            .outstanding
            .iter()
            .map(|bytes| bytes.load(Ordering::Relaxed));
        // Of equal ones the first.
        let most = bytes
            .enumerate()
            .max_by_key(|(place, bytes)| (*bytes, std::cmp::Reverse(*place)));
        let Some((place, bytes)) = most else {
            return;
        };
        if bytes > 0 && self.class.swap(place as u8, Ordering::Relaxed) != place as u8 {
            self.reroute();
        }
    }
}

/// A response that is being sent.
#[derive(Debug)]
pub(crate) struct Outstanding {
    route: Arc<ConnRoute>,
    class: ClassId,
    left: u64,
    sent: u64,
}

impl Outstanding {
    /// Takes note of bytes that the transport has.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        let sent = self.left.min(bytes as u64);
        self.left -= sent;
        // More than announced, or of a length that is not.
        let more = bytes as u64 - sent;
        if more > 0 {
            self.route.asked.fetch_add(more, Ordering::Relaxed);
        }
        self.route.outstanding[self.class.index()].fetch_sub(sent, Ordering::Relaxed);
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        let class = &self.route.outstanding[self.class.index()];
        class.fetch_sub(self.left, Ordering::Relaxed);
        self.route.carried[self.class.index()].fetch_add(self.sent, Ordering::Relaxed);
        self.route.classify();
    }
}
