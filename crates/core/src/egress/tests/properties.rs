//! Properties that hold whatever is seen.

use std::net::Ipv4Addr;
use std::time::Duration;

use proptest::prelude::*;

use super::{
    AS, BEST, CLIENT, Candidates, Criterion, EgressId, EgressSet, Group, Mode, Mptcp, Phase,
    PolicyConfig, Route, RouteDecision, RouteObservation, Session, Wants, World, addr,
    decide_route,
};
use crate::egress::{Port, PortShares, Room};

fn egress() -> impl Strategy<Value = EgressId> {
    (0u8..16).prop_map(|place| EgressId::new(place).unwrap())
}

fn egresses() -> impl Strategy<Value = EgressSet> {
    proptest::collection::vec(egress(), 0..6).prop_map(|egresses| egresses.into_iter().collect())
}

fn route() -> impl Strategy<Value = Route> {
    prop_oneof![
        2 => Just(Route::Plain),
        4 => egress().prop_map(Route::Steered),
        1 => Just(Route::Aggregated),
    ]
}

fn phase() -> impl Strategy<Value = Phase> {
    prop_oneof![Just(Phase::Startup), Just(Phase::Sustained)]
}

prop_compose! {
    fn wants()(place in 0usize..3, phase in phase()) -> Wants {
        Wants { criterion: Criterion::ALL[place], phase }
    }
}

fn shares() -> impl Strategy<Value = PortShares> {
    (0f64..=1.0).prop_map(|share| PortShares {
        goodput: share,
        stall: share,
        rtt: share,
    })
}

prop_compose! {
    fn port()(
        number in 1u8..4, price in 0f64..3.0, admitted in shares(), billed in shares(), spare in 0f64..=1.0,
    ) -> Port {
        Port { border: Ipv4Addr::LOCALHOST, number, price, admitted, billed, spare }
    }
}

prop_compose! {
    fn candidates()(
        plain_is in proptest::option::of(egress()),
        plain_is_dead: bool,
        egresses in egresses(),
        backup in egresses(),
        mptcp in (0usize..4),
        mode in (0usize..4),
        allowed in prop_oneof![Just(EgressSet::ALL), egresses()],
        named in proptest::option::of(egress()),
        ports in proptest::collection::vec((egress(), proptest::option::of(port())), 0..6),
    ) -> Candidates {
        let mode = [Mode::Adaptive, Mode::Plain, Mode::Steered, Mode::Aggregated][mode];
        let room = Room::new(addr(CLIENT), Criterion::Goodput, plain_is, ports.into_iter());
        let mptcp = [Mptcp::None, Mptcp::Refused, Mptcp::Taken, Mptcp::Drawn][mptcp];
        Candidates {
            plain_is, plain_is_dead, egresses, backup, mptcp, mode, allowed, named, room,
        }
    }
}

prop_compose! {
    fn observation()(
        bytes in 0u64..1_000_000_000,
        micros in 0u64..100_000_000,
        phase in phase(),
        app_limited: bool,
        rtt in proptest::option::of(0u64..10_000_000),
        packets_sent in 0u32..100_000,
        packets_lost in 0u32..100_000,
        stalled in 0u64..10_000_000,
    ) -> RouteObservation {
        RouteObservation {
            bytes,
            duration: Duration::from_micros(micros),
            phase,
            app_limited,
            rtt: rtt.map(Duration::from_micros),
            packets_sent,
            packets_lost,
            stalled: Duration::from_micros(stalled),
        }
    }
}

/// An event of one of four clients in two prefixes.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Seen(u8, Route, Box<RouteObservation>),
    Stalled(u8, Route),
    Decided(u8, Wants, u32),
    Candidates(Candidates),
    Passed(u64),
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0u8..4, route(), observation())
            .prop_map(|(client, route, seen)| Event::Seen(client, route, Box::new(seen))),
        2 => (0u8..4, route()).prop_map(|(client, route)| Event::Stalled(client, route)),
        4 => (0u8..4, wants(), any::<u32>())
            .prop_map(|(client, wants, session)| Event::Decided(client, wants, session)),
        1 => candidates().prop_map(Event::Candidates),
        1 => (0u64..100_000).prop_map(Event::Passed),
    ]
}

pub(super) fn client(number: u8) -> &'static str {
    [
        "192.0.2.1",
        "192.0.2.2",
        "2001:db8:1::1",
        "2001:db8:1:100::1",
    ][usize::from(number)]
}

impl World {
    fn decided(&self, who: u8, wants: Wants, session: u32) -> RouteDecision {
        let view = self.table.view(addr(client(who)), AS, self.now);
        let session = Session(session);
        decide_route(
            &view,
            wants,
            &self.candidates,
            &self.policy,
            session.into(),
            1,
        )
    }

    pub(super) fn apply(&mut self, event: Event) {
        match event {
            Event::Seen(who, route, seen) => self.learn(client(who), route, &seen),
            Event::Stalled(who, route) => {
                let carrier = route.carrier(self.candidates.plain_is);
                let (who, candidates) = (addr(client(who)), self.candidates);
                self.table.stalled(who, AS, carrier, &candidates, self.now);
            }
            Event::Candidates(candidates) => self.candidates = candidates,
            Event::Passed(secs) => self.pass(secs),
            Event::Decided(who, wants, session) => {
                let decision = self.decided(who, wants, session);
                self.table.decided(addr(client(who)), wants, &decision);
            }
        }
    }
}

fn may_be_chosen(route: Route, candidates: &Candidates, group: Group) -> bool {
    let explored = group == Group::Explore;
    match route {
        Route::Plain => true,
        Route::Steered(egress) => {
            let backup = candidates.backup.contains(egress);
            candidates.singles().contains(route) && !(explored && backup)
        }
        Route::Aggregated => candidates.aggregates(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn nothing_but_candidates_is_chosen(
        exploration in prop_oneof![Just(0.02), Just(1.0)],
        events in proptest::collection::vec(event(), 0..120),
    ) {
        let mut world = World::with(PolicyConfig { exploration, ..PolicyConfig::default() });
        for event in events {
            if let Event::Decided(who, wants, session) = event {
                let decision = world.decided(who, wants, session);
                prop_assert_eq!(decision, world.decided(who, wants, session), "a pure function");
                let candidates = &world.candidates;
                prop_assert!(
                    may_be_chosen(decision.route, candidates, decision.group),
                    "{:?} of {:?}", decision, candidates
                );
            }
            world.apply(event);
        }
    }

    #[test]
    fn no_more_than_the_share_is_explored(
        exploration in 0.0f64..0.02,
        seen in proptest::collection::vec((route(), observation()), 0..40),
        first in any::<u32>(),
    ) {
        let policy = PolicyConfig { exploration, holdback: 0.0, ..PolicyConfig::default() };
        let mut world = World::with(policy);
        for (route, seen) in seen {
            world.learn(CLIENT, route, &seen);
        }
        let view = world.table.view(addr(CLIENT), AS, world.now);
        let sessions = 1000u32;
        let explored = (0..sessions).filter(|n| {
            let session = Session(first.wrapping_add(*n));
            let wants = Criterion::Goodput.into();
            let decision =
                decide_route(&view, wants, &world.candidates, &world.policy, session.into(), 1);
            decision.group == Group::Explore
        });
        let expected = exploration * f64::from(sessions);
        // Each session draws for itself, so that the count is Poisson's, whose tail is long where few
        // are expected. A count above this has a probability below 1e-6.
        prop_assert!(explored.count() as f64 <= expected + 5.0 * expected.sqrt() + 4.0);
    }

    #[test]
    fn more_goodput_of_a_route_never_loses_it_a_client(
        plain in 1u64..100,
        other in 1u64..100,
        more in 0u64..100,
        plains in 1usize..20,
        others in 1usize..20,
    ) {
        let chosen = |mbps| {
            let mut world = World::new();
            world.candidates.egresses = [BEST, EgressId::new(1).unwrap()].into_iter().collect();
            world.see(CLIENT, Route::Plain, plains, plain, 30);
            world.see(CLIENT, super::STEERED, others, mbps, 30);
            world.asked(CLIENT, Criterion::Goodput).route
        };
        if chosen(other) != Route::Plain {
            prop_assert_ne!(chosen(other + more), Route::Plain);
        }
    }
}
