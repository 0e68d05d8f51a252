//! Simulated connections: repeatable, conserving, bounded by the link.
#![allow(clippy::unwrap_used)]

#[path = "sim/command.rs"]
mod command;

use std::time::Duration;

use hikyaku_congestion::{Algorithm, Settings};
use hikyaku_lab::report::stats::jain;
use hikyaku_lab::sim::{Flow, FlowOutcome, Outcome, Scenario, simulate};
use hikyaku_netsim::{Ecn, LinkConfig, Loss, QueueLimit};
use hikyaku_units::{LossRate, Rate};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn link(mbps: u64, one_way_ms: u32, loss_ppm: u32) -> LinkConfig {
    LinkConfig {
        rate: Rate::from_mbps(mbps).into(),
        one_way_delay: MS * one_way_ms,
        loss: Loss::Bernoulli(LossRate::from_ppm(loss_ppm).unwrap()),
        queue: QueueLimit::Time(MS * 50),
        ..LinkConfig::default()
    }
}

/// A flow that ends with its responses, or lasts without any.
fn flow(algorithm: Algorithm, sizes: &[u64]) -> Flow {
    Flow {
        name: algorithm.to_string(),
        settings: Settings {
            algorithm,
            ..Settings::default()
        },
        start: Duration::ZERO,
        sizes: sizes.to_vec(),
        page: false,
    }
}

fn scenario(link: &LinkConfig, flows: Vec<Flow>) -> Scenario {
    Scenario {
        up: link.clone(),
        down: link.clone(),
        flows,
        until: SECOND * 600,
        seed: 1,
    }
}

/// One flow over one link.
fn alone(link: &LinkConfig, flow: Flow) -> (FlowOutcome, Outcome) {
    let outcome = simulate(&scenario(link, vec![flow]));
    (outcome.flows[0].clone(), outcome)
}

/// Returns the bytes that each flow received in the second half of the time.
fn second_half(outcome: &Outcome) -> Vec<f64> {
    let half = outcome.samples.len() / 2;
    let (begin, end) = (&outcome.samples[half], outcome.samples.last().unwrap());
    let flows = end.flows.iter().zip(&begin.flows);
    flows
        .map(|(end, begin)| (end.received - begin.received) as f64)
        .collect()
}

#[test]
fn a_page_requests_its_resources_together() {
    let path = link(100, 25, 0);
    let sizes = [5_000; 21];
    let files = flow(Algorithm::Floor, &sizes);
    let page = Flow {
        page: true,
        ..files.clone()
    };
    let (files, page) = (alone(&path, files).0, alone(&path, page).0);
    for outcome in [&files, &page] {
        assert_eq!(outcome.received, 105_000);
        assert!(outcome.acknowledged >= outcome.complete);
    }
    // Handshake, HTML, and 100 kB in slow start, against a round trip for each file.
    assert!(files.complete > Some(MS * 22 * 50), "{files:?}");
    assert!(page.complete < Some(MS * 7 * 50), "{page:?}");
}

#[test]
fn a_first_visit_starts_rapidly_without_losing() {
    let path = link(200, 12, 0);
    let of = |rapid| {
        let mut visit = flow(Algorithm::Floor, &[1_000_000]);
        visit.settings.start.rapid = rapid;
        alone(&path, visit).0
    };
    let (rapid, doubling) = (of(true), of(false));
    let saved = doubling
        .complete
        .unwrap()
        .checked_sub(rapid.complete.unwrap());
    assert!(saved > Some(MS * 24), "{rapid:?} {doubling:?}");
    assert_eq!(rapid.packets_lost, 0);
}

#[test]
fn visits_into_a_standing_queue_lose_hardly_more_than_cubics() {
    let path = link(5, 25, 0);
    let lost = |algorithm| {
        let mut flows = vec![flow(Algorithm::Cubic, &[])];
        flows.extend((0..40).map(|_| Flow {
            start: SECOND * 3,
            ..flow(algorithm, &[100_000])
        }));
        let outcome = simulate(&Scenario {
            until: SECOND * 20,
            ..scenario(&path, flows)
        });
        outcome.flows[1..]
            .iter()
            .map(|came| came.packets_lost)
            .sum::<u64>()
    };
    let (floor, cubic) = (lost(Algorithm::Floor), lost(Algorithm::Cubic));
    assert!(floor * 4 < cubic * 5, "{floor} {cubic}");
}

#[test]
fn a_seed_repeats_bit_for_bit() {
    let lossy = link(50, 20, 10_000);
    for algorithm in [
        Algorithm::Cubic,
        Algorithm::NewReno,
        Algorithm::Bbr,
        Algorithm::Floor,
    ] {
        let flows = vec![
            flow(algorithm, &[300_000, 500_000]),
            flow(algorithm, &[700_000]),
        ];
        let one = scenario(&lossy, flows);
        let first = simulate(&one);
        let complete = first.flows.iter().all(|flow| flow.complete.is_some());
        assert!(complete, "{algorithm}: {:?}", first.flows);
        assert_eq!(simulate(&one), first, "{algorithm}");
        let other = Scenario { seed: 2, ..one };
        assert_ne!(simulate(&other), first, "{algorithm}");
    }
}

#[test]
fn bytes_and_packets_are_conserved() {
    for (case, mbps, delay, loss) in [
        ("no loss", 100, 10, 0),
        ("loss", 100, 10, 20_000),
        ("slow", 2, 50, 0),
        ("slow and lossy", 2, 50, 50_000),
    ] {
        let sizes = [1, 100_000, 0, 250_000];
        let path = link(mbps, delay, loss);
        let (flow, outcome) = alone(&path, flow(Algorithm::Cubic, &sizes));
        assert_eq!(flow.error, None, "{case}");
        assert_eq!(flow.received, 350_001, "{case}");
        assert_eq!(flow.received_of_last, 250_000, "{case}");
        assert!(flow.connected < flow.first_byte, "{case}");
        assert!(flow.requested < flow.acknowledged, "{case}");

        let down = outcome.down;
        assert_eq!(outcome.waits.len() as u64, down.delivered.packets, "{case}");
        let fates = down.delivered.packets + down.lost.packets + down.dropped.packets;
        // A packet that is still in the link at the end has no fate yet.
        let left = flow.datagrams_sent - fates;
        assert!(left < 10, "{case}: {left} of {}", flow.datagrams_sent);
    }
}

#[test]
fn times_are_those_of_the_link() {
    // 100 Mbit/s, 2 x 50 ms. Everything fits into the first window beside the handshake.
    let (flow, outcome) = alone(&link(100, 50, 0), flow(Algorithm::Cubic, &[5_000]));
    for (event, time, one_way_delays) in [
        ("handshake", flow.connected, 2),
        ("request at the server", flow.requested, 3),
        ("first byte", flow.first_byte, 4),
        ("last byte", flow.complete, 4),
        ("acknowledged", flow.acknowledged, 5),
    ] {
        let late = time.unwrap() - one_way_delays * 50 * MS;
        assert!(late < 2 * MS, "{event}: {late:?}");
    }
    assert!(
        (100 * MS..102 * MS).contains(&flow.min_rtt),
        "{:?}",
        flow.min_rtt
    );
    assert_eq!(flow.packets_lost, 0);
    assert_eq!(outcome.down.dropped.packets, 0);
}

#[test]
fn a_link_is_filled_and_never_outrun() {
    for algorithm in [
        Algorithm::Cubic,
        Algorithm::NewReno,
        Algorithm::Bbr,
        Algorithm::Floor,
    ] {
        let path = link(20, 10, 0);
        let ten_seconds = Scenario {
            until: SECOND * 10,
            ..scenario(&path, vec![flow(algorithm, &[])])
        };
        let outcome = simulate(&ten_seconds);
        assert_eq!(outcome.ended, SECOND * 10, "{algorithm}");
        let down = outcome.down.delivered;
        let wire_bytes = down.bytes + down.packets * u64::from(path.overhead);
        let share = wire_bytes as f64 * 8.0 / (20e6 * 10.0);
        assert!((0.9..=1.0).contains(&share), "{algorithm}: {share}");
        // The queue holds 50 ms, and a packet that found room in the last moment.
        let longest = outcome.waits.iter().map(|wait| wait.micros).max().unwrap();
        assert!(longest <= 51_000, "{algorithm}: {longest} µs");
    }
}

#[test]
fn a_floor_holds_through_loss_and_persistent_congestion() {
    const FLOOR: u64 = 100_000;
    let smallest = |min_cwnd| {
        let floored = Flow {
            settings: Settings {
                min_cwnd,
                ..Settings::default()
            },
            ..flow(Algorithm::Cubic, &[500_000])
        };
        let (flow, outcome) = alone(&link(50, 20, 300_000), floored);
        assert!(flow.congestion_events > 5, "{flow:?}");
        let windows = outcome.samples.iter().map(|sample| sample.flows[0].cwnd);
        (flow, windows.filter(|cwnd| *cwnd > 0).min().unwrap())
    };
    let (plain, plain_smallest) = smallest(None);
    let (floored, floored_smallest) = smallest(Some(FLOOR));
    assert!(plain_smallest < 5_000, "{plain_smallest}");
    assert_eq!(floored_smallest, FLOOR);
    assert!(floored.complete.unwrap() < plain.complete.unwrap() / 2);
}

#[test]
fn equal_flows_share_and_a_floor_takes_more() {
    let path = LinkConfig {
        jitter: Duration::from_micros(200),
        ..link(20, 20, 0)
    };
    let two = |min_cwnd| {
        let cubic = flow(Algorithm::Cubic, &[]);
        let other = Flow {
            settings: Settings {
                min_cwnd,
                ..Settings::default()
            },
            ..cubic.clone()
        };
        simulate(&Scenario {
            until: SECOND * 60,
            ..scenario(&path, vec![cubic, other])
        })
    };
    let equal = two(None);
    let index = jain(&second_half(&equal)).unwrap();
    assert!(index > 0.95, "{index}");
    // Three BDP of 100 kB: more than the path and its queue hold together.
    let floored = two(Some(300_000));
    let [plain, floor] = second_half(&floored)[..] else {
        panic!("two flows");
    };
    assert!(floor > 3.0 * plain, "{floor} and {plain}");
    assert!(floored.down.dropped.packets > equal.down.dropped.packets);
}

#[test]
fn marks_slow_a_sender_without_loss() {
    let marking = LinkConfig {
        ecn: Ecn::Step(MS * 5),
        ..link(20, 10, 0)
    };
    let (flow, outcome) = alone(&marking, flow(Algorithm::Cubic, &[5_000_000]));
    assert!(outcome.down.marked.packets > 0);
    assert_eq!(outcome.down.dropped.packets, 0);
    assert!(flow.congestion_events > 0);
}

#[test]
fn a_broken_connection_is_reported() {
    let dead = LinkConfig {
        loss: Loss::Bernoulli(LossRate::from_ppm(1_000_000).unwrap()),
        ..link(20, 10, 0)
    };
    let (flow, _) = alone(&dead, flow(Algorithm::Cubic, &[1]));
    assert_eq!(flow.complete, None);
    assert_eq!(flow.error.as_deref(), Some("timed out"));
}
