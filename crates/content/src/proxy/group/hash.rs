//! The choice of an upstream by a key: rendezvous hashing.
//!
//! Each upstream has a score for each key, and the highest is taken. So an upstream that leaves moves its
//! own keys alone, and several servers with the same upstreams choose alike.
//!
//! Thaler, Ravishankar: "Using Name-Based Mappings to Increase Hit Rates", IEEE/ACM Transactions on
//! Networking 6(1), 1998. Weights: Schindelhauer, Schomaker: "Weighted Distributed Hash Tables", SPAA 2005.

use hikyaku_units::mix::mix;

use super::choice::Look;

/// A number for a text, the same in every process.
pub(super) fn hash(text: &[u8]) -> u64 {
    // FNV-1a, whose high bits change little with the last bytes: the mix makes up for that.
    let fnv = text.iter().fold(0xcbf2_9ce4_8422_2325, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(fnv)
}

/// The upstreams of a group, as keys choose among them.
#[derive(Debug)]
pub(super) struct Seeds {
    /// A number for each, by its URL.
    numbers: Box<[u64]>,
    /// `None` if all are alike.
    weights: Option<Box<[f64]>>,
}

impl Seeds {
    /// Upstreams by their URLs and weights.
    pub(super) fn new<'a>(upstreams: impl Iterator<Item = (&'a str, u16)> + Clone) -> Self {
        let numbers = upstreams.clone().map(|(url, _)| hash(url.as_bytes()));
        let weights: Vec<_> = upstreams.map(|(_, weight)| weight).collect();
        let are_alike = weights.windows(2).all(|pair| pair[0] == pair[1]);
        let weights = weights.into_iter().map(f64::from);
        Self {
            numbers: numbers.collect(),
            weights: (!are_alike).then(|| weights.collect()),
        }
    }

    /// Chooses the first usable upstream in the key's order.
    pub(super) fn by_key(&self, key: u64, look: impl Fn(usize) -> Look) -> Option<usize> {
        let mut last = None;
        while let Some(next) = self.after(last, key) {
            let Score { index, .. } = next;
            match look(index) {
                Look::Usable(_) | Look::Trial => return Some(index),
                Look::Unusable => last = Some(next),
            }
        }
        None
    }

    /// The upstream with the highest score below that of the `last`.
    fn after(&self, last: Option<Score>, key: u64) -> Option<Score> {
        let scores = (0..self.numbers.len()).map(|index| self.score(index, key));
        scores
            .filter(|score| last.is_none_or(|last| *score < last))
            .max()
    }

    fn score(&self, index: usize, key: u64) -> Score {
        let bits = mix(key ^ self.numbers[index]);
        let score = match &self.weights {
            None => bits,
            Some(weights) => weighted(bits, weights[index]),
        };
        Score { score, bits, index }
    }
}

/// The score of an upstream for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    score: u64,
    /// They decide where weighted scores are the same but for their rounding.
    bits: u64,
    index: usize,
}

/// The score of evenly spread `bits`, so that it is the highest as often as the weight is part of all weights.
fn weighted(bits: u64, weight: f64) -> u64 {
    // Between 0 and 1, and neither of both: 52 bits and a half are exact.
    let even = ((bits >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
    // Numbers above 0 have the order of their bits.
    (weight / -even.ln()).to_bits()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::choice::Load;
    use super::*;

    const KEYS: u64 = 20_000;

    fn urls(count: usize) -> Vec<String> {
        let urls = (0..count).map(|index| format!("http://10.0.0.{index}:80"));
        urls.collect()
    }

    fn seeds(count: usize) -> Seeds {
        of_urls(&urls(count))
    }

    fn of_urls(urls: &[String]) -> Seeds {
        Seeds::new(urls.iter().map(|url| (&**url, 1)))
    }

    fn weighted_seeds(weights: &[u16]) -> Seeds {
        let urls = urls(weights.len());
        Seeds::new(urls.iter().map(|url| &**url).zip(weights.iter().copied()))
    }

    fn key(number: u64) -> u64 {
        hash(format!("key {number}").as_bytes())
    }

    fn all_but(down: &[usize]) -> impl Fn(usize) -> Look {
        move |index| match down.contains(&index) {
            true => Look::Unusable,
            false => Look::Usable(Load {
                under_way: index as u64,
                share: 0.5,
            }),
        }
    }

    #[test]
    fn keys_are_spread_evenly() {
        for count in [2, 3, 10] {
            let seeds = seeds(count);
            let mut counts = vec![0_u64; count];
            for number in 0..KEYS {
                counts[seeds.by_key(key(number), all_but(&[])).unwrap()] += 1;
            }
            let even = KEYS / count as u64;
            let is_even = |got: &u64| got.abs_diff(even) < even / 10;
            assert!(counts.iter().all(is_even), "{counts:?}");
        }
    }

    #[test]
    fn keys_are_spread_by_weight() {
        for weights in [&[1, 3][..], &[1, 2, 3, 4], &[10, 990]] {
            let seeds = weighted_seeds(weights);
            let mut counts = vec![0_u64; weights.len()];
            for number in 0..KEYS {
                counts[seeds.by_key(key(number), all_but(&[])).unwrap()] += 1;
            }
            let all: u16 = weights.iter().sum();
            for (count, weight) in counts.iter().zip(weights) {
                let part = *count as f64 / KEYS as f64;
                let want = f64::from(*weight) / f64::from(all);
                assert!((part - want).abs() < 0.02, "{weights:?}: {counts:?}");
            }
        }
    }

    #[test]
    fn the_loss_of_one_moves_its_keys_alone_and_spreads_them() {
        let seeds = seeds(5);
        let mut moved = [0_u64; 5];
        for number in 0..KEYS {
            let before = seeds.by_key(key(number), all_but(&[])).unwrap();
            let after = seeds.by_key(key(number), all_but(&[2])).unwrap();
            match before {
                2 => moved[after] += 1,
                _ => assert_eq!(before, after),
            }
        }
        let even = moved.iter().sum::<u64>() / 4;
        for (index, count) in moved.into_iter().enumerate() {
            let is_even = count.abs_diff(even) < even / 5;
            assert!(is_even || index == 2, "{moved:?}");
        }
    }

    #[test]
    fn a_text_has_the_same_number_in_every_release() {
        assert_eq!(hash(b""), mix(0xcbf2_9ce4_8422_2325));
        assert_eq!(
            hash(b"a"),
            mix(0xaf63_dc4c_8601_ec8c),
            "FNV-1a's own vector"
        );
    }

    proptest! {
        /// An upstream that is added takes keys, and moves none between the others. The order of the
        /// list does not matter.
        #[test]
        fn keys_move_as_little_as_they_can(count in 1..10_usize, number: u64) {
            let before = seeds(count).by_key(key(number), all_but(&[])).unwrap();
            let all = urls(count + 1);
            let after = of_urls(&all).by_key(key(number), all_but(&[])).unwrap();
            prop_assert!(after == before || after == count);
            let mut reversed = all.clone();
            reversed.reverse();
            let other = of_urls(&reversed).by_key(key(number), all_but(&[])).unwrap();
            prop_assert_eq!(&reversed[other], &all[after]);
        }

        /// An upstream that gets a greater weight takes keys, and moves none between the others.
        #[test]
        fn a_greater_weight_takes_keys_alone(
            weights in prop::collection::vec(1..500_u16, 1..10),
            changed: prop::sample::Index,
            more in 1..=500_u16,
            number: u64,
        ) {
            let index = changed.index(weights.len());
            let before = weighted_seeds(&weights).by_key(key(number), all_but(&[])).unwrap();
            let mut heavier = weights;
            heavier[index] += more;
            let after = weighted_seeds(&heavier).by_key(key(number), all_but(&[])).unwrap();
            prop_assert!(after == before || after == index);
        }

        #[test]
        fn each_is_tried_once_until_none_is_left(count in 1..10_usize, number: u64) {
            let seeds = seeds(count);
            let mut down = Vec::new();
            while let Some(index) = seeds.by_key(key(number), all_but(&down)) {
                prop_assert!(!down.contains(&index));
                down.push(index);
            }
            prop_assert_eq!(down.len(), count);
        }
    }
}
