//! Latencies of many small changes on their way to the server's kernel.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::super::watch::{Change, Prefix, What};
use super::super::{ms, quantile};
use crate::experiment::run::Measured;

/// The latencies of changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Latencies {
    /// Latencies in ms.
    came: Vec<f64>,
    /// Number of changes that never came, since later ones overtook them.
    missing: usize,
    /// Time from the last change to its arrival.
    tail: Duration,
}

impl Latencies {
    /// Finds the changes of a feed's log among the changes of a table.
    pub(super) fn add(&mut self, log: &str, table: u32, changes: &[Change]) {
        let mut by_prefix: BTreeMap<(Prefix, bool), VecDeque<Duration>> = BTreeMap::new();
        for change in changes.iter().filter(|change| change.table == table) {
            let key = match change.what {
                What::Route { prefix, .. } => (prefix, true),
                What::NoRoute { prefix } => (prefix, false),
                What::Rule | What::NoRule => continue,
            };
            by_prefix.entry(key).or_default().push_back(change.at);
        }
        let mut last = None;
        for (at, key) in log.lines().filter_map(parse) {
            let times = by_prefix.entry(key).or_default();
            while times.front().is_some_and(|came| *came < at) {
                times.pop_front();
            }
            match times.pop_front() {
                Some(came) => {
                    self.came.push(ms(&(came - at)));
                    last = Some(came - at);
                }
                None => self.missing += 1,
            }
        }
        self.tail = self.tail.max(last.unwrap_or_default());
    }

    /// Writes the figures. `fed` is the time that the feed took to send everything.
    pub(super) fn measure(&self, fed: Duration, measured: &mut Measured) {
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            let value = quantile(&self.came, share);
            measured.metric(&format!("churn_{name}_ms"), value);
        }
        let all = self.came.len() + self.missing;
        measured.metric("churn_updates", all as f64);
        measured.metric("churn_missing", self.missing as f64);
        measured.metric("churn_per_second", all as f64 / fed.as_secs_f64());
        measured.metric("churn_tail_ms", ms(&self.tail));
    }
}

/// Parses `TIME announce|withdraw PREFIX`.
fn parse(line: &str) -> Option<(Duration, (Prefix, bool))> {
    let mut words = line.split(' ');
    let at = Duration::from_nanos(words.next()?.parse().ok()?);
    let announced = words.next()? == "announce";
    let (address, length) = words.next()?.split_once('/')?;
    let prefix = (address.parse().ok()?, length.parse().ok()?);
    Some((at, (prefix, announced)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_found_after_its_announcement() {
        let prefix: Prefix = ("3fff:100::".parse().unwrap(), 48);
        let change = |at, table, has| Change {
            at: Duration::from_millis(at),
            table,
            what: match has {
                true => What::Route {
                    prefix,
                    gateway: None,
                },
                false => What::NoRoute { prefix },
            },
        };
        let changes = [
            change(1, 7, true),
            change(12, 7, false),
            change(13, 8, true),
            change(25, 7, true),
        ];
        let log = "10000000 withdraw 3fff:100::/48\n20000000 announce 3fff:100::/48\n\
                   30000000 withdraw 3fff:100::/48\n";
        let mut latencies = Latencies::default();
        latencies.add(log, 7, &changes);
        let want = Latencies {
            came: vec![2.0, 5.0],
            missing: 1,
            tail: Duration::from_millis(5),
        };
        assert_eq!(latencies, want);
    }
}
