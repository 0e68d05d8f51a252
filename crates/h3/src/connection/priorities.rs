//! Priorities of requests by PRIORITY_UPDATE (RFC 9218 §7).

use std::collections::BTreeMap;

use crate::error::{Code, Error};
use crate::priority::Priority;

/// The last update of each request that is open or may be opened.
#[derive(Debug)]
pub(super) struct Priorities {
    updates: BTreeMap<u64, Priority>,
    /// The identifier after that of the last request that came in.
    next: u64,
    /// The number of requests that may be open at a time.
    max_requests: u64,
}

impl Priorities {
    pub(super) fn new(max_requests: u64) -> Self {
        Self {
            updates: BTreeMap::new(),
            next: 0,
            max_requests,
        }
    }

    pub(super) fn on_opened(&mut self, stream: u64) {
        self.next = self.next.max(stream.saturating_add(4));
    }

    /// Keeps the priority of a request that is open, or not yet open. Returns whether the request
    /// came in already.
    ///
    /// # Errors
    /// `H3_ID_ERROR` if `stream` is no request's, or is beyond those that the client may open (RFC
    /// 9218 §7.2).
    pub(super) fn update(&mut self, stream: u64, priority: Priority) -> Result<bool, Error> {
        let limit = self
            .max_requests
            .saturating_mul(4)
            .saturating_add(self.next);
        if !stream.is_multiple_of(4) || stream >= limit {
            return Err(Error::connection(
                Code::IdError,
                "PRIORITY_UPDATE of a stream that is no request's",
            ));
        }
        self.updates.insert(stream, priority);
        Ok(stream < self.next)
    }

    pub(super) fn of(&self, stream: u64) -> Option<Priority> {
        self.updates.get(&stream).copied()
    }

    pub(super) fn remove(&mut self, stream: u64) {
        self.updates.remove(&stream);
    }
}
