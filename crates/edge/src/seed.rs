//! Seeds: one that is the same everywhere, and others that nobody can guess.

use std::hash::{BuildHasher, RandomState};

/// Draws the hold-back group and the explored sessions: the same on every server and after
/// every restart, so that a client stays in its group.
pub(crate) const SEED: u64 = 0x6869_6b79_616b_7500;

/// A random number, from the keys that the standard library seeds its hash maps with.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}
