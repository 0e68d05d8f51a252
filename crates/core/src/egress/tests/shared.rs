//! Prefixes whose routes other edges of the PoP have observed.

use proptest::prelude::*;

use super::properties::{client, event};
use super::*;
use crate::client::key::Prefix;
use crate::egress::{RemoteRoutes, RouteContribution, RouteContributions, RoutesElsewhere};
use crate::fleet::{Pop, Register};

const CONFIG: TableConfig = TableConfig {
    max_records: 64,
    hash_key: [5, 6],
    journal: false,
};

fn pop() -> Pop {
    Pop::named("fra1")
}

fn names() -> EgressNames {
    let mut names = EgressNames::default();
    assert!(names.update(&["best", "other", "third"]).is_empty());
    names
}

fn prefix() -> Prefix {
    "192.0.2.0/24".parse().unwrap()
}

fn edge() -> World {
    let mut world = World::new();
    world.table.share(pop(), CONFIG);
    world
}

/// The total of these edges, as another one reads it.
fn total(edges: &mut [World]) -> RemoteRoutes {
    let (mut fields, policy) = (RouteContributions::default(), PolicyConfig::default());
    let now = edges[0].now;
    for (edge, world) in (1..).zip(edges) {
        for (of, bytes) in world.table.drain_shared(100, &names()) {
            assert_eq!(of, prefix());
            fields.put(edge, RouteContribution::decode(&bytes, now).unwrap());
        }
    }
    fields.remote(&0, pop(), &names(), now, &policy)
}

/// An edge on which neighbours have found that another route has twice the goodput, and half the RTT.
fn taught(plain: Route, other: Route) -> World {
    let mut world = edge();
    for (n, mbps) in (0..8).zip([5, 200, 20, 80, 10, 150, 40, 8]) {
        let client = format!("192.0.2.{n}");
        world.see(&client, plain, 8, mbps, 30);
        world.see(&client, other, 2, 2 * mbps, 15);
    }
    world
}

#[test]
fn a_newcomer_starts_with_the_samples_of_other_edges() {
    let mut world = edge();
    let new = "192.0.2.99";
    assert_eq!(world.asked(new, Criterion::Goodput).route, PLAIN);
    let remote = total(&mut [taught(PLAIN, STEERED)]);
    assert_eq!(remote.edges(), 1);
    world.table.set_remote(prefix(), remote);
    assert_eq!(world.asked(new, Criterion::Goodput).route, STEERED);
    assert_eq!(world.asked(new, Criterion::Rtt).route, STEERED);
    let there = taught(PLAIN, STEERED);
    let [got, want] = [&world, &there].map(|world| {
        let view = world.table.view(addr(new), AS, world.now);
        let quality = *view.quality(STEERED, world.candidates.plain_is);
        quality.samples(Criterion::Rtt.into())
    });
    assert!(
        got > 1.0 && got <= want,
        "as far as the prefix says it: {got} {want}"
    );
    let want = RoutesElsewhere {
        prefix: prefix(),
        edges: 1,
        routes: 2,
    };
    assert_eq!(world.table.known_elsewhere(addr(new)), Some(want));
    assert_eq!(world.table.known_elsewhere(addr("198.51.100.1")), None);
    assert!(world.table.drain_shared(9, &names()).is_empty(), "no echo");
    assert!(world.table.is_empty(), "no record of its own");
    world.table.forget(Scope::Prefix(prefix()));
    assert_eq!(world.asked(new, Criterion::Goodput).route, PLAIN);
    assert_eq!(world.table.remote_age(prefix(), world.now), None);
}

/// This edge compares the second route with the third, another one the first with the second.
#[test]
fn edges_that_know_other_routes_complete_each_other() {
    let third = Route::Steered(THIRD);
    let mut world = taught(STEERED, third);
    let new = "192.0.2.99";
    let remote = total(&mut [taught(PLAIN, STEERED), taught(PLAIN, STEERED)]);
    assert_eq!(remote.edges(), 2);
    world.table.set_remote(prefix(), remote);
    assert_eq!(world.asked(new, Criterion::Goodput).route, third);
    world.table.forget_egress(THIRD);
    assert_eq!(world.asked(new, Criterion::Goodput).route, STEERED);
}

#[test]
fn prefixes_are_shared_and_clients_and_ases_are_not() {
    let mut world = edge();
    world.see(CLIENT, PLAIN, 2, 10, 30);
    world.see("2001:db8:1:100::1", PLAIN, 2, 10, 30);
    let drained = |world: &mut World| {
        let drained = world.table.drain_shared(100, &names());
        let mut prefixes: Vec<_> = drained.iter().map(|(of, _)| of.to_string()).collect();
        prefixes.sort();
        prefixes
    };
    let both = ["192.0.2.0/24", "2001:db8:1::/48"];
    assert_eq!(drained(&mut world), both);
    assert!(drained(&mut world).is_empty());
    let (carrier, candidates) = (STEERED.carrier(None), world.candidates);
    world
        .table
        .stalled(addr(CLIENT), AS, carrier, &candidates, world.now);
    assert_eq!(drained(&mut world), both[..1]);
    world.decide(CLIENT, Criterion::Goodput);
    assert!(drained(&mut world).is_empty());
    world.table.mark_all_shared();
    assert_eq!(world.table.drain_shared(1, &names()).len(), 1);
    assert_eq!(world.table.drain_shared(9, &names()).len(), 1);

    let mut alone = World::new();
    alone.see(CLIENT, PLAIN, 2, 10, 30);
    alone.table.mark_all_shared();
    assert!(drained(&mut alone).is_empty());
}

#[test]
fn remote_knowledge_is_replaced_and_bounded() {
    let mut world = edge();
    let remote = total(&mut [taught(PLAIN, STEERED)]);
    for net in 0..=255 {
        let around = Prefix::around(IpAddr::from([203, 0, net, 1]), 24).unwrap();
        world.table.set_remote(around, remote.clone());
        let age = world.table.remote_age(around, world.now);
        assert_eq!(age, Some(Duration::ZERO));
    }
    let held = (0..=255).filter(|net| {
        let around = Prefix::around(IpAddr::from([203, 0, *net, 1]), 24).unwrap();
        world.table.remote_age(around, world.now).is_some()
    });
    assert_eq!(held.count(), CONFIG.max_records);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Sharing changes nothing for an edge that hears of no other.
    #[test]
    fn without_others_all_is_bit_identical(events in proptest::collection::vec(event(), 0..100)) {
        let (mut alone, mut shared) = (World::new(), edge());
        for event in events {
            alone.apply(event.clone());
            shared.apply(event);
        }
        for who in 0..4 {
            let [a, b] = [&alone, &shared]
                .map(|world| world.table.view(addr(client(who)), AS, world.now));
            prop_assert_eq!(a, b);
        }
        let changes = |world: &mut World| world.table.drain_changes(1000, &names());
        prop_assert_eq!(changes(&mut alone), changes(&mut shared));
    }
}
