//! When a certificate is ordered: from the time and its facts, without a clock of its own.
//!
//! Times are seconds since the Unix epoch, as the system's clock has them. That may jump: a wrong clock must
//! neither hold an order back for years, nor order again and again.

use serde::{Deserialize, Serialize};

pub(crate) const MINUTE: i64 = 60;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;

/// The wait after a first failure. Each further one makes it longer by [`GROWTH`]. Let's Encrypt allows five
/// failures in an hour, and these are four.
const FIRST_WAIT: i64 = MINUTE;
const GROWTH: i64 = 5;
const LONGEST_WAIT: i64 = 6 * HOUR;
/// Failures in a row after which another authority goes first.
pub(crate) const FAILURES_EACH: u32 = 2;
/// An authority is never held back for longer. A time that lies further ahead was noted by another clock.
pub(crate) const LONGEST_LIMIT: i64 = 7 * DAY;
/// Between two questions for renewal information (RFC 9773 §4.3.2).
const LOOK_MIN: i64 = MINUTE;
const LOOK_MAX: i64 = DAY;
pub(crate) const LOOK: i64 = 6 * HOUR;

/// The time for which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Validity {
    const fn life(self) -> i64 {
        self.to.saturating_sub(self.from)
    }
}

/// The time in which the authority wants a certificate to be renewed (RFC 9773 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Window {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// The facts of a certificate.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Known {
    /// `None` without a certificate that is for the names and kinds of keys in force.
    pub(crate) validity: Option<Validity>,
    /// When it was ordered.
    pub(crate) issued: i64,
    pub(crate) window: Option<Window>,
    /// Since the last success.
    pub(crate) failures: u32,
    /// When the last one was.
    pub(crate) failed: i64,
    /// When the first authority takes orders again, if none does.
    pub(crate) limited: Option<i64>,
    /// A number in [0, 1) that stays the same until the next order. It spreads servers over the time.
    pub(crate) draw: f64,
}

/// When the certificate is ordered next. A time that is not after `now` means at once.
pub(crate) fn due(known: &Known, now: i64) -> i64 {
    let mut at = known
        .validity
        .map_or(now, |validity| renewal(known, validity, now));
    if known.failures > 0 && known.failed <= now {
        at = at.max(
            known
                .failed
                .saturating_add(wait(known.failures, known.draw)),
        );
    }
    if let Some(until) = known.limited {
        at = at.max(until);
    }
    at
}

/// In the authority's window, or else when a third of the life is left.
fn renewal(known: &Known, validity: Validity, now: i64) -> i64 {
    let life = validity.life();
    let at = match known.window {
        Some(window) => {
            let length = window.to.saturating_sub(window.from).max(0);
            let at = window.from.saturating_add(part(length, known.draw));
            // Not so late that a failure or two would let the certificate expire.
            at.min(validity.to.saturating_sub(life / 10))
        }
        None => {
            let third = life / 3;
            let at = validity.to.saturating_sub(third);
            at.saturating_sub(part(third / 10, known.draw))
        }
    };
    // With a clock that is far ahead, even a new certificate seems to end. It is not ordered over and over.
    match known.issued <= now {
        true => at.max(known.issued.saturating_add((life / 10).min(LONGEST_WAIT))),
        false => at,
    }
}

/// The wait after so many failures in a row, with up to a quarter more.
fn wait(failures: u32, draw: f64) -> i64 {
    let grown = GROWTH.saturating_pow(failures.saturating_sub(1));
    let wait = FIRST_WAIT.saturating_mul(grown).min(LONGEST_WAIT);
    wait.saturating_add(part(wait / 4, draw))
}

fn part(length: i64, draw: f64) -> i64 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "lengths of certificates' lives in seconds, to the second"
    )]
    let part = (length as f64 * draw.clamp(0.0, 1.0)) as i64;
    part
}

/// When the authority is asked for renewal information again. `again` is the time that it asked for.
pub(crate) fn next_look(now: i64, again: i64) -> i64 {
    now.saturating_add(again.clamp(LOOK_MIN, LOOK_MAX))
}

/// Whether it is time for that question. A time too far ahead was noted by another clock.
pub(crate) fn is_look_due(look: i64, now: i64) -> bool {
    look <= now || look > now.saturating_add(LOOK_MAX)
}

/// Whether an authority that takes no orders until `until` still takes none.
pub(crate) fn is_limited(until: i64, now: i64) -> bool {
    (now..=now.saturating_add(LONGEST_LIMIT)).contains(&until) && until > now
}

/// The order in which `authorities` are asked after so many failures in a row, by their places.
pub(crate) fn preference(authorities: usize, failures: u32) -> impl Iterator<Item = usize> {
    let rounds = usize::try_from(failures / FAILURES_EACH).unwrap_or(0);
    (0..authorities).map(move |place| (place + rounds) % authorities)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: i64 = 1_800_000_000;

    /// A certificate of 90 days, ordered at its start.
    fn valid() -> Known {
        Known {
            validity: Some(Validity {
                from: START,
                to: START + 90 * DAY,
            }),
            issued: START,
            ..Known::default()
        }
    }

    fn window(from: i64, to: i64) -> Option<Window> {
        Some(Window {
            from: START + from,
            to: START + to,
        })
    }

    /// Of a certificate from [`START`] on: name, facts, now, and when it is due, after the start.
    #[test]
    fn certificates_are_due_in_time() {
        let short = Known {
            validity: Some(Validity {
                from: START,
                to: START + 6 * DAY,
            }),
            ..valid()
        };
        let failed = |failures, failed| Known {
            failures,
            failed: START + failed,
            ..valid()
        };
        let without = |known: Known| Known {
            validity: None,
            ..known
        };
        let cases = [
            ("none yet", without(valid()), 5, 5),
            ("fresh", valid(), 0, 60 * DAY),
            ("long after its time", valid(), 80 * DAY, 60 * DAY),
            (
                "spread",
                Known {
                    draw: 0.5,
                    ..valid()
                },
                0,
                60 * DAY - 36 * HOUR,
            ),
            ("short-lived", short.clone(), 0, 4 * DAY),
            (
                "in the authority's window",
                Known {
                    window: window(50 * DAY, 52 * DAY),
                    draw: 0.25,
                    ..valid()
                },
                0,
                50 * DAY + 12 * HOUR,
            ),
            (
                "a window that is over, as after a revocation",
                Known {
                    window: window(-DAY, 0),
                    ..valid()
                },
                10 * DAY,
                6 * HOUR,
            ),
            (
                "a window after the end",
                Known {
                    window: window(100 * DAY, 101 * DAY),
                    ..valid()
                },
                0,
                81 * DAY,
            ),
            (
                "a window whose end is before its begin",
                Known {
                    window: window(50 * DAY, 40 * DAY),
                    draw: 0.9,
                    ..valid()
                },
                0,
                50 * DAY,
            ),
            (
                "a first failure",
                failed(1, 60 * DAY),
                60 * DAY,
                60 * DAY + MINUTE,
            ),
            (
                "a second",
                failed(2, 60 * DAY),
                60 * DAY,
                60 * DAY + 5 * MINUTE,
            ),
            ("many", failed(9, 60 * DAY), 60 * DAY, 60 * DAY + 6 * HOUR),
            (
                "a failure long ago",
                failed(1, 60 * DAY),
                80 * DAY,
                60 * DAY + MINUTE,
            ),
            (
                "a failure without a certificate",
                without(failed(1, 0)),
                10,
                MINUTE,
            ),
            (
                "no authority takes orders",
                Known {
                    limited: Some(START + 61 * DAY),
                    ..valid()
                },
                60 * DAY,
                61 * DAY,
            ),
            (
                "a clock set back after a failure",
                failed(1, 60 * DAY),
                30 * DAY,
                60 * DAY,
            ),
            (
                "the same without a certificate",
                without(failed(3, 60 * DAY)),
                30 * DAY,
                30 * DAY,
            ),
            (
                "a clock before the certificate's begin",
                valid(),
                -10 * DAY,
                60 * DAY,
            ),
            (
                "ordered by a clock years ahead, which then seems to have ended long ago",
                Known {
                    issued: START + 4000 * DAY,
                    ..valid()
                },
                4000 * DAY,
                4000 * DAY + 6 * HOUR,
            ),
            (
                "the same after the clock was set right",
                Known {
                    issued: START + 4000 * DAY,
                    ..valid()
                },
                DAY,
                60 * DAY,
            ),
        ];
        for (name, known, now, want) in cases {
            let got = due(&known, START + now);
            assert_eq!(got - START, want, "{name}");
        }
    }

    #[test]
    fn limits_and_looks_of_another_clock_are_forgotten() {
        // until, limited
        for (until, want) in [
            (-1, false),
            (0, false),
            (1, true),
            (LONGEST_LIMIT, true),
            (LONGEST_LIMIT + 1, false),
        ] {
            assert_eq!(is_limited(START + until, START), want, "{until}");
        }
        for (look, want) in [
            (-1, true),
            (0, true),
            (1, false),
            (DAY, false),
            (DAY + 1, true),
        ] {
            assert_eq!(is_look_due(START + look, START), want, "{look}");
        }
        for (again, want) in [(0, MINUTE), (HOUR, HOUR), (i64::MAX, DAY)] {
            assert_eq!(next_look(START, again), START + want, "{again}");
        }
    }

    #[test]
    fn another_authority_goes_first_after_two_failures() {
        for (failures, want) in [
            (0, [0, 1, 2]),
            (1, [0, 1, 2]),
            (2, [1, 2, 0]),
            (3, [1, 2, 0]),
            (5, [2, 0, 1]),
            (6, [0, 1, 2]),
        ] {
            let got: Vec<_> = preference(3, failures).collect();
            assert_eq!(got, want, "{failures}");
        }
        assert_eq!(preference(1, u32::MAX).collect::<Vec<_>>(), [0]);
    }

    proptest! {
        /// However the clock jumps, there is at most an order in six hours or in a tenth of the life. No
        /// certificate ends without one.
        #[test]
        fn no_clock_makes_a_storm_or_a_stop(
            now in START - 4000 * DAY..START + 4000 * DAY,
            life in HOUR..400 * DAY,
            failures in 0_u32..20,
            failed in START - 4000 * DAY..START + 4000 * DAY,
            draw in 0.0..1.0,
        ) {
            let validity = Validity { from: now, to: now + life };
            let fresh = Known { validity: Some(validity), issued: now, draw, ..Known::default() };
            let at = due(&fresh, now);
            prop_assert!(at >= now + (life / 10).min(LONGEST_WAIT));
            prop_assert!(at < now + life);
            let failing = Known { validity: None, failures, failed, draw, ..Known::default() };
            let at = due(&failing, now);
            prop_assert!(at <= now + LONGEST_WAIT + LONGEST_WAIT / 4);
            if failures > 0 && failed == now {
                prop_assert!(at >= now + FIRST_WAIT);
            }
        }
    }
}
