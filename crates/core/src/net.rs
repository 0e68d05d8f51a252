//! Versions, congestion controls and connections over random views, held against a digest of the
//! decisions before a change.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::choice::Session;
use crate::client::estimate::{Choice, LossCount};
use crate::client::key::Prefix;
use crate::client::udp::{Failure, FailureKind, Verdict};
use crate::client::view::ClientView;
use crate::model::Model;
use crate::model::tests::synthetic_file;
use crate::policy::{
    CongestionPolicy, ConnectionsPolicy, MinCwnd, Plain, PolicyConfig, VersionPolicy,
};
use crate::stat::Stat;
use crate::transport as is;
use hikyaku_units::arm::Version;
use hikyaku_units::arm::{Arm, ByTransport, Congestion, CongestionSet, Transport};
use hikyaku_units::{ByteSize, Rate, Secs, Timestamp};

pub(crate) const VIEWS: usize = 100_000;
const START: u64 = 1_800_000_000;

pub(crate) fn runner() -> TestRunner {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[27; 32]);
    TestRunner::new_with_rng(Config::default(), rng)
}

fn ago(secs: u64) -> Secs {
    Timestamp::from_secs(START - secs).into()
}

prop_compose! {
    fn stat()(mean in -1.2f32..1.2, var in 0.0f32..0.1, weight in prop_oneof![Just(0.0), 0.0f32..4.0, 4.0f32..60.0]) -> Stat {
        Stat { mean, var, weight }
    }
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let kind = prop_oneof![
        (1u8..9).prop_map(|sessions| FailureKind::NeverCame { sessions }),
        Just(FailureKind::Broken),
        Just(FailureKind::Throttled),
    ];
    let failure = (kind, 0u64..9000).prop_map(|(kind, secs)| Failure {
        kind,
        since: ago(secs),
        next_probe: Timestamp::from_secs(START + secs / 2).into(),
    });
    prop_oneof![
        1 => Just(Verdict::Unproven),
        1 => Just(Verdict::Doubtful),
        6 => (0u64..1_000_000).prop_map(|secs| Verdict::Works { since: ago(secs) }),
        1 => failure.clone().prop_map(Verdict::Probe),
        1 => failure.prop_map(Verdict::Failed),
    ]
}

fn rates() -> impl Strategy<Value = Option<Rate>> {
    prop_oneof![1 => Just(None), 8 => (5.5f64..9.2).prop_map(|log| Some(Rate::from_bits_per_sec(10f64.powf(log) as u64)))]
}

fn losses() -> impl Strategy<Value = (f32, f32)> {
    (
        prop_oneof![Just(0.0f32), 1.0f32..1e6],
        prop_oneof![4 => Just(0.0f32), 4 => 0.0f32..0.06, 1 => 0.06f32..0.6],
    )
}

fn kept() -> impl Strategy<Value = Option<Congestion>> {
    (0usize..4).prop_map(|place| Congestion::ALL.get(place).copied())
}

prop_compose! {
    pub(crate) fn views()(
        numbers in (any::<u64>(), any::<u32>()),
        samples in prop_oneof![1 => 0.0f32..8.0, 5 => 8.0f32..100.0],
        rtt in prop_oneof![1 => Just(None), 12 => (0u64..300_000).prop_map(|us| Some(Duration::from_micros(us)))],
        queue in prop_oneof![Just(0u64), 0u64..50_000],
        rate in rates(),
        open_rate in rates(),
        size in prop_oneof![1 => Just(None), 4 => (3.0f64..7.5).prop_map(|log| Some(ByteSize::from_bytes(10f64.powf(log) as u64)))],
        counts in (losses(), losses()),
        outcome in proptest::array::uniform6(stat()),
        own in any::<bool>(),
        udp in verdict(),
        flags in (any::<bool>(), any::<bool>()),
        choice in 0u8..3,
        kept in (kept(), kept()),
    ) -> ClientView {
        let count = |(sent, lost): (f32, f32)| LossCount { sent, lost: sent * lost }.bounds();
        let on = |version| Some(Choice { version, since: ago(5) });
        ClientView {
            client: numbers.0,
            session: Session(numbers.1),
            samples,
            min_rtt: rtt,
            srtt: rtt.map(|rtt| rtt + Duration::from_micros(queue)),
            rate,
            size,
            loss: [count(counts.0), count(counts.1)],
            outcome,
            own_outcome: if own { outcome } else { Default::default() },
            udp,
            udp_prefix: flags.0.then(|| Prefix::around(IpAddr::from([192, 0, 2, 1]), 24)).flatten(),
            advertised: flags.1,
            open_rate,
            congestion: ByTransport { tcp: kept.0, quic: kept.1 },
            choice: [None, on(Version::H2), on(Version::H3)][usize::from(choice)],
        }
    }
}

fn sets() -> impl Strategy<Value = ByTransport<CongestionSet>> {
    let set = || {
        prop_oneof![
            3 => Just(CongestionSet::ALL),
            1 => (any::<[bool; 3]>()).prop_map(|has| {
                let some: Vec<_> = Congestion::ALL.into_iter().zip(has).filter_map(|(c, has)| has.then_some(c)).collect();
                CongestionSet::of(&some)
            }),
        ]
    };
    (set(), set()).prop_map(|(tcp, quic)| ByTransport { tcp, quic })
}

prop_compose! {
    fn policies()(
        version in prop_oneof![6 => Just(VersionPolicy::Adaptive), 1 => Just(VersionPolicy::H1), 1 => Just(VersionPolicy::H2), 1 => Just(VersionPolicy::H3)],
        congestion in prop_oneof![4 => Just(CongestionPolicy::Adaptive), 1 => Just(CongestionPolicy::Cubic), 1 => Just(CongestionPolicy::Bbr)],
        min_cwnd in prop_oneof![3 => Just(MinCwnd::Adaptive), 1 => Just(MinCwnd::Off)],
        connections in prop_oneof![4 => Just(ConnectionsPolicy::Adaptive), 1 => (1u8..=8).prop_map(ConnectionsPolicy::Pinned)],
        unknown in prop_oneof![Just(Plain::H3), Just(Plain::H2)],
        trials in prop_oneof![Just(0u8), Just(3)],
        exploration in prop_oneof![Just(0.02), Just(0.125), Just(0.6)],
        holdback in prop_oneof![Just(0.0), Just(0.1)],
        min_gain in 0.0f64..0.3,
        min_gain_bbr in 0.0f64..0.3,
    ) -> PolicyConfig {
        PolicyConfig {
            version, congestion, min_cwnd, connections, unknown, trials, exploration, holdback, min_gain, min_gain_bbr,
            ..PolicyConfig::default()
        }
    }
}

fn models() -> [Model; 3] {
    let mut few = synthetic_file();
    few.arms
        .retain(|name, _| !name.ends_with("bbr") && !name.ends_with("floor"));
    let default = include_str!("../../../models/default.json");
    [synthetic_file(), few]
        .map(|file| Model::new(file).unwrap())
        .into_iter()
        .chain([Model::from_json(default).unwrap()])
        .collect::<Vec<_>>()
        .try_into()
        .unwrap()
}

/// A digest of texts, which are also written to the file `$NET_DIR/NAME` where that is set.
pub(crate) struct Said {
    digest: u64,
    file: Option<std::fs::File>,
}

impl Said {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::var_os("NET_DIR").map(std::path::PathBuf::from);
        let file = dir.map(|dir| std::fs::File::create(dir.join(name)).unwrap());
        Self { digest: 0, file }
    }

    pub(crate) fn say(&mut self, text: &str) {
        use std::io::Write as _;
        for byte in text.bytes() {
            self.digest = hikyaku_units::mix::mix(self.digest ^ u64::from(byte));
        }
        if let Some(file) = &mut self.file {
            file.write_all(text.as_bytes()).unwrap();
            file.write_all(b"\n").unwrap();
        }
    }

    pub(crate) fn end(self, expected: u64) {
        assert_eq!(self.digest, expected, "{:#x}", self.digest);
    }
}

fn is_said(decision: &is::Decision) -> String {
    let choice = |transport| {
        let choice = decision.congestion.get(transport);
        format!("{} {} {choice}", choice.congestion, choice.reason.code())
    };
    let loads = [Version::H2, Version::H3].map(|version| {
        Congestion::ALL.map(|c| {
            decision
                .load(Arm::new(version, c))
                .map(|load| (load.time, load.rel_sd))
        })
    });
    format!(
        "{} {:?} {} {:?} {} {:?} {} {:?} [{}] [{}] {loads:?}",
        decision.version,
        decision.alt_svc,
        decision.reason.code(),
        decision.reason.kind().index(),
        decision,
        decision.group,
        decision.session.0,
        decision.decided(),
        choice(Transport::Tcp),
        choice(Transport::Quic),
    )
}

#[test]
fn decisions_are_as_before() {
    let (models, mut runner) = (models(), runner());
    let all = (views(), policies(), sets(), 0usize..3, any::<u64>(), 0u8..9);
    let (mut codes, mut congestion, mut pages) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let now = Timestamp::from_secs(START);
    let mut said = Said::new("transport");
    for _ in 0..VIEWS {
        let (client, policy, sets, model, seed, shards) =
            all.new_tree(&mut runner).unwrap().current();
        let model = &models[model];
        let is = is::decide(&client, model, &policy, &sets, now, seed);
        said.say(&is_said(&is));
        codes.insert(is.reason.code());
        congestion
            .extend([is.congestion.tcp, is.congestion.quic].map(|choice| choice.reason.code()));
        let new = crate::page::connections(&client, model, &policy, &is, shards);
        let says = (new.n, new.gain, new.reason.code(), new.reason.to_string());
        said.say(&format!("{says:?}"));
        pages.insert(new.reason.code());
    }
    assert_eq!(codes.len(), is::VersionReasonCode::ALL.len(), "{codes:?}");
    assert_eq!(congestion.len(), 8, "{congestion:?}");
    assert_eq!(pages.len(), 8, "{pages:?}");
    said.end(0xdb39_b48a_b030_b55a);
}
