//! Memory of encoders at work, and counts of their work.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::files::Coding;

/// Memory of one encoder, until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease(u64);

impl Lease {
    /// Takes `bytes` of the memory that all encoders of the process share. `None` if they would have
    /// more than `limit` then.
    pub(super) fn take(bytes: u64, limit: u64) -> Option<Self> {
        let room = |held: u64| held.checked_add(bytes).filter(|&held| held <= limit);
        let taken = HELD.fetch_update(Relaxed, Relaxed, room);
        taken.is_ok().then(|| Self(bytes))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Relaxed);
    }
}

static HELD: AtomicU64 = AtomicU64::new(0);

/// The work of the encoders of a coding since the process began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressionCount {
    /// The coding.
    pub coding: Coding,
    /// Bytes of content before the coding.
    pub content: u64,
    /// Bytes that the encoders made of it.
    pub coded: u64,
}

/// Returns the work of all encoders, by their codings.
pub fn compression_counts() -> [CompressionCount; 3] {
    Coding::ALL.map(|coding| {
        let [content, coded] = &COUNTS[coding.index()];
        CompressionCount {
            coding,
            content: content.load(Relaxed),
            coded: coded.load(Relaxed),
        }
    })
}

/// Counts bytes that an encoder took and made.
pub(crate) fn count(coding: Coding, content: usize, coded: usize) {
    for (count, bytes) in COUNTS[coding.index()].iter().zip([content, coded]) {
        if bytes > 0 {
            count.fetch_add(bytes as u64, Relaxed);
        }
    }
}

static COUNTS: [[AtomicU64; 2]; Coding::ALL.len()] =
    [const { [const { AtomicU64::new(0) }; 2] }; Coding::ALL.len()];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_up_to_the_limit_and_given_back() {
        // Other tests take some, too, but never as much as this.
        const MUCH: u64 = 1 << 50;
        let limit = MUCH + (MUCH >> 1);
        let first = Lease::take(MUCH, limit).unwrap();
        assert!(Lease::take(MUCH, limit).is_none());
        assert!(Lease::take(u64::MAX, u64::MAX).is_none(), "an overflow");
        drop(first);
        assert!(Lease::take(MUCH, limit).is_some());
        assert!(Lease::take(1, 0).is_none());
    }
}
