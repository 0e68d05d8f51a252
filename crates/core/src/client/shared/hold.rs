//! A table's part in a fleet: records to be written, and the other edges' knowledge.

use std::time::Duration;

use crate::bounded::{BoundedMap, MapKey, SlotSet, TableConfig};
use crate::client::key::{Key, Prefix};
use crate::client::table::Scope;
use crate::fleet::Pop;
use hikyaku_units::{Secs, Timestamp};

/// The state of sharing of one table. A `V` is the other edges' knowledge of a prefix.
#[derive(Debug)]
pub(crate) struct Hold<V> {
    pub(crate) pop: Pop,
    /// Records with contributions to be written.
    pub(crate) changed: SlotSet,
    remote: BoundedMap<Prefix, V>,
    /// Prefixes were forgotten, which the store may still have.
    has_forgotten: bool,
}

/// Knowledge that was read from a store.
pub(crate) trait WasRead {
    fn read_at(&self) -> Secs;
}

impl MapKey for Prefix {
    /// None: each prefix has a total of its own.
    fn alias(&self, _: u8) -> Option<Self> {
        None
    }
}

impl<V: WasRead> Hold<V> {
    /// That of an edge of `pop`. The others' knowledge is held as `remote` says, whose `journal` does not count.
    pub(crate) fn new(pop: Pop, remote: TableConfig) -> Self {
        let remote = TableConfig {
            journal: false,
            ..remote
        };
        Self {
            pop,
            changed: SlotSet::new(),
            remote: BoundedMap::new(remote),
            has_forgotten: false,
        }
    }

    pub(crate) fn get(&self, prefix: Prefix) -> Option<&V> {
        self.remote.get(&prefix)
    }

    /// Takes the knowledge of a prefix, in place of that from before.
    pub(crate) fn set(&mut self, prefix: Prefix, remote: V) {
        let known = self.remote.find(&prefix);
        let slot = self.remote.load(prefix, remote);
        if known.is_some() {
            self.remote.used(slot, false);
        }
    }

    /// The time since the knowledge of a prefix was read; `None` without any.
    pub(crate) fn age(&self, prefix: Prefix, now: Timestamp) -> Option<Duration> {
        let remote = self.get(prefix)?;
        Some(Secs::from(now).since(remote.read_at()))
    }

    /// Whether this edge's contribution of a time is from before it `began`, and not in its own knowledge of the
    /// prefix. That was observed last at `own`.
    pub(crate) fn takes_up(&self, contribution: Secs, own: Option<Secs>, began: Secs) -> bool {
        let is_former = match own {
            None => contribution <= began,
            // Within a second, what this life has observed may be in the contribution already. Before, the
            // knowledge is the contribution itself.
            Some(own) => contribution < began && own >= began,
        };
        is_former && !self.has_forgotten
    }

    pub(crate) fn forget(&mut self, scope: Scope) {
        self.has_forgotten |= !matches!(scope, Scope::Address(_));
        match scope {
            Scope::Address(_) => {}
            Scope::Prefix(prefix) => {
                let gone = Key::Prefix(prefix);
                let kept = |prefix: &Prefix| !gone.contains(&Key::Prefix(*prefix));
                self.remote.retain(kept);
            }
            Scope::All => drop(self.remote.clear()),
        }
    }

    /// Changes the knowledge of all prefixes. `change` returns whether it did.
    pub(crate) fn each(&mut self, change: impl FnMut(&mut V) -> bool) {
        self.remote.each(change);
    }
}
