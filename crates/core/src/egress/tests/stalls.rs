//! A route that stalls is left at once, and comes back.

use std::time::Duration;

use super::{
    AS, BEST, CLIENT, Criterion, EgressSet, NEIGHBOUR, OTHER, PLAIN, Route, RouteObservation,
    SEVERAL, STEERED, THIRD, World, addr, response,
};
use crate::egress::Blame;

impl World {
    pub(super) fn stall(&mut self, client: &str, route: Route) -> Blame {
        let carrier = route.carrier(self.candidates.plain_is);
        let (candidates, now) = (self.candidates, self.now);
        self.table
            .stalled(addr(client), AS, carrier, &candidates, now)
    }

    /// For how long a stall makes the client avoid its route; `None` where it is not the route's.
    fn avoided_after_stall(&mut self, client: &str, route: Route) -> Option<u64> {
        match self.stall(client, route) {
            Blame::Route { until } => Some(until.since(self.now).as_secs()),
            Blame::Client => None,
        }
    }
}

#[test]
fn a_stalled_route_is_left_at_once_and_taken_again_later() {
    for (kept, hold) in [(PLAIN, 10), (STEERED, 5)] {
        let mut world = World::new();
        world.see(CLIENT, PLAIN, 16, 10, 30);
        if kept == STEERED {
            world.see(CLIENT, STEERED, 16, 20, 30);
        }
        assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, kept);
        assert_eq!(world.avoided_after_stall(CLIENT, kept), Some(hold));
        for wants in Criterion::ALL {
            let decision = world.decide(CLIENT, wants);
            assert_ne!(decision.route, kept, "{decision:?}");
        }
        let decision = world.decide(CLIENT, Criterion::Goodput);
        assert_eq!(decision.reason.code(), "stalled", "{decision:?}");
        world.pass(hold);
        assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, kept);
    }
}

#[test]
fn beside_avoided_routes_the_usual_one_needs_no_samples() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 16, 10, 30);
    for route in [STEERED, Route::Steered(OTHER), Route::Steered(THIRD)] {
        world.see(CLIENT, route, 1, 10, 30);
        world.stall(CLIENT, route);
    }
    let decision = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!(decision.route, PLAIN, "{decision:?}");
    assert_eq!(decision.reason.code(), "no_gain", "{decision:?}");
}

#[test]
fn where_plain_stalls_the_best_of_the_others_is_taken() {
    let mut world = World::new();
    world.candidates.backup.insert(OTHER);
    world.stall(CLIENT, PLAIN);
    let others = world.decide(CLIENT, Criterion::Goodput).route;
    assert_eq!(others, Route::Steered(THIRD), "not the backup");
    world.stall(CLIENT, Route::Steered(THIRD));
    assert_eq!(
        world.decide(CLIENT, Criterion::Goodput).route,
        STEERED,
        "the backup"
    );

    let mut world = World::new();
    world.see(CLIENT, Route::Steered(THIRD), 2, 10, 30);
    world.stall(CLIENT, PLAIN);
    let known = world.decide(CLIENT, Criterion::Goodput).route;
    assert_eq!(known, Route::Steered(THIRD), "the one that is known");
}

#[test]
fn a_route_that_goes_on_stalling_is_avoided_for_longer() {
    let mut world = World::new();
    let mut holds = Vec::new();
    for _ in 0..9 {
        let hold = world.avoided_after_stall(CLIENT, STEERED).unwrap();
        // A further connection meets the same failure.
        assert_eq!(world.avoided_after_stall(CLIENT, STEERED), Some(hold));
        holds.push(hold);
        world.pass(hold + 1);
    }
    assert_eq!(holds, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
    // It has gone well for as long as it was avoided.
    world.pass(600);
    assert_eq!(world.avoided_after_stall(CLIENT, STEERED), Some(10));
}

#[test]
fn the_less_the_others_carry_the_sooner_it_is_tried_again() {
    // Mbit/s by the egress route of `STEERED`, where plain carries 80.
    for (other, hold) in [(None, 10), (Some(160), 10), (Some(40), 5), (Some(8), 2)] {
        let mut world = World::new();
        world.see(CLIENT, PLAIN, 16, 80, 30);
        if let Some(other) = other {
            world.see(CLIENT, STEERED, 16, other, 30);
        }
        let holds = [1, 2, 4].map(|times| {
            let avoided = world.avoided_after_stall(CLIENT, PLAIN);
            world.pass(hold * times + 1);
            avoided
        });
        let doubled = [1, 2, 4].map(|times| Some(hold * times));
        assert_eq!(holds, doubled, "{other:?} Mbit/s");
    }
    // A route that has stalled as well carries nothing.
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 16, 80, 30);
    world.see(CLIENT, STEERED, 16, 8, 30);
    world.stall(CLIENT, STEERED);
    assert_eq!(world.avoided_after_stall(CLIENT, PLAIN), Some(10));
}

#[test]
fn a_route_that_only_paused_is_taken_again_unless_a_neighbour_stalled_too() {
    for (neighbour_stalls, want) in [(false, PLAIN), (true, STEERED)] {
        let mut world = World::new();
        world.see(CLIENT, STEERED, 2, 10, 30);
        world.stall(CLIENT, PLAIN);
        if neighbour_stalls {
            world.stall(NEIGHBOUR, PLAIN);
        }
        let carrier = PLAIN.carrier(world.candidates.plain_is);
        world.table.delivers(addr(CLIENT), carrier, world.now);
        let route = world.decide(CLIENT, Criterion::Goodput).route;
        assert_eq!(route, want, "the neighbour stalls: {neighbour_stalls}");
    }
}

#[test]
fn one_clients_trouble_does_not_move_its_neighbours() {
    let mut world = World::new();
    world.stall(CLIENT, PLAIN);
    assert_eq!(world.decide(NEIGHBOUR, Criterion::Goodput).route, PLAIN);
    // Two clients' does.
    world.pass(1);
    world.stall(NEIGHBOUR, PLAIN);
    for client in [CLIENT, NEIGHBOUR, "192.0.2.3"] {
        assert_ne!(
            world.decide(client, Criterion::Goodput).route,
            PLAIN,
            "{client}"
        );
    }
    let elsewhere = world.decide("198.51.100.1", Criterion::Goodput);
    assert_eq!(elsewhere.route, PLAIN);
}

/// A world of two routes, in which two neighbours of the client have stalled on the one that is steered.
fn blamed_by_others() -> World {
    let mut world = World::new();
    world.candidates.egresses = [BEST, OTHER].into_iter().collect();
    world.see(CLIENT, PLAIN, 6, 10, 30);
    world.see(CLIENT, STEERED, 6, 20, 30);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, STEERED);
    for client in [NEIGHBOUR, "192.0.2.3"] {
        world.stall(client, STEERED);
    }
    let decision = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!((decision.route, decision.reason.code()), (PLAIN, "stalled"));
    world
}

#[test]
fn a_route_that_delivers_to_one_client_is_avoided_by_its_own_stalls_alone() {
    let mut world = blamed_by_others();
    world.see("192.0.2.4", STEERED, 1, 20, 30);
    let soon = world.decide(CLIENT, Criterion::Goodput).route;
    assert_eq!(soon, PLAIN, "these packets may have been under way");
    world.pass(2);
    let silent = RouteObservation {
        bytes: 0,
        ..response(20, 30)
    };
    world.learn("192.0.2.4", STEERED, &silent);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
    world.see("192.0.2.4", STEERED, 1, 20, 30);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, STEERED);
    let view = world.table.view(addr(NEIGHBOUR), AS, world.now);
    let avoided_for = view.quality(STEERED, Some(BEST)).avoided_for;
    assert!(
        avoided_for.is_some(),
        "it may reach others and not this one"
    );
}

#[test]
fn a_client_that_stalls_looks_for_itself_where_others_have_stalled() {
    let mut world = blamed_by_others();
    assert_eq!(world.avoided_after_stall(CLIENT, PLAIN), Some(10));
    let decision = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!((decision.route, decision.reason.code()), (STEERED, "kept"));
    // It has tried both.
    assert_eq!(world.avoided_after_stall(CLIENT, STEERED), None);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
}

#[test]
fn where_all_routes_stall_none_is_blamed() {
    let mut world = World::new();
    for _ in 0..3 {
        world.see(CLIENT, PLAIN, 16, 10, 30);
        assert_eq!(world.avoided_after_stall(CLIENT, PLAIN), Some(10));
        world.pass(1);
        assert_eq!(world.avoided_after_stall(CLIENT, STEERED), Some(10));
        world.pass(1);
        let last = world.avoided_after_stall(CLIENT, Route::Steered(THIRD));
        assert_eq!(last, None, "all three have stalled");
        let decision = world.decide(CLIENT, Criterion::Goodput);
        assert_eq!(
            (decision.route, decision.reason.code()),
            (PLAIN, "too_few_samples")
        );
        // For a while it goes on without blame.
        world.pass(5);
        assert_eq!(world.avoided_after_stall(CLIENT, PLAIN), None);
        let view = world.table.view(addr(CLIENT), AS, world.now);
        let plain = view.quality(PLAIN, world.candidates.plain_is);
        assert_eq!(plain.stalls_per_hour(), Some(0.0), "none is counted");
        world.pass(5);
    }
}

#[test]
fn without_another_route_stalls_are_the_clients() {
    let mut world = World::new();
    world.candidates.egresses = EgressSet::EMPTY;
    assert_eq!(world.avoided_after_stall(CLIENT, PLAIN), None);
    world.candidates.egresses.insert(BEST);
    assert_eq!(world.avoided_after_stall(CLIENT, PLAIN), None);
}

#[test]
fn several_that_stall_leave_the_single_ones() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 16, 10, 30);
    world.see(CLIENT, SEVERAL, 16, 30, 30);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, SEVERAL);
    assert_eq!(world.avoided_after_stall(CLIENT, SEVERAL), Some(3));
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
    world.pass(3);
    let decision = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!((decision.route, decision.reason.code()), (SEVERAL, "kept"));
}

#[test]
fn live_content_takes_the_route_that_stalls_least() {
    let mut world = World::new();
    let minute = RouteObservation {
        bytes: 60_000_000,
        duration: Duration::from_secs(60),
        ..response(8, 30)
    };
    let stalled = RouteObservation {
        stalled: Duration::from_secs(2),
        ..minute
    };
    for _ in 0..30 {
        world.learn(CLIENT, STEERED, &minute);
    }
    for n in 0..30 {
        let stalls = n % 6 == 0;
        world.learn(CLIENT, PLAIN, if stalls { &stalled } else { &minute });
        if stalls {
            world.stall(CLIENT, PLAIN);
        }
        world.pass(60);
    }
    let decision = world.decide(CLIENT, Criterion::Stall);
    assert_eq!(
        (decision.route, decision.reason.code()),
        (STEERED, "fewer_stalls")
    );
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
    // Both go well for a day: the past is forgotten, and nothing speaks for leaving plain.
    for _ in 0..4 {
        world.pass(6 * 3600);
        for _ in 0..30 {
            world.learn(CLIENT, PLAIN, &minute);
            world.learn(CLIENT, STEERED, &minute);
        }
    }
    let decision = world.decide(CLIENT, Criterion::Stall);
    assert_eq!(decision.route, PLAIN, "{decision:?}");
}
