//! Totals of differences do not depend on zeros and order, and contributions survive as bytes.

use std::sync::Arc;

use proptest::array::uniform4;
use proptest::collection::vec;
use proptest::prelude::*;

use super::contribution::{Named, RouteContribution};
use super::differences::{self, Row};
use super::parts::{Part, Parts};
use super::total::RouteContributions;
use crate::bounded::TableConfig;
use crate::client::key::Prefix;
use crate::codec::{CHECK_LEN, DecodeError, seal};
use crate::egress::{Carrier, EgressNames, RouteTable};
use crate::fleet::{Head, Moments, Pop, Register};
use crate::policy::PolicyConfig;
use hikyaku_units::{Secs, Timestamp};

const START: u32 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::from_secs(START.into())
}

/// A row of the first carriers, by mean and weight; a weight of 0 is unknown.
fn row(known: &[(f64, f64)]) -> Row {
    let mut row = [Moments::default(); Carrier::COUNT];
    for (part, (mean, weight)) in row.iter_mut().zip(known) {
        *part = Moments::new(*mean, *weight);
    }
    row
}

fn mean(row: &Row, place: usize) -> f64 {
    row[place].mean().unwrap()
}

/// By how much a carrier lies above the first one.
fn above_first(row: &Row, place: usize) -> f64 {
    mean(row, place) - mean(row, 0)
}

#[test]
fn rows_of_other_zeros_are_added_by_their_differences() {
    let total = differences::total(&[
        row(&[(0.0, 8.0), (1.0, 4.0)]),
        row(&[(0.0, 0.0), (5.0, 4.0), (7.0, 2.0)]),
    ]);
    let near = |got: f64, want: f64| (got - want).abs() < 1e-3;
    assert!(near(above_first(&total, 1), 1.0), "{total:?}");
    assert!(near(above_first(&total, 2), 3.0), "{total:?}");
    assert_eq!(total[1].weight, 8.0);
    let none = differences::total(&[]);
    assert!(none.iter().all(|part| part.mean().is_none()));
}

#[test]
fn rows_that_disagree_count_by_their_evidence() {
    let total = differences::total(&[
        row(&[(0.0, 30.0), (1.0, 30.0)]),
        row(&[(0.0, 10.0), (3.0, 10.0)]),
    ]);
    let apart = above_first(&total, 1);
    assert!((apart - 1.5).abs() < 1e-3, "{apart}");
    assert!(total[1].variance() > 0.1, "they scatter: {total:?}");
}

fn contribution(carriers: &[(&str, Parts)], ago: u32) -> RouteContribution {
    let carriers = carriers.iter().map(|(name, parts)| {
        let name = match *name {
            "" => Named::Plain,
            "+" => Named::Aggregate,
            name => Named::Egress(name.into()),
        };
        (name, *parts)
    });
    RouteContribution {
        head: Head {
            pop: Pop::named("fra1"),
            at: Secs::new(START - ago),
        },
        carriers: carriers.collect(),
    }
}

fn parts() -> impl Strategy<Value = Parts> {
    let part = |most: f64, low: f64, high: f64| {
        (low..high, 0.0..most).prop_map(|(mean, weight)| Moments::new(mean, weight))
    };
    let difference = || part(256.0, -6.0, 6.0);
    let all = (
        difference(),
        difference(),
        difference(),
        part(1e5, 0.0, 1.0),
        part(8e4, 0.0, 1.0),
        part(8e4, 0.0, 1.0),
    );
    all.prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f])
}

#[test]
fn routes_that_this_edge_does_not_have_are_left_out() {
    let known: Parts = [Moments::new(0.0, 9.0); Part::ALL.len()];
    let mut names = EgressNames::default();
    assert!(names.update(&["transit-a"]).is_empty());
    let mut fields = RouteContributions::default();
    fields.put(1, contribution(&[("transit-a", known), ("", known)], 0));
    fields.put(2, contribution(&[("transit-b", known)], 0));
    let policy = PolicyConfig::default();
    let total = |me| fields.remote(&me, Pop::named("fra1"), &names, now(), &policy);
    assert_eq!(
        (total(0).edges(), total(1).edges(), total(2).edges()),
        (1, 0, 1)
    );
    let elsewhere = fields.remote(&0, Pop::named("sin1"), &names, now(), &policy);
    assert_eq!(elsewhere.edges(), 0);
}

#[test]
fn an_edge_that_restarts_goes_on_with_its_own_routes() {
    const CONFIG: TableConfig = TableConfig {
        max_records: 100,
        hash_key: [1, 2],
        journal: false,
    };
    let known = |weight: f64| [Moments::new(0.0, weight); Part::ALL.len()];
    let prefix: Prefix = "192.0.2.0/24".parse().unwrap();
    let mut names = EgressNames::default();
    assert!(names.update(&["transit-a"]).is_empty());
    let former = contribution(&[("transit-a", known(9.0)), ("", known(4.0))], 60);
    let mut table = RouteTable::new(CONFIG, Arc::new(PolicyConfig::default()));
    table.share(Pop::named("fra1"), CONFIG);
    let weights = |table: &mut RouteTable| {
        table.mark_all_shared();
        let written = table.drain_shared(100, &names);
        let read =
            |(_, bytes): &(Prefix, Box<[u8]>)| RouteContribution::decode(bytes, now()).unwrap();
        let of =
            |all: RouteContribution| all.carriers.values().map(|parts| parts[0].weight).collect();
        written.first().map(read).map_or(Vec::new(), of)
    };
    table.take_up(
        prefix,
        &former,
        &names,
        Timestamp::from_secs(u64::from(START) - 61),
    );
    assert!(weights(&mut table).is_empty(), "it is of this life");
    for _ in 0..2 {
        table.take_up(prefix, &former, &names, now());
        assert!(
            table.drain_shared(100, &names).is_empty(),
            "it is in the store"
        );
        let weights: Vec<f64> = weights(&mut table);
        for (weight, want) in weights.iter().zip([4.0, 9.0]) {
            assert!((weight - want).abs() < 0.02, "{weights:?}");
        }
        assert_eq!(weights.len(), 2);
    }
}

#[test]
fn what_is_no_contribution_is_refused_with_the_reason() {
    let known: Parts = [Moments::new(0.0, 9.0); Part::ALL.len()];
    let good = contribution(&[("transit-a", known)], 0).encode();
    let changed = |place: usize, value: u8| {
        let mut bytes = good.to_vec();
        bytes[place] = value;
        seal(&mut bytes);
        bytes
    };
    let field = |field| Err(DecodeError::Field { field });
    let length = Err(DecodeError::Length { len: good.len() });
    type Case<'a> = (&'a str, Vec<u8>, Result<(), DecodeError>);
    let cases: &[Case<'_>] = &[
        ("good", good.to_vec(), Ok(())),
        (
            "another release's",
            changed(0, 9),
            Err(DecodeError::Version { version: 9 }),
        ),
        (
            "of the future",
            changed(12, 0xff),
            field("time of observation"),
        ),
        (
            "too many carriers",
            changed(13, 1 + Carrier::COUNT as u8),
            field("carrier"),
        ),
        ("a carrier too few", changed(13, 0), length),
        ("another kind of carrier", changed(14, 3), field("carrier")),
        ("plain with a name", changed(14, 0), field("carrier")),
        ("no UTF-8", changed(16, 0xff), field("carrier")),
        ("unknown parts", changed(25, 0xff), field("carrier")),
    ];
    for (name, bytes, want) in cases {
        let got = RouteContribution::decode(bytes, now()).map(drop);
        assert_eq!(got, *want, "{name}");
    }
}

proptest! {
    #[test]
    fn true_differences_are_found_whatever_the_zeros(
        truth in uniform4(-3.0f64..3.0),
        edges in vec((-5.0f64..5.0, uniform4(0.5f64..200.0)), 1..12),
        turn in any::<usize>(),
    ) {
        let mut rows: Vec<Row> = edges.iter().map(|(zero, weights)| {
            let known: Vec<_> = truth.iter().zip(weights).map(|(mean, weight)| (mean + zero, *weight)).collect();
            row(&known)
        }).collect();
        let total = differences::total(&rows);
        for place in 1..4 {
            let (got, want) = (above_first(&total, place), truth[place] - truth[0]);
            prop_assert!((got - want).abs() < 1e-3, "{got} {want}");
            let weight: f64 = edges.iter().map(|(_, weights)| weights[place]).sum();
            prop_assert!((total[place].weight - weight).abs() < 1e-9 * weight);
        }
        let turn = turn % rows.len();
        rows.rotate_left(turn);
        let turned = differences::total(&rows);
        for row in &mut rows {
            row.iter_mut().for_each(|part| part.fade(0.25));
        }
        let faded = differences::total(&rows);
        for place in 0..4 {
            prop_assert!((above_first(&turned, place) - above_first(&total, place)).abs() < 1e-6);
            prop_assert!((faded[place].weight - total[place].weight / 4.0).abs() < 1e-6);
            prop_assert!((above_first(&faded, place) - above_first(&total, place)).abs() < 1e-3);
        }
    }

    /// Two carriers of the weights w and v differ by the evidence w v / (w + v). One edge has at most half of
    /// the most weight, and moves a difference by no more than its share.
    #[test]
    fn one_edge_moves_a_difference_by_no_more_than_its_share(
        honest in vec((-3.0f64..3.0, 1.0f64..256.0, 1.0f64..256.0), 1..10),
        nonsense in [(-6.0f64..6.0, 0.01f64..256.0), (-6.0f64..6.0, 0.01f64..256.0)],
    ) {
        let mut rows: Vec<Row> = honest.iter().map(|(apart, w, v)| row(&[(0.0, *w), (*apart, *v)])).collect();
        let before = above_first(&differences::total(&rows), 1);
        rows.push(row(&nonsense));
        let after = above_first(&differences::total(&rows), 1);
        let evidence: f64 = honest.iter().map(|(_, w, v)| w * v / (w + v)).sum();
        let share = 128.0 / (evidence + 128.0);
        prop_assert!((after - before).abs() <= share * 15.0 + 1e-3, "{before} {after}");
    }

    #[test]
    fn as_bytes_it_keeps_its_values_within_a_step(
        carriers in vec(("|\\+|[a-z]{1,12}", parts()), 1..6), ago in 0u32..1_000_000,
    ) {
        let carriers: Vec<_> = carriers.iter().map(|(name, parts)| (name.as_str(), *parts)).collect();
        let written = contribution(&carriers, ago);
        let bytes = written.encode();
        let read = RouteContribution::decode(&bytes, now()).unwrap();
        prop_assert_eq!(read.encode(), bytes);
        prop_assert_eq!(read.head, written.head);
        for (name, parts) in &written.carriers {
            for (part, is) in Part::ALL.into_iter().zip(read.carriers[name]) {
                let was = &parts[part as usize];
                prop_assert!((is.weight - was.weight).abs() <= 0.002 + 2e-4 * was.weight);
                if let Some((was, is)) = was.mean().zip(is.mean()) {
                    prop_assert!((was - is).abs() <= 2e-4, "{part:?}: {was} {is}");
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in vec(any::<u8>(), 0..200), is_sealed: bool) {
        if is_sealed && bytes.len() > CHECK_LEN {
            bytes[0] = 1;
            seal(&mut bytes);
        }
        if let Ok(read) = RouteContribution::decode(&bytes, now()) {
            for part in read.carriers.values().flatten() {
                prop_assert!(part.weight.is_finite() && part.mean().is_none_or(f64::is_finite));
            }
        }
    }
}
