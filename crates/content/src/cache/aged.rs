//! The head of a stored response at an age.

use std::sync::Arc;

use http::HeaderMap;

use crate::files::PreparedHeads;
use crate::routes::Rules;

/// The head of a stored response in one second of its age, as all hits of that second have it.
#[derive(Debug)]
pub(crate) struct AgedHead {
    pub(crate) headers: HeaderMap,
    pub(crate) prepared: PreparedHeads,
    age: u64,
    /// The changes with which it is prepared.
    changes: Option<Arc<Rules>>,
}

impl AgedHead {
    pub(super) fn new(headers: HeaderMap, age: u64, changes: Option<Arc<Rules>>) -> Self {
        Self {
            headers,
            prepared: PreparedHeads::default(),
            age,
            changes,
        }
    }

    /// Whether this is the head at an age, prepared with these changes.
    pub(super) fn is_of(&self, age: u64, changes: Option<&Arc<Rules>>) -> bool {
        let same = match (&self.changes, changes) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        };
        same && self.age == age
    }
}
