//! The records of routes: what responses have shown, and the store's part of it.

use std::net::IpAddr;
use std::sync::Arc;

use hikyaku_core::client::table::Scope;
use hikyaku_core::egress::{
    Blame, EgressKey, EgressNames, NetworkSummary, Route, RouteChanges, RouteObservation,
    RouteTable, RoutesElsewhere,
};
use parking_lot::MutexGuard;

use super::{Decided, Egress, RouteCount, Rules, State};

/// Clients, prefixes and ASes of which routes are known, at most: some 70 MB.
pub(super) const MAX_RECORDS: usize = 262_144;
/// Changes that are taken for the store at a time: decisions wait for no more than that.
const PORTION: usize = 128;

impl Egress {
    /// The records, which go by these rules as long as they are locked.
    pub(super) fn records(&self, rules: &Rules) -> MutexGuard<'_, RouteTable> {
        let mut table = self.table.lock();
        table.reconfigure(&rules.policy);
        table
    }

    /// Counts what responses have shown of a route. It is learnt unless they were part of another
    /// experiment.
    pub(super) fn learn(
        &self,
        client: IpAddr,
        of: &Decided,
        route: Route,
        seen: &RouteObservation,
        is_experiment: bool,
    ) {
        let Some(reach) = of.reach else {
            return;
        };
        if let Some(goodput) = seen.goodput().filter(|_| !seen.app_limited) {
            self.counts.compare(&of.decision, goodput);
        }
        if is_experiment {
            return;
        }
        let carrier = route.carrier(reach.plain_is);
        let now = self.clock.now();
        self.records(&self.rules.load())
            .learn(client, reach.asn, carrier, seen, now);
    }

    pub(super) fn stalled(&self, client: IpAddr, of: &Decided, route: Route) -> Blame {
        self.counts.add(RouteCount::Stalls, route, 1);
        let reach = of.reach.unwrap_or_default();
        let carrier = route.carrier(reach.plain_is);
        let now = self.clock.now();
        let mut table = self.records(&self.rules.load());
        table.stalled(client, reach.asn, carrier, &of.candidates, now)
    }

    /// A stall of the route was a false alarm.
    pub(super) fn delivers(&self, client: IpAddr, of: &Decided, route: Route) {
        let reach = of.reach.unwrap_or_default();
        let carrier = route.carrier(reach.plain_is);
        let now = self.clock.now();
        self.records(&self.rules.load())
            .delivers(client, carrier, now);
    }

    /// The records of client ASes, those seen last first, at most `limit`.
    pub(crate) fn networks(&self, limit: usize) -> Vec<NetworkSummary> {
        let (state, now) = (self.state(), self.clock.now());
        self.records(&self.rules.load())
            .networks(state.names(), now, limit)
    }

    /// The part of the knowledge of a client's routes that comes from other edges. `None` also while the
    /// agent has not been asked for the client, since nothing is decided by it then.
    pub(crate) fn known_elsewhere(&self, client: IpAddr) -> Option<RoutesElsewhere> {
        self.lookups.known(client.to_canonical())?;
        self.table.lock().known_elsewhere(client)
    }

    /// Takes the records of the store before the agent has named its egress routes. `load` reads each record
    /// into its argument, which returns whether the record was of use.
    pub(crate) fn restore<T>(
        &self,
        load: impl FnOnce(&mut dyn FnMut(EgressKey, &[u8]) -> bool) -> T,
    ) -> T {
        let mut names = EgressNames::default();
        let mut table = self.table.lock();
        let now = self.clock.now();
        let loaded = load(&mut |key, encoded| {
            let read = table.insert_encoded(key, encoded, &mut names, now);
            read.is_ok()
        });
        self.state.store(Arc::new(State::knowing(names)));
        loaded
    }

    /// Up to about `limit` changed records of routes since the last call, for the store.
    pub(crate) fn changes(&self, limit: usize) -> RouteChanges {
        let mut changes = RouteChanges::default();
        while changes.records.len() < limit {
            let mut table = self.table.lock();
            let portion = table.drain_changes(PORTION, self.state().names());
            drop(table);
            if portion.is_empty() {
                break;
            }
            changes = changes.then(portion);
        }
        changes
    }

    /// The number of changed records of routes that the store has not taken yet.
    pub(crate) fn unstored(&self) -> usize {
        self.table.lock().unstored()
    }

    /// Notes everything as changed, for a store that has lost it.
    pub(crate) fn mark_all_changed(&self) {
        self.table.lock().mark_all_changed();
    }

    /// Forgets the records of routes.
    pub(crate) fn forget(&self, scope: Scope) -> usize {
        self.table.lock().forget(scope)
    }
}
