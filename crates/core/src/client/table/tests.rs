use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{ClientTable, Scope};
use crate::bounded::{BoundedMap, Change, TableConfig};
use crate::choice::{Group, Session};
use crate::client::estimate::{ENCODED_LEN, Estimate, Packed};
use crate::client::key::{Key, Prefix};
use crate::client::sample::Decided;
use crate::client::sample::{Observation, Outcome, TransportSample, UdpEvent};
use crate::model::tests::synthetic;
use crate::policy::PolicyConfig;
use hikyaku_units::arm::{Arm, ByTransport, Congestion, Version};
use hikyaku_units::{Rate, Timestamp};

const START: u64 = 1_800_000_000;

fn at(secs: u64) -> Timestamp {
    Timestamp::from_secs(START + secs)
}

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn table(max_records: usize) -> ClientTable {
    let config = TableConfig {
        max_records,
        hash_key: [1, 2],
        journal: true,
    };
    ClientTable::new(
        config,
        Arc::new(PolicyConfig::default()),
        Arc::new(synthetic()),
    )
}

fn path(rtt_ms: u64) -> Observation {
    Observation::Path(TransportSample {
        version: Version::H2,
        congestion: Congestion::Cubic,
        packets_sent: 1000,
        packets_lost: 10,
        min_rtt: Duration::from_millis(rtt_ms),
        srtt: Duration::from_millis(rtt_ms),
        delivery_rate: Some(Rate::from_mbps(20)),
        app_limited: false,
    })
}

fn keys(table: &ClientTable) -> Vec<String> {
    let mut keys: Vec<String> = table.iter().map(|(key, _)| key.to_string()).collect();
    keys.sort();
    keys
}

/// Two clients of a prefix have three records, and all that is kept of a client shall fit into 256
/// bytes, the index included.
#[test]
fn a_record_is_small() {
    let size = BoundedMap::<Key, Packed>::ENTRY_LEN;
    assert!(size <= 157, "{size} bytes");
}

#[test]
fn a_prefix_gets_a_record_with_its_second_client() {
    let mut table = table(100);
    table.observe(addr("192.0.2.1"), at(0), &path(20));
    table.observe(addr("2001:db8:0:101::1"), at(0), &path(20));
    assert_eq!(keys(&table), ["192.0.2.1", "2001:db8:0:101::1"]);

    table.observe(addr("::ffff:192.0.2.1"), at(1), &path(20));
    assert_eq!(table.len(), 2, "an IPv4-mapped address is the IPv4 client");

    table.observe(addr("192.0.2.2"), at(2), &path(20));
    table.observe(addr("2001:db8:0:201::1"), at(2), &path(20));
    let want = [
        "192.0.2.0/24",
        "192.0.2.1",
        "192.0.2.2",
        "2001:db8:0:101::1",
        "2001:db8:0:201::1",
        "2001:db8::/48",
    ];
    assert_eq!(keys(&table), want, "the /56 are still alone");

    table.observe(addr("2001:db8:0:102::1"), at(3), &path(20));
    assert_eq!(table.len(), 8, "the /56 has two clients");
    table.records.assert_sound();

    let mut home = self::table(100);
    home.observe(addr("2001:db8:0:101::1"), at(0), &path(20));
    home.observe(addr("2001:db8:0:102::1"), at(0), &path(20));
    home.observe(addr("2001:db8:0:101::1"), at(0), &path(20));
    let want = [
        "2001:db8:0:100::/56",
        "2001:db8:0:101::1",
        "2001:db8:0:102::1",
    ];
    assert_eq!(keys(&home), want, "the /48 holds no other /56");
    let known = |of: &str| {
        home.knowledge(addr(of))
            .prefixes
            .map(|p| p.map(|(p, _)| p.prefix_len()))
    };
    assert_eq!(known("2001:db8:0:101::1"), [Some(56), None]);
    assert_eq!(
        known("2001:db8:0:999::1"),
        [None, Some(48)],
        "learnt of the other /56"
    );
    home.records.assert_sound();
    home.forget(Scope::Prefix(
        Prefix::around(addr("2001:db8:0:100::"), 56).unwrap(),
    ));
    assert!(home.is_empty());
    home.records.assert_sound();
}

#[test]
fn newcomers_are_known_by_their_neighbours() {
    let mut table = table(100);
    for second in 0..40 {
        table.observe(addr("192.0.2.1"), at(second), &path(20));
    }
    let stranger = table.view(addr("198.51.100.1"), at(40));
    assert_eq!(
        (stranger.min_rtt, stranger.rate, stranger.samples),
        (None, None, 0.0)
    );
    for clients in 1..=2 {
        let newcomer = table.view(addr("192.0.2.9"), at(40));
        assert_eq!(
            newcomer.min_rtt,
            Some(Duration::from_millis(20)),
            "{clients} clients"
        );
        let samples = newcomer.samples;
        assert!(
            (9.9..10.3).contains(&samples),
            "a quarter of the prefix's samples: {samples}"
        );
        assert_eq!(newcomer.loss[0].unwrap().mean.ppm(), 10_000);
        table.observe(addr("192.0.2.2"), at(40), &path(30));
    }
    let own = table.view(addr("192.0.2.2"), at(40));
    assert_eq!(
        own.min_rtt,
        Some(Duration::from_millis(30)),
        "own samples go first"
    );
}

#[test]
fn a_lone_clients_samples_are_not_counted_twice() {
    let mut table = table(100);
    table.observe(addr("2001:db8::1"), at(0), &path(20));
    assert_eq!(table.view(addr("2001:db8::1"), at(0)).samples, 1.0);
    assert_eq!(table.knowledge(addr("2001:db8::1")).prefixes, [None; 2]);
}

#[test]
fn a_neighbours_trouble_with_udp_is_not_a_newcomers() {
    let mut table = table(100);
    for event in [UdpEvent::Broke, UdpEvent::BackOnTcp] {
        table.observe(addr("192.0.2.1"), at(0), &Observation::Udp(event));
    }
    use crate::client::udp::Verdict;
    assert!(matches!(
        table.view(addr("192.0.2.1"), at(1)).udp,
        Verdict::Failed(_)
    ));
    assert_eq!(table.view(addr("192.0.2.2"), at(1)).udp, Verdict::Unproven);
    for event in [UdpEvent::Broke, UdpEvent::BackOnTcp] {
        table.observe(addr("192.0.2.2"), at(2), &Observation::Udp(event));
    }
    let third = table.view(addr("192.0.2.3"), at(3));
    assert!(
        matches!(third.udp, Verdict::Failed(_)),
        "two make it the prefix's"
    );
    assert_eq!(third.udp_prefix, Prefix::around(addr("192.0.2.0"), 24));
}

#[test]
fn outcomes_are_learnt_against_the_prediction() {
    let mut table = table(100);
    let client = addr("192.0.2.1");
    for _ in 0..4 {
        table.observe(client, at(0), &path(10));
    }
    let policy = PolicyConfig::default();
    let view = table.knowledge(client).view(at(0), &policy);
    let arm = Arm::new(Version::H2, Congestion::Cubic);
    let loss = view.loss[0].unwrap().mean;
    let rate = view.rate_for(arm).unwrap();
    let predicted = synthetic()
        .predict(arm, Duration::from_millis(10), loss, rate, 500_000)
        .unwrap();
    let outcome = |factor: f64, shared, version| {
        let duration = predicted.load_time.mul_f64(factor);
        let arm = Arm::new(version, Congestion::Cubic);
        Observation::Outcome(Outcome {
            arm,
            size: 500_000,
            duration,
            shared,
        })
    };
    table.observe(client, at(0), &outcome(9.0, true, Version::H2));
    table.observe(client, at(0), &outcome(9.0, false, Version::H1));
    assert_eq!(
        table.view(client, at(0)).outcome[arm.index()].weight,
        0.0,
        "shared or HTTP/1.1: size alone"
    );
    assert!(
        table
            .view(client, at(0))
            .size
            .unwrap()
            .bytes()
            .abs_diff(500_000)
            < 500
    );
    table.observe(client, at(0), &outcome(2.0, false, Version::H2));
    let learnt = table.view(client, at(0)).outcome[arm.index()];
    assert!(
        (learnt.mean - 2f32.ln()).abs() < 1e-3 && learnt.weight == 1.0,
        "{learnt:?}"
    );
}

#[test]
fn a_flood_of_new_clients_evicts_itself() {
    let mut table = table(64);
    let regulars: Vec<IpAddr> = (0..20)
        .map(|n| IpAddr::V4(Ipv4Addr::new(10, 0, n, 1)))
        .collect();
    let mut kept = 0;
    for round in 0..50u32 {
        for regular in &regulars {
            kept += usize::from(table.knowledge(*regular).own.is_some());
            table.observe(*regular, at(u64::from(round) * 120), &path(20));
        }
        for n in 0..40 {
            let stranger = IpAddr::V4(Ipv4Addr::from_bits(0x2000_0000 + (round * 40 + n) * 256));
            table.observe(stranger, at(u64::from(round) * 120), &path(20));
        }
        assert!(table.len() <= 64);
    }
    assert!(kept >= 49 * 20 * 9 / 10, "{kept} of 980");
    table.records.assert_sound();
}

#[test]
fn scopes_are_forgotten() {
    let clients = [
        "192.0.2.1",
        "192.0.2.2",
        "198.51.100.1",
        "2001:db8:0:101::1",
        "2001:db8:0:202::1",
    ];
    let filled = || {
        let mut table = table(100);
        for client in clients {
            table.observe(addr(client), at(0), &path(20));
        }
        table.drain_dirty().for_each(drop);
        table
    };
    let prefix = |text: &str| Scope::Prefix(text.parse().unwrap());
    // scope, records that go, changes for the store
    let cases = [
        (Scope::Address(addr("::ffff:192.0.2.1")), 1, 1),
        (Scope::Address(addr("203.0.113.1")), 0, 0),
        (prefix("192.0.2.0/24"), 3, 3),
        (prefix("2001:db8:0:100::/56"), 1, 1),
        (prefix("2001:db8::/48"), 3, 3),
        (Scope::All, 7, 1),
    ];
    for (scope, gone, changes) in cases {
        let mut table = filled();
        assert_eq!(table.forget(scope), gone, "{scope:?}");
        assert_eq!(table.len(), 7 - gone, "{scope:?}");
        table.records.assert_sound();
        assert_eq!(table.unstored(), changes, "{scope:?}");
        let changed: Vec<_> = table.drain_dirty().collect();
        assert_eq!(table.unstored(), 0, "{scope:?}");
        assert!(changed.len() == changes && !changed.iter().any(|c| matches!(c, Change::Put(..))));
    }
}

#[test]
fn a_stores_copy_follows_the_changes() {
    let mut table = table(40);
    let mut store: BTreeMap<Key, Vec<u8>> = BTreeMap::new();
    for round in 0..200u32 {
        let client = IpAddr::V4(Ipv4Addr::from_bits(
            0x0a00_0000 + hikyaku_units::mix::mix(round.into()) as u32 % 4096,
        ));
        table.observe(client, at(round.into()), &path(20));
        if round == 150 {
            table.forget(Scope::All);
        }
        // A store that takes a few at a time, and not every time.
        let limit = if round % 3 == 0 { 5 } else { 0 };
        apply(&mut store, table.drain_dirty().take(limit));
    }
    apply(&mut store, table.drain_dirty());
    let want: BTreeMap<Key, Vec<u8>> = table
        .iter()
        .map(|(key, estimate)| (key, estimate.encode().to_vec()))
        .collect();
    assert_eq!(store, want);

    let mut restored = self::table(40);
    for (key, bytes) in &store {
        restored.insert_encoded(*key, bytes).unwrap();
    }
    restored.records.assert_sound();
    assert_eq!(restored.drain_dirty().count(), 0, "loading is no change");
    for (key, _) in table.iter() {
        if let Key::Address(client) = key {
            assert_eq!(restored.knowledge(client), table.knowledge(client));
        }
    }
    assert!(
        restored
            .insert_encoded(Key::address(addr("10.0.0.1")), b"garbage")
            .is_err()
    );
}

fn apply(
    store: &mut BTreeMap<Key, Vec<u8>>,
    changes: impl Iterator<Item = Change<Key, [u8; ENCODED_LEN]>>,
) {
    for change in changes {
        match change {
            Change::Clear => store.clear(),
            Change::Remove(key) => drop(store.remove(&key)),
            Change::Put(key, estimate) => drop(store.insert(key, estimate.to_vec())),
        }
    }
}

#[test]
fn without_a_journal_nothing_is_kept_for_a_store() {
    let config = TableConfig {
        max_records: 16,
        hash_key: [0, 0],
        journal: false,
    };
    let mut table = ClientTable::new(config, Arc::default(), Arc::new(synthetic()));
    for n in 0..100 {
        table.observe(IpAddr::V4(Ipv4Addr::from_bits(n << 8)), at(0), &path(20));
    }
    assert_eq!((table.len(), table.drain_dirty().count()), (16, 0));
}

proptest! {
    #[test]
    fn the_table_stays_sound_and_within_its_bound(
        max in 0usize..40,
        steps in proptest::collection::vec((0u8..12, any::<bool>(), 0u8..4, 0u8..4, 0u8..6), 0..300),
    ) {
        let mut table = table(max);
        let mut encoded = Vec::new();
        for (second, (kind, v6, a, b, c)) in (0..).zip(steps) {
            let client = if v6 {
                addr(&format!("2001:db8:{a}:{b}00::{c}"))
            } else {
                addr(&format!("192.0.{a}.{c}"))
            };
            match kind {
                0..=5 => table.observe(client, at(second), &path(20)),
                6 => table.observe(client, at(second), &Observation::Udp(UdpEvent::Broke)),
                7 => {
                    let congestion = ByTransport { tcp: Some(Congestion::Bbr), quic: None };
                    let decided = Decided { version: Version::H2, congestion, group: Group::Normal, session: Session(1) };
                    table.observe(client, at(second), &Observation::Decided(decided));
                }
                8 => {
                    table.forget(Scope::Address(client));
                }
                9 => {
                    let prefix = crate::client::key::prefixes(client).last().unwrap();
                    table.forget(Scope::Prefix(prefix));
                }
                10 => encoded.extend(table.drain_dirty().take(3)),
                _ => {
                    if let Some(Change::Put(key, estimate)) = encoded.pop() {
                        table.insert_encoded(key, &estimate).unwrap();
                    }
                }
            }
            prop_assert!(table.len() <= max.max(16));
        }
        table.records.assert_sound();
    }
}

/// An estimate as a client carries it that was measured so many times, at a second.
fn carried(measured: u64, secs: u64) -> Estimate {
    let mut elsewhere = table(16);
    for _ in 0..measured {
        elsewhere.observe(addr("192.0.2.1"), at(secs), &path(20));
    }
    let bytes = elsewhere
        .to_carry(addr("192.0.2.1"), at(secs), None)
        .unwrap();
    Estimate::carried(&bytes).unwrap()
}

#[test]
fn what_a_client_carries_counts_while_it_says_more() {
    let client = addr("192.0.2.1");
    let mut table = table(100);
    assert_eq!(
        table.to_carry(client, at(0), None),
        None,
        "nothing is known"
    );
    assert!(table.carry(client, at(60), &carried(12, 0)));
    let view = table.view(client, at(60));
    assert_eq!(view.min_rtt, Some(Duration::from_millis(20)));
    assert!(view.samples > 11.0, "{view:?}");
    assert!(
        !table.carry(client, at(60), &carried(12, 0)),
        "the same again"
    );
    assert!(!table.carry(client, at(60), &carried(3, 0)), "an older one");
    let mapped = addr("::ffff:192.0.2.1");
    assert!(table.carry(mapped, at(60), &carried(12, 30)), "a newer one");
    let hence = |brought| {
        let bytes = table.to_carry(client, at(60), brought).unwrap();
        Estimate::carried(&bytes).unwrap()
    };
    assert_eq!(hence(None), carried(12, 30), "it is carried on as it came");
    assert_eq!(
        hence(Some(carried(3, 50))),
        carried(12, 30),
        "that says less"
    );
    assert_eq!(
        hence(Some(carried(20, 50))),
        carried(20, 50),
        "that says more"
    );

    for _ in 0..20 {
        table.observe(client, at(61), &path(50));
    }
    let view = table.view(client, at(61));
    assert_eq!(view.min_rtt, Some(Duration::from_millis(50)), "its own");
    assert!(
        !table.carry(client, at(62), &carried(12, 62)),
        "it says less"
    );
    let day = 24 * 3600;
    let stranger = addr("198.51.100.1");
    assert!(table.carry(stranger, at(day), &carried(12, 0)));
    assert!(
        !table.carry(addr("203.0.113.1"), at(day + 1), &carried(12, 0)),
        "old"
    );
}

#[test]
fn what_a_client_carries_stays_its_own() {
    let (client, neighbour) = (addr("192.0.2.1"), addr("192.0.2.2"));
    let mut table = table(100);
    assert!(table.carry(client, at(60), &carried(12, 0)));
    assert_eq!(table.len(), 0);
    assert_eq!(table.drain_dirty().count(), 0, "nothing for the store");
    let view = table.view(neighbour, at(60));
    assert_eq!((view.min_rtt, view.samples), (None, 0.0));
    table.observe(client, at(61), &path(50));
    table.observe(neighbour, at(61), &path(50));
    let view = table.view(neighbour, at(61));
    assert_eq!(view.min_rtt, Some(Duration::from_millis(50)));
    let prefix = Prefix::around(client, 24).unwrap();
    for scope in [Scope::Address(client), Scope::Prefix(prefix), Scope::All] {
        table.carry(client, at(70), &carried(12, 65));
        assert!(table.knowledge(client).carried.is_some());
        table.forget(scope);
        assert_eq!(table.knowledge(client).carried, None, "{scope:?}");
    }
}
