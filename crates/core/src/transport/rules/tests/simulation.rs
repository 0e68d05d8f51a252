//! Clients that load pages for many sessions, over a table, with noise.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{START, all};
use crate::bounded::TableConfig;
use crate::choice::Group;
use crate::client::sample::{Observation, Outcome, TransportSample, UdpEvent};
use crate::client::table::ClientTable;
use crate::model::Model;
use crate::model::tests::synthetic;
use crate::policy::{CongestionPolicy, MinCwnd, PolicyConfig};
use crate::transport::{Decision, decide};
use hikyaku_units::arm::{Arm, Version};
use hikyaku_units::mix::{draw, mix};
use hikyaku_units::{LossRate, Rate, Timestamp};

/// The real behaviour of a network, which the server only sees through samples.
#[derive(Clone, Copy)]
struct Network {
    loss: f64,
    /// HTTP/3's rate is cut to this many Mbit/s.
    udp_mbps: u64,
    /// Real by predicted load time over HTTP/2 and HTTP/3.
    factor: [f64; 2],
    /// QUIC connections arrive.
    udp: bool,
}

const GOOD: Network = Network {
    loss: 0.0,
    udp_mbps: 100,
    factor: [1.0; 2],
    udp: true,
};
const BAD: Network = Network { loss: 0.05, ..GOOD };
const EVEN: Network = Network {
    loss: 0.0045,
    ..GOOD
};

struct World {
    table: ClientTable,
    model: Arc<Model>,
    policy: PolicyConfig,
    client: IpAddr,
    now: Timestamp,
    seed: u64,
    draws: u64,
    /// Standard deviation of the logarithm of load times.
    noise: f64,
    /// Rate of the path.
    mbps: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let model = Arc::new(synthetic());
        let policy = PolicyConfig {
            congestion: CongestionPolicy::Cubic,
            min_cwnd: MinCwnd::Off,
            holdback: 0.0,
            exploration: 0.02,
            ..PolicyConfig::default()
        };
        let config = TableConfig {
            max_records: 16,
            hash_key: [0; 2],
            journal: false,
        };
        Self {
            table: ClientTable::new(config, Arc::new(policy.clone()), Arc::clone(&model)),
            model,
            policy,
            client: IpAddr::from([192, 0, 2, 1]),
            now: Timestamp::from_secs(START),
            seed,
            draws: 0,
            noise: 0.3,
            mbps: 100,
        }
    }

    /// One session after a pause: decide, then load five responses over the version that came of it.
    fn session(&mut self, network: &Network) -> Decision {
        self.now = self.now.saturating_add(Duration::from_secs(1800));
        let view = self.table.view(self.client, self.now);
        let decision = decide(
            &view,
            &self.model,
            &self.policy,
            &all(),
            self.now,
            self.seed,
        );
        self.observe(Observation::Decided(decision.decided()));
        let version = self.applied(&decision, network);
        let transport = version.transport();
        let arm = Arm::over(transport, decision.congestion.get(transport).congestion);
        for _ in 0..5 {
            self.now = self.now.saturating_add(Duration::from_secs(2));
            self.response(arm, network);
        }
        decision
    }

    /// A browser's answer to the decision: HTTP/3 where it is advertised and gets through.
    fn applied(&mut self, decision: &Decision, network: &Network) -> Version {
        if decision.version != Version::H3 {
            return Version::H2;
        }
        self.observe(Observation::Udp(UdpEvent::Advertised));
        if network.udp {
            self.observe(Observation::Udp(UdpEvent::Arrived));
            return Version::H3;
        }
        self.observe(Observation::Udp(UdpEvent::SessionEnded));
        Version::H2
    }

    fn response(&mut self, arm: Arm, network: &Network) {
        let version = arm.version;
        let h3 = version == Version::H3;
        let mbps = if h3 {
            network.udp_mbps.min(self.mbps)
        } else {
            self.mbps
        };
        let packets_sent = 1500;
        let noisy_loss = network.loss * (1.0 + 0.3 * self.normal()).max(0.0);
        self.observe(Observation::Path(TransportSample {
            version,
            congestion: arm.congestion,
            packets_sent,
            packets_lost: (f64::from(packets_sent) * noisy_loss).round() as u32,
            min_rtt: Duration::from_millis(10),
            srtt: Duration::from_millis(12),
            delivery_rate: Some(Rate::from_mbps(mbps)),
            app_limited: false,
        }));
        let (rtt, rate) = (Duration::from_millis(10), Rate::from_mbps(mbps));
        let loss = LossRate::from_fraction(network.loss);
        let predicted = self
            .model
            .predict(arm, rtt, loss, rate, 1_000_000)
            .unwrap()
            .load_time;
        let factor = network.factor[usize::from(h3)] * (self.noise * self.normal()).exp();
        let duration = predicted.mul_f64(factor);
        self.observe(Observation::Outcome(Outcome {
            arm,
            size: 1_000_000,
            duration,
            shared: false,
        }));
    }

    fn observe(&mut self, observation: Observation) {
        self.table.observe(self.client, self.now, &observation);
    }

    /// A normal deviate (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        self.draws += 1;
        let [u, v] = [0, 1].map(|n| draw([mix(self.seed), self.draws, n, 99]));
        (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    fn sessions(&mut self, network: &Network, number: usize) -> Vec<Decision> {
        (0..number).map(|_| self.session(network)).collect()
    }
}

/// Versions chosen in the sessions that were neither explored nor probes.
fn chosen(decisions: &[Decision]) -> Vec<Version> {
    let normal = decisions
        .iter()
        .filter(|d| matches!(d.group, Group::Normal | Group::Plain));
    normal.map(|d| d.version).collect()
}

fn reasons(decisions: &[Decision]) -> Vec<String> {
    decisions.iter().map(Decision::to_string).collect()
}

/// Changes of mind. The first choice by comparison is none.
fn changes(decisions: &[Decision]) -> usize {
    let normal: Vec<Decision> = decisions
        .iter()
        .filter(|d| d.group == Group::Normal)
        .copied()
        .collect();
    chosen(&normal)
        .windows(2)
        .filter(|pair| pair[0] != pair[1])
        .count()
}

#[test]
fn a_client_does_not_flap() {
    let slow = Network {
        factor: [2.0; 2],
        ..EVEN
    };
    let cases = [
        ("good", GOOD, 2),
        ("bad", BAD, 2),
        // Neither is better here, so that a change costs nothing but the change.
        ("even", EVEN, 10),
        ("slow by both", slow, 10),
    ];
    for (name, network, most) in cases {
        for seed in 0..40 {
            let decisions = World::new(seed).sessions(&network, 200);
            let changes = changes(&decisions);
            assert!(
                changes <= most,
                "{name}, seed {seed}: {changes} changes in 200 sessions"
            );
        }
    }
}

#[test]
fn the_better_version_is_found_and_kept() {
    for (name, network, want) in [("good", GOOD, Version::H2), ("bad", BAD, Version::H3)] {
        for seed in 0..40 {
            let decisions = World::new(seed).sessions(&network, 60);
            let right = chosen(&decisions[20..])
                .iter()
                .filter(|v| **v == want)
                .count();
            assert!(right >= 35, "{name}, seed {seed}: {right} of 40 sessions");
        }
    }
}

#[test]
fn a_change_of_the_network_is_followed_both_ways() {
    for seed in 0..40 {
        let mut world = World::new(seed);
        world.noise = 0.15;
        world.sessions(&GOOD, 30);
        let worse = chosen(&world.sessions(&BAD, 8));
        assert_eq!(worse.last(), Some(&Version::H3), "seed {seed}: {worse:?}");
        world.sessions(&BAD, 30);
        let better = chosen(&world.sessions(&GOOD, 16));
        assert_eq!(better.last(), Some(&Version::H2), "seed {seed}: {better:?}");
    }
}

#[test]
fn effects_unknown_to_the_model_are_learnt() {
    // HTTP/3 takes twice as long as the model says, on a path where it would be 67 % faster.
    let surprise = Network {
        factor: [1.0, 2.2],
        ..BAD
    };
    for seed in 0..40 {
        let decisions = World::new(seed).sessions(&surprise, 200);
        let back = decisions.iter().position(|d| d.version == Version::H2);
        assert!(
            back.is_some_and(|session| session <= 4),
            "seed {seed}: {back:?}"
        );
        assert_eq!(
            chosen(&decisions).last(),
            Some(&Version::H2),
            "seed {seed}: {:?}",
            reasons(&decisions)
        );
        assert!(
            changes(&decisions) <= 2,
            "seed {seed}: {:?}",
            reasons(&decisions)
        );
    }
}

#[test]
fn throttled_udp_is_left_within_two_sessions_and_found_again() {
    let throttled = Network { udp_mbps: 8, ..BAD };
    for seed in 0..20 {
        let mut world = World::new(seed);
        world.policy.exploration = 0.0;
        world.noise = 0.15;
        // The client is known on both: HTTP/2 while the path was good, HTTP/3 since it is not.
        world.sessions(&GOOD, 8);
        assert_eq!(
            world.sessions(&BAD, 8)[7].version,
            Version::H3,
            "seed {seed}"
        );
        let decisions = world.sessions(&throttled, 12);
        let on_h3 = decisions
            .iter()
            .enumerate()
            .filter(|(_, d)| d.version == Version::H3);
        let (chosen, probes): (Vec<_>, Vec<_>) = on_h3.partition(|(_, d)| d.group != Group::Udp);
        let reasons = reasons(&decisions);
        assert!(
            chosen.iter().all(|(session, _)| *session < 2),
            "seed {seed}: {reasons:?}"
        );
        // Sessions are half an hour apart: one in two may be a probe.
        assert!((3..=5).contains(&probes.len()), "seed {seed}: {reasons:?}");
        let healed = world.sessions(&BAD, 12);
        assert_eq!(
            healed[11].version,
            Version::H3,
            "seed {seed}: {}",
            healed[11].reason
        );
        assert_eq!(
            healed[11].group,
            Group::Normal,
            "seed {seed}: {}",
            healed[11].reason
        );
    }
}

#[test]
fn throttling_is_left_even_when_tcp_was_never_measured() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        world.policy.exploration = 0.0;
        assert_eq!(
            world.sessions(&BAD, 8)[7].version,
            Version::H3,
            "seed {seed}"
        );
        let decisions = world.sessions(&Network { udp_mbps: 8, ..BAD }, 6);
        let reasons = reasons(&decisions);
        let mut left = decisions.iter().skip(2);
        assert!(
            left.all(|d| d.group == Group::Udp),
            "seed {seed}: {reasons:?}"
        );
    }
}

#[test]
fn a_path_that_became_slower_is_not_taken_for_throttling() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        world.sessions(&BAD, 8);
        world.mbps = 8;
        world.sessions(&BAD, 4);
        let decisions = world.sessions(&BAD, 20);
        let udp = decisions.iter().filter(|d| d.group == Group::Udp).count();
        // One session over TCP may be needed to see that it is no faster.
        assert!(udp <= 1, "seed {seed}: {:?}", reasons(&decisions));
    }
}

#[test]
fn blocked_udp_is_advertised_ever_less() {
    let blocked = Network { udp: false, ..BAD };
    let mut world = World::new(3);
    let decisions = world.sessions(&blocked, 48 * 7);
    let advertised = |day: usize| {
        decisions[48 * day..48 * (day + 1)]
            .iter()
            .filter(|d| d.version == Version::H3)
            .count()
    };
    assert!(
        advertised(0) <= 7,
        "two sessions, then 1, 2, 4, 8 h apart: {}",
        advertised(0)
    );
    assert!((3..7).all(|day| advertised(day) <= 1), "about one a day");
    let back = world.sessions(&BAD, 60);
    assert_eq!(
        chosen(&back).last(),
        Some(&Version::H3),
        "{}",
        back[59].reason
    );
}

/// Sessions of unlike clients with the default settings. Trials come mostly in the first ones, and `explore`
/// in drawn ones alone.
#[test]
fn explore_is_the_drawn_share_of_sessions() {
    const SESSIONS: usize = 30;
    let fast = Network {
        factor: [1.0, 0.7],
        ..EVEN
    };
    let networks = [GOOD, BAD, EVEN, fast];
    let (mut explored, mut all_sessions) = (0, 0.0);
    let mut trials = [0; SESSIONS];
    for (client, network) in (0..).zip(networks.iter().cycle().take(100)) {
        let mut world = World::new(client);
        let policy = PolicyConfig {
            holdback: 0.0,
            ..PolicyConfig::default()
        };
        world
            .table
            .reconfigure(&Arc::new(policy.clone()), &world.model);
        world.policy = policy;
        for (at, decision) in world.sessions(network, SESSIONS).iter().enumerate() {
            let reasons =
                [decision.congestion.tcp, decision.congestion.quic].map(|c| c.reason.code());
            let is = |code| decision.reason.code() == code || reasons.contains(&code);
            assert_eq!(decision.group == Group::Explore, is("explore"));
            assert_eq!(decision.group == Group::Trial, is("trial"));
            explored += u32::from(decision.group == Group::Explore);
            trials[at] += u32::from(decision.group == Group::Trial);
            all_sessions += 1.0;
        }
    }
    let (share, most) = (f64::from(explored) / all_sessions, 0.02_f64);
    let sd = (most * (1.0 - most) / all_sessions).sqrt();
    assert!(share < most + 3.0 * sd, "{explored} of {all_sessions}");
    assert!(explored > 0);
    let tried =
        |sessions: &[u32]| f64::from(sessions.iter().sum::<u32>()) / (100 * sessions.len()) as f64;
    let [first, later] = [tried(&trials[..8]), tried(&trials[8..])];
    assert!(
        first > 2.0 * later,
        "{first} of the first eight, then {later}: {trials:?}"
    );
}
