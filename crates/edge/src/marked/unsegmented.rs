//! Marks whose routes take datagrams one by one only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;

/// For how long the kernel is not asked again: routes change, and memory may just have been short.
const LIFE: Duration = Duration::from_secs(60);

/// Marks for which the kernel would not cut datagrams out of a larger send. There are as many as
/// paths: few.
#[derive(Debug, Default)]
pub(super) struct Unsegmented {
    any: AtomicBool,
    marks: RwLock<Vec<(u32, Instant)>>,
}

impl Unsegmented {
    pub(super) fn contains(&self, mark: u32, now: Instant) -> bool {
        let alive = |&(of, since): &(u32, Instant)| of == mark && is_alive(since, now);
        self.any.load(Ordering::Relaxed) && self.marks.read().iter().any(alive)
    }

    pub(super) fn insert(&self, mark: u32, now: Instant) {
        let mut marks = self.marks.write();
        marks.retain(|&(of, since)| of != mark && is_alive(since, now));
        marks.push((mark, now));
        self.any.store(true, Ordering::Relaxed);
    }
}

fn is_alive(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < LIFE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_tried_again_after_a_while() {
        let unsegmented = Unsegmented::default();
        let now = Instant::now();
        assert!(!unsegmented.contains(7, now));
        unsegmented.insert(7, now);
        unsegmented.insert(8, now + LIFE / 2);
        unsegmented.insert(7, now + LIFE / 2);
        assert!(unsegmented.contains(7, now + LIFE), "refused a second time");
        assert!(!unsegmented.contains(9, now));
        assert!(!unsegmented.contains(8, now + LIFE / 2 + LIFE));
        unsegmented.insert(9, now + LIFE * 2);
        assert_eq!(unsegmented.marks.read().len(), 1);
    }
}
