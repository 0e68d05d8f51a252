//! The records that a store keeps over restarts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::properties::{client, event};
use super::{
    AS, BEST, CLIENT, Criterion, EgressId, EgressNames, NEIGHBOUR, OTHER, PLAIN, Phase,
    PolicyConfig, Route, RouteTable, STEERED, Scope, THIRD, TableConfig, World, addr, decide_route,
};
use crate::choice::Session;
use crate::codec::DecodeError;
use crate::egress::record::Record;
use crate::egress::{EgressKey, MAX_EGRESSES, RouteView};
use hikyaku_units::Timestamp;

/// A store's use of changes: keys as text, as it keeps them.
#[derive(Default)]
struct Kept(BTreeMap<String, Box<[u8]>>);

impl Kept {
    fn take(&mut self, world: &mut World, names: &EgressNames) {
        loop {
            let changes = world.table.drain_changes(7, names);
            let changes = changes.then(world.table.drain_changes(7, names));
            if changes.is_empty() {
                return;
            }
            if changes.cleared {
                self.0.clear();
            }
            for (key, record) in changes.records {
                match record {
                    Some(record) => drop(self.0.insert(key.to_string(), record)),
                    None => drop(self.0.remove(&key.to_string())),
                }
            }
        }
    }

    /// Reads all into another table, whose egress routes may have places already.
    fn read(&self, world: &World, names: &mut EgressNames) -> RouteTable {
        let mut table = table(1000, &world.policy);
        for (key, record) in &self.0 {
            let key: EgressKey = key.parse().unwrap();
            table.insert_encoded(key, record, names, world.now).unwrap();
        }
        table
    }
}

fn table(max_records: usize, policy: &Arc<PolicyConfig>) -> RouteTable {
    let config = TableConfig {
        max_records,
        hash_key: [3, 4],
        journal: true,
    };
    RouteTable::new(config, Arc::clone(policy))
}

fn named(names: &[&str]) -> EgressNames {
    let mut places = EgressNames::default();
    assert!(places.update(names).is_empty());
    places
}

/// Names of all the egress routes there can be.
fn all_names() -> Vec<String> {
    (0..MAX_EGRESSES)
        .map(|place| format!("path-{place}"))
        .collect()
}

/// The knowledge of every route, and the choice that is kept to, must be the same.
fn assert_same(who: &str, before: &RouteView, after: &RouteView) -> Result<(), TestCaseError> {
    for route in routes() {
        let [known, read] = [before, after].map(|view| view.quality(route, None));
        prop_assert_eq!(known, read, "{} by {:?}", who, route);
    }
    if is_known(before) {
        prop_assert_eq!(before, after, "{}", who);
    }
    Ok(())
}

fn routes() -> impl Iterator<Item = Route> {
    let egresses = (0..MAX_EGRESSES as u8).filter_map(EgressId::new);
    let others = [PLAIN, Route::Aggregated];
    egresses.map(Route::Steered).chain(others)
}

/// Whether the client itself has used any route: only then is its kept choice stored.
fn is_known(view: &RouteView) -> bool {
    routes().any(|route| view.quality(route, None).age.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_restart_loses_nothing(
        events in proptest::collection::vec((event(), any::<bool>()), 0..100),
        order in Just(all_names()).prop_shuffle(),
        present in 0..MAX_EGRESSES,
        forgotten in proptest::option::of(0usize..16),
    ) {
        let mut policy = PolicyConfig::default();
        // Longer than all that may pass.
        policy.half_life.route = Duration::from_hours(1000);
        let mut world = World::with(policy);
        let all = all_names();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let names = named(&all);
        let mut kept = Kept::default();
        for (event, written) in events {
            world.apply(event);
            if written {
                kept.take(&mut world, &names);
            }
        }
        if let Some(egress) = forgotten {
            world.table.forget_egress(EgressId::new(egress as u8).unwrap());
        }
        kept.take(&mut world, &names);
        prop_assert_eq!(kept.0.len(), world.table.len());

        // Another run, in which egress routes have other places, and a third one with those of the first.
        let order: Vec<&str> = order.iter().take(present).map(String::as_str).collect();
        let mut other_names = named(&order);
        for record in kept.0.values_mut() {
            let read = Record::decode(record, &mut other_names, |_| true).unwrap();
            *record = read.encode(&other_names);
        }
        let table = kept.read(&world, &mut names.clone());
        for who in (0..4).map(client) {
            let before = world.table.view(addr(who), AS, world.now);
            let after = table.view(addr(who), AS, world.now);
            assert_same(who, &before, &after)?;
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(mut bytes: Vec<u8>, sealed: bool) {
        if sealed && bytes.len() > 4 {
            bytes[0] = 1;
            crate::codec::seal(&mut bytes);
        }
        let mut table = table(16, &Arc::default());
        let mut names = EgressNames::default();
        let key = "192.0.2.1".parse().unwrap();
        let now = Timestamp::from_secs(1);
        let _ = table.insert_encoded(key, &bytes, &mut names, now);
        let _ = table.view(addr(CLIENT), None, now);
    }
}

/// A world in which the second egress route is surely better, as a store keeps it.
fn learnt() -> (World, EgressNames, Kept) {
    let mut world = World::new();
    let names = named(&["transit-a", "transit-b", "transit-c"]);
    for who in [CLIENT, NEIGHBOUR] {
        world.see(who, PLAIN, 20, 10, 30);
        world.see(who, STEERED, 20, 40, 30);
    }
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, STEERED);
    let mut kept = Kept::default();
    kept.take(&mut world, &names);
    (world, names, kept)
}

#[test]
fn old_knowledge_decides_after_a_restart() {
    let (world, _, kept) = learnt();
    // The agent names them in another order, and has a new one.
    let mut names = named(&["transit-d", "transit-b", "transit-a"]);
    let table = kept.read(&world, &mut names);
    let mut candidates = world.candidates;
    candidates.plain_is = names.id("transit-a");
    candidates.egresses = [0, 1, 2].into_iter().filter_map(EgressId::new).collect();
    for (who, reason) in [(CLIENT, "kept"), (NEIGHBOUR, "more_goodput")] {
        let view = table.view(addr(who), AS, world.now);
        let wants = Criterion::Goodput.into();
        let decision = decide_route(
            &view,
            wants,
            &candidates,
            &world.policy,
            Session(1).into(),
            1,
        );
        let steered = names.id("transit-b").map(Route::Steered);
        assert_eq!(Some(decision.route), steered, "{who}: {decision:?}");
        assert_eq!(decision.reason.code(), reason, "{who}: {decision:?}");
    }
}

#[test]
fn knowledge_ages_while_the_server_is_away() {
    let (mut world, _, mut kept) = learnt();
    let records = kept.0.len();
    assert_eq!(records, 4, "two clients, their prefix, their AS");
    let half_life = world.policy.half_life.route.as_secs();
    let samples = |world: &World, table: &RouteTable| {
        let view = table.view(addr(CLIENT), None, world.now);
        view.quality(STEERED, Some(BEST))
            .samples(Criterion::Goodput.into())
    };
    let names = || named(&["transit-a", "transit-b"]);
    let fresh = samples(&world, &kept.read(&world, &mut names()));
    world.pass(half_life);
    let read = kept.read(&world, &mut names());
    assert_eq!(
        samples(&world, &read),
        samples(&world, &world.table),
        "as if it had run on"
    );
    assert!(samples(&world, &read) < fresh * 0.6);

    // Ten half-lives later nothing is left of it, and the file is empty.
    world.pass(9 * half_life + 1);
    let mut names = EgressNames::default();
    world.table = kept.read(&world, &mut names);
    assert!(world.table.is_empty());
    assert_eq!(
        names,
        EgressNames::default(),
        "no place is taken for what is forgotten"
    );
    kept.take(&mut world, &names);
    assert_eq!(kept.0.len(), 0);
}

#[test]
fn an_egress_that_is_away_keeps_its_record() {
    let (world, _, kept) = learnt();
    let mut names = EgressNames::default();
    let table = kept.read(&world, &mut names);
    let steered = names.id("transit-b").map(Route::Steered).unwrap();
    assert!(names.update(&["transit-a"]).is_empty());
    let view = table.view(addr(CLIENT), AS, world.now);
    let known = view.quality(steered, None).goodput(Phase::Startup).unwrap();
    assert!((38.0..42.0).contains(&known.mbps()), "{known}");
    assert!(
        names.update(&["transit-a", "transit-b"]).is_empty(),
        "it has its place"
    );
}

#[test]
fn there_are_no_more_egresses_than_places() {
    let (world, _, kept) = learnt();
    let others: Vec<String> = (1..MAX_EGRESSES).map(|n| format!("peer-{n}")).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let mut names = named(&others);
    let table = kept.read(&world, &mut names);
    let read = ["transit-a", "transit-b"].map(|name| names.id(name).is_some());
    assert_eq!(read.iter().filter(|read| **read).count(), 1, "one was left");
    assert_eq!(table.len(), kept.0.len());
}

#[test]
fn records_from_before_everything_was_forgotten_do_not_come_back() {
    let (mut world, names, _) = learnt();
    world.see(CLIENT, PLAIN, 1, 10, 30);
    let before = world.table.drain_changes(9, &names);
    assert_eq!(before.records.len(), 3, "the client, its prefix, its AS");
    world.table.forget(Scope::All);
    world.see(NEIGHBOUR, PLAIN, 1, 10, 30);
    let changes = before.then(world.table.drain_changes(9, &names));
    assert!(changes.cleared);
    let keys = changes.records.iter().map(|(key, _)| key.to_string());
    assert!(!keys.into_iter().any(|key| key == CLIENT), "{changes:?}");
}

#[test]
fn forgotten_records_leave_the_store() {
    // name, scope that is forgotten, how many records are left
    let cases = [
        ("one client", Scope::Address(addr(CLIENT)), 3),
        (
            "a prefix",
            Scope::Prefix("192.0.2.0/24".parse().unwrap()),
            1,
        ),
        ("everything", Scope::All, 0),
    ];
    for (name, scope, left) in cases {
        let (mut world, names, mut kept) = learnt();
        world.table.forget(scope);
        kept.take(&mut world, &names);
        assert_eq!(kept.0.len(), left, "{name}");
    }
    let (mut world, names, mut kept) = learnt();
    world.table.forget_egress(OTHER);
    kept.take(&mut world, &names);
    let mut read = EgressNames::default();
    kept.read(&world, &mut read);
    assert_eq!(read.id("transit-b"), None);
}

#[test]
fn stalls_are_remembered() {
    let (mut world, names, mut kept) = learnt();
    world.candidates.egresses = [BEST, OTHER, THIRD].into_iter().collect();
    let carrier = STEERED.carrier(Some(BEST));
    let candidates = world.candidates;
    let (table, now) = (&mut world.table, world.now);
    table.stalled(addr(CLIENT), AS, carrier, &candidates, now);
    kept.take(&mut world, &names);
    world.pass(1);
    let mut new_names = named(&["transit-a", "transit-b"]);
    let table = kept.read(&world, &mut new_names);
    let avoided = |table: &RouteTable, who: &str| -> Option<Duration> {
        let view = table.view(addr(who), AS, world.now);
        view.quality(STEERED, Some(BEST)).avoided_for
    };
    assert!(avoided(&table, CLIENT).is_some());
    assert_eq!(avoided(&table, CLIENT), avoided(&world.table, CLIENT));
    assert_eq!(avoided(&table, NEIGHBOUR), None, "it was this client alone");
}

#[test]
fn records_are_read_strictly() {
    let (world, _, kept) = learnt();
    let good = &kept.0[CLIENT];
    let read = |bytes: &[u8]| {
        let key = CLIENT.parse().unwrap();
        let mut table = table(16, &world.policy);
        let read = table.insert_encoded(key, bytes, &mut EgressNames::default(), world.now);
        let gone = table.drain_changes(9, &EgressNames::default()).records;
        assert_eq!(
            gone.len(),
            usize::from(read.is_err()),
            "what is of no use goes"
        );
        read
    };
    assert_eq!(read(good), Ok(()));
    assert_eq!(read(&good[..4]), Err(DecodeError::Length { len: 4 }));
    assert_eq!(read(&good[..good.len() - 1]), Err(DecodeError::Check));
    let mut foreign = good.to_vec();
    foreign[0] = 9;
    assert_eq!(read(&foreign), Err(DecodeError::Version { version: 9 }));
    for place in 1..good.len() {
        let mut flipped = good.to_vec();
        flipped[place] ^= 0x10;
        assert_eq!(read(&flipped), Err(DecodeError::Check), "byte {place}");
    }
    // name, bytes between version and check, why
    let name = Err(DecodeError::Field { field: "path name" });
    let cases: [(&str, &[u8], Result<(), DecodeError>); 4] = [
        ("too many names", &[17], name),
        ("a name that ends early", &[1, 9, b'x'], name),
        ("a name that is no text", &[1, 1, 0xff], name),
        (
            "half a carrier",
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 1, 2],
            Err(DecodeError::Length { len: 17 }),
        ),
    ];
    for (what, fields, want) in cases {
        let mut bytes = [&[2], fields, &[0; 4]].concat();
        crate::codec::seal(&mut bytes);
        assert_eq!(read(&bytes), want, "{what}");
    }
}
