//! Changes of clients' records, for the store.

use std::collections::HashSet;

use hikyaku_core::client::key::Key;
use hikyaku_core::egress::RouteChanges;

use crate::gain::DayChange;

/// Changes for the store: first everything forgotten and of the cleared stripes goes, then each
/// record is put or removed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Addresses and prefixes that were forgotten with all in them: the store may hold records
    /// that could not be loaded.
    pub(crate) forgotten: Vec<Key>,
    pub(crate) cleared: HashSet<usize>,
    pub(crate) records: Vec<(Key, Option<Box<[u8]>>)>,
    /// Of egress routes.
    pub(crate) routes: RouteChanges,
    /// Days of the gain.
    pub(crate) gain: Vec<DayChange>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.forgotten.is_empty()
            && self.cleared.is_empty()
            && self.records.is_empty()
            && self.routes.is_empty()
            && self.gain.is_empty()
    }
}
