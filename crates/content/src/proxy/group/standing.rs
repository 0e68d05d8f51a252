//! Whether an upstream may get requests, by what became of former ones and by checks.
//!
//! Time comes in as an argument, from a beginning that the caller chooses.

use std::time::Duration;

/// Time since the beginning.
pub(super) type Time = Duration;

/// The conditions under which an upstream is avoided, and returns.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct Terms {
    /// Failures in a row after which it is avoided; 0: never.
    pub(in crate::proxy) avoid_after: u32,
    /// The first time for which it is avoided.
    pub(in crate::proxy) avoid_min: Duration,
    /// The longest.
    pub(in crate::proxy) avoid_max: Duration,
    /// The time in which its share of the requests grows to the usual one.
    pub(in crate::proxy) slow_start: Duration,
    /// Checks in a row that turn it on.
    pub(in crate::proxy) rise: u32,
    /// Checks in a row that turn it off.
    pub(in crate::proxy) fall: u32,
}

/// The part of its usual requests that an upstream may get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::proxy) enum Standing {
    /// This share, above 0 and up to 1.
    Up(f32),
    /// One, which shows whether it is well again.
    Trial,
    /// None.
    Down,
}

/// A change that operators want to know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is avoided for this time.
    Avoided(Duration),
    /// A request has shown that it is well again.
    Returned,
    /// Checks have turned it off.
    Off,
    /// Checks have turned it on.
    On,
}

/// The health of an upstream.
#[derive(Debug)]
pub(super) struct Health {
    terms: Terms,
    /// Failures in a row.
    failures: u32,
    last_failure: Time,
    avoided: Option<Avoided>,
    /// How long it was avoided before, and when it returned.
    former: Option<(Duration, Time)>,
    /// Whether checks have turned it off.
    is_off: bool,
    /// Checks in a row that say the opposite.
    opposed: u32,
    /// The beginning of a slow start.
    slow_since: Option<Time>,
}

/// A time in which an upstream is avoided.
#[derive(Clone, Copy, Debug)]
struct Avoided {
    since: Time,
    until: Time,
    pause: Duration,
    /// Whether a request is under way that shows more.
    on_trial: bool,
}

impl Health {
    pub(super) const fn new(terms: Terms) -> Self {
        Self {
            terms,
            failures: 0,
            last_failure: Time::ZERO,
            avoided: None,
            former: None,
            is_off: false,
            opposed: 0,
            slow_since: None,
        }
    }

    /// Whether there is nothing to heed or to remember.
    pub(super) const fn is_quiet(&self) -> bool {
        self.failures == 0 && self.is_up() && self.slow_since.is_none()
    }

    /// Whether it is neither avoided nor off.
    pub(super) const fn is_up(&self) -> bool {
        self.avoided.is_none() && !self.is_off
    }

    /// Returns the part that it may get. Whoever is answered [`Standing::Trial`] has to send that request;
    /// another may come when nothing was heard of it for `avoid_min`.
    pub(super) fn standing(&mut self, now: Time) -> Standing {
        if self.is_off {
            return Standing::Down;
        }
        match &mut self.avoided {
            Some(avoided) if now < avoided.until => Standing::Down,
            Some(avoided) => {
                avoided.on_trial = true;
                avoided.until = now + self.terms.avoid_min;
                Standing::Trial
            }
            None => Standing::Up(self.share(now)),
        }
    }

    fn share(&mut self, now: Time) -> f32 {
        let Some(since) = self.slow_since else {
            return 1.0;
        };
        let passed = now.saturating_sub(since);
        if passed >= self.terms.slow_start {
            self.slow_since = None;
            return 1.0;
        }
        (passed.as_secs_f32() / self.terms.slow_start.as_secs_f32()).clamp(MIN_SHARE, 1.0)
    }

    /// Notes that it has answered a request that had `begun` then.
    pub(super) fn succeeded(&mut self, begun: Time, now: Time) -> Option<Change> {
        let Some(avoided) = self.avoided else {
            self.failures = 0;
            return None;
        };
        // An answer to a request from before the failures says nothing of the time after them.
        if begun < avoided.since {
            return None;
        }
        self.come_back(avoided, now);
        Some(Change::Returned)
    }

    /// Notes that it has failed to answer a request that had `begun` then.
    pub(super) fn failed(&mut self, begun: Time, now: Time) -> Option<Change> {
        if let Some(avoided) = self.avoided {
            // Requests from before fail together; each of them counted would multiply the pause.
            let counts = avoided.on_trial && begun >= avoided.since;
            return counts.then(|| self.avoid(avoided.pause.saturating_mul(2), now));
        }
        if self.former.is_some_and(|(_, returned)| begun < returned) {
            return None;
        }
        if now > self.last_failure + MEMORY {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.last_failure = now;
        let is_enough = self.terms.avoid_after > 0 && self.failures >= self.terms.avoid_after;
        is_enough.then(|| {
            let again = self
                .former
                .filter(|(_, returned)| now < *returned + self.terms.avoid_max);
            let pause = again.map_or(self.terms.avoid_min, |(pause, _)| pause.saturating_mul(2));
            self.avoid(pause, now)
        })
    }

    /// Notes the outcome of a check.
    pub(super) fn checked(&mut self, is_well: bool, now: Time) -> Option<Change> {
        if is_well != self.is_off {
            self.opposed = 0;
            return None;
        }
        self.opposed += 1;
        let needed = match self.is_off {
            true => self.terms.rise,
            false => self.terms.fall,
        };
        if self.opposed < needed {
            return None;
        }
        self.opposed = 0;
        self.is_off = !is_well;
        if self.is_off {
            return Some(Change::Off);
        }
        match self.avoided {
            Some(avoided) => self.come_back(avoided, now),
            None => self.begin_slowly(now),
        }
        Some(Change::On)
    }

    fn avoid(&mut self, pause: Duration, now: Time) -> Change {
        let pause = pause.min(self.terms.avoid_max);
        self.failures = 0;
        self.slow_since = None;
        self.avoided = Some(Avoided {
            since: now,
            until: now + pause,
            pause,
            on_trial: false,
        });
        Change::Avoided(pause)
    }

    fn come_back(&mut self, avoided: Avoided, now: Time) {
        self.avoided = None;
        self.failures = 0;
        self.former = Some((avoided.pause, now));
        self.begin_slowly(now);
    }

    fn begin_slowly(&mut self, now: Time) {
        self.slow_since = (!self.terms.slow_start.is_zero()).then_some(now);
    }
}

/// Failures further apart than this do not count together.
const MEMORY: Duration = Duration::from_secs(60);

/// The share at the beginning of a slow start.
const MIN_SHARE: f32 = 0.05;

#[cfg(test)]
mod tests;
