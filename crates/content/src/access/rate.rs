//! Requests that a client may make in a time.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use http::HeaderMap;

use super::config::{RateKey, RateLimitConfig};

/// Clients that are counted before the first look for those that may be forgotten.
const FEW: usize = 1024;

/// A bucket for each client, which fills at an even rate (the generic cell rate algorithm).
pub(super) struct RateLimit<C: Clock = DefaultClock> {
    buckets: RateLimiter<u64, HashMapStateStore<u64>, C, NoOpMiddleware<C::Instant>>,
    clock: C,
    by: RateKey,
    /// Clients are known by a hash, so that a long value takes no memory. Its keys are random: nobody can
    /// choose a value that shares another's bucket.
    hasher: RandomState,
    /// Clients from which on those with full buckets are forgotten.
    sweep_above: AtomicUsize,
}

impl RateLimit {
    /// # Errors
    /// If no rate can be made of the numbers; the error is a sentence.
    pub(super) fn new(config: &RateLimitConfig) -> Result<Self, String> {
        Self::with_clock(config, DefaultClock::default())
    }
}

impl<C: Clock + Clone> RateLimit<C> {
    fn with_clock(config: &RateLimitConfig, clock: C) -> Result<Self, String> {
        let each = config.per / config.requests.get();
        let quota = Quota::with_period(each).ok_or_else(|| {
            "`rate_limit.per` is too short: less than a nanosecond for each request".to_owned()
        })?;
        let quota = quota.allow_burst(config.burst.unwrap_or(config.requests));
        Ok(Self {
            buckets: RateLimiter::hashmap_with_clock(quota, clock.clone()),
            clock,
            by: config.by.clone(),
            hasher: RandomState::new(),
            sweep_above: AtomicUsize::new(FEW),
        })
    }

    /// Takes a request of a client, or returns the time after which it may come.
    pub(super) fn take(&self, client: IpAddr, headers: &HeaderMap) -> Result<(), Duration> {
        self.forget_idle();
        let taken = self.buckets.check_key(&self.key(client, headers));
        taken.map_err(|not_until| not_until.wait_time_from(self.clock.now()))
    }

    fn key(&self, client: IpAddr, headers: &HeaderMap) -> u64 {
        let value = match &self.by {
            RateKey::Address => None,
            RateKey::Header(name) => headers.get(name),
        };
        match value {
            Some(value) => self.hasher.hash_one((true, value.as_bytes())),
            None => self.hasher.hash_one((false, network(client))),
        }
    }

    /// Forgets clients with full buckets each time that the number of clients has doubled, so that a
    /// request pays for a constant number of them.
    fn forget_idle(&self) {
        let above = self.sweep_above.load(Relaxed);
        if self.buckets.len() <= above {
            return;
        }
        // One thread alone: the others find the bound raised.
        let raised = self
            .sweep_above
            .compare_exchange(above, usize::MAX, Relaxed, Relaxed);
        if raised.is_ok() {
            self.buckets.retain_recent();
            self.buckets.shrink_to_fit();
            let next = self.buckets.len().saturating_mul(2).max(FEW);
            self.sweep_above.store(next, Relaxed);
        }
    }
}

/// The addresses of one client: an IPv4 address, or a /64 of IPv6 (RFC 4291 §2.5.1).
fn network(client: IpAddr) -> u128 {
    match client.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

impl<C: Clock> std::fmt::Debug for RateLimit<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimit")
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use governor::clock::FakeRelativeClock;
    use http::HeaderValue;

    use super::*;

    struct Limit {
        limit: RateLimit<FakeRelativeClock>,
        clock: FakeRelativeClock,
    }

    impl Limit {
        fn new(config: &str) -> Self {
            let clock = FakeRelativeClock::default();
            let config = toml::from_str(config).unwrap();
            let limit = RateLimit::with_clock(&config, clock.clone()).unwrap();
            Self { limit, clock }
        }

        fn takes(&self, client: &str) -> bool {
            self.take(client, &HeaderMap::new()).is_ok()
        }

        fn take(&self, client: &str, headers: &HeaderMap) -> Result<(), Duration> {
            self.limit.take(client.parse().unwrap(), headers)
        }
    }

    #[test]
    fn a_client_has_its_burst_and_then_its_rate() {
        let limit = Limit::new("requests = 10\nburst = 3");
        let taken = (0..5).filter(|_| limit.takes("192.0.2.1")).count();
        assert_eq!(taken, 3);
        let wait = limit.take("192.0.2.1", &HeaderMap::new()).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        limit.clock.advance(Duration::from_millis(100));
        assert!(limit.takes("192.0.2.1"));
        assert!(!limit.takes("192.0.2.1"));
        limit.clock.advance(Duration::from_secs(60));
        let taken = (0..5).filter(|_| limit.takes("192.0.2.1")).count();
        assert_eq!(taken, 3);
    }

    #[test]
    fn each_client_is_limited_by_itself() {
        let limit = Limit::new("requests = 1\nper = \"1h\"");
        let cases = [
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", false),
            ("192.0.2.2", true),
            ("2001:db8::1", true),
            ("2001:db8::ffff:1", false),
            ("2001:db8:0:1::1", true),
        ];
        for (client, want) in cases {
            assert_eq!(limit.takes(client), want, "{client}");
        }
    }

    #[test]
    fn a_header_field_makes_the_client() {
        let limit = Limit::new("requests = 1\nper = \"1h\"\nby = \"header:X-Key\"");
        let with = |key: &'static str| {
            HeaderMap::from_iter([(
                http::HeaderName::from_static("x-key"),
                HeaderValue::from_static(key),
            )])
        };
        let cases = [
            ("192.0.2.1", with("a"), true),
            ("192.0.2.2", with("a"), false),
            ("192.0.2.1", with("b"), true),
            ("192.0.2.1", HeaderMap::new(), true),
            ("192.0.2.1", HeaderMap::new(), false),
            ("192.0.2.2", HeaderMap::new(), true),
        ];
        for (client, headers, want) in cases {
            let got = limit.take(client, &headers).is_ok();
            assert_eq!(got, want, "{client} {headers:?}");
        }
    }

    #[test]
    fn clients_with_full_buckets_are_forgotten() {
        let limit = Limit::new("requests = 1000");
        for client in 0..100_000_u32 {
            let client = IpAddr::from(client.to_be_bytes());
            limit.limit.take(client, &HeaderMap::new()).unwrap();
            limit.clock.advance(Duration::from_micros(100));
        }
        let known = limit.limit.buckets.len();
        assert!(known <= 2 * FEW, "{known}");
    }

    #[test]
    fn a_rate_that_has_no_time_is_refused() {
        let config = RateLimitConfig {
            requests: NonZeroU32::MAX,
            per: Duration::from_nanos(1),
            burst: None,
            by: RateKey::Address,
        };
        let error = RateLimit::new(&config).unwrap_err();
        assert!(error.contains("`rate_limit.per`"), "{error}");
    }
}
