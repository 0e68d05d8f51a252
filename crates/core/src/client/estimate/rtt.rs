//! The smallest round-trip time over a sliding window.

use std::time::Duration;

use hikyaku_units::Secs;

/// The smallest RTT of the last one to two windows, in 12 bytes.
///
/// Two buckets of one window each instead of every sample: a path that became longer is noticed after
/// two windows at the latest, and at once by a client that comes back after that long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinRtt {
    /// Smallest of the present bucket in µs; 0 when empty.
    pub(crate) current: u32,
    /// Smallest of the bucket before; 0 when empty.
    pub(crate) previous: u32,
    /// Start of the present bucket.
    pub(crate) begun: Secs,
}

impl MinRtt {
    /// Takes a sample; zero says nothing.
    pub(crate) fn update(&mut self, rtt: Duration, now: Secs, window: Duration) {
        let rtt = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
        if rtt == 0 {
            return;
        }
        let age = now.since(self.begun);
        if age >= window {
            let adjoining = age < window.saturating_mul(2);
            self.previous = if adjoining { self.current } else { 0 };
            (self.current, self.begun) = (0, now);
        }
        self.current = smaller(self.current, rtt);
    }

    /// The smallest RTT that is kept.
    #[must_use]
    pub fn get(&self) -> Option<Duration> {
        let micros = smaller(self.current, self.previous);
        (micros > 0).then(|| Duration::from_micros(micros.into()))
    }
}

/// The smaller of two, of which 0 says nothing.
fn smaller(a: u32, b: u32) -> u32 {
    if a == 0 || b == 0 { a.max(b) } else { a.min(b) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{MinRtt, Secs};

    #[test]
    fn the_minimum_ages() {
        // name, [(at s, rtt ms)], min_rtt ms
        type Case<'a> = (&'a str, &'a [(u32, u64)], Option<u64>);
        let cases: &[Case<'_>] = &[
            ("no sample", &[], None),
            ("zero says nothing", &[(0, 0)], None),
            (
                "keeps the smallest",
                &[(0, 40), (100, 25), (200, 60)],
                Some(25),
            ),
            (
                "keeps it into the next window",
                &[(0, 25), (700, 60)],
                Some(25),
            ),
            (
                "forgets it after two",
                &[(0, 25), (700, 60), (1400, 60)],
                Some(60),
            ),
            (
                "forgets at once after a long pause",
                &[(0, 25), (1300, 60)],
                Some(60),
            ),
            (
                "a shorter path counts at once",
                &[(0, 60), (1, 25)],
                Some(25),
            ),
        ];
        for (name, samples, want) in cases {
            let mut min = MinRtt::default();
            for &(at, rtt) in *samples {
                let at = Secs::new(1_000_000 + at);
                min.update(Duration::from_millis(rtt), at, Duration::from_secs(600));
            }
            assert_eq!(min.get(), want.map(Duration::from_millis), "{name}");
        }
    }
}
