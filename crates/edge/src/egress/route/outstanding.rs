//! Bytes that a connection has still to send, which give it its class of content.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hikyaku_core::egress::RouteObservation;

use super::super::ClassId;
use super::super::lookups::Reroute;
use super::ConnRoute;

/// Bytes that a response without an announced length counts for.
const UNKNOWN_LENGTH: u64 = 1_000_000;

impl ConnRoute {
    /// Counts a response to a request for `path` as outstanding, until it is dropped.
    pub(crate) fn begin(
        self: &Arc<Self>,
        path: &str,
        headers: &http::HeaderMap,
        length: Option<u64>,
    ) -> Outstanding {
        let class = self.egress.rules.load().classes.of(path, headers);
        let left = length.unwrap_or(UNKNOWN_LENGTH);
        if left > 0 {
            self.ask(left);
        }
        self.outstanding[class.index()].fetch_add(left, Ordering::Relaxed);
        self.classify();
        Outstanding {
            route: Arc::clone(self),
            class,
            size: left,
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

    /// Has the decision taken anew if far more or less is asked for than it was taken for.
    fn ask(&self, bytes: u64) {
        let asked = self.demand.lock().open(bytes);
        let decided = self.decided_for.load(Ordering::Relaxed);
        let (less, more) = (asked.min(decided), asked.max(decided));
        if more >= RouteObservation::MIN_BYTES && more / 2 > less {
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
    /// Bytes that it counts for.
    size: u64,
    left: u64,
    sent: u64,
}

/// Requests of a connection that are open at a time.
#[derive(Debug, Default)]
pub(super) struct Demand {
    open: usize,
    /// Of the open responses; while none is, of the last.
    bytes: u64,
    /// The most so far.
    most: u64,
}

impl Demand {
    /// Another response is open. Returns the bytes of all open responses.
    fn open(&mut self, bytes: u64) -> u64 {
        if self.open == 0 {
            self.bytes = 0;
        }
        self.open += 1;
        self.grow(bytes);
        self.bytes
    }

    fn grow(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.most = self.most.max(self.bytes);
    }

    fn close(&mut self, bytes: u64) {
        self.open -= 1;
        if self.open > 0 {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) const fn most(&self) -> u64 {
        self.most
    }
}

impl Outstanding {
    /// Takes note of bytes that the transport has.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        let sent = self.left.min(bytes as u64);
        self.left -= sent;
        // More than announced, or of a length that is not.
        let more = bytes as u64 - sent;
        if more > 0 && self.size > 0 {
            self.size += more;
            self.route.demand.lock().grow(more);
        }
        self.route.outstanding[self.class.index()].fetch_sub(sent, Ordering::Relaxed);
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        let class = &self.route.outstanding[self.class.index()];
        class.fetch_sub(self.left, Ordering::Relaxed);
        if self.size > 0 {
            self.route.demand.lock().close(self.size);
        }
        self.route.carried[self.class.index()].fetch_add(self.sent, Ordering::Relaxed);
        self.route.classify();
    }
}
