//! The contributions of several edges to one prefix.

use super::contribution::Contribution;
use super::remote::{Remote, RemoteLevel};
use super::stats::Stats;
use crate::fleet::{Pop, Reach, Registers};
use crate::policy::PolicyConfig;
use hikyaku_units::{Secs, Timestamp};

/// The newest contribution of each edge to one prefix.
pub type Contributions<E> = Registers<E, Contribution>;

impl<E: Ord> Contributions<E> {
    /// The total of all edges but `me`, read at `now`: the path from those of my `pop`, the rest from all.
    #[must_use]
    pub fn remote(&self, me: &E, pop: Pop, now: Timestamp, policy: &PolicyConfig) -> Remote {
        let others = self.others(me);
        let of_pop = others
            .clone()
            .filter(|contribution| contribution.head.pop == pop);
        Remote {
            pop: total(of_pop, Reach::Pop, now, policy),
            fleet: total(others, Reach::Fleet, now, policy),
            read_at: now,
        }
    }
}

/// The sum of contributions, faded to the newest of them.
pub(super) fn total<'a>(
    contributions: impl Iterator<Item = &'a Contribution> + Clone,
    reach: Reach,
    now: Timestamp,
    policy: &PolicyConfig,
) -> Option<RemoteLevel> {
    let newest = contributions
        .clone()
        .map(|contribution| contribution.head.at);
    // Others' clocks may be ahead.
    let at = newest.max()?.min(Secs::from(now));
    let (sum, edges) = sum(contributions, reach, at, policy);
    (edges > 0).then(|| RemoteLevel {
        estimate: sum.estimate(at, policy),
        edges,
    })
}

/// The sum of contributions, faded to `at`, and of how many edges it is.
pub(super) fn sum<'a>(
    contributions: impl Iterator<Item = &'a Contribution>,
    reach: Reach,
    at: Secs,
    policy: &PolicyConfig,
) -> (Stats, u16) {
    let (mut sum, mut edges) = (Stats::default(), 0u16);
    for contribution in contributions {
        let shared = contribution.stats.within(reach);
        let shared = shared.faded(at.since(contribution.head.at), &policy.half_life);
        if !shared.is_empty() {
            sum.add(&shared);
            edges = edges.saturating_add(1);
        }
    }
    (sum, edges)
}
