//! Simulated connections: repeatable, conserving, bounded by the link.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use hikyaku_congestion::Algorithm;
use hikyaku_core::units::{LossRate, Rate};
use hikyaku_lab::sim::{Flow, Outcome, Scenario, simulate};
use hikyaku_netsim::{LinkConfig, Loss, QueueLimit};

const MS: Duration = Duration::from_millis(1);

fn link(mbps: u64, one_way_ms: u32, loss_ppm: u32, queue: QueueLimit) -> LinkConfig {
    LinkConfig {
        rate: Rate::from_mbps(mbps).into(),
        one_way_delay: MS * one_way_ms,
        loss: Loss::Bernoulli(LossRate::from_ppm(loss_ppm).unwrap()),
        queue,
        ..LinkConfig::default()
    }
}

fn flow(algorithm: Algorithm, sizes: &[u64]) -> Flow {
    Flow {
        name: algorithm.to_string(),
        algorithm,
        min_cwnd: None,
        start: Duration::ZERO,
        sizes: sizes.to_vec(),
    }
}

fn scenario(link: &LinkConfig, flows: Vec<Flow>) -> Scenario {
    Scenario {
        up: link.clone(),
        down: link.clone(),
        flows,
        until: Duration::from_secs(600),
        seed: 1,
    }
}

/// Every packet was delivered or counted as lost or dropped; the rest is in the link.
fn assert_conserved(outcome: &Outcome, case: &str) {
    let down = outcome.down;
    let sent: u64 = outcome.flows.iter().map(|flow| flow.packets_sent).sum();
    let arrived = down.delivered.packets + down.lost.packets + down.dropped.packets;
    // Datagrams of the handshake hold several packets.
    assert!(arrived <= sent, "{case}: {arrived} of {sent}");
    assert_eq!(outcome.waits.len() as u64, down.delivered.packets, "{case}");
}

#[test]
fn a_seed_repeats_bit_for_bit() {
    let lossy = link(50, 20, 10_000, QueueLimit::Time(MS * 40));
    for algorithm in [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr] {
        let flows = vec![
            flow(algorithm, &[300_000, 500_000]),
            flow(algorithm, &[700_000]),
        ];
        let one = scenario(&lossy, flows);
        let first = simulate(&one);
        assert!(
            first.flows.iter().all(|flow| flow.complete.is_some()),
            "{algorithm}: {:?}",
            first.flows
        );
        assert_eq!(simulate(&one), first, "{algorithm}");
        let other = Scenario { seed: 2, ..one };
        assert_ne!(simulate(&other), first, "{algorithm}");
    }
}

#[test]
fn bytes_are_conserved() {
    let cases = [
        ("no loss", 100, 10, 0),
        ("loss", 100, 10, 20_000),
        ("slow", 2, 50, 0),
        ("slow and lossy", 2, 50, 50_000),
    ];
    for (case, mbps, delay, loss) in cases {
        let path = link(mbps, delay, loss, QueueLimit::Time(MS * 50));
        let sizes = [1, 100_000, 0, 250_000];
        let outcome = simulate(&scenario(&path, vec![flow(Algorithm::Cubic, &sizes)]));
        let flow = &outcome.flows[0];
        assert_eq!(flow.error, None, "{case}");
        assert_eq!(flow.received, 350_001, "{case}");
        assert_eq!(flow.received_of_last, 250_000, "{case}");
        assert!(flow.requested < flow.acknowledged, "{case}");
        assert!(flow.connected < flow.first_byte, "{case}");
        assert_conserved(&outcome, case);
    }
}
