//! Bytes of handshakes that have come before the server has taken them.

use std::sync::atomic::{AtomicU64, Ordering};

/// As many addresses are remembered.
const SLOTS: usize = 1024;
/// Of a slot, counts bytes; the others hold the address's hash.
const COUNT_BITS: u32 = 24;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// Bytes by address, for the short time until a connection is accepted. Bounded, whoever floods it: an
/// address can lose what it has sent to another, and never gains any.
#[derive(Debug)]
pub(super) struct Arrivals(Box<[AtomicU64]>);

impl Default for Arrivals {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Arrivals {
    /// Counts bytes of the address with this hash.
    pub(super) fn add(&self, hash: u64, bytes: usize) {
        let add = |slot: u64| {
            let before = if is_of(slot, hash) { slot & COUNT } else { 0 };
            let count = before.saturating_add(bytes as u64).min(COUNT);
            Some((hash & !COUNT) | count)
        };
        let _ = self
            .slot(hash)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// The bytes that have come from the address with this hash, which are then forgotten.
    pub(super) fn take(&self, hash: u64) -> u64 {
        let take = |slot: u64| is_of(slot, hash).then_some(0);
        let taken = self
            .slot(hash)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map_or(0, |slot| slot & COUNT)
    }

    fn slot(&self, hash: u64) -> &AtomicU64 {
        &self.0[hash as usize % SLOTS]
    }
}

fn is_of(slot: u64, hash: u64) -> bool {
    slot >> COUNT_BITS == hash >> COUNT_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_until_they_are_taken_or_another_address_comes() {
        let arrivals = Arrivals::default();
        // The same slot, by the low bits.
        let [one, other] = [1_u64 << 40 | 7, 2_u64 << 40 | 7];
        arrivals.add(one, 1200);
        arrivals.add(one, 300);
        assert_eq!(arrivals.take(other), 0);
        assert_eq!([arrivals.take(one), arrivals.take(one)], [1500, 0]);
        arrivals.add(one, 1200);
        arrivals.add(other, 1300);
        assert_eq!([arrivals.take(one), arrivals.take(other)], [0, 1300]);
        for _ in 0..20_000 {
            arrivals.add(one, 1200);
        }
        assert_eq!(arrivals.take(one), COUNT);
    }
}
