//! A route that is fast at first may be slow later.

use super::*;

const SHORT: Wants = Wants {
    criterion: Criterion::Goodput,
    phase: Phase::Startup,
};
const LONG: Wants = Wants {
    criterion: Criterion::Goodput,
    phase: Phase::Sustained,
};

impl World {
    /// Seconds of long responses, after their first.
    fn see_later(&mut self, client: &str, route: Route, times: usize, mbps: u64) {
        for _ in 0..times {
            let seen = RouteObservation {
                phase: Phase::Sustained,
                ..response(mbps, 40)
            };
            self.learn(client, route, &seen);
        }
    }
}

#[test]
fn goodputs_are_compared_within_a_phase() {
    /// A route's goodput at first and later in Mbit/s, 0 for none seen.
    type Seen = (Route, [u64; 2]);
    // name, [seen], route of short and of long responses
    type Case = (&'static str, &'static [Seen], [Route; 2]);
    let cases: &[Case] = &[
        (
            "long ones by one, and short ones by both",
            &[(PLAIN, [25, 0]), (STEERED, [22, 28])],
            [PLAIN, PLAIN],
        ),
        (
            "each phase has its best",
            &[(PLAIN, [20, 40]), (STEERED, [40, 20])],
            [STEERED, PLAIN],
        ),
        (
            "far better at first is taken for better later, too",
            &[(PLAIN, [10, 0]), (STEERED, [30, 0])],
            [STEERED, STEERED],
        ),
        (
            "a little better at first says little of later",
            &[(PLAIN, [20, 0]), (STEERED, [26, 0])],
            [STEERED, PLAIN],
        ),
        (
            "and the other way round",
            &[(PLAIN, [0, 20]), (STEERED, [0, 26])],
            [PLAIN, STEERED],
        ),
        (
            "several paths gain later",
            &[(PLAIN, [20, 0]), (SEVERAL, [22, 0])],
            [PLAIN, SEVERAL],
        ),
        (
            "and lose at first",
            &[(PLAIN, [0, 20]), (SEVERAL, [0, 32])],
            [PLAIN, SEVERAL],
        ),
        (
            "unless both are seen",
            &[(PLAIN, [20, 20]), (SEVERAL, [30, 30])],
            [SEVERAL, SEVERAL],
        ),
        (
            "nothing alike is known",
            &[(PLAIN, [10, 0]), (STEERED, [0, 50])],
            [PLAIN, PLAIN],
        ),
    ];
    for (name, seen, routes) in cases {
        let mut world = World::new();
        for (route, [first, later]) in *seen {
            if *first > 0 {
                world.see(CLIENT, *route, 16, *first, 40);
            }
            if *later > 0 {
                world.see_later(CLIENT, *route, 16, *later);
            }
        }
        let chosen = [SHORT, LONG].map(|wants| world.decide(CLIENT, wants).route);
        assert_eq!(chosen, *routes, "{name}");
    }
}

#[test]
fn many_samples_of_unlike_phases_are_no_proof() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 16, 20, 40);
    // A session that explored: one long response.
    world.see(CLIENT, STEERED, 1, 40, 40);
    world.see_later(CLIENT, STEERED, 15, 40);
    for wants in [SHORT, LONG] {
        let decision = world.decide(CLIENT, wants);
        assert_eq!(decision.route, PLAIN, "{decision:?}");
        assert_eq!(decision.reason.code(), "too_few_samples");
    }
    world.see(CLIENT, STEERED, 3, 40, 40);
    assert_eq!(world.decide(CLIENT, SHORT).route, STEERED);
}

#[test]
fn live_content_is_compared_in_the_phase_that_is_best_known() {
    // name, of STEERED in Mbit/s then, where PLAIN has 20
    let cases = [("enough goodput", 15, STEERED), ("too little", 4, PLAIN)];
    for later in [false, true] {
        for (name, mbps, route) in cases {
            let mut world = World::new();
            for (of, mbps, rtt) in [(PLAIN, 20, 60), (STEERED, mbps, 20)] {
                for _ in 0..16 {
                    let seen = RouteObservation {
                        phase: [Phase::Startup, Phase::Sustained][usize::from(later)],
                        ..response(mbps, rtt)
                    };
                    world.learn(CLIENT, of, &seen);
                }
            }
            for phase in Phase::ALL {
                let wants = Wants {
                    criterion: Criterion::Stall,
                    phase,
                };
                let chosen = world.decide(CLIENT, wants).route;
                assert_eq!(chosen, route, "{name}, {phase:?}, later: {later}");
            }
        }
    }
}

#[test]
fn each_phase_keeps_to_its_choice() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 8, 10, 40);
    world.see(CLIENT, STEERED, 8, 20, 40);
    world.see_later(CLIENT, PLAIN, 8, 20);
    world.see_later(CLIENT, STEERED, 8, 10);
    for _ in 0..2 {
        assert_eq!(world.decide(CLIENT, SHORT).route, STEERED);
        assert_eq!(world.decide(CLIENT, LONG).route, PLAIN);
    }
    let reason = world.decide(CLIENT, SHORT).reason.code();
    assert_eq!(reason, "kept");
}

#[test]
fn responses_over_two_seconds_are_long() {
    let mut world = World::new();
    let phase_of = |world: &World, bytes| {
        let view = world.table.view(addr(CLIENT), AS, world.now);
        view.phase_of(bytes)
    };
    // Of a client that is not known, at 16 Mbit/s.
    assert_eq!(phase_of(&world, 4_000_000), Phase::Startup);
    assert_eq!(phase_of(&world, 4_000_001), Phase::Sustained);
    let turns = |world: &World, bytes: u64| {
        [bytes * 99 / 100, bytes * 101 / 100].map(|bytes| phase_of(world, bytes))
    };
    let both = [Phase::Startup, Phase::Sustained];
    world.see(CLIENT, PLAIN, 8, 80, 40);
    assert_eq!(turns(&world, 20_000_000), both);
    world.see_later(CLIENT, PLAIN, 8, 160);
    assert_eq!(turns(&world, 30_000_000), both, "a second of each");
    world.see(CLIENT, STEERED, 8, 20, 40);
    assert_eq!(turns(&world, 25_000_000), both, "a mean over its routes");
    assert_eq!(phase_of(&world, u64::MAX), Phase::Sustained);
}
