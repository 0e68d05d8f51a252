//! The report of a pump's run.

use std::time::Duration;

use hikyaku_netsim::{Counters, Tally};
use serde::{Deserialize, Serialize};

use super::lateness::Lateness;

/// The report of a pump's run from start to stop.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Counts of packets from the first end to the second.
    pub up: Counters,
    /// Counts of packets from the second end to the first.
    pub down: Counters,
    /// State of the link at the end of each [`Sample::INTERVAL`].
    pub samples: Vec<Sample>,
    /// Lateness of delivery, in both directions.
    pub lateness: Lateness,
    /// Frames from a namespace that were no valid super-packet, and frames that a namespace
    /// refused. Any other value than 0 spoils a measurement.
    pub faults: u64,
    /// Whether the thread had real-time priority.
    pub realtime: bool,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// Share of all CPUs' time that the machine's host gave to others, `0.0..=1.0`.
    pub steal: f64,
    /// Time from start to stop.
    pub elapsed: Duration,
}

/// The state of a link at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Time since the link's start.
    #[serde(with = "hikyaku_units::duration")]
    pub at: Duration,
    /// The direction from the first end to the second.
    pub up: DirectionState,
    /// The direction from the second end to the first.
    pub down: DirectionState,
}

/// One direction of a link at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionState {
    /// Counts of packets so far.
    pub counters: Counters,
    /// Packets that wait in the queue.
    pub queued: Tally,
}

impl Sample {
    /// Time between two samples of a [`Report`].
    pub const INTERVAL: Duration = Duration::from_millis(100);
}

impl Report {
    /// The emulator delivers 99 of 100 packets with at most this lateness, or the machine was too
    /// busy.
    pub const LATENESS_LIMIT: Duration = Duration::from_millis(2);

    /// Share of CPU time that the host may give to others.
    pub const STEAL_LIMIT: f64 = 0.05;

    /// Shortest long run. In it a stall of some milliseconds is too small a part to matter. So
    /// [`Self::MEAN_LATENESS_LIMIT`] bounds the mean lateness, and [`Self::LONG_STEAL_LIMIT`]
    /// holds.
    pub const LONG: Duration = Duration::from_secs(5);

    /// Limit of the mean lateness in a long run, in either direction: a round trip of 25 ms takes 2
    /// % longer then.
    pub const MEAN_LATENESS_LIMIT: Duration = Duration::from_micros(250);

    /// Limit of the stolen CPU share in a long run, in place of [`Self::STEAL_LIMIT`].
    pub const LONG_STEAL_LIMIT: f64 = 0.25;

    /// Joins the reports of two links that ran at the same time. Samples are left out, since they
    /// belong to one link each.
    pub fn beside(mut self, other: &Self) -> Self {
        self.up += other.up;
        self.down += other.down;
        self.samples.clear();
        self.lateness.add(&other.lateness);
        self.faults += other.faults;
        self.realtime &= other.realtime;
        self.cpu += other.cpu;
        self.steal = self.steal.max(other.steal);
        self.elapsed = self.elapsed.max(other.elapsed);
        self
    }

    /// The reason why this measurement shows the machine rather than the link, and must be
    /// repeated. `None` if it is good.
    pub fn disturbed(&self) -> Option<String> {
        let (what, lateness, lateness_limit, steal_limit) = if self.elapsed < Self::LONG {
            let p99 = self.lateness.quantile(0.99);
            ("p99", p99, Self::LATENESS_LIMIT, Self::STEAL_LIMIT)
        } else {
            let (mean, limit) = (self.lateness.mean(), Self::MEAN_LATENESS_LIMIT);
            ("mean", mean, limit, Self::LONG_STEAL_LIMIT)
        };
        let reasons = [
            (self.faults > 0).then(|| format!("{} faulty frames", self.faults)),
            (lateness > lateness_limit).then(|| {
                format!("packets were late: {what} {lateness:.1?}, limit {lateness_limit:.0?}")
            }),
            (self.steal > steal_limit).then(|| {
                let (steal, limit) = (self.steal * 100.0, steal_limit * 100.0);
                format!("CPU time was stolen: {steal:.1} %, limit {limit:.0} %")
            }),
        ];
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(late_us: u64, faults: u64, steal: f64) -> Report {
        late(&[late_us], faults, steal)
    }

    fn late(times_us: &[u64], faults: u64, steal: f64) -> Report {
        let mut lateness = Lateness::default();
        times_us
            .iter()
            .for_each(|&late_us| lateness.record(late_us));
        Report {
            up: Counters::default(),
            down: Counters::default(),
            samples: Vec::new(),
            lateness,
            faults,
            realtime: true,
            cpu: Duration::ZERO,
            steal,
            elapsed: Duration::from_secs(1),
        }
    }

    #[test]
    fn two_links_are_as_late_as_both_and_as_faulty() {
        let both = late(&[100, 300], 1, 0.01).beside(&late(&[900], 2, 0.02));
        assert_eq!(both.lateness.count(), 3);
        assert_eq!(both.lateness.max(), Duration::from_micros(900));
        assert_eq!((both.faults, both.steal), (3, 0.02));
    }

    #[test]
    fn a_disturbance_is_named_with_its_limit() {
        let cases = [
            (report(2_000, 0, 0.05), None),
            (
                late(&[1_500, 1_500, 5_000], 0, 0.0),
                Some("packets were late: p99 5.0ms, limit 2ms"),
            ),
            (late(&[&[1_500; 199][..], &[5_000]].concat(), 0, 0.0), None),
            (
                report(2_001, 0, 0.0),
                Some("packets were late: p99 2.0ms, limit 2ms"),
            ),
            (
                report(0, 3, 0.071),
                Some("3 faulty frames; CPU time was stolen: 7.1 %, limit 5 %"),
            ),
        ];
        for (report, want) in cases {
            assert_eq!(report.disturbed().as_deref(), want);
        }
    }

    #[test]
    fn stalls_are_a_small_part_of_a_long_run() {
        let long = |report: Report| Report {
            elapsed: Report::LONG,
            ..report
        };
        let stalled = || late(&[&[0; 98][..], &[9_000; 2]].concat(), 0, 0.2);
        assert!(stalled().disturbed().is_some());
        assert_eq!(long(stalled()).disturbed(), None);
        assert_eq!(
            long(report(251, 0, 0.26)).disturbed().as_deref(),
            Some(
                "packets were late: mean 251.0µs, limit 250µs; CPU time was stolen: 26.0 %, limit 25 %"
            ),
        );
    }
}
