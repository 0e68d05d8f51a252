//! The knowledge that the clients' tables share with other edges.

use std::time::Duration;

use hikyaku_core::bounded::TableConfig;
use hikyaku_core::client::key::Prefix;
use hikyaku_core::client::shared::{Contribution, Contributions, Remote};
use hikyaku_core::fleet::Pop;

use super::{Clients, STRIPES};
use crate::seed::random;

impl Clients {
    /// Shares from now on, as an edge of `pop`. The others' knowledge is held of `max_remote` prefixes at
    /// most.
    pub(crate) fn share(&self, pop: Pop, max_remote: usize) {
        let remote = TableConfig {
            max_records: max_remote.div_ceil(STRIPES),
            hash_key: [random(), random()],
            journal: false,
        };
        for stripe in &self.stripes {
            stripe.lock().share(pop, remote);
        }
    }

    /// Encoded contributions of prefixes that this edge has observed since the last call, about `max`.
    pub(crate) fn drain_shared(&self, max: usize) -> Vec<(Prefix, Box<[u8]>)> {
        let mut drained = Vec::new();
        for stripe in &self.stripes {
            let left = max.saturating_sub(drained.len());
            if left == 0 {
                break;
            }
            drained.append(&mut stripe.lock().drain_shared(left));
        }
        drained
    }

    /// Notes all prefixes as observed anew, for a store that has lost their contributions.
    pub(crate) fn mark_all_shared(&self) {
        for stripe in &self.stripes {
            stripe.lock().mark_all_shared();
        }
    }

    /// Takes the total of all contributions to a prefix but `me`'s. Without a store on disk, the former one of
    /// `me` is this edge's own knowledge again.
    pub(crate) fn set_total(
        &self,
        prefix: Prefix,
        contributions: &Contributions<&str>,
        me: &str,
        pop: Pop,
    ) {
        let now = self.clock.now();
        let rules = self.rules.load();
        let remote = contributions.remote(&me, pop, now, rules.policies.server());
        if !self.keeps()
            && let Some(former) = contributions.of(&me)
        {
            self.take_up(prefix, former);
        }
        self.set_remote(prefix, &remote);
    }

    /// Whether there is a store on disk.
    fn keeps(&self) -> bool {
        self.forgotten.is_some()
    }

    /// Takes up this edge's own contribution to a prefix from before it began, at the first reading.
    fn take_up(&self, prefix: Prefix, former: &Contribution) {
        let client = prefix.network();
        let mut table = self.stripe(client).lock();
        let is_first = table.remote_age(prefix, self.clock.now()).is_none();
        let was_taken = is_first && table.take_up(prefix, former, self.began);
        drop(table);
        if was_taken {
            self.changed(client);
        }
    }

    /// Takes the other edges' knowledge of a prefix. Where nothing was read of it before, connections of its
    /// clients decide again.
    pub(crate) fn set_remote(&self, prefix: Prefix, remote: &Remote) {
        let client = prefix.network();
        let mut table = self.stripe(client).lock();
        let is_first = table.remote_age(prefix, self.clock.now()).is_none();
        table.set_remote(prefix, remote);
        drop(table);
        if is_first && (remote.pop.is_some() || remote.fleet.is_some()) {
            self.changed(client);
        }
    }

    /// The age of the other edges' knowledge of a prefix; `None` where it is to be read.
    pub(crate) fn remote_age(&self, prefix: Prefix) -> Option<Duration> {
        let now = self.clock.now();
        self.stripe(prefix.network()).lock().remote_age(prefix, now)
    }
}

#[cfg(test)]
mod tests;
