//! Seeds and random streams.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The use of a random stream. Each use has its own stream, so that a further
/// draw for one never shifts another. The numbers are part of a seed's meaning.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Loss = 0,
    Jitter = 1,
    Reorder = 2,
}

/// Returns the random stream of one purpose under `seed`.
pub(crate) fn stream(seed: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(purpose as u64);
    rng
}

/// Draws an event of probability `ppm` / 1,000,000.
pub(crate) fn hit(rng: &mut ChaCha8Rng, ppm: u32) -> bool {
    below(rng, 1_000_000) < u64::from(ppm)
}

/// Draws uniformly from `0..bound`; biased by less than `bound / 2^64`.
pub(crate) fn below(rng: &mut ChaCha8Rng, bound: u64) -> u64 {
    let product = u128::from(rng.next_u64()) * u128::from(bound);
    // The upper half of a 128-bit product fits.
    (product >> 64) as u64
}

/// Derives the seed of one part of an experiment from the experiment's seed and
/// the part's coordinates, such as cell, repeat and direction. The mix is fixed
/// (SplitMix64's finaliser, Steele et al. 2014), so a recorded seed keeps its
/// meaning between releases.
pub fn derive_seed(seed: u64, coordinates: &[u64]) -> u64 {
    coordinates.iter().fold(mix(seed), |state, &coordinate| {
        mix(state.rotate_left(23) ^ mix(coordinate))
    })
}

fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn derived_seeds_are_fixed() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf, "SplitMix64's first output");
        assert_eq!(derive_seed(1, &[2, 3]), derive_seed(1, &[2, 3]));
    }

    #[test]
    fn derived_seeds_differ_in_every_coordinate() {
        let mut seen = HashSet::new();
        for seed in 0..8 {
            for cell in 0..32 {
                for repeat in 0..32 {
                    assert!(seen.insert(derive_seed(seed, &[cell, repeat])));
                }
                assert!(seen.insert(derive_seed(seed, &[cell])));
            }
        }
    }

    #[test]
    fn below_covers_its_range() {
        let mut rng = stream(1, Purpose::Jitter);
        let mut counts = [0_u32; 4];
        for _ in 0..40_000 {
            counts[below(&mut rng, 4) as usize] += 1;
        }
        assert!(
            counts.iter().all(|&n| (9_600..10_400).contains(&n)),
            "{counts:?}"
        );
    }
}
