//! Ports that are full, and their prices.

use std::net::Ipv4Addr;

use super::{
    BEST, CLIENT, Criterion, EgressId, NEIGHBOUR, OTHER, PLAIN, Route, STEERED, THIRD, World, addr,
};
use crate::choice::{Group, Reason};
use crate::egress::{Mptcp, Port, PortShares, Room, RouteBar};

/// A port that admits a share of clients, at a price.
pub(super) fn port(number: u8, admitted: f64, billed: f64, price: f64) -> Port {
    let all = |share| PortShares {
        goodput: share,
        stall: 1.0,
        rtt: 1.0,
    };
    Port {
        border: Ipv4Addr::new(192, 0, 2, 1),
        number,
        price,
        admitted: all(admitted),
        billed: all(billed),
        spare: 0.0,
    }
}

fn with_ports(world: &mut World, wants: Criterion, ports: [Option<Port>; 3]) {
    let ports = [BEST, OTHER, THIRD].into_iter().zip(ports);
    world.candidates.room = Room::new(addr(CLIENT), wants, Some(BEST), ports);
    world.candidates.mptcp = Mptcp::None;
}

fn open(number: u8) -> Option<Port> {
    Some(port(number, 1.0, 1.0, 1.0))
}

fn full(number: u8) -> Option<Port> {
    Some(port(number, 0.0, 1.0, 1.0))
}

/// A world in which plain is the best of three known routes.
fn known() -> World {
    let mut world = World::new();
    for (route, mbps) in [(PLAIN, 40), (STEERED, 30), (Route::Steered(THIRD), 20)] {
        world.see(CLIENT, route, 6, mbps, 20);
    }
    world
}

#[test]
fn bulk_leaves_a_full_port_and_comes_back() {
    let mut world = known();
    let goodput = Criterion::Goodput;
    with_ports(&mut world, goodput, [open(1), open(2), open(3)]);
    assert_eq!(world.decide(CLIENT, goodput).route, PLAIN);
    with_ports(&mut world, goodput, [full(1), open(2), open(3)]);
    let left = world.decide(CLIENT, goodput);
    assert_eq!(left.route, STEERED, "the best of the others");
    assert_eq!(left.reason, Reason::Barred(RouteBar::Full(PLAIN)));
    assert_eq!((left.reason.code(), left.group), ("full", Group::Normal));
    with_ports(&mut world, goodput, [full(1), full(2), open(3)]);
    let third = Route::Steered(THIRD);
    assert_eq!(world.decide(CLIENT, goodput).route, third);
    // The class of content counts: the shares of the others are whole.
    with_ports(&mut world, Criterion::Rtt, [full(1), open(2), open(3)]);
    assert_eq!(world.decide(CLIENT, Criterion::Rtt).route, PLAIN);
    with_ports(&mut world, goodput, [open(1), open(2), open(3)]);
    assert_eq!(world.decide(CLIENT, goodput).route, PLAIN, "without proof");
}

#[test]
fn the_stalls_of_others_fill_no_port() {
    let goodput = Criterion::Goodput;
    let mut world = known();
    for route in [STEERED, Route::Steered(THIRD)] {
        for client in [NEIGHBOUR, "192.0.2.3"] {
            world.stall(client, route);
        }
    }
    with_ports(&mut world, goodput, [open(1), open(2), open(3)]);
    assert_eq!(world.decide(CLIENT, goodput).route, PLAIN);
    with_ports(&mut world, goodput, [full(1), open(2), full(3)]);
    let left = world.decide(CLIENT, goodput);
    assert_eq!((left.route, left.reason.code()), (STEERED, "full"));
    // Where it is silent for the client, too, a full port is better.
    world.stall(CLIENT, STEERED);
    assert_eq!(world.decide(CLIENT, goodput).route, PLAIN);
}

#[test]
fn a_kept_route_is_kept_over_a_time_of_a_full_port() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 6, 20, 20);
    world.see(CLIENT, STEERED, 6, 40, 20);
    let goodput = Criterion::Goodput;
    assert_eq!(world.decide(CLIENT, goodput).route, STEERED);
    with_ports(&mut world, goodput, [open(1), full(2), None]);
    let left = world.decide(CLIENT, goodput);
    assert_eq!((left.route, left.reason.code()), (PLAIN, "full"));
    with_ports(&mut world, goodput, [open(1), open(2), None]);
    let back = world.decide(CLIENT, goodput);
    assert_eq!((back.route, back.reason.code()), (STEERED, "kept"));
}

#[test]
fn where_all_ports_are_full_the_client_stays() {
    let mut world = known();
    with_ports(&mut world, Criterion::Goodput, [full(1), full(2), full(3)]);
    let decision = world.decide(CLIENT, Criterion::Goodput);
    let candidates = world.candidates;
    let egress = match decision.route {
        PLAIN => BEST,
        Route::Steered(egress) => egress,
        Route::Aggregated => panic!("several"),
    };
    assert!(
        candidates.room.has(Route::Steered(egress), None),
        "{egress:?}"
    );
}

#[test]
fn of_equal_routes_the_cheaper_wins_and_a_better_one_beats_its_price() {
    let goodput = Criterion::Goodput;
    let prices = |a: f64, b: f64| [Some(port(1, 1.0, 1.0, a)), Some(port(2, 1.0, 1.0, b)), None];
    let cases = [
        // name, Mbit/s of plain and the other, prices, route
        (
            "equal and cheaper",
            (40, 40),
            (1.0, 0.5),
            STEERED,
            "cheaper",
        ),
        ("equal and dearer", (40, 40), (0.5, 1.0), PLAIN, "no_gain"),
        ("cheaper and worse", (40, 36), (1.0, 0.0), PLAIN, "no_gain"),
        (
            "dearer and better",
            (20, 40),
            (0.0, 1.0),
            STEERED,
            "more_goodput",
        ),
    ];
    for (name, (plain, other), (a, b), route, code) in cases {
        let mut world = World::new();
        world.see(CLIENT, PLAIN, 8, plain, 20);
        world.see(CLIENT, STEERED, 8, other, 20);
        with_ports(&mut world, goodput, prices(a, b));
        let decision = world.decide(CLIENT, goodput);
        assert_eq!(
            (decision.route, decision.reason.code()),
            (route, code),
            "{name}"
        );
    }
}

#[test]
fn a_cheaper_route_is_kept_while_it_is_hardly_worse() {
    let goodput = Criterion::Goodput;
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 8, 100, 20);
    world.see(CLIENT, STEERED, 8, 100, 20);
    let prices = [
        Some(port(1, 1.0, 1.0, 1.0)),
        Some(port(2, 1.0, 1.0, 0.0)),
        None,
    ];
    with_ports(&mut world, goodput, prices);
    assert_eq!(world.decide(CLIENT, goodput).route, STEERED);
    world.see(CLIENT, STEERED, 8, 97, 20);
    assert_eq!(world.decide(CLIENT, goodput).route, STEERED, "2 % less");
    world.see(CLIENT, STEERED, 16, 94, 20);
    assert_eq!(world.decide(CLIENT, goodput).route, PLAIN, "5 % less");
}

#[test]
fn traffic_that_raises_no_bill_goes_first() {
    let goodput = Criterion::Goodput;
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 8, 40, 20);
    world.see(CLIENT, STEERED, 8, 40, 20);
    // The cheap port's commitment is used up, the dear one's is not.
    let ports = |billed: f64, spare: f64| {
        [
            Some(port(1, 1.0, 0.0, 1.0)),
            Some(Port {
                spare,
                ..port(2, 1.0, billed, 2.0)
            }),
            None,
        ]
    };
    for (name, billed, spare, route) in [
        ("billed anyway", 1.0, 0.0, STEERED),
        ("both raise their bills", 0.0, 0.0, PLAIN),
        ("most free intervals are left", 0.0, 0.75, STEERED),
        ("a few free intervals of the dear one", 0.0, 0.25, PLAIN),
    ] {
        with_ports(&mut world, goodput, ports(billed, spare));
        assert_eq!(world.asked(CLIENT, goodput).route, route, "{name}");
    }
}

#[test]
fn a_port_that_is_not_known_changes_nothing() {
    let mut world = known();
    let before = world.asked(CLIENT, Criterion::Goodput);
    world.candidates.room = Room::new(
        addr(CLIENT),
        Criterion::Goodput,
        Some(BEST),
        [0, 1, 2]
            .into_iter()
            .filter_map(|place| Some((EgressId::new(place)?, None))),
    );
    assert_eq!(world.asked(CLIENT, Criterion::Goodput), before);
}

#[test]
fn several_egress_routes_go_on_while_two_ports_have_room() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 6, 20, 20);
    world.see(CLIENT, Route::Aggregated, 6, 60, 20);
    let goodput = Criterion::Goodput;
    let routes = [
        [open(1), open(2), open(3)],
        [open(1), full(2), open(3)],
        [full(1), full(2), open(3)],
    ]
    .map(|ports| {
        with_ports(&mut world, goodput, ports);
        world.candidates.mptcp = Mptcp::Taken;
        world.decide(CLIENT, goodput).route
    });
    assert_eq!(routes[..2], [Route::Aggregated; 2]);
    assert_ne!(routes[2], Route::Aggregated, "one alone has room");
}
