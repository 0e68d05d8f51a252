//! The upstreams of a group that are asked alike: those that usually answer, or the backups.

use std::ops::Range;
use std::sync::Arc;

use super::choice::{Look, Weights};
use super::hash::Seeds;
use super::member::Member;

/// Upstreams among which a request's own is chosen.
#[derive(Debug)]
pub(super) struct Tier {
    /// The number of the first one in the group.
    begin: usize,
    weights: Weights,
    seeds: Seeds,
}

impl Tier {
    /// The tiers of a group whose backups are the last.
    pub(super) fn all(members: &[Arc<Member>]) -> Box<[Self]> {
        let usual = members.partition_point(|member| !member.is_backup);
        let tiers = [0..usual, usual..members.len()].into_iter();
        let tiers = tiers.filter(|members| !members.is_empty());
        tiers.map(|range| Self::new(members, range)).collect()
    }

    fn new(members: &[Arc<Member>], range: Range<usize>) -> Self {
        let members = &members[range.start..range.end];
        let upstreams = members
            .iter()
            .map(|member| (&*member.state.url, member.weight));
        Self {
            begin: range.start,
            weights: Weights::new(members.iter().map(|member| member.weight)),
            seeds: Seeds::new(upstreams),
        }
    }

    /// Chooses by load. `look` gets numbers in the group, as the answer is one.
    pub(super) fn of_two(&self, draw: u64, look: impl Fn(usize) -> Look) -> Option<usize> {
        let chosen = self.weights.of_two(draw, |index| look(self.begin + index));
        chosen.map(|index| self.begin + index)
    }

    /// Chooses by a key, in the same way.
    pub(super) fn by_key(&self, key: u64, look: impl Fn(usize) -> Look) -> Option<usize> {
        let chosen = self.seeds.by_key(key, |index| look(self.begin + index));
        chosen.map(|index| self.begin + index)
    }
}
