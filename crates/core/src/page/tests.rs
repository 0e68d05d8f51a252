use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;

use super::{Connections, ConnectionsSummary, connections};
use crate::choice::{Assignment, Group};
use crate::client::estimate::{Estimate, LossCount};
use crate::client::view::{ClientView, Knowledge};
use crate::model::Model;
use crate::policy::{CongestionPolicy, ConnectionsPolicy, MinCwnd, PolicyConfig};
use crate::stat::Stat;
use crate::transport::{Decision, decide};
use hikyaku_units::arm::{ByTransport, CongestionSet, Version};
use hikyaku_units::{Secs, Timestamp};

const START: u32 = 1_800_000_000;
static MODEL: LazyLock<Model> =
    LazyLock::new(|| Model::from_json(include_str!("../../../../models/default.json")).unwrap());

const EVERYTHING: ByTransport<CongestionSet> = ByTransport {
    tcp: CongestionSet::ALL,
    quic: CongestionSet::ALL,
};

/// A client that was measured over TCP on such a path.
#[derive(Clone, Copy, Debug)]
struct Client {
    samples: f32,
    rtt_ms: u64,
    /// Of the queue that stands.
    queue_ms: u64,
    loss: f32,
    /// The delivery rate of one connection.
    mbps: f64,
    megabytes: f32,
}

impl Client {
    fn view(&self, policy: &PolicyConfig) -> ClientView {
        let mut own = Estimate {
            at: Secs::new(START),
            samples: self.samples,
            size: (self.megabytes * 1e6).ln(),
            size_weight: 8.0,
            ..Estimate::default()
        };
        let rtt = Duration::from_millis(self.rtt_ms);
        own.srtt = 1000 * u32::try_from(self.rtt_ms + self.queue_ms).unwrap();
        own.min_rtt.update(rtt, own.at, policy.half_life.rtt);
        own.loss[0] = LossCount {
            sent: 100_000.0,
            lost: 100_000.0 * self.loss,
        };
        own.rate[0] = Stat {
            mean: (self.mbps * 1e6).ln() as f32,
            var: 0.01,
            weight: 6.0,
        };
        let knowledge = Knowledge {
            own: Some(own),
            ..Knowledge::none([192, 0, 2, 1].into())
        };
        knowledge.view(now(), policy)
    }

    fn connections(&self, policy: &PolicyConfig, available: u8) -> Connections {
        let view = self.view(policy);
        connections(&view, &MODEL, policy, &decision(&view, policy), available)
    }
}

/// A documented constant: the gain that several connections need (`docs/decisions.md`).
const MIN_GAIN: f32 = 0.05;

fn now() -> Timestamp {
    Timestamp::from_secs(START.into())
}

/// On HTTP/2, in no experiment.
fn decision(view: &ClientView, policy: &PolicyConfig) -> Decision {
    let mut decision = decide(view, &MODEL, policy, &EVERYTHING, now(), 1);
    decision.version = Version::H2;
    decision.group = Group::Normal;
    decision
}

/// CONNS figure 3: 0.1 % at 100 ms, where CUBIC gets 4 to 6 Mbit/s of 200.
const LOSSY: Client = Client {
    samples: 20.0,
    rtt_ms: 100,
    queue_ms: 5,
    loss: 0.001,
    mbps: 4.0,
    megabytes: 30.0,
};

#[test]
fn several_are_used_only_where_losses_limit_one() {
    let bbr = CongestionPolicy::Bbr;
    // name, client, congestion control, addresses, (connections at least, at most), code
    type Case<'a> = (&'a str, Client, CongestionPolicy, u8, (u8, u8), &'a str);
    let cubic = CongestionPolicy::Cubic;
    let cases: &[Case<'_>] = &[
        ("losses", LOSSY, cubic, 8, (3, 3), "faster"),
        ("few addresses", LOSSY, cubic, 2, (2, 2), "faster"),
        ("one address", LOSSY, cubic, 1, (1, 1), "no_shards"),
        (
            "losses do not limit BBR",
            LOSSY,
            bbr,
            8,
            (1, 1),
            "fills_path",
        ),
        (
            "one is faster than losses explain",
            Client {
                mbps: 100.0,
                ..LOSSY
            },
            cubic,
            8,
            (1, 1),
            "fills_path",
        ),
        (
            "losses at a queue that it fills itself",
            Client {
                queue_ms: 80,
                ..LOSSY
            },
            cubic,
            8,
            (1, 1),
            "fills_path",
        ),
        (
            "high delay without loss (CONNS figure 4): several were slower",
            Client {
                rtt_ms: 350,
                loss: 0.0,
                mbps: 200.0,
                ..LOSSY
            },
            cubic,
            8,
            (1, 1),
            "fills_path",
        ),
        (
            "a slow path",
            Client { mbps: 1.0, ..LOSSY },
            cubic,
            8,
            (1, 1),
            "fills_path",
        ),
        (
            "a page that is there before the second connection",
            Client {
                megabytes: 0.02,
                ..LOSSY
            },
            cubic,
            8,
            (1, 1),
            "little_gain",
        ),
        (
            "hardly known",
            Client {
                samples: 3.0,
                ..LOSSY
            },
            cubic,
            8,
            (1, 1),
            "too_few_samples",
        ),
    ];
    for (name, client, congestion, available, (least, most), code) in cases {
        let policy = PolicyConfig {
            congestion: *congestion,
            min_cwnd: MinCwnd::Off,
            ..PolicyConfig::default()
        };
        let got = client.connections(&policy, *available);
        assert_eq!(got.reason.code(), *code, "{name}: {got:?}");
        assert!((*least..=*most).contains(&got.n), "{name}: {got:?}");
        assert_eq!(got.n > 1, got.gain > MIN_GAIN, "{name}: {got:?}");
    }
}

#[test]
fn the_configuration_goes_first() {
    for (pinned, available, n) in [(1, 8, 1), (4, 8, 4), (8, 3, 3), (8, 1, 1)] {
        let policy = PolicyConfig {
            connections: ConnectionsPolicy::Pinned(pinned),
            ..PolicyConfig::default()
        };
        let got = LOSSY.connections(&policy, available);
        assert_eq!((got.n, got.reason.code()), (n, "pinned"));
    }
}

#[test]
fn clients_that_are_held_back_and_unknown_ones_keep_one() {
    let policy = PolicyConfig::default();
    let view = LOSSY.view(&policy);
    let mut held = decision(&view, &policy);
    held.assignment = Assignment::HoldBack;
    let got = connections(&view, &MODEL, &policy, &held, 8);
    assert_eq!((got.n, got.reason.code()), (1, "hold_back"));

    let nothing = Knowledge::none([192, 0, 2, 1].into()).view(now(), &policy);
    let eager = PolicyConfig {
        min_samples: 0,
        ..policy
    };
    let got = connections(&nothing, &MODEL, &eager, &decision(&nothing, &eager), 8);
    assert_eq!((got.n, got.reason.code()), (1, "not_comparable"));
}

#[test]
fn reasons_read_as_sentences() {
    let policy = PolicyConfig {
        congestion: CongestionPolicy::Cubic,
        min_cwnd: MinCwnd::Off,
        ..PolicyConfig::default()
    };
    let reason = |client: Client| ConnectionsSummary::from(client.connections(&policy, 8)).reason;
    let small = Client {
        megabytes: 0.02,
        ..LOSSY
    };
    assert!(reason(LOSSY).contains(" over one"), "{}", reason(LOSSY));
    assert!(reason(small).ends_with("needed 5 %"), "{}", reason(small));
}

proptest! {
    #[test]
    fn the_number_is_within_the_available_addresses(
        rtt_ms in 0u64..500,
        queue_ms in 0u64..100,
        loss in 0.0f32..0.2,
        mbps in 0.1f64..1000.0,
        megabytes in 0.001f32..100.0,
        available in 0u8..=255,
    ) {
        let client = Client { samples: 20.0, rtt_ms, queue_ms, loss, mbps, megabytes };
        let got = client.connections(&PolicyConfig::default(), available);
        prop_assert!(got.n >= 1 && got.n <= available.clamp(1, 8), "{got:?}");
        prop_assert_eq!(got.n > 1, got.gain > MIN_GAIN);
        prop_assert!(got.gain.is_finite());
    }
}
