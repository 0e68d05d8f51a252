//! The records of routes that are shared with other edges of the PoP.

use std::time::Duration;

use hikyaku_core::bounded::TableConfig;
use hikyaku_core::client::key::Prefix;
use hikyaku_core::egress::RouteContributions;
use hikyaku_core::fleet::Pop;

use super::Egress;
use crate::seed::random;

impl Egress {
    /// Shares from now on, as an edge of `pop`. The others' knowledge is held of `max_remote` prefixes at
    /// most.
    pub(crate) fn share(&self, pop: Pop, max_remote: usize) {
        let remote = TableConfig {
            max_records: max_remote,
            hash_key: [random(), random()],
            journal: false,
        };
        self.table.lock().share(pop, remote);
    }

    /// Encoded contributions of prefixes whose routes this edge has observed since the last call, `max` at
    /// most.
    pub(crate) fn drain_shared(&self, max: usize) -> Vec<(Prefix, Box<[u8]>)> {
        let state = self.state();
        self.table.lock().drain_shared(max, state.names())
    }

    /// Notes all prefixes as observed anew, for a store that has lost their contributions.
    pub(crate) fn mark_all_shared(&self) {
        self.table.lock().mark_all_shared();
    }

    /// Takes the contributions of all edges of a prefix, of which those of `me` do not count. Without a store on
    /// disk, the former one of `me` is this edge's own knowledge again.
    pub(crate) fn set_remote<E: Ord>(
        &self,
        prefix: Prefix,
        of: &RouteContributions<E>,
        me: &E,
        pop: Pop,
    ) {
        let (state, now) = (self.state(), self.clock.now());
        let policy = &self.rules.load().policy;
        let remote = of.remote(me, pop, state.names(), now, policy);
        let mut table = self.table.lock();
        if !self.keeps
            && let Some(former) = of.of(me)
            && table.remote_age(prefix, now).is_none()
        {
            table.take_up(prefix, former, state.names(), self.began);
        }
        table.set_remote(prefix, remote);
    }

    /// The age of the other edges' knowledge of a prefix's routes; `None` where it is to be read.
    pub(crate) fn remote_age(&self, prefix: Prefix) -> Option<Duration> {
        self.table.lock().remote_age(prefix, self.clock.now())
    }
}

#[cfg(test)]
mod tests;
