//! Changes of the records of routes, for the store.

use super::EgressKey;

/// Changes for the store: first everything goes if it was cleared, then each record is put or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteChanges {
    /// Everything was forgotten.
    pub cleared: bool,
    /// Records as bytes, for [`RouteTable::insert_encoded`](super::RouteTable::insert_encoded); `None` for those that went.
    pub records: Vec<(EgressKey, Option<Box<[u8]>>)>,
}

impl RouteChanges {
    /// Whether nothing changed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        !self.cleared && self.records.is_empty()
    }

    /// These changes, and then the `later` ones.
    #[must_use]
    pub fn then(mut self, later: Self) -> Self {
        if later.cleared {
            return later;
        }
        self.records.extend(later.records);
        self
    }
}
