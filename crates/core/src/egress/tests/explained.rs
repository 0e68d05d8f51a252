//! The texts of explanations about routes.

use super::ports::port;
use super::*;
use crate::egress::{
    DrainedAt, EgressDrain, KnownEgresses, Room, RoutesExplanation, explain_routes,
};

impl World {
    fn explained(&self, present: EgressSet, up: EgressSet) -> RoutesExplanation {
        self.explained_with(present, up, &[])
    }

    fn explained_with(
        &self,
        present: EgressSet,
        up: EgressSet,
        drains: &[(EgressId, EgressDrain)],
    ) -> RoutesExplanation {
        let mut names = EgressNames::default();
        names.update(&["transit-a", "transit-b", "peer-c", "peer-d"]);
        explain_routes(
            &self.table.view(addr(CLIENT), AS, self.now),
            ("bulk", Criterion::Goodput.into()),
            &self.candidates,
            KnownEgresses {
                names: &names,
                present,
                up,
                drains,
                plain_unknown: None,
            },
            &self.policy,
            (Session(1).into(), 1),
        )
    }
}

const FOURTH: EgressId = EgressId(3);

fn three() -> EgressSet {
    [BEST, OTHER, THIRD].into_iter().collect()
}

#[test]
fn explanations_read_well() {
    let mut world = World::new();
    world.candidates.backup.insert(THIRD);
    world.see(CLIENT, PLAIN, 16, 14, 40);
    world.see(CLIENT, STEERED, 8, 28, 30);
    world.pass(90);
    world.stall(CLIENT, SEVERAL);
    let explained = world.explained(three(), three());
    assert_eq!(explained.to_string(), include_str!("explained.txt"));
    let json = serde_json::to_string(&explained).unwrap();
    assert_eq!(
        serde_json::from_str::<RoutesExplanation>(&json).unwrap(),
        explained
    );
}

#[test]
fn the_reason_why_the_way_of_plain_packets_is_not_known_is_shown() {
    let world = World::new();
    let mut explained = world.explained(three(), three());
    let why = "border 192.0.2.1 spreads them over transit-a and transit-b";
    let line = format!("\n              which route plain takes is not known: {why}\n");
    explained.plain_unknown = Some(why.to_owned());
    assert!(!explained.to_string().contains(&line), "{explained}");
    explained.plain_is = None;
    assert!(explained.to_string().contains(&line), "{explained}");
    let json = serde_json::to_value(&explained).unwrap();
    assert_eq!(json["plain_unknown"], why);
}

#[test]
fn a_drain_is_shown_with_its_place_age_and_reason() {
    let world = World::new();
    let of = |at: DrainedAt, secs: Option<u64>, reason: &str| EgressDrain {
        at,
        age: secs.map(std::time::Duration::from_secs),
        reason: reason.to_owned(),
    };
    let drains = [
        (
            BEST,
            of(
                DrainedAt::Edge("fra-2".to_owned()),
                Some(7200),
                "fibre work",
            ),
        ),
        (OTHER, of(DrainedAt::Here, Some(90), "")),
        (
            THIRD,
            of(DrainedAt::Border, None, "border 192.0.2.1 drains it"),
        ),
    ];
    let up = EgressSet::EMPTY;
    let explained = world.explained_with(three(), up, &drains);
    let text = explained.to_string();
    let plain = "(plain takes transit-a, which is drained at fra-2 for 2 h: fibre work)\n";
    assert!(text.contains(plain), "{text}");
    let of = |name: &str| {
        let route = explained.routes.iter().find(|it| it.route == name).unwrap();
        (route.verdict_code.as_str(), route.verdict.as_str())
    };
    let here = "drained at this host's agent for 90 s";
    assert_eq!(of("transit-b"), ("draining", here));
    let border = "draining: border 192.0.2.1 drains it";
    assert_eq!(of("peer-c"), ("draining", border));
}

#[test]
fn several_that_are_not_better_are_why_the_single_one_is_taken() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 16, 20, 30);
    world.see(CLIENT, SEVERAL, 16, 15, 30);
    let explained = world.explained(three(), three());
    assert_eq!(
        (explained.reason_code.as_str(), explained.reason.as_str()),
        (
            "no_gain",
            "plain: no other surely gains enough; aggregate has goodput -25 %, surely -31 %"
        )
    );
}

/// Fills the ports of egress routes; those of the others have room.
fn with_full(world: &mut World, full: &[EgressId]) {
    let ports = [BEST, OTHER, THIRD].map(|egress| {
        let admitted = f64::from(u8::from(!full.contains(&egress)));
        (egress, Some(port(egress.0 + 1, admitted, 1.0, 1.0)))
    });
    world.candidates.room = Room::new(
        addr(CLIENT),
        Criterion::Goodput,
        Some(BEST),
        ports.into_iter(),
    );
}

#[test]
fn each_route_has_its_verdict() {
    type Change = fn(&mut World);
    // case, events, the route, its code, its verdict
    let cases: [(&str, Change, &str, &str, &str); 14] = [
        ("the chosen one", |_| (), "plain", "chosen", "chosen"),
        (
            "worse",
            |world| world.see(CLIENT, SEVERAL, 16, 15, 30),
            "aggregate",
            "not_better",
            "not better than plain: 15 Mbit/s against 20 Mbit/s",
        ),
        (
            "a little better",
            |world| world.see(CLIENT, STEERED, 16, 22, 30),
            "transit-b",
            "not_better",
            "not surely 5 % better than plain: 22 Mbit/s against 20 Mbit/s (goodput +10 %, surely +1.4 %)",
        ),
        (
            "hardly known",
            |world| world.see(CLIENT, STEERED, 3, 19, 30),
            "transit-b",
            "too_few_samples",
            "too few samples: 3 of 4",
        ),
        (
            "plain is hardly known",
            |world| {
                world.table.forget(Scope::All);
                world.see(CLIENT, STEERED, 16, 19, 30);
                world.see(CLIENT, PLAIN, 1, 19, 30);
            },
            "transit-b",
            "too_few_samples",
            "too few samples of plain: 1 of 4",
        ),
        (
            "several have stalled",
            |world| {
                world.see(CLIENT, SEVERAL, 16, 40, 30);
                world.stall(CLIENT, SEVERAL);
            },
            "aggregate",
            "avoided",
            "avoided for 5 s",
        ),
        (
            "a backup",
            |world| world.candidates.backup.insert(THIRD),
            "peer-c",
            "backup",
            "backup, taken only while the others stall",
        ),
        (
            "no MPTCP",
            |world| {
                world.see(CLIENT, SEVERAL, 16, 40, 30);
                world.candidates.mptcp = Mptcp::None;
            },
            "aggregate",
            "no_mptcp",
            "only for connections with MPTCP",
        ),
        (
            "its port is full",
            |world| with_full(world, &[OTHER]),
            "transit-b",
            "full",
            "its port is full",
        ),
        (
            "all ports but one are full",
            |world| {
                world.see(CLIENT, SEVERAL, 16, 40, 30);
                with_full(world, &[OTHER, THIRD]);
            },
            "aggregate",
            "full",
            "fewer than two of its ports have room",
        ),
        (
            "the operator allows others",
            |world| {
                world.candidates.mode = Mode::Steered;
                world.candidates.allowed = three().without([OTHER].into_iter().collect());
            },
            "transit-b",
            "ruled_out",
            "ruled out by policy",
        ),
        (
            "held back",
            |world| {
                world.policy = Arc::new(PolicyConfig {
                    holdback: 1.0,
                    ..PolicyConfig::default()
                });
            },
            "transit-b",
            "hold_back",
            "not compared, since the client is held back",
        ),
        (
            "no route to the client",
            |world| world.candidates.egresses.remove(THIRD),
            "peer-c",
            "unreachable",
            "does not reach the client",
        ),
        ("down", |_| (), "peer-d", "not_up", "not up"),
    ];
    let present: EgressSet = [BEST, OTHER, THIRD, FOURTH].into_iter().collect();
    for (case, change, route, code, verdict) in cases {
        let mut world = World::new();
        world.see(CLIENT, PLAIN, 16, 20, 30);
        change(&mut world);
        let explained = world.explained(present, three());
        let found = explained.routes.iter().find(|shown| shown.route == route);
        let found = found.map(|shown| (&*shown.verdict_code, &*shown.verdict));
        assert_eq!(found, Some((code, verdict)), "{case}: {explained}");
    }
}
