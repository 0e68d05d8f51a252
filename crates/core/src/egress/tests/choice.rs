//! Which route is chosen, and the evidence that changes it.

use super::*;

#[test]
fn a_surely_better_route_is_chosen() {
    use Criterion::{Goodput, Rtt, Stall};
    // name, wants, [(route, responses, Mbit/s, RTT in ms)], route, reason
    type Case<'a> = (
        &'a str,
        Criterion,
        &'a [(Route, usize, u64, u64)],
        Route,
        &'a str,
    );
    let cases: &[Case<'_>] = &[
        ("nothing is known", Goodput, &[], PLAIN, "too_few_samples"),
        (
            "plain alone is known",
            Goodput,
            &[(PLAIN, 20, 10, 30)],
            PLAIN,
            "too_few_samples",
        ),
        (
            "the other alone is known",
            Goodput,
            &[(STEERED, 20, 10, 30)],
            PLAIN,
            "too_few_samples",
        ),
        (
            "one response is too few, however fast",
            Goodput,
            &[(PLAIN, 20, 10, 30), (STEERED, 1, 90, 30)],
            PLAIN,
            "too_few_samples",
        ),
        (
            "two are enough where they differ very much",
            Goodput,
            &[(PLAIN, 20, 10, 30), (STEERED, 2, 20, 30)],
            STEERED,
            "more_goodput",
        ),
        (
            "but not for what eight would prove",
            Goodput,
            &[(PLAIN, 20, 10, 30), (STEERED, 2, 14, 30)],
            PLAIN,
            "too_few_samples",
        ),
        (
            "as eight do",
            Goodput,
            &[(PLAIN, 20, 10, 30), (STEERED, 8, 14, 30)],
            STEERED,
            "more_goodput",
        ),
        (
            "the other is twice as fast",
            Goodput,
            &[(PLAIN, 20, 10, 30), (STEERED, 8, 20, 30)],
            STEERED,
            "more_goodput",
        ),
        (
            "a gain that is not sure",
            Goodput,
            &[(PLAIN, 20, 20, 30), (STEERED, 4, 23, 30)],
            PLAIN,
            "no_gain",
        ),
        (
            "a gain that is too small",
            Goodput,
            &[(PLAIN, 99, 100, 30), (STEERED, 99, 103, 30)],
            PLAIN,
            "no_gain",
        ),
        (
            "several are better than the best single one",
            Goodput,
            &[
                (PLAIN, 20, 10, 30),
                (STEERED, 16, 20, 30),
                (SEVERAL, 16, 30, 30),
            ],
            SEVERAL,
            "more_goodput",
        ),
        (
            "several are better than plain, but not than the best single one",
            Goodput,
            &[
                (PLAIN, 20, 10, 30),
                (STEERED, 16, 20, 30),
                (SEVERAL, 16, 20, 30),
            ],
            STEERED,
            "more_goodput",
        ),
        (
            "interactive content wants the shorter one, however slow",
            Rtt,
            &[(PLAIN, 20, 100, 60), (STEERED, 20, 10, 30)],
            STEERED,
            "shorter_rtt",
        ),
        (
            "bulk content does not",
            Goodput,
            &[(PLAIN, 20, 100, 60), (STEERED, 20, 10, 30)],
            PLAIN,
            "no_gain",
        ),
        (
            "live content without stalls wants the shorter one",
            Stall,
            &[(PLAIN, 20, 20, 60), (STEERED, 20, 15, 30)],
            STEERED,
            "shorter_rtt",
        ),
        (
            "but enough goodput before that",
            Stall,
            &[(PLAIN, 20, 20, 60), (STEERED, 20, 4, 30)],
            PLAIN,
            "no_gain",
        ),
        (
            "so that a longer one may be better",
            Stall,
            &[(PLAIN, 20, 4, 30), (STEERED, 20, 20, 60)],
            STEERED,
            "more_goodput",
        ),
    ];
    for (name, wants, seen, route, code) in cases {
        let mut world = World::new();
        for &(route, times, mbps, rtt) in *seen {
            world.see(CLIENT, route, times, mbps, rtt);
        }
        let decision = world.decide(CLIENT, *wants);
        let got = (decision.route, decision.reason.code());
        assert_eq!(got, (*route, *code), "{name}: {decision:?}");
    }
}

#[test]
fn routes_of_one_rtt_differ_by_loss() {
    let mut world = World::new();
    for (route, lost) in [(PLAIN, 14), (STEERED, 0)] {
        for _ in 0..20 {
            let seen = RouteObservation {
                packets_lost: lost,
                ..response(20, 30)
            };
            world.learn(CLIENT, route, &seen);
        }
    }
    let decision = world.decide(CLIENT, Criterion::Rtt);
    assert_eq!(
        (decision.route, decision.reason.code()),
        (STEERED, "less_loss")
    );
}

#[test]
fn operators_have_the_last_word() {
    let all = World::new().candidates;
    let of = |mode, egresses: &[EgressId]| Candidates {
        mode,
        allowed: egresses.iter().copied().collect(),
        ..all
    };
    let named = |egress| Candidates {
        named: Some(egress),
        ..all
    };
    let alone = Candidates {
        egresses: EgressSet::EMPTY,
        mptcp: Mptcp::None,
        ..all
    };
    // name, policy.route, candidates, route, reason
    type Case<'a> = (&'a str, &'a str, Candidates, Route, &'a str);
    let cases: &[Case<'_>] = &[
        ("all pinned to plain", "plain", all, PLAIN, "pinned"),
        ("to a path", "transit-b", named(OTHER), STEERED, "pinned"),
        (
            "to the path that plain takes, which BGP may change",
            "transit-a",
            named(BEST),
            Route::Steered(BEST),
            "pinned",
        ),
        (
            "to one that there is not",
            "transit-z",
            all,
            PLAIN,
            "pinned_missing",
        ),
        (
            "to one that is down",
            "transit-b",
            Candidates {
                egresses: [BEST].into_iter().collect(),
                ..named(OTHER)
            },
            PLAIN,
            "pinned_missing",
        ),
        ("to several", "aggregate", all, SEVERAL, "pinned"),
        ("without MPTCP", "aggregate", alone, PLAIN, "pinned_missing"),
        (
            "policy: plain",
            "adaptive",
            of(Mode::Plain, &[]),
            PLAIN,
            "policy",
        ),
        (
            "policy: several",
            "adaptive",
            of(Mode::Aggregated, &[]),
            SEVERAL,
            "policy",
        ),
        (
            "policy: one path",
            "adaptive",
            Candidates {
                mptcp: Mptcp::None,
                ..of(Mode::Steered, &[THIRD])
            },
            Route::Steered(THIRD),
            "policy",
        ),
        (
            "policy: the better of two",
            "adaptive",
            of(Mode::Steered, &[OTHER, THIRD]),
            STEERED,
            "no_gain",
        ),
        (
            "policy: of these paths",
            "adaptive",
            of(Mode::Adaptive, &[BEST, THIRD]),
            PLAIN,
            "no_gain",
        ),
        ("no path", "adaptive", alone, PLAIN, "only"),
    ];
    for (name, egress, candidates, route, code) in cases {
        let mut world = World::with(PolicyConfig {
            route: egress.parse().unwrap(),
            exploration: 0.0,
            holdback: 0.0,
            ..PolicyConfig::default()
        });
        world.see(CLIENT, PLAIN, 20, 10, 30);
        world.see(CLIENT, STEERED, 20, 20, 30);
        world.see(CLIENT, Route::Steered(THIRD), 20, 5, 30);
        world.candidates = *candidates;
        let decision = world.decide(CLIENT, Criterion::Goodput);
        let got = (decision.route, decision.reason.code());
        assert_eq!(got, (*route, *code), "{name}: {decision:?}");
    }
}

/// Packets that go plain are lost in a border that is dead, until BGP notices.
#[test]
fn nobody_stays_on_plain_while_its_border_is_dead() {
    let others: EgressSet = [OTHER, THIRD].into_iter().collect();
    // policy.route, hold-back share, the routes that are up, expected route
    let cases = [
        ("adaptive", 0.0, others, STEERED),
        ("adaptive", 1.0, others, STEERED),
        ("transit-a", 0.0, others, STEERED),
        ("plain", 0.0, others, PLAIN),
        ("adaptive", 0.0, EgressSet::EMPTY, PLAIN),
    ];
    for (route, holdback, egresses, want) in cases {
        let mut world = World::with(PolicyConfig {
            route: route.parse().unwrap(),
            exploration: 0.0,
            holdback,
            ..PolicyConfig::default()
        });
        world.see(CLIENT, PLAIN, 20, 90, 30);
        world.candidates = Candidates {
            plain_is_dead: true,
            egresses,
            named: Some(BEST),
            mptcp: Mptcp::None,
            ..world.candidates
        };
        let decision = world.decide(CLIENT, Criterion::Goodput);
        assert_eq!(
            decision.route, want,
            "{route} with a hold-back of {holdback}: {decision:?}"
        );
    }
}

#[test]
fn the_hold_back_group_stays_on_plain() {
    let mut world = World::with(PolicyConfig {
        holdback: 1.0,
        ..PolicyConfig::default()
    });
    world.see(CLIENT, PLAIN, 20, 10, 30);
    world.see(CLIENT, STEERED, 20, 20, 30);
    let decision = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!((decision.route, decision.group), (PLAIN, Group::HoldBack));
}

#[test]
fn a_chosen_route_is_kept_until_it_is_expected_to_be_worse() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 16, 10, 30);
    world.see(CLIENT, STEERED, 16, 20, 30);
    assert_eq!(
        world.decide(CLIENT, Criterion::Goodput).reason.code(),
        "more_goodput"
    );
    // Twelve hours later plain has faded, and hardly anything could be proved against it.
    world.pass(12 * 3600);
    world.see(CLIENT, STEERED, 16, 20, 30);
    let decision = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!((decision.route, decision.reason.code()), (STEERED, "kept"));
    // It gets worse than plain was: back at once, without proof.
    world.see(CLIENT, STEERED, 48, 9, 30);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
    // Other criteria were not kept on anything.
    assert_eq!(world.decide(CLIENT, Criterion::Rtt).route, PLAIN);
}

#[test]
fn several_are_left_when_they_harm() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 16, 20, 30);
    world.see(CLIENT, SEVERAL, 16, 30, 30);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, SEVERAL);
    // A client without MPTCP does not change that for its neighbours.
    world.candidates.mptcp = Mptcp::None;
    assert_eq!(world.decide(NEIGHBOUR, Criterion::Goodput).route, PLAIN);
    world.candidates.mptcp = Mptcp::Taken;
    world.see(CLIENT, SEVERAL, 16, 21, 30);
    let decision = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!((decision.route, decision.reason.code()), (SEVERAL, "kept"));
    world.see(CLIENT, SEVERAL, 48, 18, 30);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
}

#[test]
fn backups_are_never_explored() {
    let mut world = World::with(PolicyConfig {
        exploration: 1.0,
        holdback: 0.0,
        ..PolicyConfig::default()
    });
    world.candidates.mptcp = Mptcp::None;
    world.candidates.backup.insert(OTHER);
    let unknown = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!(unknown.route, PLAIN, "there is nothing to compare with");
    world.see(CLIENT, PLAIN, 2, 10, 30);
    let decision = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!(
        (decision.route, decision.group),
        (Route::Steered(THIRD), Group::Explore)
    );
    world.candidates.backup.insert(THIRD);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
}

#[test]
fn mptcp_that_is_rare_explores_several_egresses_and_nothing_else() {
    let explored = |mptcp, exploration: f64| {
        let mut world = World::with(PolicyConfig {
            exploration,
            holdback: 0.0,
            ..PolicyConfig::default()
        });
        world.candidates.mptcp = mptcp;
        world.see(CLIENT, PLAIN, 2, 10, 30);
        let view = world.table.view(addr(CLIENT), AS, world.now);
        let decide = |session| {
            let (wants, candidates) = (Criterion::Goodput.into(), &world.candidates);
            decide_route(
                &view,
                wants,
                candidates,
                &world.policy,
                Session(session).into(),
                1,
            )
        };
        let decisions = (0..10_000).map(decide);
        let mut explored: Vec<_> = decisions
            .filter(|decision| decision.group == Group::Explore)
            .map(|decision| decision.route)
            .collect();
        let share = explored.len() as f64 / 10_000.0;
        explored.sort_unstable_by_key(|route| format!("{route:?}"));
        explored.dedup();
        (share, explored)
    };
    let singles = [STEERED, Route::Steered(THIRD)];
    let (share, routes) = explored(Mptcp::Refused, 0.02);
    assert!((0.004..0.008).contains(&share), "the rest: {share}");
    assert_eq!(routes, singles);
    let (share, routes) = explored(Mptcp::None, 0.02);
    assert!((0.016..0.024).contains(&share), "the share: {share}");
    assert_eq!(routes, singles);
    let (share, routes) = explored(Mptcp::Taken, 0.02);
    assert!((0.016..0.024).contains(&share), "the share: {share}");
    assert_eq!(routes, [&[SEVERAL], &singles[..]].concat());
    assert_eq!(explored(Mptcp::Drawn, 0.02), (1.0, vec![SEVERAL]));
}

#[test]
fn mptcp_is_for_clients_that_get_or_explore_several_egresses() {
    let mut world = World::new();
    let shares = |world: &World, seed| {
        let view = world.table.view(addr(CLIENT), AS, world.now);
        let near = world.table.view_of_newcomer(addr(CLIENT), AS, world.now);
        [view, near].map(|view| {
            let (wants, candidates) = (Criterion::Goodput.into(), &world.candidates);
            mptcp_share(&view, wants, candidates, &world.policy, seed)
        })
    };
    let policy = PolicyConfig {
        exploration: 0.02,
        holdback: 0.0,
        ..PolicyConfig::default()
    };
    world.policy = Arc::new(policy);
    let unknown = world.policy.unknown_mptcp_share();
    assert_eq!(shares(&world, None), [unknown; 2], "nothing is known");
    for neighbour in 2..9 {
        let neighbour = format!("192.0.2.{neighbour}");
        world.see(&neighbour, PLAIN, 4, 20, 30);
        world.see(&neighbour, SEVERAL, 4, 40, 30);
    }
    assert_eq!(shares(&world, None), [1.0, 1.0], "neighbours gain by it");
    world.see(CLIENT, PLAIN, 16, 20, 30);
    world.see(CLIENT, SEVERAL, 16, 10, 30);
    assert_eq!(shares(&world, None), [0.0, 1.0], "the client does not");
    world.table.forget(Scope::Address(addr(CLIENT)));
    let policy = PolicyConfig {
        holdback: 1.0,
        ..PolicyConfig::clone(&world.policy)
    };
    world.policy = Arc::new(policy);
    assert_eq!(shares(&world, Some(1)), [0.0, 0.0], "all are held back");
    assert_eq!(shares(&world, None), [1.0, 1.0], "nobody in particular");
    world.candidates.mode = Mode::Aggregated;
    assert_eq!(shares(&world, Some(1)), [1.0, 1.0], "the operator says so");
    world.candidates.mode = Mode::Steered;
    assert_eq!(
        shares(&world, Some(1)),
        [0.0, 0.0],
        "one path is what he wants"
    );
}

/// Routes by which nobody gains any more leave their sessions to those that may gain.
#[test]
fn a_route_not_worth_knowing_is_not_explored() {
    let share = |known: &[(Route, u64)]| {
        let mut world = World::with(PolicyConfig {
            exploration: 0.02,
            holdback: 0.0,
            ..PolicyConfig::default()
        });
        world.see(CLIENT, PLAIN, 16, 20, 30);
        for (route, mbps) in known {
            world.see(CLIENT, *route, 16, *mbps, 30);
        }
        let view = world.table.view(addr(CLIENT), AS, world.now);
        let mut explored = |mptcp| {
            world.candidates.mptcp = mptcp;
            let (wants, candidates) = (Criterion::Goodput.into(), &world.candidates);
            let decide = |session| {
                decide_route(
                    &view,
                    wants,
                    candidates,
                    &world.policy,
                    Session(session).into(),
                    1,
                )
            };
            let explores = |session: &u32| decide(*session).group == Group::Explore;
            (0..20_000).filter(explores).count() as f64 / 20_000.0
        };
        let of_refused = explored(Mptcp::Refused);
        let of_all = explored(Mptcp::Taken);
        let (wants, candidates) = (Criterion::Goodput.into(), &world.candidates);
        let several = mptcp_share(&view, wants, candidates, &world.policy, Some(1));
        (several, of_refused, of_all)
    };
    let is_near = |share: f64, expected: f64| (share - expected).abs() < 0.004;
    let third = Route::Steered(THIRD);

    let (several, of_refused, of_all) = share(&[]);
    assert!((several - 0.014).abs() < 1e-9, "several come first");
    assert!(is_near(of_refused, 0.006) && is_near(of_all, 0.02));
    let (several, of_refused, of_all) = share(&[(SEVERAL, 20)]);
    assert!((several - 0.006).abs() < 1e-9, "then what is not known");
    assert!(is_near(of_refused, 0.014) && is_near(of_all, 0.02));
    let (several, ..) = share(&[(SEVERAL, 20), (STEERED, 20), (third, 20)]);
    assert_eq!(several, 0.01, "as much for both");
    let (several, of_refused, of_all) = share(&[(STEERED, 5), (third, 5)]);
    assert_eq!(several, 0.02, "single paths are poor");
    assert!(of_refused == 0.0 && is_near(of_all, 0.02));
    let (several, of_refused, of_all) = share(&[(SEVERAL, 10)]);
    assert_eq!(several, 0.0, "several are poor");
    assert!(is_near(of_refused, 0.02) && is_near(of_all, 0.02));
    let (several, of_refused, of_all) = share(&[(SEVERAL, 10), (STEERED, 5), (third, 5)]);
    assert_eq!((several, of_refused, of_all), (0.0, 0.0, 0.0), "all are");
}
