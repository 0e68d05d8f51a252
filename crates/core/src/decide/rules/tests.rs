//! Guards as tables, then whole clients over many sessions.

mod simulation;
mod trials;

use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;

use super::super::{AltSvc, Decision, Group, Reason, Session, decide};
use crate::arm::{Congestion, Version};
use crate::estimate::{Choice, LossCount};
use crate::mix::mix;
use crate::model::Model;
use crate::model::tests::{synthetic, synthetic_file};
use crate::policy::{Plain, PolicyConfig, VersionPolicy};
use crate::stat::Stat;
use crate::udp::{Failure, FailureKind, Verdict};
use crate::units::{ByteSize, Rate, Secs, Timestamp};
use crate::view::{Knowledge, PathView};

const START: u64 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::from_secs(START)
}

fn ago(secs: u64) -> Secs {
    Timestamp::from_secs(START - secs).into()
}

/// No draws, so that tables see the rules alone.
fn policy() -> PolicyConfig {
    PolicyConfig {
        holdback: 0.0,
        exploration: 0.0,
        trials: 0,
        ..PolicyConfig::default()
    }
}

fn unknown() -> PathView {
    Knowledge::none(IpAddr::from([192, 0, 2, 1])).view(now(), &policy())
}

/// A well-known client with this loss on both transports.
fn known(loss: f32) -> PathView {
    let bounds = LossCount {
        sent: 1e5,
        lost: 1e5 * loss,
    }
    .bounds();
    PathView {
        samples: 50.0,
        min_rtt: Some(Duration::from_millis(10)),
        loss: [bounds; 2],
        rate: Some(Rate::from_mbps(200)),
        size: Some(ByteSize::from_bytes(1_000_000)),
        udp: Verdict::Works { since: ago(60) },
        ..unknown()
    }
}

fn on(version: Version, secs: u64) -> Option<Choice> {
    Some(Choice {
        version,
        since: ago(secs),
    })
}

fn outcomes(mean: f32, weight: f32) -> Stat {
    Stat {
        mean,
        var: 0.04,
        weight,
    }
}

/// In the synthetic model HTTP/2 is 17 % faster without loss, HTTP/3 67 % faster at 5 %, and neither at
/// 0.45 %.
const GOOD: f32 = 0.0;
const EVEN: f32 = 0.0045;
const BAD: f32 = 0.05;

#[test]
fn each_guard_in_turn() {
    let failed = |kind, probe_in| {
        let next_probe = Secs::from(now()).saturating_add(Duration::from_secs(probe_in));
        Failure {
            kind,
            since: ago(600),
            next_probe,
        }
    };
    let never_came = failed(FailureKind::NeverCame { sessions: 3 }, 3000);
    let broken = failed(FailureKind::Broken, 3000);
    let throttled = failed(FailureKind::Throttled, 3000);
    let few = PathView {
        samples: 7.4,
        ..known(BAD)
    };
    let policed = LossCount {
        sent: 1e5,
        lost: 3e4,
    }
    .bounds();
    // name, view, version, group, reason's code
    let cases: &[(&str, PathView, Version, Group, &str)] = &[
        (
            "unknown",
            unknown(),
            Version::H3,
            Group::Plain,
            "too_few_samples",
        ),
        (
            "too few samples",
            few,
            Version::H3,
            Group::Plain,
            "too_few_samples",
        ),
        (
            "no round-trip time",
            PathView {
                min_rtt: None,
                ..known(BAD)
            },
            Version::H3,
            Group::Plain,
            "not_comparable",
        ),
        (
            "no rate",
            PathView {
                rate: None,
                ..known(BAD)
            },
            Version::H3,
            Group::Plain,
            "not_comparable",
        ),
        (
            "no loss counted",
            PathView {
                loss: [None; 2],
                ..known(GOOD)
            },
            Version::H2,
            Group::Normal,
            "h2_faster",
        ),
        (
            "good path",
            known(GOOD),
            Version::H2,
            Group::Normal,
            "h2_faster",
        ),
        (
            "bad path",
            known(BAD),
            Version::H3,
            Group::Normal,
            "h3_faster",
        ),
        (
            "even, on HTTP/3",
            PathView {
                choice: on(Version::H3, 9),
                ..known(EVEN)
            },
            Version::H3,
            Group::Normal,
            "h3_faster",
        ),
        (
            "a little better is not enough",
            PathView {
                choice: on(Version::H3, 99_999),
                ..known(0.003)
            },
            Version::H3,
            Group::Normal,
            "h3_kept",
        ),
        (
            "nor back",
            PathView {
                choice: on(Version::H2, 99_999),
                ..known(0.006)
            },
            Version::H2,
            Group::Normal,
            "h2_kept",
        ),
        (
            "a gain that is worth a change",
            PathView {
                choice: on(Version::H3, 99_999),
                outcome: [outcomes(0.0, 24.0); 2],
                ..known(0.0012)
            },
            Version::H2,
            Group::Normal,
            "h2_faster",
        ),
        (
            "bad path, on HTTP/2",
            PathView {
                choice: on(Version::H2, 1),
                ..known(BAD)
            },
            Version::H3,
            Group::Normal,
            "h3_faster",
        ),
        (
            "never came",
            PathView {
                udp: Verdict::Failed(never_came),
                ..known(BAD)
            },
            Version::H2,
            Group::Udp,
            "udp_never_came",
        ),
        (
            "broken",
            PathView {
                udp: Verdict::Failed(broken),
                ..known(BAD)
            },
            Version::H2,
            Group::Udp,
            "udp_broken",
        ),
        (
            "throttled",
            PathView {
                udp: Verdict::Failed(throttled),
                ..known(BAD)
            },
            Version::H2,
            Group::Udp,
            "udp_throttled",
        ),
        (
            "fails for a newcomer",
            PathView {
                udp: Verdict::Failed(broken),
                ..unknown()
            },
            Version::H2,
            Group::Udp,
            "udp_broken",
        ),
        (
            "probe",
            PathView {
                udp: Verdict::Probe(broken),
                ..known(BAD)
            },
            Version::H3,
            Group::Udp,
            "udp_probe",
        ),
        (
            "probe of an unknown client",
            PathView {
                udp: Verdict::Probe(broken),
                ..unknown()
            },
            Version::H3,
            Group::Udp,
            "udp_probe",
        ),
        (
            "no probe where HTTP/2 is better",
            PathView {
                udp: Verdict::Probe(broken),
                ..known(GOOD)
            },
            Version::H2,
            Group::Udp,
            "udp_broken",
        ),
        (
            "but of throttling",
            PathView {
                udp: Verdict::Probe(throttled),
                ..known(GOOD)
            },
            Version::H3,
            Group::Udp,
            "udp_probe",
        ),
        (
            "QUIC is policed",
            PathView {
                loss: [known(GOOD).loss[0], policed],
                ..known(GOOD)
            },
            Version::H2,
            Group::Udp,
            "quic_loss",
        ),
        (
            "a path that is bad for both",
            PathView {
                loss: [policed; 2],
                ..known(GOOD)
            },
            Version::H3,
            Group::Normal,
            "h3_faster",
        ),
    ];
    let model = synthetic();
    for (name, view, version, group, code) in cases {
        let decision = decide(view, &model, &policy(), now(), 1);
        let got = (decision.version, decision.group, decision.reason.code());
        assert_eq!(
            got,
            (*version, *group, *code),
            "{name}: {}",
            decision.reason
        );
        let alt_svc = match (version, group) {
            (Version::H2, Group::Udp) => AltSvc::Clear,
            (Version::H2, _) => AltSvc::Withhold,
            _ => decision.alt_svc,
        };
        assert_eq!(decision.alt_svc, alt_svc, "{name}");
        assert_eq!(
            matches!(alt_svc, AltSvc::Advertise { .. }),
            *version == Version::H3,
            "{name}"
        );
    }
}

#[test]
fn the_plain_choice_is_a_setting() {
    let policy = PolicyConfig {
        unknown: Plain::H2,
        ..policy()
    };
    let decision = decide(&unknown(), &synthetic(), &policy, now(), 1);
    assert_eq!(
        (decision.version, decision.alt_svc),
        (Version::H2, AltSvc::Withhold)
    );
}

#[test]
fn pins_hold_before_all_else() {
    let day = Duration::from_secs(86_400);
    let cases = [
        (VersionPolicy::H1, Version::H1, AltSvc::Withhold),
        (VersionPolicy::H2, Version::H2, AltSvc::Withhold),
        (
            VersionPolicy::H3,
            Version::H3,
            AltSvc::Advertise { ma: day },
        ),
    ];
    for (pin, version, alt_svc) in cases {
        let policy = PolicyConfig {
            version: pin,
            holdback: 1.0,
            ..PolicyConfig::default()
        };
        for view in [unknown(), known(GOOD), known(BAD)] {
            let decision = decide(&view, &synthetic(), &policy, now(), 1);
            assert_eq!((decision.version, decision.alt_svc), (version, alt_svc));
            assert_eq!(decision.reason, Reason::Pinned { version });
        }
    }
}

#[test]
fn own_outcomes_move_the_prediction() {
    // name, HTTP/2's outcomes, HTTP/3's, version from HTTP/3, version from HTTP/2
    let none = Stat::default();
    let cases: &[(&str, Stat, Stat, Version, Version)] = &[
        ("none", none, none, Version::H3, Version::H2),
        (
            "slow by both",
            outcomes(1.0, 30.0),
            outcomes(1.0, 30.0),
            Version::H3,
            Version::H2,
        ),
        (
            "HTTP/3 slow, HTTP/2 as expected",
            outcomes(0.0, 30.0),
            outcomes(0.6, 30.0),
            Version::H2,
            Version::H2,
        ),
        (
            "HTTP/3 slow, HTTP/2 not tried",
            none,
            outcomes(0.8, 5.0),
            Version::H3,
            Version::H2,
        ),
        (
            "HTTP/2 slow, HTTP/3 as expected",
            outcomes(0.6, 30.0),
            outcomes(0.0, 30.0),
            Version::H3,
            Version::H3,
        ),
        (
            "HTTP/2 slow, HTTP/3 not tried",
            outcomes(0.8, 30.0),
            none,
            Version::H3,
            Version::H2,
        ),
        (
            "one slow response says little",
            none,
            outcomes(0.8, 1.0),
            Version::H3,
            Version::H2,
        ),
    ];
    let model = synthetic();
    for (name, h2, h3, from_h3, from_h2) in cases {
        for (from, want) in [(Version::H3, from_h3), (Version::H2, from_h2)] {
            let outcome = [*h2, *h3];
            let choice = on(from, 99_999);
            let view = PathView {
                outcome,
                own_outcome: outcome,
                choice,
                ..known(EVEN)
            };
            let decision = decide(&view, &model, &policy(), now(), 1);
            assert_eq!(
                decision.version, *want,
                "{name}, from {from}: {}",
                decision.reason
            );
        }
    }
}

#[test]
fn ma_follows_confidence() {
    let (minute, hour, day) = (60, 3600, 86_400);
    let works = |secs| Verdict::Works { since: ago(secs) };
    let h3 = |udp, chosen, loss| PathView {
        udp,
        choice: on(Version::H3, chosen),
        ..known(loss)
    };
    // name, view, ma in s
    let cases: &[(&str, PathView, u64)] = &[
        ("unknown", unknown(), minute),
        ("just chosen", h3(works(9 * day), 0, BAD), minute),
        ("for ten minutes", h3(works(9 * day), 600, BAD), 300),
        (
            "for three hours",
            h3(works(9 * day), 3 * hour, BAD),
            2 * hour,
        ),
        ("for a day", h3(works(9 * day), day, BAD), day),
        ("for a week", h3(works(9 * day), 7 * day, BAD), day),
        ("UDP seen only lately", h3(works(2000), 7 * day, BAD), 1800),
        (
            "UDP in trouble",
            h3(Verdict::Doubtful, 7 * day, BAD),
            minute,
        ),
        ("UDP not seen", h3(Verdict::Unproven, 7 * day, BAD), minute),
        (
            "gain likely, not sure",
            h3(works(9 * day), 7 * day, 0.0105),
            hour,
        ),
        ("no gain", h3(works(9 * day), 7 * day, EVEN), minute),
    ];
    for (name, view, want) in cases {
        let decision = decide(view, &synthetic(), &policy(), now(), 1);
        let ma = Duration::from_secs(*want);
        assert_eq!(
            decision.alt_svc,
            AltSvc::Advertise { ma },
            "{name}: {}",
            decision.reason
        );
    }
    let narrow = PolicyConfig {
        ma_min: Duration::from_secs(90),
        ma_max: Duration::from_secs(400),
        ..policy()
    };
    for (view, want) in [(unknown(), 90), (h3(works(day), day, BAD), 400)] {
        let decision = decide(&view, &synthetic(), &narrow, now(), 1);
        assert_eq!(
            decision.alt_svc,
            AltSvc::Advertise {
                ma: Duration::from_secs(want)
            }
        );
    }
}

#[test]
fn a_model_without_the_pinned_congestion_keeps_the_choice() {
    let mut file = synthetic_file();
    file.arms.retain(|name, _| name.ends_with("cubic"));
    let model = Model::new(file).unwrap();
    let policy = PolicyConfig {
        congestion: Congestion::Bbr,
        ..policy()
    };
    let view = PathView {
        choice: on(Version::H2, 5),
        ..known(BAD)
    };
    let decision = decide(&view, &model, &policy, now(), 1);
    assert_eq!(
        (decision.version, decision.reason.code()),
        (Version::H2, "not_comparable")
    );
}

#[test]
fn reasons_are_sentences() {
    let sentence = |view: PathView| {
        decide(&view, &synthetic(), &policy(), now(), 1)
            .reason
            .to_string()
    };
    assert_eq!(
        sentence(unknown()),
        "HTTP/3: the plain choice, 0 of 8 samples so far"
    );
    assert_eq!(
        sentence(known(GOOD)),
        "HTTP/2: predicted 51 ms against 61 ms on HTTP/3 for 1 MB (RTT 10 ms, loss 0 %, 200 Mbit/s); \
         lower bound of the gain 8.8 %"
    );
    let loss = [known(0.003).loss[0], known(0.0035).loss[1]];
    let view = PathView {
        loss,
        choice: on(Version::H3, 99_999),
        ..known(GOOD)
    };
    assert_eq!(
        sentence(view),
        "HTTP/3: kept; predicted 67 ms against 65 ms on HTTP/2 for 1 MB (RTT 10 ms, loss 0.3 % on TCP \
         and 0.35 % on QUIC, 200 Mbit/s); gain of a change 2.8 %, needed 5 %"
    );
}

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
        let view = PathView {
            client,
            session: Session(session),
            ..known(GOOD)
        };
        decide(&view, &model, &policy, now(), 7).group == Group::HoldBack
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
fn udp_guards_hold_for_the_hold_back_group_too() {
    let policy = PolicyConfig {
        holdback: 1.0,
        ..PolicyConfig::default()
    };
    let failure = Failure {
        kind: FailureKind::Broken,
        since: ago(9),
        next_probe: Secs::new(u32::MAX),
    };
    let view = PathView {
        udp: Verdict::Failed(failure),
        ..known(BAD)
    };
    assert_eq!(
        decide(&view, &synthetic(), &policy, now(), 1).version,
        Version::H2
    );
    assert_eq!(
        decide(&known(GOOD), &synthetic(), &policy, now(), 1).version,
        Version::H3
    );
}

#[test]
fn what_is_far_worse_or_doubtful_is_not_explored() {
    let always = PolicyConfig {
        exploration: 1.0,
        holdback: 0.0,
        ..PolicyConfig::default()
    };
    let explored =
        |view: PathView| decide(&view, &synthetic(), &always, now(), 1).group == Group::Explore;
    assert!(explored(known(GOOD)), "HTTP/3 instead of HTTP/2");
    assert!(explored(known(BAD)), "and the other way");
    assert!(!explored(PathView {
        udp: Verdict::Doubtful,
        ..known(GOOD)
    }));
    let slow = [outcomes(0.0, 60.0), outcomes(1.2, 60.0)];
    assert!(
        !explored(PathView {
            outcome: slow,
            ..known(GOOD)
        }),
        "expected to take three times as long"
    );
}

proptest! {
    #[test]
    fn exploration_takes_its_share_of_sessions(seed: u64, client: u64) {
        let policy = PolicyConfig { holdback: 0.0, ..PolicyConfig::default() };
        let model = synthetic();
        let got = share(5_000, |session| {
            let view = PathView { client, session: Session(session), ..known(GOOD) };
            decide(&view, &model, &policy, now(), seed).group == Group::Explore
        });
        // Five standard deviations of 2 % of 5,000.
        prop_assert!((got - 0.02).abs() < 0.01, "{}", got);
    }

    #[test]
    fn any_view_is_decided_and_always_alike(view in views(), seed: u64) {
        let (model, policy) = (synthetic(), PolicyConfig::default());
        let decide = || decide(&view, &model, &policy, now(), seed);
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
            let view = PathView { loss: [known(EVEN).loss[0], quic], ..known(EVEN) };
            let decision = decide(&view, &synthetic(), &policy(), now(), 1);
            decision.h2.unwrap().time.as_secs_f64() / decision.h3.unwrap().time.as_secs_f64()
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
    fn views()(
        numbers: (u64, u32, u64, u64, u64),
        samples in 0.0f32..100.0,
        known: (bool, bool, bool, bool),
        counts in ((0.0f32..1e6, 0.0f32..1.0), (0.0f32..1e6, 0.0f32..1.0)),
        outcome in (stats(), stats()),
        udp in 0u8..6,
        choice in 0u8..3,
    ) -> PathView {
        let (client, session, rtt, rate, size) = numbers;
        let count = |(sent, lost)| LossCount { sent, lost: sent * lost }.bounds();
        let failure = Failure { kind: FailureKind::Broken, since: ago(5), next_probe: ago(0) };
        PathView {
            client,
            session: Session(session),
            samples,
            min_rtt: known.0.then_some(Duration::from_nanos(rtt)),
            rate: known.1.then_some(Rate::from_bits_per_sec(rate)),
            size: known.2.then_some(ByteSize::from_bytes(size)),
            loss: [count(counts.0), count(counts.1)],
            outcome: [outcome.0, outcome.1],
            own_outcome: if known.3 { [outcome.0, outcome.1] } else { Default::default() },
            udp: match udp {
                0 => Verdict::Unproven,
                1 => Verdict::Doubtful,
                2 => Verdict::Probe(failure),
                3 => Verdict::Failed(failure),
                _ => Verdict::Works { since: ago(client % 100_000) },
            },
            udp_prefix: None,
            choice: [None, on(Version::H2, 5), on(Version::H3, 5)][usize::from(choice)],
        }
    }
}
