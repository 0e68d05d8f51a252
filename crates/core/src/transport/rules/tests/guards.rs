//! The rules before the comparison.

use std::net::IpAddr;
use std::time::Duration;

use super::{BAD, EVEN, GOOD, ago, all, known, now, on, outcomes, over_cubic, policy, unknown};
use crate::choice::{Group, Reason};
use crate::client::estimate::LossCount;
use crate::client::key::Prefix;
use crate::client::udp::{Failure, FailureKind, Verdict};
use crate::client::view::ClientView;
use crate::model::tests::synthetic;
use crate::policy::{Plain, PolicyConfig, VersionPolicy};
use crate::transport::{AltSvc, decide};
use hikyaku_units::arm::Version;
use hikyaku_units::{ByteSize, Secs};

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
    let few = ClientView {
        samples: 7.4,
        ..known(BAD)
    };
    let policed = LossCount {
        sent: 1e5,
        lost: 3e4,
    }
    .bounds();
    // name, view, version, group, reason's code
    let cases: &[(&str, ClientView, Version, Group, &str)] = &[
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
            ClientView {
                min_rtt: None,
                ..known(BAD)
            },
            Version::H3,
            Group::Plain,
            "not_comparable",
        ),
        (
            "no rate",
            ClientView {
                rate: None,
                ..known(BAD)
            },
            Version::H3,
            Group::Plain,
            "not_comparable",
        ),
        (
            "no loss counted",
            ClientView {
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
            ClientView {
                choice: on(Version::H3, 9),
                ..known(EVEN)
            },
            Version::H3,
            Group::Normal,
            "h3_faster",
        ),
        (
            "a little better is not enough",
            ClientView {
                choice: on(Version::H3, 99_999),
                ..known(0.003)
            },
            Version::H3,
            Group::Normal,
            "h3_kept",
        ),
        (
            "nor back",
            ClientView {
                choice: on(Version::H2, 99_999),
                ..known(0.006)
            },
            Version::H2,
            Group::Normal,
            "h2_kept",
        ),
        (
            "a gain that is worth a change",
            ClientView {
                choice: on(Version::H3, 99_999),
                outcome: over_cubic(outcomes(0.0, 24.0), outcomes(0.0, 24.0)),
                ..known(0.0012)
            },
            Version::H2,
            Group::Normal,
            "h2_faster",
        ),
        (
            "bad path, on HTTP/2",
            ClientView {
                choice: on(Version::H2, 1),
                ..known(BAD)
            },
            Version::H3,
            Group::Normal,
            "h3_faster",
        ),
        (
            "never came",
            ClientView {
                udp: Verdict::Failed(never_came),
                ..known(BAD)
            },
            Version::H2,
            Group::Udp,
            "udp_never_came",
        ),
        (
            "broken",
            ClientView {
                udp: Verdict::Failed(broken),
                ..known(BAD)
            },
            Version::H2,
            Group::Udp,
            "udp_broken",
        ),
        (
            "throttled",
            ClientView {
                udp: Verdict::Failed(throttled),
                ..known(BAD)
            },
            Version::H2,
            Group::Udp,
            "udp_throttled",
        ),
        (
            "fails for a newcomer",
            ClientView {
                udp: Verdict::Failed(broken),
                ..unknown()
            },
            Version::H2,
            Group::Udp,
            "udp_broken",
        ),
        (
            "probe",
            ClientView {
                udp: Verdict::Probe(broken),
                ..known(BAD)
            },
            Version::H3,
            Group::Udp,
            "udp_probe",
        ),
        (
            "probe of an unknown client",
            ClientView {
                udp: Verdict::Probe(broken),
                ..unknown()
            },
            Version::H3,
            Group::Udp,
            "udp_probe",
        ),
        (
            "no probe where HTTP/2 is better",
            ClientView {
                udp: Verdict::Probe(broken),
                size: Some(ByteSize::from_bytes(10_000_000)),
                ..known(GOOD)
            },
            Version::H2,
            Group::Udp,
            "udp_broken",
        ),
        (
            "but of throttling",
            ClientView {
                udp: Verdict::Probe(throttled),
                ..known(GOOD)
            },
            Version::H3,
            Group::Udp,
            "udp_probe",
        ),
        (
            "QUIC is policed",
            ClientView {
                loss: [known(GOOD).loss[0], policed],
                ..known(GOOD)
            },
            Version::H2,
            Group::Udp,
            "quic_loss",
        ),
        (
            "a path that is bad for both",
            ClientView {
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
        let decision = decide(view, &model, &policy(), &all(), now(), 1);
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
fn only_a_possible_holder_of_an_advertisement_is_sent_clear() {
    let failure = Failure {
        kind: FailureKind::NeverCame { sessions: 2 },
        since: ago(600),
        next_probe: Secs::from(now()).saturating_add(Duration::from_secs(3000)),
    };
    let neighbours = Prefix::around(IpAddr::from([192, 0, 2, 0]), 24);
    // name, of the prefix, advertised before, Alt-Svc
    let cases = [
        ("its own failure", None, true, AltSvc::Clear),
        (
            "a newcomer's neighbours",
            neighbours,
            false,
            AltSvc::Withhold,
        ),
        ("its neighbours", neighbours, true, AltSvc::Clear),
    ];
    for (name, udp_prefix, advertised, want) in cases {
        let view = ClientView {
            udp: Verdict::Failed(failure),
            udp_prefix,
            advertised,
            ..unknown()
        };
        let decision = decide(&view, &synthetic(), &policy(), &all(), now(), 1);
        assert_eq!(decision.alt_svc, want, "{name}");
    }
}

#[test]
fn the_plain_choice_is_a_setting() {
    let policy = PolicyConfig {
        unknown: Plain::H2,
        ..policy()
    };
    let decision = decide(&unknown(), &synthetic(), &policy, &all(), now(), 1);
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
            let decision = decide(&view, &synthetic(), &policy, &all(), now(), 1);
            assert_eq!((decision.version, decision.alt_svc), (version, alt_svc));
            assert_eq!(decision.reason, Reason::Pinned(version));
        }
    }
}
