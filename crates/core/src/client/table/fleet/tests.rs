use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{ClientTable, Contribution, Key, PackedRemote, Prefix, Remote, TableConfig};
use crate::bounded::{BoundedMap, Change};
use crate::client::sample::{Observation, Outcome, TransportSample, UdpEvent};
use crate::client::shared::Contributions;
use crate::client::table::Scope;
use crate::client::udp::{UdpState, Verdict};
use crate::fleet::{Pop, Register};
use crate::model::tests::synthetic;
use crate::policy::PolicyConfig;
use crate::transport::decide;
use hikyaku_units::arm::{Arm, ByTransport, Congestion, CongestionSet, Version};
use hikyaku_units::{Rate, Timestamp};

const START: u64 = 1_800_000_000;
const CONFIG: TableConfig = TableConfig {
    max_records: 200,
    hash_key: [1, 2],
    journal: true,
};

fn at(secs: u64) -> Timestamp {
    Timestamp::from_secs(START + secs)
}

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn pop() -> Pop {
    Pop::named("fra1")
}

fn alone() -> ClientTable {
    ClientTable::new(
        CONFIG,
        Arc::new(PolicyConfig::default()),
        Arc::new(synthetic()),
    )
}

fn edge() -> ClientTable {
    let mut table = alone();
    table.share(pop(), CONFIG);
    table
}

fn path(version: Version) -> Observation {
    Observation::Path(TransportSample {
        version,
        congestion: Congestion::Cubic,
        packets_sent: 1000,
        packets_lost: 10,
        min_rtt: Duration::from_millis(38),
        srtt: Duration::from_millis(40),
        delivery_rate: Some(Rate::from_mbps(20)),
        app_limited: false,
    })
}

fn response(bytes: u64) -> Observation {
    Observation::Outcome(Outcome {
        arm: Arm::new(Version::H2, Congestion::Cubic),
        size: bytes,
        duration: Duration::from_millis(700),
        shared: false,
    })
}

fn teach(table: &mut ClientTable, client: &str) {
    for _ in 0..4 {
        table.observe(addr(client), at(0), &path(Version::H2));
        table.observe(addr(client), at(0), &response(1_000_000));
    }
}

/// The total of the others' contributions, as an edge of a PoP reads it.
fn total(others: &mut [ClientTable], of: Prefix, pop: Pop) -> Remote {
    let mut contributions = Contributions::default();
    for (name, table) in (1..).zip(others) {
        table.mark_all_shared();
        for (prefix, bytes) in table.drain_shared(1000) {
            if prefix == of {
                contributions.put(name, Contribution::decode(&bytes, at(0)).unwrap());
            }
        }
    }
    contributions.remote(&0, pop, at(0), &PolicyConfig::default())
}

fn drained(table: &mut ClientTable) -> Vec<String> {
    let drained = table.drain_shared(1000);
    let mut prefixes: Vec<_> = drained
        .iter()
        .map(|(prefix, _)| prefix.to_string())
        .collect();
    prefixes.sort();
    prefixes
}

/// All that is kept of a prefix shall fit into 180 bytes, its five of the index included.
#[test]
fn remote_knowledge_is_small() {
    let size = BoundedMap::<Prefix, PackedRemote>::ENTRY_LEN;
    assert!(size <= 175, "{size} bytes");
}

#[test]
fn a_prefix_contributes_by_its_only_client_and_by_its_own_record() {
    let mut table = edge();
    table.observe(addr("192.0.2.1"), at(0), &path(Version::H2));
    assert_eq!(drained(&mut table), ["192.0.2.0/24"], "an alias");
    assert!(drained(&mut table).is_empty());
    table.observe(addr("192.0.2.2"), at(0), &path(Version::H2));
    let contributions = table.drain_shared(1000);
    assert_eq!(contributions.len(), 1);
    let both = Contribution::decode(&contributions[0].1, at(0)).unwrap();
    assert_eq!(both.at().timestamp(), at(0));

    table.observe(addr("2001:db8:0:101::1"), at(0), &path(Version::H2));
    let want = ["2001:db8:0:100::/56", "2001:db8::/48"];
    assert_eq!(drained(&mut table), want);
    table.observe(addr("2001:db8:0:102::1"), at(0), &path(Version::H2));
    assert_eq!(drained(&mut table), want, "the /48 is the /56 still");
    table.observe(addr("2001:db8:0:201::1"), at(0), &path(Version::H2));
    assert_eq!(
        drained(&mut table),
        ["2001:db8:0:200::/56", "2001:db8::/48"]
    );

    table.mark_all_shared();
    let all = [
        "192.0.2.0/24",
        "2001:db8:0:100::/56",
        "2001:db8:0:200::/56",
        "2001:db8::/48",
    ];
    assert_eq!(drained(&mut table), all);
}

/// The contribution to a prefix that waits to be written.
fn contribution(table: &mut ClientTable, of: Prefix) -> Contribution {
    let drained = table.drain_shared(1000);
    let found = drained.iter().find(|(prefix, _)| *prefix == of);
    Contribution::decode(&found.unwrap().1, at(1000)).unwrap()
}

#[test]
fn an_edge_that_restarts_goes_on_with_its_own_contribution() {
    const BEGAN: u64 = 60;
    for (client, networks) in [
        ("192.0.2.1", &["192.0.2.0/24"][..]),
        (
            "2001:db8:0:101::1",
            &["2001:db8:0:100::/56", "2001:db8::/48"],
        ),
    ] {
        let network = prefix(networks[0]);
        let mut before = edge();
        teach(&mut before, client);
        let former: Vec<(Prefix, Contribution)> = before
            .drain_shared(1000)
            .iter()
            .map(|(prefix, bytes)| (*prefix, Contribution::decode(bytes, at(0)).unwrap()))
            .collect();
        assert_eq!(former.len(), networks.len());
        let take_up = |table: &mut ClientTable, began: u64| {
            let each = former.iter();
            let taken = each.filter(|(prefix, known)| table.take_up(*prefix, known, at(began)));
            taken.count()
        };
        let samples = |table: &ClientTable| {
            let neighbour = addr(client);
            let levels = table.knowledge(neighbour).prefixes;
            levels.map(|level| level.map_or(0.0, |(_, known)| known.samples))
        };
        let observe = |table: &mut ClientTable| {
            for _ in 0..4 {
                table.observe(addr(client), at(BEGAN), &path(Version::H2));
            }
        };
        // The store answers before the first observation, or after it.
        for is_first in [true, false] {
            let mut after = edge();
            if !is_first {
                observe(&mut after);
            }
            assert_eq!(take_up(&mut after, BEGAN), networks.len(), "{client}");
            if is_first {
                assert!(after.drain_shared(1000).is_empty(), "it is in the store");
                assert_eq!(take_up(&mut after, BEGAN), 0, "once");
                observe(&mut after);
            }
            for (known, _) in samples(&after).into_iter().zip(networks) {
                assert!((7.9..8.01).contains(&known), "{client}: {known}");
            }
            let now = contribution(&mut after, network);
            assert_eq!(now.at().timestamp(), at(BEGAN));
            let mut other = edge();
            let others = Contributions::read([(1, &now.encode()[..])], at(BEGAN)).0;
            let remote = others.remote(&0, pop(), at(BEGAN), &PolicyConfig::default());
            other.set_remote(network, &remote);
            let [known, _] = samples(&other);
            assert!((7.8..8.1).contains(&known), "{client}: {known}");
        }
        let mut forgetful = edge();
        forgetful.forget(Scope::Prefix(network));
        assert_eq!(take_up(&mut forgetful, BEGAN), 0, "forgotten");
        let mut same = edge();
        teach(&mut same, client);
        assert_eq!(take_up(&mut same, 0), 0, "observed since it began");
    }
}

#[test]
fn contributions_come_in_portions() {
    let mut table = edge();
    for net in 0..50 {
        table.observe(IpAddr::from([203, 0, net, 1]), at(0), &path(Version::H2));
    }
    let portions = std::iter::from_fn(|| Some(table.drain_shared(8).len()));
    let portions: Vec<usize> = portions.take_while(|len| *len > 0).collect();
    assert_eq!((portions.len(), portions.iter().sum()), (7, 50));
}

#[test]
fn decisions_and_what_others_know_are_no_change_of_an_edges_own() {
    let mut others = [edge(), edge()];
    others
        .iter_mut()
        .for_each(|other| teach(other, "192.0.2.1"));
    let around = prefix("192.0.2.0/24");
    let remote = total(&mut others, around, pop());
    let mut table = edge();
    teach(&mut table, "192.0.2.9");
    let decided = decide(
        &table.view(addr("192.0.2.9"), at(0)),
        &synthetic(),
        &PolicyConfig::default(),
        &ByTransport::from_fn(|_| CongestionSet::ALL),
        at(0),
        1,
    );
    let _ = (table.drain_shared(100), table.drain_dirty().count());
    table.set_remote(around, &remote);
    assert_eq!(
        (drained(&mut table), table.drain_dirty().count()),
        (vec![], 0)
    );
    let decided = Observation::Decided(decided.decided());
    table.observe(addr("192.0.2.9"), at(0), &decided);
    assert!(drained(&mut table).is_empty());
    let own = table
        .iter()
        .filter(|(key, _)| matches!(key, Key::Address(_)));
    assert_eq!(own.map(|(_, own)| own.samples()).sum::<f32>(), 4.0);
    table.mark_all_shared();
    let (_, bytes) = table.drain_shared(1).remove(0);
    let mut echo = Contributions::default();
    echo.put(1, Contribution::decode(&bytes, at(0)).unwrap());
    let echo = echo.remote(&0, pop(), at(0), &PolicyConfig::default());
    let samples = echo.pop.unwrap().estimate.samples();
    assert!((samples - 4.0).abs() < 0.01, "no echo: {samples}");
}

#[test]
fn the_pops_knowledge_counts_as_if_this_edge_had_it() {
    let client = addr("192.0.2.9");
    let around = prefix("192.0.2.0/24");
    let mut others = [edge(), edge()];
    teach(&mut others[0], "192.0.2.1");
    teach(&mut others[1], "192.0.2.2");
    let remote = total(&mut others, around, pop());
    let mut together = alone();
    for client in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        teach(&mut together, client);
    }
    let mut apart = edge();
    teach(&mut apart, "192.0.2.3");
    apart.set_remote(around, &remote);
    let [want, got] = [&together, &apart].map(|table| table.view(client, at(0)));
    let near = |got: f32, want: f32| (got - want).abs() <= 1e-3 * want.abs();
    assert!(near(got.samples, want.samples), "{got:?}\n{want:?}");
    let rate = |rate: Option<Rate>| rate.unwrap().bits_per_sec() as f32;
    assert!(near(rate(got.rate), rate(want.rate)), "{got:?}\n{want:?}");
    let rtt = |rtt: Option<Duration>| rtt.unwrap().as_secs_f32();
    assert!(near(rtt(got.min_rtt), rtt(want.min_rtt)));
    let [got, want] = [got, want].map(|view| view.loss[0].unwrap());
    assert!(
        got.mean.ppm().abs_diff(want.mean.ppm()) <= 20,
        "{got:?} {want:?}"
    );
    assert!(
        got.high.ppm().abs_diff(want.high.ppm()) <= 20,
        "{got:?} {want:?}"
    );
    let knowledge = apart.knowledge(client);
    assert_eq!(knowledge.pop.map(|pop| pop.edges), Some(2));
}

#[test]
fn elsewhere_the_path_is_unknown_but_responses_are_known() {
    let around = prefix("192.0.2.0/24");
    let mut others = [edge()];
    teach(&mut others[0], "192.0.2.1");
    let remote = total(&mut others, around, Pop::named("sin1"));
    let mut table = edge();
    table.set_remote(around, &remote);
    let view = table.view(addr("192.0.2.9"), at(0));
    assert_eq!((view.min_rtt, view.rate, view.samples), (None, None, 0.0));
    let size = view.size.unwrap().bytes();
    assert!(size.abs_diff(1_000_000) < 2_000, "{size}");
    assert!(view.outcome[0].weight > 0.0);
    assert!(view.own_outcome[0].weight == 0.0);
}

#[test]
fn udp_of_other_edges_counts_where_this_one_knows_nothing() {
    let around = prefix("192.0.2.0/24");
    let mut others = [edge()];
    for client in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        for event in [UdpEvent::Broke, UdpEvent::Broke] {
            others[0].observe(addr(client), at(0), &Observation::Udp(event));
        }
    }
    let remote = total(&mut others, around, pop());
    let state = remote.fleet.unwrap().estimate.udp().state();
    assert!(matches!(state, UdpState::Broken { .. }), "{state:?}");
    let mut table = edge();
    table.set_remote(around, &remote);
    let view = table.view(addr("192.0.2.9"), at(0));
    assert!(matches!(view.udp, Verdict::Failed(_)), "{:?}", view.udp);
    assert_eq!(view.udp_prefix, Some(around));
    let hour = table.view(addr("192.0.2.9"), at(3700));
    assert!(matches!(hour.udp, Verdict::Probe(_)), "{:?}", hour.udp);

    for client in ["192.0.2.7", "192.0.2.8"] {
        table.observe(addr(client), at(1), &Observation::Udp(UdpEvent::Arrived));
    }
    let view = table.view(addr("192.0.2.9"), at(1));
    assert_eq!(view.udp, Verdict::Unproven, "UDP works at this edge");
}

#[test]
fn remote_knowledge_is_replaced_bounded_and_forgotten() {
    let nothing = |secs| Remote {
        pop: None,
        fleet: None,
        read_at: at(secs),
    };
    let mut table = edge();
    let around = |n: u8| Prefix::around(IpAddr::from([203, 0, n, 1]), 24).unwrap();
    assert_eq!(table.remote_age(around(1), at(9)), None);
    table.set_remote(around(1), &nothing(1));
    table.set_remote(around(1), &nothing(4));
    let age = table.remote_age(around(1), at(9));
    assert_eq!(age, Some(Duration::from_secs(5)));
    for n in 0..=255 {
        table.set_remote(around(n), &nothing(9));
    }
    let held = (0..=255).filter(|n| table.remote_age(around(*n), at(9)).is_some());
    assert_eq!(held.count(), CONFIG.max_records);
    table.set_remote(around(7), &nothing(9));
    table.forget(Scope::Address(addr("203.0.7.1")));
    assert!(table.remote_age(around(7), at(9)).is_some());
    table.forget(Scope::Prefix(around(7)));
    assert_eq!(table.remote_age(around(7), at(9)), None);
    table.forget(Scope::All);
    assert!((0..=255).all(|n| table.remote_age(around(n), at(9)).is_none()));

    let mut alone = alone();
    alone.set_remote(around(1), &nothing(1));
    teach(&mut alone, "192.0.2.1");
    alone.mark_all_shared();
    assert_eq!(alone.remote_age(around(1), at(1)), None);
    assert!(drained(&mut alone).is_empty());
}

/// A step of a random history.
fn step(table: &mut ClientTable, second: u64, (kind, v6, a, b): (u8, bool, u8, u8)) {
    let client = if v6 {
        addr(&format!("2001:db8:{}:{a}00::{b}", a % 2))
    } else {
        addr(&format!("192.0.{a}.{b}"))
    };
    let now = at(second * 40);
    match kind {
        0..=2 => table.observe(client, now, &path(Version::H2)),
        3 | 4 => table.observe(client, now, &path(Version::H3)),
        5 => table.observe(client, now, &response(1 << (10 + b))),
        6 => table.observe(client, now, &Observation::Udp(UdpEvent::Arrived)),
        7 => table.observe(client, now, &Observation::Udp(UdpEvent::Broke)),
        8 => table.observe(client, now, &Observation::Udp(UdpEvent::Advertised)),
        _ => drop(table.forget(Scope::Address(client))),
    }
}

proptest! {
    /// Sharing changes nothing for an edge that hears of no other.
    #[test]
    fn without_others_all_is_bit_identical(
        steps in proptest::collection::vec((0u8..10, any::<bool>(), 0u8..4, 0u8..6), 0..200),
    ) {
        let (mut alone, mut shared) = (alone(), edge());
        let around = prefix("192.0.2.0/24");
        let mut others = [edge()];
        teach(&mut others[0], "192.0.2.1");
        let remote = total(&mut others, around, pop());
        for (second, made) in (0..).zip(&steps) {
            step(&mut alone, second, *made);
            step(&mut shared, second, *made);
        }
        let now = at(200 * 40);
        let clients = (0..4).flat_map(|net| (0..6).flat_map(move |host| {
            [format!("192.0.{net}.{host}"), format!("2001:db8:{}:{net}00::{host}", net % 2)]
        }));
        let (policy, model) = (PolicyConfig::default(), synthetic());
        let available = ByTransport::from_fn(|_| CongestionSet::ALL);
        for client in clients.map(|client| addr(&client)) {
            let views = [&alone, &shared].map(|table| table.view(client, now));
            prop_assert_eq!(views[0], views[1]);
            let [a, b] = views.map(|view| decide(&view, &model, &policy, &available, now, 1));
            prop_assert_eq!(a, b);
            prop_assert_eq!(alone.knowledge(client), shared.knowledge(client));
        }
        shared.set_remote(around, &remote);
        let changes = |table: &mut ClientTable| -> Vec<Change<Key, _>> { table.drain_dirty().collect() };
        prop_assert_eq!(changes(&mut alone), changes(&mut shared));
    }

    /// Each prefix of a client that was observed has its contribution, whatever became of its record.
    #[test]
    fn each_observed_prefix_contributes(
        steps in proptest::collection::vec((0u8..9, any::<bool>(), 0u8..4, 0u8..6), 1..60),
    ) {
        let mut table = edge();
        for (second, made) in (0..).zip(&steps) {
            step(&mut table, second, *made);
        }
        let clients = table.iter().filter(|(key, _)| matches!(key, Key::Address(_)));
        let mut want: Vec<String> = clients
            .flat_map(|(key, _)| crate::client::key::prefixes(key.first()))
            .map(|prefix| prefix.to_string())
            .collect();
        want.sort();
        want.dedup();
        prop_assert_eq!(drained(&mut table), want);
    }
}
