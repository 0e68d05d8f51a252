//! A fixed mix of integers, the same in every release and on every machine.

/// The finaliser of SplitMix64: every input bit changes each output bit with a probability near one
/// half.
///
/// Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014.
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number from 0 to below 1 that depends on all `parts` and their order.
#[must_use]
pub fn draw(parts: [u64; 4]) -> f64 {
    let bits = parts.iter().fold(0, |state, &part| mix(state ^ part));
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
