//! The knowledge of a client, its prefix and its AS, and for how many of them.

use super::*;

#[test]
fn a_new_prefix_starts_with_the_samples_of_its_as() {
    let mut world = World::new();
    // Access lines differ by far more than the egress routes do.
    for (n, mbps) in (0..8).zip([5, 200, 20, 80, 10, 150, 40, 8]) {
        let client = format!("198.51.{n}.1");
        world.see(&client, PLAIN, 8, mbps, 30);
        world.see(&client, STEERED, 2, 2 * mbps, 20);
    }
    let new = "203.0.113.1";
    assert_eq!(
        world.goodput(new, PLAIN),
        None,
        "differences alone are known"
    );
    let decision = world.decide(new, Criterion::Goodput);
    assert_eq!(decision.route, STEERED, "{decision:?}");
    assert_eq!(world.decide(new, Criterion::Rtt).route, STEERED);

    // Its own samples count more.
    world.see(new, STEERED, 6, 10, 30);
    world.see(new, PLAIN, 6, 30, 30);
    let decision = world.decide(new, Criterion::Goodput);
    assert_eq!(decision.route, PLAIN, "{decision:?}");

    let foreign = world.table.view(addr("203.0.114.1"), Some(1), world.now);
    let quality = foreign.quality(STEERED, world.candidates.plain_is);
    assert_eq!(
        quality.samples(Criterion::Goodput.into()),
        0.0,
        "another AS"
    );
}

#[test]
fn a_change_common_to_all_routes_says_nothing_of_their_difference() {
    let mut world = World::new();
    for n in 0..8 {
        let client = format!("198.51.{n}.1");
        world.see(&client, PLAIN, 8, 40, 30);
        world.see(&client, STEERED, 2, 36, 30);
    }
    world.pass(3 * 3600);
    // In the evening all is slower, as plain's responses show.
    for n in 0..8 {
        world.see(&format!("198.51.{n}.1"), PLAIN, 40, 10, 30);
    }
    let decision = world.decide("203.0.113.1", Criterion::Goodput);
    assert_eq!(decision.route, PLAIN, "{decision:?}");
}

#[test]
fn plain_and_its_egress_are_known_as_one() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 20, 10, 30);
    world.see(CLIENT, STEERED, 20, 20, 30);
    assert_eq!(
        world.goodput(CLIENT, Route::Steered(BEST)),
        world.goodput(CLIENT, PLAIN)
    );
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, STEERED);
    // BGP chooses the better one: plain takes it, and there is nothing to gain by a mark.
    world.candidates.plain_is = Some(OTHER);
    assert!((world.goodput(CLIENT, PLAIN).unwrap() - 20.0).abs() < 0.1);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
}

#[test]
fn app_limited_responses_raise_a_goodput_but_never_lower_it() {
    let mut world = World::new();
    let limited = |mbps| RouteObservation {
        app_limited: true,
        ..response(mbps, 30)
    };
    world.see(CLIENT, PLAIN, 16, 20, 30);
    for _ in 0..20 {
        world.learn(CLIENT, PLAIN, &limited(2));
    }
    assert!((world.goodput(CLIENT, PLAIN).unwrap() - 20.0).abs() < 0.1);
    for _ in 0..40 {
        world.learn(CLIENT, PLAIN, &limited(40));
    }
    assert!(world.goodput(CLIENT, PLAIN).unwrap() > 30.0);
    // Alone they are worth little: nothing is decided by them.
    for _ in 0..20 {
        world.learn(NEIGHBOUR, STEERED, &limited(2));
    }
    assert_eq!(world.asked(CLIENT, Criterion::Goodput).route, PLAIN);
}

#[test]
fn tables_are_bounded_and_forget() {
    let mut world = World::new();
    for n in 0..3000 {
        let client = format!("10.{}.{}.1", n / 256, n % 256);
        world.see(&client, PLAIN, 1, 10, 30);
    }
    assert_eq!((world.table.len(), world.table.capacity()), (1000, 1000));
    world.see(CLIENT, STEERED, 8, 10, 30);
    let prefix = "192.0.2.0/24".parse().unwrap();
    assert_eq!(
        world.table.forget(Scope::Prefix(prefix)),
        2,
        "and the client"
    );
    assert_eq!(world.goodput(CLIENT, STEERED), None);
    for (client, other) in [(CLIENT, NEIGHBOUR), ("2001:db8:1::1", "2001:db8:1:0ff::1")] {
        world.see(client, STEERED, 8, 10, 30);
        let forgotten = world.table.forget(Scope::Address(addr(other)));
        assert_eq!(
            forgotten,
            usize::from(client != CLIENT),
            "a /56 is one client"
        );
    }
    assert_eq!(world.table.forget(Scope::Address(addr(CLIENT))), 1);
    assert_eq!(world.goodput(CLIENT, STEERED), None);
    world.see(CLIENT, STEERED, 8, 10, 30);
    world.see(CLIENT, PLAIN, 8, 10, 30);
    world.table.forget_egress(OTHER);
    assert_eq!(world.goodput(CLIENT, STEERED), None);
    assert!(world.goodput(CLIENT, PLAIN).is_some());
    world.table.forget(Scope::All);
    assert!(world.table.is_empty());
}
