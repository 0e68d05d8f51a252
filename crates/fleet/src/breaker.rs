//! A circuit breaker: whoever often fails is left alone for a while.

use std::time::{Duration, Instant};

/// The first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(32));

/// Says when something that may fail is tried. Pure: time and randomness are arguments.
///
/// Closed, it lets all through. After so many failures in a row it opens and lets nothing through for a pause.
/// Then it is half open: it lets one through, whose success closes it. Its failure opens it for twice the
/// pause, up to 32 seconds. Pauses vary by a quarter, so that not all edges come back at once.
#[derive(Clone, Debug)]
pub struct Breaker {
    phase: Phase,
    /// Failures in a row that open it.
    threshold: u32,
    /// The pause of the last opening.
    pause: Option<Duration>,
    random: u64,
}

/// The state of a [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Lets all through, after so many failures in a row.
    Closed(u32),
    /// Lets nothing through before this time.
    Open(Instant),
    /// Waits for the outcome of the one that it let through.
    HalfOpen,
}

impl Breaker {
    /// A closed one that `threshold` failures in a row open. `seed` is for its pauses.
    pub fn new(threshold: u32, seed: u64) -> Self {
        Self {
            phase: Phase::Closed(0),
            threshold,
            pause: None,
            random: seed,
        }
    }

    /// Its state.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether one may pass. After a pause only the first caller may, and is to report its outcome.
    pub fn allows(&mut self, now: Instant) -> bool {
        match self.phase {
            Phase::Closed(_) => true,
            Phase::HalfOpen => false,
            Phase::Open(until) if now < until => false,
            Phase::Open(_) => {
                self.phase = Phase::HalfOpen;
                true
            }
        }
    }

    /// How long nothing is let through. Zero while it is not open.
    pub fn wait(&self, now: Instant) -> Duration {
        match self.phase {
            Phase::Open(until) => until.saturating_duration_since(now),
            Phase::Closed(_) | Phase::HalfOpen => Duration::ZERO,
        }
    }

    /// Closes it.
    pub fn succeeded(&mut self) {
        self.phase = Phase::Closed(0);
        self.pause = None;
    }

    /// Counts a failure; says whether that opened it. Late news of former failures change nothing while it
    /// is open.
    pub fn failed(&mut self, now: Instant) -> bool {
        match self.phase {
            Phase::Open(_) => false,
            Phase::Closed(failures) if failures + 1 < self.threshold => {
                self.phase = Phase::Closed(failures + 1);
                false
            }
            Phase::Closed(_) | Phase::HalfOpen => {
                self.open(now);
                true
            }
        }
    }

    /// Opens it, whatever the threshold; says whether it was not open before.
    pub fn trip(&mut self, now: Instant) -> bool {
        let was_open = matches!(self.phase, Phase::Open(_));
        if !was_open {
            self.open(now);
        }
        !was_open
    }

    fn open(&mut self, now: Instant) {
        let pause = self
            .pause
            .map_or(PAUSES.0, |pause| (pause * 2).min(PAUSES.1));
        self.pause = Some(pause);
        let share = 0.75 + 0.5 * self.random();
        self.phase = Phase::Open(now + pause.mul_f64(share));
    }

    /// From 0 to 1, by SplitMix64.
    fn random(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        (word >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::{Breaker, PAUSES, Phase};
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, proptest};
    use std::time::{Duration, Instant};

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_through_later() {
        let start = Instant::now();
        let mut breaker = Breaker::new(3, 1);
        assert!(!breaker.failed(start));
        assert!(!breaker.failed(start));
        breaker.succeeded();
        assert!(!breaker.failed(start) && !breaker.failed(start));
        assert!(breaker.allows(start));
        assert!(breaker.failed(start));
        assert!(!breaker.allows(start));
        let wait = breaker.wait(start);
        assert!(wait >= PAUSES.0.mul_f64(0.75) && wait <= PAUSES.0.mul_f64(1.25));
        let later = start + wait;
        assert!(breaker.allows(later), "one is let through");
        assert!(!breaker.allows(later), "and no other");
        breaker.succeeded();
        assert!(breaker.allows(later) && breaker.allows(later));
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(1, 7);
        let mut expected = PAUSES.0;
        for _ in 0..12 {
            assert!(breaker.allows(now));
            breaker.failed(now);
            let wait = breaker.wait(now);
            assert!(
                wait >= expected.mul_f64(0.75) && wait <= expected.mul_f64(1.25),
                "{wait:?}"
            );
            expected = (expected * 2).min(PAUSES.1);
            now += wait;
        }
    }

    #[test]
    fn a_lost_connection_opens_it_at_once() {
        let now = Instant::now();
        let mut breaker = Breaker::new(5, 1);
        assert!(breaker.trip(now));
        assert!(!breaker.trip(now), "it is open already");
        assert!(!breaker.allows(now));
    }

    proptest! {
        #[test]
        fn it_never_stays_open_for_longer_than_the_bound(
            steps in vec((any::<bool>(), 0..5000_u64), 1..200),
            seed in any::<u64>(),
        ) {
            let mut now = Instant::now();
            let mut breaker = Breaker::new(3, seed);
            for (succeeds, millis) in steps {
                now += Duration::from_millis(millis);
                if !breaker.allows(now) {
                    prop_assert!(breaker.wait(now) <= PAUSES.1.mul_f64(1.25));
                    continue;
                }
                match succeeds {
                    true => breaker.succeeded(),
                    false => { breaker.failed(now); }
                }
                prop_assert!(breaker.phase() != Phase::HalfOpen);
            }
        }
    }
}
