//! Which congestion control is chosen.

use proptest::prelude::*;

use super::draws::views;
use super::{BAD, GOOD, all, explores, known, now, outcomes, policy, unknown};
use crate::choice::{Group, Reason};
use crate::client::view::ClientView;
use crate::model::Model;
use crate::model::tests::{synthetic, synthetic_file};
use crate::policy::{CongestionPolicy, MinCwnd, PolicyConfig, VersionPolicy};
use crate::stat::Stat;
use crate::transport::{Decision, decide};
use hikyaku_units::arm::{ARMS, Arm, ByTransport, Congestion, CongestionSet, Transport, Version};

use Congestion::{Bbr, Cubic, Floor};

/// Everything may be chosen, nothing is drawn.
fn adaptive() -> PolicyConfig {
    PolicyConfig {
        congestion: CongestionPolicy::Adaptive,
        min_cwnd: MinCwnd::Adaptive,
        ..policy()
    }
}

/// The synthetic model with load times over BBR multiplied.
fn bbr_takes(factor: f64) -> Model {
    let mut file = synthetic_file();
    for (name, table) in &mut file.arms {
        if name.ends_with("bbr") {
            table.load_ms.iter_mut().for_each(|ms| *ms *= factor);
        }
    }
    Model::new(file).unwrap()
}

fn kept(congestion: Congestion) -> ByTransport<Option<Congestion>> {
    ByTransport::from_fn(|_| Some(congestion))
}

/// Outcomes of each arm over TCP, in the order of [`Congestion::ALL`], and the same over QUIC.
fn by_arm(stats: [Stat; 3]) -> [Stat; ARMS] {
    let [cubic, floor, bbr] = stats;
    [cubic, floor, bbr, cubic, floor, bbr]
}

fn tcp(decision: &Decision) -> (Congestion, &'static str) {
    let choice = decision.congestion.tcp;
    (choice.congestion, choice.reason.code())
}

#[test]
fn each_rule_in_turn() {
    let none = Stat::default();
    let sure = |mean| outcomes(mean, 24.0);
    let held_back = PolicyConfig {
        holdback: 1.0,
        ..adaptive()
    };
    let no_floor = PolicyConfig {
        min_cwnd: MinCwnd::Off,
        ..adaptive()
    };
    let bad = known(BAD);
    // name, settings, BBR's factor, view, TCP's choice, its reason
    type Case<'a> = (&'a str, PolicyConfig, f64, ClientView, Congestion, &'a str);
    let cases: &[Case<'_>] = &[
        ("unknown", adaptive(), 0.5, unknown(), Floor, "plain"),
        (
            "unknown, without floors",
            no_floor.clone(),
            0.5,
            unknown(),
            Cubic,
            "plain",
        ),
        ("held back", held_back, 0.5, bad, Cubic, "hold_back"),
        (
            "good path, all alike",
            adaptive(),
            1.0,
            known(GOOD),
            Floor,
            "fair",
        ),
        ("bad path, BBR as fast", adaptive(), 1.0, bad, Floor, "fair"),
        ("BBR 5 % faster", adaptive(), 0.95, bad, Floor, "fair"),
        ("BBR twice as fast", adaptive(), 0.5, bad, Bbr, "faster"),
        (
            "where CUBIC is five times slower",
            no_floor,
            1.0,
            bad,
            Bbr,
            "faster",
        ),
        (
            "BBR likely 18 % faster, not surely",
            adaptive(),
            0.85,
            bad,
            Floor,
            "fair",
        ),
        (
            "which keeps it",
            adaptive(),
            0.85,
            ClientView {
                congestion: kept(Bbr),
                ..bad
            },
            Bbr,
            "kept",
        ),
        (
            "until it gains too little",
            adaptive(),
            0.95,
            ClientView {
                congestion: kept(Bbr),
                ..bad
            },
            Floor,
            "fair",
        ),
        (
            "a floor that disappoints beside CUBIC",
            adaptive(),
            1.0,
            ClientView {
                outcome: by_arm([sure(0.0), sure(0.9), none]),
                ..known(GOOD)
            },
            Cubic,
            "faster",
        ),
        (
            "CUBIC that is as good",
            adaptive(),
            1.0,
            ClientView {
                outcome: by_arm([sure(0.0), sure(0.0), none]),
                congestion: kept(Cubic),
                ..known(GOOD)
            },
            Floor,
            "fair",
        ),
    ];
    for (name, policy, factor, view, want, code) in cases {
        let decision = decide(view, &bbr_takes(*factor), policy, &all(), now(), 1);
        assert_eq!(
            tcp(&decision),
            (*want, *code),
            "{name}: {}",
            decision.congestion.tcp
        );
    }
}

#[test]
fn a_control_that_may_gain_enough_is_tried_first() {
    let policy = PolicyConfig {
        trials: 3,
        version: VersionPolicy::H2,
        ..adaptive()
    };
    let decide = |factor, view: &ClientView| {
        let decision = decide(view, &bbr_takes(factor), &policy, &all(), now(), 1);
        (tcp(&decision), decision.group)
    };
    assert_eq!(decide(0.85, &known(BAD)), ((Bbr, "trial"), Group::Trial));
    assert_eq!(decide(0.95, &known(BAD)), ((Floor, "fair"), Group::Plain));
    let hidden = ClientView {
        tcp_is_hidden: true,
        ..known(BAD)
    };
    assert_eq!(decide(0.85, &hidden).1, Group::Plain, "never measured");
    let enough = ClientView {
        outcome: by_arm([outcomes(0.0, 3.0); 3]),
        ..known(BAD)
    };
    assert_eq!(decide(0.9, &enough), ((Floor, "fair"), Group::Plain));

    // A floor that disappoints has CUBIC tried, whatever the model says of both.
    let outcome = by_arm([Stat::default(), outcomes(0.5, 6.0), Stat::default()]);
    let disappointed = ClientView {
        outcome,
        own_outcome: outcome,
        ..known(GOOD)
    };
    assert_eq!(decide(1.0, &disappointed), ((Cubic, "trial"), Group::Trial));
}

#[test]
fn one_session_in_fifty_explores_any_arm_that_is_fair() {
    let policy = PolicyConfig {
        exploration: 0.125,
        ..adaptive()
    };
    let (mut versions, mut seen) = ([0; 2], [0; 3]);
    let explored = (0..4000).filter(|session| explores(*session, &policy));
    for session in explored.take(300) {
        let view = ClientView {
            session: crate::choice::Session(session),
            ..known(GOOD)
        };
        let decision = decide(&view, &synthetic(), &policy, &all(), now(), 1);
        assert_eq!(decision.group, Group::Explore);
        assert_eq!(
            decision.decided().congestion.tcp.is_none(),
            decision.version == Version::H2
        );
        versions[usize::from(decision.version == Version::H3)] += 1;
        seen[decision.congestion.tcp.congestion as usize] += 1;
    }
    assert!(versions.iter().all(|n| *n > 50), "{versions:?}");
    assert!(
        seen[Cubic as usize] > 50 && seen[Bbr as usize] == 0,
        "{seen:?}"
    );
}

/// Before the lab has measured a floor, the server knows no worse of it than of the others.
#[test]
fn an_unmeasured_floor_is_as_good_as_the_better_of_the_others() {
    let mut file = synthetic_file();
    file.arms.retain(|name, _| !name.ends_with("floor"));
    let model = Model::new(file).unwrap();
    let decision = decide(&known(BAD), &model, &adaptive(), &all(), now(), 1);
    assert_eq!(tcp(&decision), (Floor, "fair"));
    let [floor, bbr] = [Floor, Bbr].map(|congestion| {
        decision
            .load(Arm::over(Transport::Tcp, congestion))
            .unwrap()
    });
    assert_eq!(floor.time, bbr.time);
    assert!(floor.rel_sd > bbr.rel_sd);
}

#[test]
fn choices_are_clauses() {
    let clause = |factor, view: &ClientView| {
        let decision = decide(view, &bbr_takes(factor), &adaptive(), &all(), now(), 1);
        decision.congestion.quic.to_string()
    };
    assert_eq!(
        clause(1.0, &unknown()),
        "floor: the plain choice, too little is known"
    );
    assert_eq!(
        clause(1.0, &known(BAD)),
        "floor: the fairest, no other surely gains enough"
    );
    assert_eq!(
        clause(0.5, &known(BAD)),
        "bbr: lower bound of its gain over floor 81 %, needed 10 %"
    );
}

prop_compose! {
    fn sets()(tcp in 0usize..8, quic in 0usize..8) -> ByTransport<CongestionSet> {
        let set = |bits: usize| {
            let members: Vec<Congestion> =
                Congestion::ALL.into_iter().filter(|c| bits >> *c as usize & 1 == 1).collect();
            CongestionSet::of(&members)
        };
        ByTransport { tcp: set(tcp), quic: set(quic) }
    }
}

proptest! {
    #[test]
    fn only_candidates_are_chosen(
        view in views(),
        available in sets(),
        congestion in 0usize..3,
        min_cwnd in 0usize..3,
        exploration in 0.0f64..1.0,
        seed: u64,
    ) {
        let policy = PolicyConfig {
            congestion: [CongestionPolicy::Adaptive, CongestionPolicy::Cubic, CongestionPolicy::Bbr][congestion],
            min_cwnd: [MinCwnd::Adaptive, MinCwnd::Off, MinCwnd::Segments(9)][min_cwnd],
            exploration,
            trials: (seed % 4) as u8,
            ..PolicyConfig::default()
        };
        let decision = decide(&view, &synthetic(), &policy, &available, now(), seed);
        let candidates = policy.candidates(&available);
        for transport in Transport::ALL {
            let choice = decision.congestion.get(transport);
            let is_candidate = candidates.get(transport).contains(choice.congestion);
            prop_assert!(is_candidate || decision.assignment.is_held_back(), "{}", choice);
            prop_assert!(!choice.to_string().contains("NaN"));
        }
        for arm in Arm::ALL {
            let candidate = candidates.get(arm.version.transport()).contains(arm.congestion);
            prop_assert!(candidate || decision.load(arm).is_none(), "{}", arm);
        }
    }

    /// Where a fairer one is at hand, BBR has to be expected to gain its margin over the other choice.
    /// The prediction of the other may be better by as much as a change to it would need.
    #[test]
    fn bbr_is_never_chosen_without_its_margin(
        view in views(),
        factor in 0.3f64..1.2,
        exploration in 0.0f64..1.0,
        seed: u64,
    ) {
        let policy = PolicyConfig { exploration, ..PolicyConfig::default() };
        let decision = decide(&view, &bbr_takes(factor), &policy, &all(), now(), seed);
        for transport in Transport::ALL {
            let choice = decision.congestion.get(transport);
            if choice.congestion != Bbr {
                continue;
            }
            let secs = |congestion| decision.load(Arm::over(transport, congestion)).unwrap().time.as_secs_f64();
            let margin = 1.0 + policy.min_gain_bbr - 1e-4;
            prop_assert!(view.samples + 0.5 >= policy.min_samples as f32);
            prop_assert!(secs(Floor).max(secs(Cubic)) / secs(Bbr) > margin, "{}", choice);
            let over_floor = match choice.reason {
                Reason::Better(over) | Reason::Kept(over) => over.arm != Cubic,
                Reason::Trial(used) | Reason::Explore(used) => used.arm != Cubic,
                _ => true,
            };
            let fair = if over_floor { Floor } else { Cubic };
            prop_assert!(secs(fair) / secs(Bbr) > margin, "{} {}", choice, secs(fair) / secs(Bbr));
        }
    }
}
