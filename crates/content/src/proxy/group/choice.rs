//! The choice of an upstream by load: the power of two choices.
//!
//! Mitzenmacher: "The Power of Two Choices in Randomized Load Balancing", IEEE Transactions on
//! Parallel and Distributed Systems 12(10), 2001.

use hikyaku_units::mix::mix;

/// A look at an upstream that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Look {
    Usable(Load),
    /// It has to be chosen, since this request shows whether it is well again.
    Trial,
    Unusable,
}

/// The load of an upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// Requests under way.
    pub(super) under_way: u64,
    /// The share of its usual requests that it is to get, up to 1.
    pub(super) share: f32,
}

/// The weights of upstreams: an upstream is drawn as often as its weight is part of their sum.
#[derive(Debug)]
pub(super) struct Weights {
    /// The sum of all weights up to and with that of each upstream.
    sums: Box<[u64]>,
}

/// A usable upstream that was drawn.
#[derive(Clone, Copy)]
struct Drawn {
    index: usize,
    load: Load,
    weight: u64,
}

impl Weights {
    pub(super) fn new(weights: impl Iterator<Item = u16>) -> Self {
        let mut sum = 0;
        let sums = weights.map(|weight| {
            sum += u64::from(weight);
            sum
        });
        Self {
            sums: sums.collect(),
        }
    }

    fn of(&self, index: usize) -> u64 {
        self.sums[index] - self.before(index)
    }

    /// The sum of the weights before that of an upstream.
    fn before(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(0, |last| self.sums[last])
    }

    /// Draws two different ones of at least two.
    fn pair(&self, draw: u64) -> [usize; 2] {
        let (low, high) = (draw & 0xffff_ffff, draw >> 32);
        let all = self.sums.last().copied().unwrap_or_default();
        let at = |place: u64| self.sums.partition_point(|sum| *sum <= place);
        let first = at((low * all) >> 32);
        let weight = self.of(first);
        let second = (high * (all - weight)) >> 32;
        // Those behind the first one move up into its place.
        let second = match second >= self.before(first) {
            true => second + weight,
            false => second,
        };
        [first, at(second)]
    }

    /// Chooses an upstream. Of two that `draw` finds, the one with fewer requests under way for its weight
    /// is taken. Every pair of usable ones of the same weight is equally likely.
    pub(super) fn of_two(&self, draw: u64, look: impl Fn(usize) -> Look) -> Option<usize> {
        let mut found = None;
        if self.sums.len() > 1 {
            let [first, second] = self.pair(draw);
            found = match look(first) {
                Look::Trial => return Some(first),
                Look::Unusable => None,
                Look::Usable(load) => Some(self.drawn(first, load)),
            };
            if let Some(found) = found {
                match look(second) {
                    Look::Trial => return Some(second),
                    Look::Unusable => {}
                    Look::Usable(load) => {
                        return Some(lighter(found, self.drawn(second, load), draw));
                    }
                }
            }
        }
        self.of_usable(draw, found, look)
    }

    fn drawn(&self, index: usize, load: Load) -> Drawn {
        Drawn {
            index,
            load,
            weight: self.of(index),
        }
    }

    /// The same where some are not usable. The `first` of both may have been found.
    fn of_usable(
        &self,
        draw: u64,
        first: Option<Drawn>,
        look: impl Fn(usize) -> Look,
    ) -> Option<usize> {
        let mut all = 0;
        for index in 0..self.sums.len() {
            match look(index) {
                Look::Trial => return Some(index),
                Look::Usable(_) => all += self.of(index),
                Look::Unusable => {}
            }
        }
        let usable = || {
            (0..self.sums.len()).filter_map(|index| match look(index) {
                Look::Usable(load) => Some(self.drawn(index, load)),
                Look::Trial | Look::Unusable => None,
            })
        };
        // The former draw has found an unusable one, which says something of its bits.
        let draw = mix(draw);
        let (low, high) = (draw & 0xffff_ffff, draw >> 32);
        let first = first.or_else(|| at((low * all) >> 32, usable()));
        // It may have failed meanwhile.
        let first = first.or_else(|| usable().next())?;
        let others = usable().filter(|other| other.index != first.index);
        let rest = all.saturating_sub(first.weight);
        Some(match at((high * rest) >> 32, others) {
            Some(second) => lighter(first, second, draw),
            None => first.index,
        })
    }
}

/// The one at a place below the sum of their weights.
fn at(mut place: u64, mut drawn: impl Iterator<Item = Drawn>) -> Option<Drawn> {
    drawn.find(|one| match place.checked_sub(one.weight) {
        Some(rest) => {
            place = rest;
            false
        }
        None => true,
    })
}

/// The one with fewer requests under way for its weight. One that is to get less than the usual is passed
/// over as often as that.
fn lighter(one: Drawn, other: Drawn, draw: u64) -> usize {
    let chances = mix(draw);
    let is_taken = |load: Load, bits: u64| {
        let chance = (bits & 0xff_ffff) as f32 / 16_777_216.0;
        chance < load.share
    };
    let taken = (
        is_taken(one.load, chances),
        is_taken(other.load, chances >> 32),
    );
    match taken {
        (true, false) => one.index,
        (false, true) => other.index,
        _ if is_lighter(other, one) => other.index,
        _ => one.index,
    }
}

/// Whether an upstream has less to do than another for its weight, both before a request and with it. So a
/// small weight gets its small part also where few requests are under way, as idle upstreams are taken by
/// their weights alone.
fn is_lighter(one: Drawn, other: Drawn) -> bool {
    let load = |drawn: Drawn, more: u64| (drawn.load.under_way.saturating_add(more), drawn.weight);
    let compare = |more| {
        let ((one, of_one), (other, of_other)) = (load(one, more), load(other, more));
        let [one, other] = [(one, of_other), (other, of_one)]
            .map(|(requests, weight)| u128::from(requests) * u128::from(weight));
        one.cmp(&other)
    };
    compare(0).is_lt() && compare(1).is_le()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DRAWS: u64 = 60_000;

    fn idle(share: f32) -> Look {
        let under_way = 0;
        Look::Usable(Load { under_way, share })
    }

    fn even(count: usize) -> Weights {
        Weights::new(std::iter::repeat_n(1, count))
    }

    /// How often each is chosen.
    fn counts(looks: &[Look]) -> Vec<f64> {
        weighted_counts(&even(looks.len()), looks)
    }

    fn weighted_counts(weights: &Weights, looks: &[Look]) -> Vec<f64> {
        let mut counts = vec![0.0; looks.len()];
        for draw in 0..DRAWS {
            let chosen = weights.of_two(mix(draw), |index| looks[index]);
            counts[chosen.unwrap()] += 1.0;
        }
        counts.iter().map(|count| count / DRAWS as f64).collect()
    }

    #[test]
    fn idle_upstreams_get_the_part_of_their_weight() {
        let down = Look::Unusable;
        let cases: [(&[u16], &[Look]); 6] = [
            (&[3, 1], &[idle(1.0); 2]),
            (&[1, 1000], &[idle(1.0); 2]),
            (&[5, 5, 5], &[idle(1.0); 3]),
            (&[1, 2, 3, 4], &[idle(1.0); 4]),
            (&[1, 2, 3, 4], &[idle(1.0), down, idle(1.0), idle(1.0)]),
            (&[7], &[idle(1.0)]),
        ];
        for (weights, looks) in cases {
            let usable = |index: usize| match looks[index] {
                Look::Usable(_) => f64::from(weights[index]),
                _ => 0.0,
            };
            let all: f64 = (0..looks.len()).map(usable).sum();
            let counts = weighted_counts(&Weights::new(weights.iter().copied()), looks);
            for (index, part) in counts.iter().enumerate() {
                let want = usable(index) / all;
                assert!((part - want).abs() < 0.01, "{weights:?} {looks:?}: {part}");
            }
        }
    }

    #[test]
    fn the_share_of_a_slow_start_is_that_of_the_part_by_weight() {
        let weights = Weights::new([1, 3].into_iter());
        for share in [0.05, 0.5, 0.9] {
            let part = weighted_counts(&weights, &[idle(1.0), idle(share)])[1];
            let want = f64::from(share) * 0.75;
            assert!((part - want).abs() < 0.04, "{share}: {part}");
        }
    }

    /// Requests that all last alike, `at_once` of them.
    #[test]
    fn requests_under_way_are_spread_by_weight() {
        for (weights, at_once) in [([3, 1], 4), ([3, 1], 40), ([100, 1], 5), ([1, 1], 10)] {
            let table = Weights::new(weights.into_iter());
            let mut under_way = [0_u64; 2];
            let mut queue = std::collections::VecDeque::new();
            let mut counts = [0_u64; 2];
            for draw in 0..20_000 {
                if queue.len() == at_once {
                    under_way[queue.pop_front().unwrap()] -= 1;
                }
                let look = |index: usize| {
                    Look::Usable(Load {
                        under_way: under_way[index],
                        share: 1.0,
                    })
                };
                let chosen = table.of_two(mix(draw), look).unwrap();
                under_way[chosen] += 1;
                counts[chosen] += 1;
                queue.push_back(chosen);
            }
            let part = counts[1] as f64 / 20_000.0;
            let want = f64::from(weights[1]) / f64::from(weights[0] + weights[1]);
            assert!((part - want).abs() < 0.05, "{weights:?} {at_once}: {part}");
        }
    }

    #[test]
    fn upstreams_of_the_same_load_get_the_same_part() {
        let down = Look::Unusable;
        let cases: [&[Look]; 5] = [
            &[idle(1.0); 2],
            &[idle(1.0); 3],
            &[idle(1.0); 7],
            &[idle(1.0), down, idle(1.0), idle(1.0)],
            &[down, down, idle(1.0), down],
        ];
        for looks in cases {
            let usable = looks.iter().filter(|look| **look != down).count();
            for (look, part) in looks.iter().zip(counts(looks)) {
                let want = if *look == down {
                    0.0
                } else {
                    1.0 / usable as f64
                };
                assert!((part - want).abs() < 0.01, "{looks:?}: {part}");
            }
        }
    }

    #[test]
    fn the_share_of_a_slow_start_is_that_of_the_usual_part() {
        for share in [0.05, 0.25, 0.5, 0.9] {
            for count in [2, 3, 5] {
                let mut looks = vec![idle(1.0); count];
                looks[1] = idle(share);
                let part = counts(&looks)[1];
                let want = f64::from(share) / count as f64;
                assert!((part - want).abs() < 0.01, "{share} of {count}: {part}");
            }
        }
    }

    #[test]
    fn the_busiest_gets_nothing_while_all_are_usable() {
        let busy = Look::Usable(Load {
            under_way: 3,
            share: 1.0,
        });
        let counts = counts(&[idle(1.0), busy, idle(1.0)]);
        assert!(counts[1] < 1e-9, "{counts:?}");
    }

    #[test]
    fn a_trial_is_chosen_as_soon_as_it_is_found() {
        let looks = [idle(1.0), Look::Trial, idle(1.0), Look::Unusable];
        let part = counts(&looks)[1];
        assert!(part > 0.5, "{part}");
        let none = even(3).of_two(7, |_| Look::Unusable);
        assert_eq!(none, None);
    }

    proptest! {
        #[test]
        fn a_pair_is_two_different_numbers(
            weights in prop::collection::vec(1..=1000_u16, 2..100),
            draw: u64,
        ) {
            let count = weights.len();
            let [first, second] = Weights::new(weights.into_iter()).pair(draw);
            prop_assert!(first < count && second < count && first != second);
        }

        /// Requests that end in the order in which they began stay evenly spread.
        #[test]
        fn load_stays_even(count in 2..8_usize, seed: u64) {
            let (weights, mut load) = (even(count), vec![0_u64; count]);
            for step in 0..count as u64 * 100 {
                let look = |index: usize| Look::Usable(Load { under_way: load[index], share: 1.0 });
                let chosen = weights.of_two(mix(seed ^ step), look).unwrap();
                load[chosen] += 1;
            }
            let (least, most) = (load.iter().min().unwrap(), load.iter().max().unwrap());
            prop_assert!(most - least <= 16, "{load:?}");
        }

        /// Nothing unusable is ever chosen.
        #[test]
        fn only_usable_ones_are_chosen(usable in prop::collection::vec(any::<bool>(), 2..10), draw: u64) {
            let look = |index: usize| match usable[index] {
                true => idle(1.0),
                false => Look::Unusable,
            };
            match even(usable.len()).of_two(draw, look) {
                Some(index) => prop_assert!(usable[index]),
                None => prop_assert!(usable.iter().all(|usable| !usable)),
            }
        }
    }
}
