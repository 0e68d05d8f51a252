//! How many reports a client may send.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Reports of one client in a second. Many may share an address behind a NAT.
const MAX_A_SECOND: u32 = 64;
/// Clients are counted together where they fall into one of so many.
const BUCKETS: usize = 1024;

/// Counts reports by client and second, in memory that does not grow.
#[derive(Debug)]
pub(super) struct Throttle {
    /// The second in the upper half, the reports in it in the lower.
    buckets: Box<[AtomicU64]>,
    hasher: RandomState,
    start: Instant,
}

impl Throttle {
    pub(super) fn starting_at(start: Instant) -> Self {
        Self {
            buckets: std::iter::repeat_with(AtomicU64::default)
                .take(BUCKETS)
                .collect(),
            hasher: RandomState::new(),
            start,
        }
    }

    /// Counts a report; `false` if it is one too many.
    pub(super) fn admits(&self, client: IpAddr, now: Instant) -> bool {
        let bucket = self.hasher.hash_one(network(client)) as usize % BUCKETS;
        let second = now.saturating_duration_since(self.start);
        let second = second.as_secs() & u64::from(u32::MAX);
        let mut count = 0;
        let counted = |old: u64| {
            count = match old >> 32 == second {
                true => (old as u32).saturating_add(1),
                false => 1,
            };
            Some(second << 32 | u64::from(count))
        };
        let bucket = &self.buckets[bucket];
        // It never fails.
        let _ = bucket.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted);
        count <= MAX_A_SECOND
    }
}

/// The address, or the /64 of which a client can take any address of IPv6.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_client_has_so_many_a_second() {
        let start = Instant::now();
        let throttle = Throttle::starting_at(start);
        let client = |text: &str| text.parse::<IpAddr>().unwrap();
        let admitted = |client: &str, at| {
            let client = client.parse().unwrap();
            (0..100).filter(|_| throttle.admits(client, at)).count()
        };
        assert_eq!(admitted("192.0.2.1", start), 64);
        assert_eq!(admitted("192.0.2.1", start + Duration::from_millis(999)), 0);
        assert_eq!(admitted("192.0.2.1", start + Duration::from_secs(1)), 64);
        assert_eq!(network(client("2001:db8::1:2:3:4")), client("2001:db8::"));
        assert_eq!(network(client("::ffff:192.0.2.1")), client("192.0.2.1"));
    }
}
