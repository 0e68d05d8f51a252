//! Guards as tables, then whole clients over many sessions.

mod congestion;
pub(crate) mod draws;
mod guards;
mod simulation;
mod trials;

use std::net::IpAddr;
use std::time::Duration;

use crate::choice::{Draw, Explorer, Session};
use crate::client::estimate::{Choice, LossCount};
use crate::client::udp::Verdict;
use crate::client::view::{ClientView, Knowledge};
use crate::model::Model;
use crate::model::tests::{synthetic, synthetic_file};
use crate::policy::{CongestionPolicy, MinCwnd, PolicyConfig};
use crate::stat::Stat;
use crate::transport::{AltSvc, decide};
use hikyaku_units::arm::{ARMS, Arm, ByTransport, Congestion, CongestionSet, Version};
use hikyaku_units::{ByteSize, Rate, Secs, Timestamp};

const START: u64 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::from_secs(START)
}

fn ago(secs: u64) -> Secs {
    Timestamp::from_secs(START - secs).into()
}

/// Every transport has every congestion control.
fn all() -> ByTransport<CongestionSet> {
    ByTransport::from_fn(|_| CongestionSet::ALL)
}

/// No draws, so that tables see the rules alone; a gain to need that shows; and plain CUBIC, so that
/// versions alone are chosen.
fn policy() -> PolicyConfig {
    PolicyConfig {
        congestion: CongestionPolicy::Cubic,
        min_cwnd: MinCwnd::Off,
        min_gain: 0.05,
        holdback: 0.0,
        exploration: 0.0,
        trials: 0,
        ..PolicyConfig::default()
    }
}

/// Whether a session of the client is drawn to explore its transport.
fn explores(session: u32, policy: &PolicyConfig) -> bool {
    let draw = Draw {
        seed: 1,
        client: unknown().client,
        session: Session(session),
    };
    draw.explores(Explorer::Transport, policy).is_some()
}

fn unknown() -> ClientView {
    Knowledge::none(IpAddr::from([192, 0, 2, 1])).view(now(), &policy())
}

/// A well-known client with this loss on both transports.
fn known(loss: f32) -> ClientView {
    let bounds = LossCount {
        sent: 1e5,
        lost: 1e5 * loss,
    }
    .bounds();
    ClientView {
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

/// Outcomes of HTTP/2 and HTTP/3 over CUBIC.
fn over_cubic(h2: Stat, h3: Stat) -> [Stat; ARMS] {
    let mut outcomes = [Stat::default(); ARMS];
    for (version, stat) in [(Version::H2, h2), (Version::H3, h3)] {
        outcomes[Arm::new(version, Congestion::Cubic).index()] = stat;
    }
    outcomes
}

/// In the synthetic model HTTP/2 is 17 % faster without loss, HTTP/3 67 % faster at 5 %, and neither at
/// 0.45 %.
const GOOD: f32 = 0.0;
const EVEN: f32 = 0.0045;
const BAD: f32 = 0.05;

#[test]
fn own_outcomes_move_the_prediction() {
    // name, HTTP/2's outcomes, HTTP/3's, version from HTTP/3, version from HTTP/2
    let none = Stat::default();
    let cases: &[(&str, Stat, Stat, Version, Version)] = &[
        ("none", none, none, Version::H3, Version::H2),
        (
            "slow by both, which makes a handshake count less",
            outcomes(1.0, 30.0),
            outcomes(1.0, 30.0),
            Version::H2,
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
            outcomes(0.5, 5.0),
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
            outcomes(0.5, 30.0),
            none,
            Version::H3,
            Version::H2,
        ),
        (
            "one slow response says little",
            none,
            outcomes(0.5, 1.0),
            Version::H3,
            Version::H2,
        ),
    ];
    let model = synthetic();
    for (name, h2, h3, from_h3, from_h2) in cases {
        for (from, want) in [(Version::H3, from_h3), (Version::H2, from_h2)] {
            let outcome = over_cubic(*h2, *h3);
            let choice = on(from, 99_999);
            let view = ClientView {
                outcome,
                own_outcome: outcome,
                choice,
                ..known(EVEN)
            };
            let decision = decide(&view, &model, &policy(), &all(), now(), 1);
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
    let h3 = |udp, chosen, loss| ClientView {
        udp,
        choice: on(Version::H3, chosen),
        ..known(loss)
    };
    // name, view, ma in s
    let cases: &[(&str, ClientView, u64)] = &[
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
            h3(works(9 * day), 7 * day, 0.0115),
            hour,
        ),
        ("no gain", h3(works(9 * day), 7 * day, EVEN), minute),
    ];
    for (name, view, want) in cases {
        let decision = decide(view, &synthetic(), &policy(), &all(), now(), 1);
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
        let decision = decide(&view, &synthetic(), &narrow, &all(), now(), 1);
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
        congestion: CongestionPolicy::Bbr,
        ..policy()
    };
    let view = ClientView {
        choice: on(Version::H2, 5),
        ..known(BAD)
    };
    let decision = decide(&view, &model, &policy, &all(), now(), 1);
    assert_eq!(
        (decision.version, decision.reason.code()),
        (Version::H2, "not_comparable")
    );
}

#[test]
fn reasons_are_sentences() {
    let sentence =
        |view: ClientView| decide(&view, &synthetic(), &policy(), &all(), now(), 1).to_string();
    assert_eq!(
        sentence(unknown()),
        "HTTP/3: the plain choice, 0 of 8 samples so far"
    );
    assert_eq!(
        sentence(known(GOOD)),
        "HTTP/2: predicted 51 ms against 61 ms on HTTP/3 for 1 MB and TCP's longer handshake (RTT 10 ms, loss 0 %, 200 Mbit/s); \
         lower bound of the gain 2.8 %"
    );
    let loss = [known(0.003).loss[0], known(0.0035).loss[1]];
    let view = ClientView {
        loss,
        choice: on(Version::H3, 99_999),
        ..known(GOOD)
    };
    assert_eq!(
        sentence(view),
        "HTTP/3: kept; predicted 67 ms against 65 ms on HTTP/2 for 1 MB and TCP's longer handshake (RTT 10 ms, loss 0.3 % on TCP \
         and 0.35 % on QUIC, 200 Mbit/s); gain of a change 3.2 %, needed 5 %"
    );
}
