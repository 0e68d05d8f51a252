//! What a simulation gives, as metrics, labels and series of a record.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use hikyaku_netsim::Capacity;

use crate::experiment::{Outcome as Fate, Point};
use crate::sim::{FlowOutcome, FlowSample, Outcome, Sample, Scenario};

/// What was measured of a session.
pub(super) struct Measured {
    pub(super) outcome: Fate,
    pub(super) error: Option<String>,
    pub(super) metrics: BTreeMap<String, f64>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) series: BTreeMap<String, Vec<Point>>,
}

impl Measured {
    /// Of a download: one flow that ends.
    pub(super) fn download(scenario: &Scenario, outcome: &Outcome, series: bool) -> Self {
        let flow = &outcome.flows[0];
        let mut measured = Self::of(outcome);
        if measured.error.is_none() && flow.complete.is_none() {
            measured.outcome = Fate::TimedOut;
            measured.error = Some(format!("not complete after {:?}", scenario.until));
        }
        measured.label("http", "3");
        measured.label("http_first", "3");
        let size = scenario.flows[0].sizes.last().copied().unwrap_or(0);
        measured.metric("size_bytes", size as f64);
        let load = flow.complete.unwrap_or(outcome.ended);
        measured.metric("load_ms", millis(load));
        measured.metric("goodput_mbps", mbps(flow.received, load));
        for (name, time) in [
            ("handshake_ms", flow.connected),
            ("first_byte_ms", flow.first_byte),
        ] {
            if let Some(time) = time {
                measured.metric(name, millis(time));
            }
        }
        measured.response(flow, outcome, size);
        measured.server(flow);
        let windows = outcome.samples.iter().map(|sample| sample.flows[0].cwnd);
        let windows: Vec<f64> = windows
            .filter(|cwnd| *cwnd > 0)
            .map(|cwnd| cwnd as f64)
            .collect();
        if let Some(max) = windows.iter().copied().reduce(f64::max) {
            measured.metric("cwnd_max_bytes", max);
            measured.metric(
                "cwnd_mean_bytes",
                windows.iter().sum::<f64>() / windows.len() as f64,
            );
        }
        if series {
            measured.series_of(outcome, 0, "");
            measured.path_series(outcome);
        }
        measured
    }

    /// Of flows that share the path. Shares and waits are those of the second half of the
    /// time in which all flows are under way, when slow start is over.
    pub(super) fn flows(scenario: &Scenario, outcome: &Outcome, series: bool) -> Self {
        let mut measured = Self::of(outcome);
        let last = scenario.flows.iter().map(|flow| flow.start).max();
        let last = last.unwrap_or_default();
        let from = last + outcome.ended.saturating_sub(last) / 2;
        let (begin, end) = (at(&outcome.samples, from), outcome.samples.last());
        let goodputs: Vec<f64> = (0..scenario.flows.len())
            .map(|i| match (begin, end) {
                (Some(begin), Some(end)) => mbps(
                    end.flows[i].received - begin.flows[i].received,
                    end.at - begin.at,
                ),
                _ => 0.0,
            })
            .collect();
        let total: f64 = goodputs.iter().sum();
        for ((flow, came), goodput) in scenario.flows.iter().zip(&outcome.flows).zip(&goodputs) {
            let name = &flow.name;
            measured.metric(&format!("goodput_mbps.{name}"), *goodput);
            measured.metric(&format!("share.{name}"), ratio(*goodput, total));
            let loss = ratio(came.packets_lost as f64, came.packets_sent as f64);
            measured.metric(&format!("loss.{name}"), loss);
        }
        measured.metric("goodput_mbps", total);
        measured.metric("jain", jain(&goodputs));
        let down = outcome.down;
        let offered = down.delivered.packets + down.lost.packets + down.dropped.packets;
        measured.metric(
            "queue_loss",
            ratio(down.dropped.packets as f64, offered as f64),
        );
        let waits = outcome.waits_between(from, outcome.ended);
        for (name, share) in [("queue_delay_p50_ms", 0.5), ("queue_delay_p95_ms", 0.95)] {
            if let Some(wait) = quantile(&waits, share) {
                measured.metric(name, f64::from(wait) / 1e3);
            }
        }
        if let Capacity::Rate(rate) = &scenario.down.rate {
            measured.metric("utilisation", ratio(total, rate.mbps()));
        }
        if series {
            for (i, flow) in scenario.flows.iter().enumerate() {
                measured.series_of(outcome, i, &format!(".{}", flow.name));
            }
            measured.path_series(outcome);
        }
        measured
    }

    fn of(outcome: &Outcome) -> Self {
        let error = outcome.flows.iter().find_map(|flow| flow.error.clone());
        Self {
            outcome: if error.is_some() {
                Fate::Failed
            } else {
                Fate::Complete
            },
            error,
            metrics: BTreeMap::new(),
            labels: BTreeMap::new(),
            series: BTreeMap::new(),
        }
    }

    /// Load time of the last file as the model has it: from the request's arrival to the
    /// acknowledgement of the last byte. If it did not end, as if it had gone on as so far.
    fn response(&mut self, flow: &FlowOutcome, outcome: &Outcome, size: u64) {
        let Some(requested) = flow.requested else {
            return;
        };
        if let Some(acknowledged) = flow.acknowledged {
            self.metric("response_ms", millis(acknowledged - requested));
        } else if flow.received_of_last > 0 {
            let so_far = millis(outcome.ended.saturating_sub(requested));
            let scale = size as f64 / flow.received_of_last as f64;
            self.metric("response_ms", so_far * scale);
            self.label("censored", "true");
        }
    }

    fn server(&mut self, flow: &FlowOutcome) {
        self.metric("server_min_rtt_ms", millis(flow.min_rtt));
        self.metric("server_packets_sent", flow.packets_sent as f64);
        self.metric("server_packets_lost", flow.packets_lost as f64);
        self.metric("congestion_events", flow.congestion_events as f64);
    }

    fn series_of(&mut self, outcome: &Outcome, flow: usize, suffix: &str) {
        let values: [(&str, fn(FlowSample) -> f64); 3] = [
            ("cwnd_bytes", |sample| sample.cwnd as f64),
            ("bytes_in_flight", |sample| sample.in_flight as f64),
            ("rtt_ms", |sample| sample.rtt as f64 / 1e3),
        ];
        for (name, value) in values {
            let points = outcome
                .samples
                .iter()
                // There is no connection before its first window.
                .filter(|sample| sample.flows[flow].cwnd > 0)
                .map(|sample| (sample.at.as_secs_f64(), value(sample.flows[flow])));
            self.series
                .insert(format!("{name}{suffix}"), points.collect());
        }
        self.between(outcome, &format!("goodput_mbps{suffix}"), |one, next| {
            let received = next.flows[flow].received - one.flows[flow].received;
            Some(mbps(received, next.at - one.at))
        });
    }

    fn path_series(&mut self, outcome: &Outcome) {
        self.between(outcome, "queue_delay_ms", |one, next| {
            let packets = next.packets - one.packets;
            (packets > 0).then(|| (next.waited - one.waited) as f64 / packets as f64 / 1e3)
        });
    }

    /// A series of what happened between samples, each at the end of its interval.
    fn between(
        &mut self,
        outcome: &Outcome,
        name: &str,
        value: impl Fn(&Sample, &Sample) -> Option<f64>,
    ) {
        let pairs = outcome
            .samples
            .windows(2)
            .filter(|pair| pair[0].at < pair[1].at);
        let points = pairs.filter_map(|pair| {
            let value = value(&pair[0], &pair[1])?;
            Some((pair[1].at.as_secs_f64(), rounded(value)))
        });
        self.series.insert(name.to_owned(), points.collect());
    }

    fn metric(&mut self, name: &str, value: f64) {
        self.metrics.insert(name.to_owned(), rounded(value));
    }

    fn label(&mut self, name: &str, value: &str) {
        self.labels.insert(name.to_owned(), value.to_owned());
    }
}

/// Jain's fairness index: 1 where all get the same, `1/n` where one of `n` gets all
/// (Jain, Chiu and Hawe 1984).
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    ratio(sum * sum, shares.len() as f64 * squares)
}

/// The last sample at or before a time.
fn at(samples: &[Sample], time: Duration) -> Option<&Sample> {
    samples.iter().take_while(|sample| sample.at <= time).last()
}

/// Of values in ascending order, the first that is at least as large as this share of them.
fn quantile(sorted: &[u32], share: f64) -> Option<u32> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn mbps(bytes: u64, time: Duration) -> f64 {
    ratio(bytes as f64 * 8e-6, time.as_secs_f64())
}

/// `a / b`, or 0 where there is nothing to divide by.
fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

/// To six digits after the point: what is behind is noise of the arithmetic.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
