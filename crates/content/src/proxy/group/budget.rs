//! How many requests may be repeated, so that repeats do not multiply an outage.

use std::time::Duration;

use super::standing::Time;

/// Allows repeats of a fifth of the requests of the last ten seconds, and of ten more.
///
/// The last ten seconds are made of two windows: all of the present one, and of the one before the part
/// that they still reach. Nothing is done for requests that are not repeated.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// The beginning of the present window.
    since: Time,
    /// Requests before that.
    requests: u64,
    repeats: f64,
    former_requests: f64,
    former_repeats: f64,
}

impl Budget {
    /// Takes a repeat, if one is left. `requests` is the number of all so far.
    pub(super) fn take(&mut self, requests: u64, now: Time) -> bool {
        self.turn(requests, now);
        let passed = now.saturating_sub(self.since).as_secs_f64() / WINDOW.as_secs_f64();
        let left = (1.0 - passed).max(0.0);
        let new = requests.saturating_sub(self.requests) as f64;
        let (all, repeats) = (
            self.former_requests * left + new,
            self.former_repeats * left + self.repeats,
        );
        let is_left = repeats + 1.0 <= all * SHARE + ALWAYS;
        if is_left {
            self.repeats += 1.0;
        }
        is_left
    }

    /// Begins a new window when the present one is over. Of one that was over long ago, the average
    /// counts.
    fn turn(&mut self, requests: u64, now: Time) {
        let passed = now.saturating_sub(self.since);
        if passed < WINDOW {
            return;
        }
        let windows = passed.as_secs_f64() / WINDOW.as_secs_f64();
        self.former_requests = requests.saturating_sub(self.requests) as f64 / windows;
        self.former_repeats = match windows < 2.0 {
            true => self.repeats / windows,
            false => 0.0,
        };
        self.repeats = 0.0;
        self.requests = requests;
        self.since = now;
    }
}

const WINDOW: Duration = Duration::from_secs(10);
/// Repeats for each request.
const SHARE: f64 = 0.2;
/// Repeats that are allowed in any case, for servers with few requests.
const ALWAYS: f64 = 10.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Time {
        Duration::from_millis(millis)
    }

    /// Repeats that are taken at once.
    fn take_all(budget: &mut Budget, requests: u64, millis: u64) -> u64 {
        let mut taken = 0;
        while budget.take(requests, at(millis)) {
            taken += 1;
        }
        taken
    }

    #[test]
    fn a_fifth_and_ten_more_may_be_repeated() {
        for requests in [0, 5, 100, 10_000] {
            let mut budget = Budget::default();
            let taken = take_all(&mut budget, requests, 1);
            assert_eq!(taken, 10 + requests / 5, "{requests}");
            assert_eq!(take_all(&mut budget, requests, 9_000), 0, "{requests}");
        }
    }

    #[test]
    fn a_quiet_time_is_worth_its_average() {
        let mut budget = Budget::default();
        // 1000 requests in 100 s are 100 in ten.
        assert_eq!(take_all(&mut budget, 1000, 100_000), 30);
        let mut budget = Budget::default();
        assert_eq!(take_all(&mut budget, 0, 1_000_000), 10);
    }

    #[test]
    fn the_budget_returns_with_time_and_with_requests() {
        let mut budget = Budget::default();
        assert_eq!(take_all(&mut budget, 0, 0), 10);
        assert_eq!(take_all(&mut budget, 50, 0), 10, "a fifth of 50");
        assert!(take_all(&mut budget, 50, 30_000) >= 10, "all are forgotten");
    }

    proptest! {
        /// In the long run, repeats stay within the share and the constant.
        #[test]
        fn repeats_stay_within_the_budget(
            steps in prop::collection::vec((1..200_u64, 0..500_u64), 1..300),
        ) {
            let mut budget = Budget::default();
            let (mut now, mut requests, mut repeats) = (0, 0, 0_u64);
            for (millis, new) in steps {
                now += millis;
                requests += new;
                repeats += take_all(&mut budget, requests, now);
            }
            let windows = now as f64 / 10_000.0 + 2.0;
            // A burst may count in two windows at the turn.
            let most = requests as f64 * 0.2 * 2.0 + 10.0 * windows;
            prop_assert!(repeats as f64 <= most, "{repeats} of {requests} in {now} ms");
        }
    }
}
