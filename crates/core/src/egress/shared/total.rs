//! The total of the routes that other edges of the PoP have observed.

use std::time::Duration;

use super::contribution::RouteContribution;
use super::differences::{self, Row};
use super::parts::{self, Part, Parts};
use crate::client::shared::WasRead;
use crate::egress::record::{CarrierStats, Record, Snapshot};
use crate::egress::{Carrier, EgressId, EgressNames};
use crate::fleet::{Moments, Pop, Registers, share};
use crate::policy::PolicyConfig;
use hikyaku_units::{Secs, Timestamp};

/// The newest contribution of each edge to the routes of one prefix.
pub type RouteContributions<E> = Registers<E, RouteContribution>;

/// The other edges' knowledge of a prefix's routes.
#[derive(Clone, Debug)]
pub struct RemoteRoutes {
    record: Record,
    edges: u16,
    read_at: Secs,
}

/// The sums of one edge, by carrier.
type Edge = [Parts; Carrier::COUNT];

impl<E: Ord> RouteContributions<E> {
    /// The total of all edges of my `pop` but `me`, read at `now`. Egress routes that this edge does not have
    /// are left out.
    #[must_use]
    pub fn remote(
        &self,
        me: &E,
        pop: Pop,
        names: &EgressNames,
        now: Timestamp,
        policy: &PolicyConfig,
    ) -> RemoteRoutes {
        let of_pop = self.others(me).filter(|edge| edge.head.pop == pop);
        let newest = of_pop.clone().map(|edge| edge.head.at).max();
        // Others' clocks may be ahead.
        let at = newest.unwrap_or_default().min(now.into());
        let edges: Vec<Edge> = of_pop
            .map(|edge| faded(edge, names, at, policy.half_life.route))
            .filter(|edge| edge.iter().flatten().any(|part| part.mean().is_some()))
            .collect();
        RemoteRoutes {
            record: record(&total(&edges), at),
            edges: u16::try_from(edges.len()).unwrap_or(u16::MAX),
            read_at: now.into(),
        }
    }
}

impl RouteContribution {
    /// The record of an edge that has observed this, and then `own`. Egress routes that it does not have are
    /// left out.
    pub(super) fn and_then(
        &self,
        own: Option<&Record>,
        names: &EgressNames,
        half_life: Duration,
    ) -> Record {
        let at = own.and_then(Record::newest).unwrap_or_default();
        let at = at.max(self.head.at);
        let former = faded(self, names, at, half_life);
        let since = own.map(|own| own.snapshot(at, half_life).0.map(|stats| parts::of(&stats)));
        let edges: Vec<Edge> = std::iter::once(former).chain(since).collect();
        let mut all = own.cloned().unwrap_or_default();
        for (place, parts) in (0..).zip(&total(&edges)) {
            if parts.iter().any(|part| part.mean().is_some()) {
                parts::put(parts, all.carrier(Carrier(place), at, half_life));
            }
        }
        all
    }
}

impl WasRead for RemoteRoutes {
    fn read_at(&self) -> Secs {
        self.read_at
    }
}

impl RemoteRoutes {
    /// How many edges know something of the prefix.
    #[must_use]
    pub const fn edges(&self) -> u16 {
        self.edges
    }

    /// Of how many routes something is known.
    pub(super) fn routes(&self) -> usize {
        self.record.carriers().len()
    }

    /// Forgets an egress route. Returns whether it was known.
    pub(super) fn forget(&mut self, egress: EgressId) -> bool {
        self.record.forget(egress)
    }

    /// An edge's own knowledge of the prefix, with this as if it had observed it, too. Routes that it avoids
    /// are its own.
    pub(super) fn beside(&self, own: Option<Snapshot>, now: Secs, half_life: Duration) -> Snapshot {
        let theirs = self.record.snapshot(now, half_life);
        let Some(mut joined) = own else { return theirs };
        let edges = [&joined, &theirs].map(|known| known.0.map(|stats| parts::of(&stats)));
        for (stats, parts) in joined.0.iter_mut().zip(&total(&edges)) {
            parts::put(parts, stats);
        }
        joined
    }
}

/// An edge's sums at a time, by the carriers of this one.
fn faded(edge: &RouteContribution, names: &EgressNames, at: Secs, half_life: Duration) -> Edge {
    let share = share(at.since(edge.head.at), half_life);
    let mut carriers = Edge::default();
    for (name, parts) in &edge.carriers {
        let Some(carrier) = name.carrier(names) else {
            continue;
        };
        carriers[carrier.index()] = parts.map(|mut part| {
            part.fade(share);
            part
        });
    }
    carriers
}

/// The sum of edges: of differences once they have one zero, of counts as they are.
pub(super) fn total(edges: &[Edge]) -> Edge {
    let mut total = Edge::default();
    for part in Part::ALL {
        let rows: Vec<Row> = edges
            .iter()
            .map(|edge| edge.map(|parts| parts[part as usize]))
            .collect();
        let sum = if Part::DIFFERENCES.contains(&part) {
            differences::total(&rows)
        } else {
            counted(&rows)
        };
        for (parts, sum) in total.iter_mut().zip(sum) {
            parts[part as usize] = sum;
        }
    }
    total
}

fn counted(rows: &[Row]) -> Row {
    let mut total = [Moments::default(); Carrier::COUNT];
    for row in rows {
        for (sum, part) in total.iter_mut().zip(row) {
            sum.add(part);
        }
    }
    total
}

/// The record that has these sums, as of `at`.
fn record(total: &Edge, at: Secs) -> Record {
    let mut record = Record::default();
    for (place, parts) in (0..).zip(total) {
        if parts.iter().any(|part| part.mean().is_some()) {
            let mut stats = CarrierStats::none(Carrier(place));
            stats.at = at;
            parts::put(parts, &mut stats);
            record.put(stats);
        }
    }
    record
}
