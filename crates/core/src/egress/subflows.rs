//! The subflows of an MPTCP connection over which its data are sent, by the class of its content (EPE
//! §4.2.3, §7).
//!
//! The kernel sends over all regular subflows, and over backup ones while no regular one works (RFC 8684
//! §3.3.8). So the choice is which are regular. A class that wants capacity has all. One that wants the
//! lowest round-trip time has that subflow alone; the others stay open as backup and take over when it
//! goes.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Criterion;
use crate::policy::SchedulingPolicy;
use hikyaku_units::Timestamp;

/// How the data of an MPTCP connection are spread over its subflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduling {
    /// Over all of them, as the kernel's scheduler does: the sum of their rates.
    #[default]
    Capacity,
    /// Over the one with the lowest round-trip time.
    LowestRtt,
}

impl Scheduling {
    /// The scheduling of a class that names none.
    #[must_use]
    pub const fn of(wants: Criterion) -> Self {
        match wants {
            Criterion::Goodput | Criterion::Stall => Self::Capacity,
            Criterion::Rtt => Self::LowestRtt,
        }
    }

    /// The scheduling in place of a class's own, as the operator wants.
    #[must_use]
    pub const fn under(self, policy: SchedulingPolicy) -> Self {
        match policy {
            SchedulingPolicy::Class => self,
            SchedulingPolicy::Capacity => Self::Capacity,
            SchedulingPolicy::LowestRtt => Self::LowestRtt,
        }
    }

    /// `capacity` or `lowest_rtt`, as in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::LowestRtt => "lowest_rtt",
        }
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A subflow, as its sender sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubflowRtt {
    /// Unique in the connection.
    pub id: u32,
    /// Smoothed round-trip time, of data that were sent last.
    pub srtt: Duration,
    /// Smallest round-trip time; zero where it is not known.
    pub min_rtt: Duration,
    /// Since data were sent on it.
    pub idle: Duration,
}

/// A round-trip time that was seen fades to the smallest one with this half-life: queues drain.
const FADE: Duration = Duration::from_secs(10);

impl SubflowRtt {
    /// The round-trip time that data would have on it now.
    fn expected(&self) -> Duration {
        let least = match self.min_rtt.is_zero() {
            true => self.srtt,
            false => self.min_rtt.min(self.srtt),
        };
        let kept = (-self.idle.as_secs_f64() / FADE.as_secs_f64()).exp2();
        least + (self.srtt - least).mul_f64(kept)
    }
}

/// Another subflow is taken for a lower round-trip time only if that is below this part of the present one,
const ENOUGH: f64 = 0.75;
/// and lower by so much.
const ENOUGH_TIME: Duration = Duration::from_millis(2);
/// Between two such changes.
const DWELL: Duration = Duration::from_secs(1);
/// For so long capacity has to be wanted before all subflows are regular again. Short responses of another
/// class do not change them.
const SETTLE: Duration = Duration::from_millis(200);

/// Chooses the subflows of one connection.
#[derive(Clone, Debug, Default)]
pub struct SubflowChoice {
    /// The subflows, the one to use first; empty while all are regular.
    order: Vec<u32>,
    /// When the first one became so.
    since: Timestamp,
    /// Since when capacity is wanted.
    capacity_since: Option<Timestamp>,
}

impl SubflowChoice {
    /// Takes note of the subflows and of what the content wants now. Returns whether the order has changed.
    pub fn look(&mut self, now: Timestamp, wanted: Scheduling, subflows: &[SubflowRtt]) -> bool {
        let order = match wanted {
            Scheduling::Capacity => {
                let since = *self.capacity_since.get_or_insert(now);
                let settled = now >= since.saturating_add(SETTLE);
                if !self.order.is_empty() && !settled {
                    return false;
                }
                Vec::new()
            }
            Scheduling::LowestRtt => {
                self.capacity_since = None;
                self.by_rtt(now, subflows)
            }
        };
        // The order behind the first one counts only once that one goes.
        let same = self.order.first() == order.first() && self.order.len() == order.len();
        if !same {
            if self.order.first() != order.first() {
                self.since = now;
            }
            self.order = order;
        }
        !same
    }

    /// The subflows, the one to use first; empty where all are to be used.
    #[must_use]
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The scheduling in force.
    #[must_use]
    pub const fn scheduling(&self) -> Scheduling {
        match self.order.is_empty() {
            true => Scheduling::Capacity,
            false => Scheduling::LowestRtt,
        }
    }

    fn by_rtt(&self, now: Timestamp, subflows: &[SubflowRtt]) -> Vec<u32> {
        if subflows.len() < 2 {
            return Vec::new();
        }
        let mut sorted: Vec<&SubflowRtt> = subflows.iter().collect();
        sorted.sort_by_key(|subflow| (subflow.expected(), subflow.id));
        let present = self.order.first();
        let place = present.and_then(|id| sorted.iter().position(|subflow| subflow.id == *id));
        if let Some(place) = place
            && !self.is_worth(now, sorted[0].expected(), sorted[place].expected())
        {
            sorted[..=place].rotate_right(1);
        }
        sorted.iter().map(|subflow| subflow.id).collect()
    }

    /// Whether a subflow with the round-trip time `best` is to be taken in place of the first one, which
    /// has `present`.
    fn is_worth(&self, now: Timestamp, best: Duration, present: Duration) -> bool {
        best < present.mul_f64(ENOUGH)
            && best + ENOUGH_TIME <= present
            && now >= self.since.saturating_add(DWELL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000 + 1000 * millis)
    }

    /// A subflow that sends.
    fn busy(id: u32, srtt: u64) -> SubflowRtt {
        idle(id, srtt, srtt, 0)
    }

    fn idle(id: u32, srtt: u64, min_rtt: u64, idle: u64) -> SubflowRtt {
        SubflowRtt {
            id,
            srtt: ms(srtt),
            min_rtt: ms(min_rtt),
            idle: ms(idle),
        }
    }

    #[test]
    fn classes_get_the_scheduling_that_they_want() {
        let by_class = Criterion::ALL.map(Scheduling::of);
        let want = [
            Scheduling::Capacity,
            Scheduling::Capacity,
            Scheduling::LowestRtt,
        ];
        assert_eq!(by_class, want);
        let read: Scheduling = serde_json::from_str("\"lowest_rtt\"").unwrap();
        assert_eq!(read.name(), "lowest_rtt");
    }

    #[test]
    fn the_lowest_round_trip_time_comes_first() {
        type Looks<'a> = &'a [(u64, &'a [SubflowRtt])];
        let cases: &[(&str, Looks<'_>, &[u32])] = &[
            ("one subflow is no choice", &[(0, &[busy(1, 20)])], &[]),
            (
                "the lower one",
                &[(0, &[busy(1, 60), busy(2, 20)])],
                &[2, 1],
            ),
            (
                "a little less is no reason",
                &[
                    (0, &[busy(1, 20), busy(2, 60)]),
                    (2000, &[busy(1, 24), busy(2, 20)]),
                ],
                &[1, 2],
            ),
            (
                "nor is a third of almost nothing",
                &[
                    (0, &[idle(1, 1, 1, 0), busy(2, 60)]),
                    (2000, &[busy(1, 2), idle(2, 1, 1, 0)]),
                ],
                &[1, 2],
            ),
            (
                "much less is",
                &[
                    (0, &[busy(1, 20), busy(2, 60)]),
                    (2000, &[busy(1, 100), busy(2, 60)]),
                ],
                &[2, 1],
            ),
            (
                "but not at once again",
                &[
                    (0, &[busy(1, 20), busy(2, 60)]),
                    (900, &[busy(1, 100), busy(2, 60)]),
                ],
                &[1, 2],
            ),
            (
                "one that goes is replaced at once",
                &[
                    (0, &[busy(1, 20), busy(2, 60), busy(3, 40)]),
                    (1, &[busy(2, 60), busy(3, 40)]),
                ],
                &[3, 2],
            ),
            (
                "a better one that joins waits",
                &[
                    (0, &[busy(1, 60), busy(2, 80)]),
                    (100, &[busy(1, 60), busy(2, 80), busy(3, 20)]),
                    (1100, &[busy(1, 60), busy(2, 80), busy(3, 20)]),
                ],
                &[3, 1, 2],
            ),
            (
                "a queue that was left counts for a while",
                &[
                    (0, &[busy(1, 40), busy(2, 60)]),
                    (5000, &[busy(1, 45), idle(2, 300, 20, 2000)]),
                ],
                &[1, 2],
            ),
            (
                "and is then thought to have drained",
                &[
                    (0, &[busy(1, 40), busy(2, 60)]),
                    (90_000, &[busy(1, 45), idle(2, 300, 20, 60_000)]),
                ],
                &[2, 1],
            ),
        ];
        for (name, looks, want) in cases {
            let mut choice = SubflowChoice::default();
            for (time, subflows) in *looks {
                choice.look(at(*time), Scheduling::LowestRtt, subflows);
            }
            assert_eq!(choice.order(), *want, "{name}");
        }
    }

    #[test]
    fn a_short_response_of_another_class_changes_nothing() {
        let subflows = [busy(1, 60), busy(2, 20)];
        let mut choice = SubflowChoice::default();
        let mut look = |time, wanted| {
            (
                choice.look(at(time), wanted, &subflows),
                choice.order().len(),
            )
        };
        assert_eq!(look(0, Scheduling::Capacity), (false, 0));
        assert_eq!(look(1, Scheduling::LowestRtt), (true, 2), "at once");
        assert_eq!(look(2, Scheduling::Capacity), (false, 2));
        assert_eq!(look(190, Scheduling::LowestRtt), (false, 2));
        assert_eq!(look(300, Scheduling::Capacity), (false, 2), "counted anew");
        assert_eq!(look(499, Scheduling::Capacity), (false, 2));
        assert_eq!(look(500, Scheduling::Capacity), (true, 0));
        assert_eq!(look(501, Scheduling::Capacity), (false, 0));
    }

    #[test]
    fn noise_moves_nothing() {
        let mut choice = SubflowChoice::default();
        let mut changes = 0;
        for step in 0..10_000_u64 {
            // 5 ms around 40 ms each, as a sender sees them.
            let noise = |salt: u64| (step * 7919 + salt * 104_729) % 11;
            let subflows = [busy(1, 35 + noise(1)), busy(2, 35 + noise(2))];
            changes += usize::from(choice.look(at(5 * step), Scheduling::LowestRtt, &subflows));
        }
        assert_eq!(changes, 1, "the first choice alone");
    }
}
