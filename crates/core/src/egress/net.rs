//! Routes over random views, held against a digest of the decisions before a change.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::choice::{Session, Visit};
use crate::egress::tests::properties::{candidates, client, event, observation, route, wants};
use crate::egress::tests::{AS, World, addr};
use crate::egress::{
    self as is, EgressId, EgressNames, EgressSet, KnownEgresses, Port, PortShares,
};
use crate::net::{Said, VIEWS, runner};
use crate::policy::{PolicyConfig, RoutePolicy};

prop_compose! {
    fn policies()(
        route in prop_oneof![9 => Just(RoutePolicy::Adaptive), 1 => Just(RoutePolicy::Plain), 1 => Just(RoutePolicy::Named("x".to_owned())), 1 => Just(RoutePolicy::Aggregate)],
        exploration in prop_oneof![Just(0.02), Just(0.125), Just(0.6)],
        holdback in prop_oneof![Just(0.0), Just(0.1)],
        min_gain_route in 0.0f64..0.3,
        min_samples_route in 0u32..6,
    ) -> PolicyConfig {
        PolicyConfig { route, exploration, holdback, min_gain_route, min_samples_route, ..PolicyConfig::default() }
    }
}

#[test]
fn routes_are_as_before() {
    let mut runner = runner();
    let names: Vec<String> = (0..16).map(|n| format!("e{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut known = EgressNames::default();
    known.update(&names);
    let worlds = (
        policies(),
        proptest::collection::vec(event(), 0..40),
        proptest::collection::vec((route(), observation()), 0..12),
    );
    let asked = (
        wants(),
        candidates(),
        any::<u32>(),
        any::<bool>(),
        any::<u64>(),
        0u8..4,
    );
    let (mut codes, mut verdicts) = (BTreeSet::new(), BTreeSet::new());
    let mut views = 0;
    let mut said = Said::new("routes");
    while views < VIEWS {
        let (policy, events, seen) = worlds.new_tree(&mut runner).unwrap().current();
        let mut world = World::with(PolicyConfig {
            exploration: 0.02,
            ..policy.clone()
        });
        for event in events {
            world.apply(event);
        }
        for (route, seen) in seen {
            (0..4).for_each(|_| world.learn(client(0), route, &seen));
        }
        world.policy = Arc::new(policy);
        for _ in 0..25 {
            let (wants, candidates, session, is_experiment, seed, who) =
                asked.new_tree(&mut runner).unwrap().current();
            let candidates = if session % 3 == 0 {
                candidates
            } else {
                is::Candidates {
                    mode: is::Mode::Adaptive,
                    allowed: EgressSet::ALL,
                    egresses: EgressSet::ALL,
                    room: if session % 7 == 0 {
                        priced(candidates.plain_is)
                    } else {
                        candidates.room
                    },
                    ..candidates
                }
            };
            let view = world.table.view(
                addr(client(if session % 2 == 0 { 0 } else { who })),
                AS,
                world.now,
            );
            let visit = Visit {
                session: Session(session),
                is_experiment: is_experiment && session % 5 == 0,
            };
            compare(
                &view,
                wants,
                &candidates,
                &world.policy,
                visit,
                seed,
                &known,
                (&mut codes, &mut verdicts),
                &mut said,
            );
            views += 1;
        }
    }
    assert_eq!(codes.len(), is::RouteReasonCode::ALL.len(), "{codes:?}");
    assert!(verdicts.len() >= 10, "{verdicts:?}");
    said.end(0x7ba8_1e6d_24c0_2097);
}

#[allow(clippy::too_many_arguments)]
fn compare(
    view: &is::RouteView,
    wants: is::Wants,
    candidates: &is::Candidates,
    policy: &PolicyConfig,
    visit: Visit,
    seed: u64,
    names: &EgressNames,
    (codes, verdicts): (&mut BTreeSet<&'static str>, &mut BTreeSet<String>),
    said: &mut Said,
) {
    let new = is::decide_route(view, wants, candidates, policy, visit, seed);
    let says = (
        new.route,
        new.group,
        new.keeps,
        new.reason.code(),
        new.reason.kind().index(),
        new.display(names).to_string(),
    );
    let shares =
        [None, Some(seed)].map(|seed| is::mptcp_share(view, wants, candidates, policy, seed));
    codes.insert(new.reason.code());
    let egresses = KnownEgresses {
        names,
        present: EgressSet::ALL,
        up: EgressSet::ALL,
    };
    let explained = is::explain_routes(
        view,
        ("c", wants),
        candidates,
        egresses,
        policy,
        (visit, seed),
    );
    for summary in &explained.routes {
        verdicts.insert(summary.verdict_code.clone());
    }
    said.say(&format!("{says:?} {shares:?} {explained:?}"));
}

/// Ports with room for all, whose prices rise.
fn priced(plain_is: Option<EgressId>) -> is::Room {
    let all = PortShares {
        goodput: 1.0,
        stall: 1.0,
        rtt: 1.0,
    };
    let ports = EgressSet::ALL.iter().map(|egress| {
        let port = Port {
            border: Ipv4Addr::LOCALHOST,
            number: egress.index() as u8 + 1,
            price: 3.0 - f64::from(egress.index() as u8) / 8.0,
            admitted: all,
            billed: all,
            spare: 0.5,
        };
        (egress, Some(port))
    });
    is::Room::new(
        addr(client(0)),
        is::Criterion::Goodput,
        plain_is,
        ports.collect::<Vec<_>>().into_iter(),
    )
}
