//! Results of a simulation as metrics, labels and series of a record.

use std::collections::BTreeMap;
use std::time::Duration;

use hikyaku_netsim::Capacity;

use crate::experiment::{Measured, Outcome as Fate};
use crate::report::stats::{jain, quantile};
use crate::sim::{FlowOutcome, FlowSample, Outcome, Sample, Scenario};

/// Measures a download: one flow that ends.
pub(super) fn download(scenario: &Scenario, outcome: &Outcome, series: bool) -> Measured {
    let flow = &outcome.flows[0];
    let mut measured = Measured::default();
    if let Some(error) = &flow.error {
        measured.fail(Fate::Failed, error.clone());
    } else if flow.complete.is_none() {
        let why = format!("not complete after {:?}", scenario.until);
        measured.fail(Fate::TimedOut, why);
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
    response(&mut measured, flow, outcome, size);
    server(&mut measured, flow, outcome);
    if series {
        flow_series(&mut measured, outcome, 0, "");
        path_series(&mut measured, outcome);
    }
    measured
}

/// Measures flows that share the link, all from the start of the last one to the scenario's end. A
/// flow that breaks does not fail the run. But then the result has no fairness, since a broken flow
/// takes no share.
pub(super) fn flows(scenario: &Scenario, outcome: &Outcome, series: bool) -> Measured {
    let mut measured = Measured::default();
    measured.metric("load_ms", millis(outcome.ended));
    let starts = scenario.flows.iter().map(|flow| flow.start);
    let from = starts.max().unwrap_or_default();
    let rates = goodputs(&outcome.samples, from, scenario.until);
    let total: f64 = rates.iter().sum();
    let broken = broken(&mut measured, scenario, outcome);
    visits(&mut measured, scenario, outcome);
    for ((flow, came), rate) in scenario.flows.iter().zip(&outcome.flows).zip(&rates) {
        if !flow.sizes.is_empty() {
            continue;
        }
        let name = &flow.name;
        measured.metric(&format!("goodput_mbps.{name}"), *rate);
        if !broken {
            measured.metric(&format!("share.{name}"), ratio(*rate, total));
        }
        let loss = ratio(came.packets_lost as f64, came.packets_sent as f64);
        measured.metric(&format!("loss.{name}"), loss);
    }
    measured.metric("goodput_mbps", total);
    if let Some(jain) = jain(&rates).filter(|_| !broken) {
        measured.metric("jain", jain);
    }
    if let Capacity::Rate(rate) = &scenario.down.rate {
        measured.metric("utilisation", ratio(total, rate.mbps()));
    }
    queue(&mut measured, outcome, from);
    if series {
        for (i, flow) in scenario.flows.iter().enumerate() {
            flow_series(&mut measured, outcome, i, &format!(".{}", flow.name));
        }
        path_series(&mut measured, outcome);
    }
    measured
}

/// Records the downloads that end, by the name that their copies share. The metrics are the median
/// and the longest load time, and the lost share of all packets. A download that is not over counts
/// with the time until the end.
fn visits(measured: &mut Measured, scenario: &Scenario, outcome: &Outcome) {
    let mut kinds: BTreeMap<&str, Vec<(f64, &FlowOutcome)>> = BTreeMap::new();
    for (flow, came) in scenario.flows.iter().zip(&outcome.flows) {
        if flow.sizes.is_empty() {
            continue;
        }
        let kind = flow
            .name
            .rsplit_once('-')
            .map_or(&*flow.name, |(kind, _)| kind);
        let load = came
            .complete
            .unwrap_or(scenario.until.saturating_sub(flow.start));
        kinds.entry(kind).or_default().push((millis(load), came));
    }
    for (kind, mut visits) in kinds {
        visits.sort_by(|a, b| a.0.total_cmp(&b.0));
        let loads: Vec<f64> = visits.iter().map(|(load, _)| *load).collect();
        for (name, share) in [("visit_ms", 0.5), ("visit_max_ms", 1.0)] {
            if let Some(load) = quantile(&loads, share) {
                measured.metric(&format!("{name}.{kind}"), load);
            }
        }
        let sum = |count: fn(&FlowOutcome) -> u64| {
            visits.iter().map(|(_, came)| count(came)).sum::<u64>()
        };
        let lost = ratio(
            sum(|came| came.packets_lost) as f64,
            sum(|came| came.packets_sent) as f64,
        );
        measured.metric(&format!("loss.{kind}"), lost);
    }
}

/// Whether a connection ended before its time.
fn broken(measured: &mut Measured, scenario: &Scenario, outcome: &Outcome) -> bool {
    let flows = scenario.flows.iter().zip(&outcome.flows);
    let broken: Vec<String> = flows
        .filter_map(|(flow, came)| Some(format!("{}: {}", flow.name, came.error.as_ref()?)))
        .collect();
    measured.metric("broken_flows", broken.len() as f64);
    if broken.is_empty() {
        measured.label("flows", "lasted");
        return false;
    }
    measured.label("flows", "broke");
    measured.label("broken", &broken.join("; "));
    true
}

/// Records the load time of the last file by the model's definition: from the request's arrival to
/// the acknowledgement of the last byte. A file that did not end is extrapolated at its rate so
/// far.
fn response(measured: &mut Measured, flow: &FlowOutcome, outcome: &Outcome, size: u64) {
    let Some(requested) = flow.requested else {
        return;
    };
    if let Some(acknowledged) = flow.acknowledged {
        measured.metric("response_ms", millis(acknowledged - requested));
    } else if flow.received_of_last > 0 {
        let so_far = millis(outcome.ended.saturating_sub(requested));
        let scale = size as f64 / flow.received_of_last as f64;
        measured.metric("response_ms", so_far * scale);
        measured.label("censored", "true");
    }
}

fn server(measured: &mut Measured, flow: &FlowOutcome, outcome: &Outcome) {
    measured.metric("server_min_rtt_ms", millis(flow.min_rtt));
    measured.metric("server_packets_sent", flow.packets_sent as f64);
    measured.metric("server_packets_lost", flow.packets_lost as f64);
    measured.metric("congestion_events", flow.congestion_events as f64);
    let windows = outcome.samples.iter().map(|sample| sample.flows[0].cwnd);
    // A connection has no window at first.
    let windows: Vec<u64> = windows.filter(|cwnd| *cwnd > 0).collect();
    if let Some(max) = windows.iter().max() {
        let mean = windows.iter().sum::<u64>() as f64 / windows.len() as f64;
        measured.metric("cwnd_max_bytes", *max as f64);
        measured.metric("cwnd_mean_bytes", mean);
    }
}

/// Returns the average rate of each flow between two times, in Mbit/s. If all connections broke
/// before, it is zero from then on.
fn goodputs(samples: &[Sample], from: Duration, until: Duration) -> Vec<f64> {
    let earlier = |sample: &&Sample| sample.at <= from;
    let begin = samples.iter().take_while(earlier).last();
    let (Some(begin), Some(end)) = (begin, samples.last()) else {
        return Vec::new();
    };
    let received = end.flows.iter().zip(&begin.flows);
    received
        .map(|(end_flow, flow)| {
            mbps(
                end_flow.received - flow.received,
                until.saturating_sub(begin.at),
            )
        })
        .collect()
}

fn queue(measured: &mut Measured, outcome: &Outcome, from: Duration) {
    let down = outcome.down;
    let offered = down.delivered.packets + down.lost.packets + down.dropped.packets;
    let dropped = ratio(down.dropped.packets as f64, offered as f64);
    measured.metric("queue_loss", dropped);
    let waits = outcome.waits_between(from, outcome.ended);
    let waits: Vec<f64> = waits.into_iter().map(f64::from).collect();
    for (name, share) in [("queue_delay_p50_ms", 0.5), ("queue_delay_p95_ms", 0.95)] {
        if let Some(wait) = quantile(&waits, share) {
            measured.metric(name, wait / 1e3);
        }
    }
}

fn flow_series(measured: &mut Measured, outcome: &Outcome, flow: usize, suffix: &str) {
    let values: [(&str, fn(FlowSample) -> f64); 3] = [
        ("cwnd_bytes", |sample| sample.cwnd as f64),
        ("bytes_in_flight", |sample| sample.in_flight as f64),
        ("rtt_ms", |sample| sample.rtt as f64 / 1e3),
    ];
    for (name, value) in values {
        let connected = outcome
            .samples
            .iter()
            .filter(|sample| sample.flows[flow].cwnd > 0);
        let points = connected.map(|sample| (sample.at.as_secs_f64(), value(sample.flows[flow])));
        measured
            .series
            .insert(format!("{name}{suffix}"), points.collect());
    }
    between(
        measured,
        outcome,
        &format!("goodput_mbps{suffix}"),
        |one, next| {
            let received = next.flows[flow].received - one.flows[flow].received;
            Some(mbps(received, next.at - one.at))
        },
    );
}

fn path_series(measured: &mut Measured, outcome: &Outcome) {
    between(measured, outcome, "queue_delay_ms", |one, next| {
        let packets = next.packets - one.packets;
        (packets > 0).then(|| (next.waited - one.waited) as f64 / packets as f64 / 1e3)
    });
}

/// Returns a series of the differences between samples, each at the end of its interval.
fn between(
    measured: &mut Measured,
    outcome: &Outcome,
    name: &str,
    value: impl Fn(&Sample, &Sample) -> Option<f64>,
) {
    let pairs = outcome.samples.windows(2);
    let points = pairs
        .filter(|pair| pair[0].at < pair[1].at)
        .filter_map(|pair| {
            let value = value(&pair[0], &pair[1])?;
            // To a µs and a bit/s.
            Some((pair[1].at.as_secs_f64(), (value * 1e6).round() / 1e6))
        });
    measured.series.insert(name.to_owned(), points.collect());
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn mbps(bytes: u64, time: Duration) -> f64 {
    ratio(bytes as f64 * 8e-6, time.as_secs_f64())
}

/// Returns `a / b`, or 0 if `b` is 0.
fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, received: u64) -> Sample {
        Sample {
            at: Duration::from_secs(at),
            packets: 0,
            waited: 0,
            flows: vec![FlowSample {
                received,
                ..FlowSample::default()
            }],
        }
    }

    #[test]
    fn a_connection_that_broke_carries_nothing_from_then_on() {
        let samples = [sample(0, 0), sample(10, 1_000_000), sample(20, 6_000_000)];
        let [from, until] = [10, 50].map(Duration::from_secs);
        assert_eq!(goodputs(&samples, from, until), [1.0]);
    }
}
