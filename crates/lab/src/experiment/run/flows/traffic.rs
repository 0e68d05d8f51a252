//! Traffic of each flow, by the link's packet log.

use std::collections::BTreeMap;
use std::time::Duration;

/// The flows in the packet log, distinguished by their servers' ports.
#[derive(Debug)]
pub(super) struct Traffic {
    ports: Vec<u16>,
    delay: Duration,
    window: std::ops::Range<Duration>,
    /// Bytes of IP packets that came to the client within the window, by flow.
    pub(super) bytes: Vec<u64>,
    /// Packets sent within the window, by flow, and those of them that were lost.
    pub(super) sent: Vec<u64>,
    pub(super) missing: Vec<u64>,
    /// Bytes by flow and tenth of a second.
    steps: Vec<BTreeMap<u64, u64>>,
    /// Queueing time of the packets that arrived within the window, with their own transmission
    /// time.
    pub(super) waits_us: Vec<u64>,
}

const STEP_US: u64 = 100_000;

impl Traffic {
    pub(super) fn new(ports: &[u16], delay: Duration, window: std::ops::Range<Duration>) -> Self {
        let none = vec![0; ports.len()];
        Self {
            ports: ports.to_owned(),
            delay,
            window,
            bytes: none.clone(),
            sent: none.clone(),
            missing: none,
            steps: vec![BTreeMap::new(); ports.len()],
            waits_us: Vec::new(),
        }
    }

    /// Takes a line: `at_us,arrived_us,direction,bytes,protocol,source_port,target_port,fate`.
    pub(super) fn add(&mut self, line: &str) {
        let mut columns = line.split(',');
        let mut next = || columns.next().unwrap_or_default();
        let (at, arrived, direction, bytes) = (next(), next(), next(), next());
        let (_protocol, port, _, fate) = (next(), next(), next(), next());
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        let flow = self.ports.iter().position(|own| own.to_string() == port);
        let (Some(flow), "down") = (flow, direction) else {
            return;
        };
        let (at_us, arrived_us, bytes) = (number(at), number(arrived), number(bytes));
        let inside = self.window.contains(&Duration::from_micros(at_us));
        self.sent[flow] += u64::from(inside);
        if !matches!(fate, "delivered" | "marked") {
            self.missing[flow] += u64::from(inside);
            return;
        }
        *self.steps[flow].entry(at_us / STEP_US).or_default() += bytes;
        if inside {
            self.bytes[flow] += bytes;
            let delay_us = self.delay.as_micros() as u64;
            self.waits_us
                .push((at_us - arrived_us).saturating_sub(delay_us));
        }
    }

    /// Returns the share of a flow in the bytes of all; `None` without any.
    pub(super) fn share(&self, flow: usize) -> Option<f64> {
        let all: u64 = self.bytes.iter().sum();
        (all > 0).then(|| self.bytes[flow] as f64 / all as f64)
    }

    /// Returns the rate of a flow in Mbit/s by the end of each step, zeros included.
    pub(super) fn series(&self, flow: usize) -> Vec<(f64, f64)> {
        let steps = &self.steps[flow];
        let (Some((&first, _)), Some((&last, _))) =
            (steps.first_key_value(), steps.last_key_value())
        else {
            return Vec::new();
        };
        let rate = |step| steps.get(&step).copied().unwrap_or(0) as f64 * 8.0 / STEP_US as f64;
        (first..=last)
            .map(|step| ((step + 1) as f64 / 10.0, (rate(step) * 1e3).round() / 1e3))
            .collect()
    }
}

/// Returns Jain's fairness index (Jain, Chiu and Hawe 1984): 1 if all get the same, 1/n if one gets
/// everything.
pub(super) fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares == 0.0 {
        return 1.0;
    }
    sum * sum / (rates.len() as f64 * squares)
}

/// Returns a quantile of ascending values.
pub(super) fn quantile_of(sorted: &[u64], quantile: f64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * quantile).round() as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equals_and_one_of_n_for_a_greedy_one() {
        for (rates, want) in [
            (&[5.0, 5.0, 5.0, 5.0][..], 1.0),
            (&[8.0, 0.0, 0.0, 0.0], 0.25),
            (&[0.0, 0.0], 1.0),
            (&[1.0, 3.0], 0.8),
        ] {
            assert!((jain(rates) - want).abs() < 1e-9, "{rates:?}");
        }
    }

    #[test]
    fn packets_are_counted_by_flow_and_within_the_window() {
        let second = Duration::from_secs(1);
        let mut traffic =
            Traffic::new(&[4430, 4431], Duration::from_millis(20), second..second * 2);
        for line in [
            "999999,979000,down,1500,6,4430,50000,delivered",
            "1100000,1070000,down,1500,6,4430,50000,delivered",
            "1150000,1149000,down,1500,17,4431,50001,lost",
            "1250000,1229500,down,1000,17,4431,50001,delivered",
            "1300000,1279500,down,1000,17,4431,50001,marked",
            "1250000,1229500,up,60,17,50001,4431,delivered",
            "1260000,1229500,down,60,1,,,delivered",
            "2000000,1979000,down,1500,6,4430,50000,delivered",
        ] {
            traffic.add(line);
        }
        assert_eq!(traffic.bytes, [1500, 2000]);
        assert_eq!(traffic.share(1), Some(2000.0 / 3500.0));
        assert_eq!((traffic.sent, traffic.missing), (vec![1, 3], vec![0, 1]));
        assert_eq!(traffic.waits_us, [10_000, 500, 500]);
    }

    #[test]
    fn of_nothing_there_is_no_share() {
        let traffic = Traffic::new(&[1, 2], Duration::ZERO, Duration::ZERO..Duration::MAX);
        assert_eq!(traffic.share(0), None);
    }

    #[test]
    fn a_series_has_a_point_for_each_step() {
        let mut traffic = Traffic::new(&[1], Duration::ZERO, Duration::ZERO..Duration::MAX);
        traffic.add("50000,0,down,1250,6,1,2,delivered");
        traffic.add("250000,0,down,2500,6,1,2,delivered");
        assert_eq!(traffic.series(0), [(0.1, 0.1), (0.2, 0.0), (0.3, 0.2)]);
    }

    #[test]
    fn quantiles_are_of_the_given_values() {
        assert_eq!(quantile_of(&[], 0.5), None);
        assert_eq!(quantile_of(&[1, 2, 3], 0.5), Some(2));
        assert_eq!(quantile_of(&[1, 2, 3], 1.0), Some(3));
    }
}
