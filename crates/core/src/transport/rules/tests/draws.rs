//! The draws by a seed, and properties that hold for any view.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;

use super::{
    BAD, EVEN, GOOD, START, ago, all, explores, known, now, on, outcomes, over_cubic, policy,
    unknown,
};
use crate::choice::{Assignment, Group, Session};
use crate::client::estimate::LossCount;
use crate::client::udp::{Failure, FailureKind, Verdict};
use crate::client::view::{ClientView, Knowledge};
use crate::model::tests::synthetic;
use crate::policy::{PolicyConfig, VersionPolicy};
use crate::stat::Stat;
use crate::transport::{AltSvc, Decision, Treatment, decide};
use hikyaku_units::arm::{Arm, ByTransport, Congestion, CongestionSet, Version};
use hikyaku_units::mix::mix;
use hikyaku_units::{ByteSize, Rate, Secs};

/// UDP that failed nine seconds ago.
const BROKEN: Failure = Failure {
    kind: FailureKind::Broken,
    since: Secs::new(START as u32 - 9),
    next_probe: Secs::new(u32::MAX),
};

fn share(sessions: u32, mut drawn: impl FnMut(u32) -> bool) -> f64 {
    (0..sessions).filter(|&n| drawn(n)).count() as f64 / f64::from(sessions)
}

#[test]
fn the_hold_back_group_is_a_fixed_share_of_clients() {
    let policy = PolicyConfig {
        holdback: 0.1,
        ..PolicyConfig::default()
    };
    let model = synthetic();
    let held_back = |client, session| {
        let view = ClientView {
            client,
            session: Session(session),
            ..known(GOOD)
        };
        decide(&view, &model, &policy, &all(), now(), 7).group == Group::HoldBack
    };
    let got = share(20_000, |n| {
        let client = mix(n.into());
        assert_eq!(
            held_back(client, 1),
            held_back(client, 2),
            "for all sessions of a client"
        );
        held_back(client, 1)
    });
    assert!((got - 0.1).abs() < 0.01, "{got}");
}

#[test]
fn the_assignment_is_drawn_whatever_is_known() {
    let policy = PolicyConfig {
        holdback: 0.5,
        ..PolicyConfig::default()
    };
    for last in 0..=255 {
        let client = IpAddr::from([192, 0, 2, last]);
        let nothing = Knowledge::none(client).view(now(), &policy);
        let much = ClientView {
            client: nothing.client,
            ..known(BAD)
        };
        let failed = ClientView {
            udp: Verdict::Failed(BROKEN),
            ..much
        };
        let want = Assignment::of(client, &policy, 7);
        for version in [VersionPolicy::Adaptive, VersionPolicy::H2] {
            let policy = PolicyConfig {
                version,
                ..policy.clone()
            };
            for view in [nothing, much, failed] {
                let decision = decide(&view, &synthetic(), &policy, &all(), now(), 7);
                assert_eq!(decision.assignment, want);
                let in_group = decision.group == Group::HoldBack;
                assert_eq!(in_group, want.is_held_back(), "{decision}");
            }
        }
    }
}

#[test]
fn the_hold_back_group_gets_an_ordinary_server() {
    let with = |plain: &str, rest: &str| -> PolicyConfig {
        serde_json::from_str(&format!(r#"{{"holdback": 1.0, "plain": {plain}{rest}}}"#)).unwrap()
    };
    let day = AltSvc::Advertise {
        ma: Duration::from_secs(86_400),
    };
    let failed = ClientView {
        udp: Verdict::Failed(BROKEN),
        ..known(BAD)
    };
    let no_bbr = ByTransport {
        tcp: CongestionSet::of(&[Congestion::Cubic]),
        quic: CongestionSet::ALL,
    };
    use Congestion::{Bbr, Cubic};
    // name, policy.plain, other settings, view, available, Alt-Svc, congestion control of TCP and QUIC
    type Case<'a> = (
        &'a str,
        &'a str,
        &'a str,
        ClientView,
        ByTransport<CongestionSet>,
        AltSvc,
        [Congestion; 2],
    );
    let cases: &[Case<'_>] = &[
        ("unknown", "{}", "", unknown(), all(), day, [Cubic; 2]),
        (
            "better off with HTTP/2",
            "{}",
            "",
            known(GOOD),
            all(),
            day,
            [Cubic; 2],
        ),
        (
            "UDP fails, of which an ordinary server knows nothing",
            "{}",
            "",
            failed,
            all(),
            day,
            [Cubic; 2],
        ),
        (
            "without HTTP/3",
            r#"{"version": "h2"}"#,
            "",
            known(BAD),
            all(),
            AltSvc::Withhold,
            [Cubic; 2],
        ),
        (
            "with BBR, which TCP lacks",
            r#"{"congestion": "bbr"}"#,
            "",
            known(BAD),
            no_bbr,
            day,
            [Cubic, Bbr],
        ),
        (
            "all others have a floor",
            "{}",
            r#", "congestion": "cubic""#,
            known(BAD),
            all(),
            day,
            [Cubic; 2],
        ),
        (
            "BBR is pinned for all",
            "{}",
            r#", "congestion": "bbr""#,
            known(BAD),
            all(),
            day,
            [Bbr; 2],
        ),
        (
            "CUBIC is pinned for all",
            r#"{"congestion": "bbr"}"#,
            r#", "congestion": "cubic", "min_cwnd": "off""#,
            known(BAD),
            all(),
            day,
            [Cubic; 2],
        ),
    ];
    for (name, plain, rest, view, available, alt_svc, congestion) in cases {
        let policy = with(plain, rest);
        let decision = decide(view, &synthetic(), &policy, available, now(), 1);
        assert_eq!(decision.alt_svc, *alt_svc, "{name}");
        let got = [decision.congestion.tcp, decision.congestion.quic];
        assert_eq!(got.map(|choice| choice.congestion), *congestion, "{name}");
        assert_eq!(
            (decision.group, decision.probability),
            (Group::HoldBack, 1.0),
            "{name}"
        );
    }
}

/// The same is known of many clients and sessions. Each treatment then comes as often as its probability
/// says.
#[test]
fn a_probability_is_the_share_of_sessions() {
    let policy = PolicyConfig {
        holdback: 0.1,
        exploration: 0.02,
        ..PolicyConfig::default()
    };
    let tried = ClientView {
        outcome: over_cubic(Stat::default(), outcomes(0.0, 9.0)),
        ..known(EVEN)
    };
    let policed = ClientView {
        udp: Verdict::Failed(BROKEN),
        ..known(BAD)
    };
    for view in [unknown(), known(GOOD), known(BAD), tried, policed] {
        let (mut seen, drawn) = (BTreeMap::new(), 20_000u32);
        for n in 0..drawn {
            let view = ClientView {
                client: mix(n.into()),
                session: Session(n),
                ..view
            };
            let decision = decide(&view, &synthetic(), &policy, &all(), now(), 1);
            let Treatment {
                assignment,
                version,
                congestion: ByTransport { tcp, quic },
            } = Treatment::of(&decision);
            let treatment = (assignment, version, tcp, quic);
            let (number, probability) = seen.entry(treatment).or_insert((0u32, 0.0));
            *number += 1;
            *probability = decision.probability;
        }
        let total: f64 = seen.values().map(|(_, probability)| probability).sum();
        assert!((total - 1.0).abs() < 1e-9, "{seen:?}");
        for (number, probability) in seen.values() {
            let (share, sd) = (
                f64::from(*number) / f64::from(drawn),
                (probability * (1.0 - probability) / f64::from(drawn)).sqrt(),
            );
            assert!((share - probability).abs() < 4.0 * sd + 1e-9, "{seen:?}");
        }
    }
}

#[test]
fn far_worse_or_doubtful_arms_are_not_explored() {
    let always = PolicyConfig {
        exploration: 0.125,
        ..policy()
    };
    let session = (0..).find(|session| explores(*session, &always)).unwrap();
    let explored = |view: ClientView| {
        let session = Session(session);
        let view = ClientView { session, ..view };
        decide(&view, &synthetic(), &always, &all(), now(), 1).group == Group::Explore
    };
    assert!(explored(known(GOOD)), "HTTP/3 instead of HTTP/2");
    assert!(explored(known(BAD)), "and the other way");
    assert!(!explored(ClientView {
        udp: Verdict::Doubtful,
        ..known(GOOD)
    }));
    let slow = over_cubic(outcomes(0.0, 60.0), outcomes(1.2, 60.0));
    assert!(
        !explored(ClientView {
            outcome: slow,
            ..known(GOOD)
        }),
        "expected to take three times as long"
    );
}

proptest! {
    #[test]
    fn exploration_takes_its_share_of_sessions(seed: u64, client: u64) {
        let policy = PolicyConfig { exploration: 0.02, ..policy() };
        let model = synthetic();
        let got = share(5_000, |session| {
            let view = ClientView { client, session: Session(session), ..known(GOOD) };
            decide(&view, &model, &policy, &all(), now(), seed).group == Group::Explore
        });
        // Five standard deviations of 2 % of 5,000.
        prop_assert!((got - 0.02).abs() < 0.01, "{}", got);
    }

    #[test]
    fn any_view_is_decided_and_always_alike(view in views(), seed: u64) {
        let (model, policy) = (synthetic(), PolicyConfig::default());
        let decide = || decide(&view, &model, &policy, &all(), now(), seed);
        let decision: Decision = decide();
        prop_assert_eq!(format!("{decision:?}"), format!("{:?}", decide()));
        prop_assert_eq!(matches!(decision.alt_svc, AltSvc::Advertise { .. }), decision.version == Version::H3);
        if let AltSvc::Advertise { ma } = decision.alt_svc {
            prop_assert!(policy.ma_min <= ma && ma <= policy.ma_max);
        }
        prop_assert!(!decision.reason.to_string().contains("NaN"));
    }

    #[test]
    fn more_loss_on_quic_alone_never_speaks_for_http3(less in 0u32..100_000, more in 0u32..100_000) {
        let gain = |lost: u32| {
            let quic = LossCount { sent: 1e6, lost: lost as f32 }.bounds();
            let view = ClientView { loss: [known(EVEN).loss[0], quic], ..known(EVEN) };
            let decision = decide(&view, &synthetic(), &policy(), &all(), now(), 1);
            let secs = |version| {
                let arm = Arm::new(version, Congestion::Cubic);
                decision.load(arm).unwrap().time.as_secs_f64()
            };
            secs(Version::H2) / secs(Version::H3)
        };
        prop_assert!(gain(less.max(more)) <= gain(less.min(more)) * (1.0 + 1e-4));
    }
}

prop_compose! {
    fn stats()(mean in -2.0f32..2.0, var in 0.0f32..2.0, weight in 0.0f32..64.0) -> Stat {
        Stat { mean, var, weight }
    }
}

prop_compose! {
    pub(crate) fn views()(
        numbers: (u64, u32, u64, u64, u64),
        samples in 0.0f32..100.0,
        known: (bool, bool, bool, bool),
        counts in ((0.0f32..1e6, 0.0f32..1.0), (0.0f32..1e6, 0.0f32..1.0)),
        outcome in proptest::array::uniform6(stats()),
        udp in 0u8..6,
        choice in 0u8..3,
        kept in (0usize..4, 0usize..4),
        open in proptest::option::of(any::<u64>()),
    ) -> ClientView {
        let (client, session, rtt, rate, size) = numbers;
        let count = |(sent, lost)| LossCount { sent, lost: sent * lost }.bounds();
        let failure = Failure { kind: FailureKind::Broken, since: ago(5), next_probe: ago(0) };
        ClientView {
            client,
            session: Session(session),
            samples,
            min_rtt: known.0.then_some(Duration::from_nanos(rtt)),
            srtt: None,
            rate: known.1.then_some(Rate::from_bits_per_sec(rate)),
            size: known.2.then_some(ByteSize::from_bytes(size)),
            loss: [count(counts.0), count(counts.1)],
            outcome,
            own_outcome: if known.3 { outcome } else { Default::default() },
            udp: match udp {
                0 => Verdict::Unproven,
                1 => Verdict::Doubtful,
                2 => Verdict::Probe(failure),
                3 => Verdict::Failed(failure),
                _ => Verdict::Works { since: ago(client % 100_000) },
            },
            udp_prefix: None,
            tcp_is_hidden: client % 4 == 0,
            advertised: false,
            open_rate: open.map(Rate::from_bits_per_sec),
            congestion: ByTransport {
                tcp: Congestion::ALL.get(kept.0).copied(),
                quic: Congestion::ALL.get(kept.1).copied(),
            },
            choice: [None, on(Version::H2, 5), on(Version::H3, 5)][usize::from(choice)],
        }
    }
}
