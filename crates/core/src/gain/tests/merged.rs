//! Samples merge in whatever order, and are read as they were written.

use std::time::Duration;

use hikyaku_units::Timestamp;
use hikyaku_units::arm::Version;
use hikyaku_units::mix::mix;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::choice::Assignment;
use crate::codec::{CHECK_LEN, seal};
use crate::gain::{Day, Edges, Network, Response, Sample, Site, Subject};

const MAX: usize = 5;
const SITES: [&str; 3] = ["", "a.example", "b.example"];

/// A response of one of a few clients.
fn event() -> impl Strategy<Value = (Subject, usize, Response, u64)> {
    let client = (0_u64..20, any::<bool>(), 0_u16..2);
    let response = (0_usize..3, 0_u64..3_000_000, 0_u64..400_000, any::<bool>());
    (
        client,
        0_usize..3,
        response,
        1_800_000_000_u64..1_800_100_000,
    )
        .prop_map(
            |((client, held_back, share), site, (version, bytes, millis, complete), at)| {
                let subject = Subject {
                    hash: mix(client),
                    assignment: Assignment::ALL[usize::from(held_back)],
                    share,
                    network: Network::of(std::net::IpAddr::from(
                        (client as u32 * 99).to_be_bytes(),
                    )),
                };
                let response = Response {
                    version: Version::ALL[version],
                    bytes,
                    time: Duration::from_millis(millis),
                    complete,
                };
                (subject, site, response, at)
            },
        )
}

fn sample(events: &[(Subject, usize, Response, u64)]) -> Sample {
    let mut sample = Sample::default();
    for (subject, site, response, at) in events {
        let site_id = Site::named(SITES[*site]);
        sample.name(site_id, SITES[*site]);
        let at = Timestamp::from_secs(*at);
        sample.record(subject, site_id, response, at, MAX);
    }
    sample
}

fn merged(samples: &[&Sample]) -> Sample {
    let mut all = Sample::default();
    for sample in samples {
        all.merge(sample, MAX);
    }
    all
}

proptest! {
    #[test]
    fn merged_parts_are_the_whole(
        a in vec(event(), 0..40),
        b in vec(event(), 0..40),
        c in vec(event(), 0..40),
    ) {
        let whole = sample(&[&a[..], &b, &c].concat());
        let [a, b, c] = [a, b, c].map(|events| sample(&events));
        prop_assert_eq!(&merged(&[&a, &b, &c]), &whole);
        prop_assert_eq!(&merged(&[&c, &a, &b]), &whole);
        prop_assert_eq!(&merged(&[&a, &merged(&[&b, &c])]), &whole);
        for group in &whole.groups {
            prop_assert!(group.clients.len() <= MAX);
            prop_assert!(group.clients.keys().all(|hash| *hash < group.bound));
        }
    }

    #[test]
    fn edges_join_in_whatever_order_and_as_often_as_they_come(
        samples in vec((0_u32..3, 0_u32..3, vec(event(), 0..20)), 1..8),
        at in 0_usize..8,
    ) {
        let of = |samples: &[(u32, u32, Vec<_>)]| {
            let mut edges = Edges::default();
            for (edge, day, events) in samples {
                edges.put(&edge.to_string(), Day(*day), sample(events));
            }
            edges
        };
        let all = of(&samples);
        let (left, right) = samples.split_at(at.min(samples.len()));
        let (left, right) = (of(left), of(right));
        let joined = |one: &Edges, other: &Edges| {
            let mut one = one.clone();
            one.join(other.clone());
            one
        };
        prop_assert_eq!(&joined(&left, &right), &all);
        prop_assert_eq!(&joined(&right, &left), &all);
        prop_assert_eq!(&joined(&all, &left), &all);
    }

    #[test]
    fn samples_are_read_as_they_were_written(events in vec(event(), 0..60)) {
        let sample = sample(&events);
        prop_assert_eq!(Sample::decode(&sample.encode()), Ok(sample));
    }

    #[test]
    fn nonsense_is_refused(events in vec(event(), 1..20), at: prop::sample::Index, to: u8) {
        let good = sample(&events).encode();
        for len in 0..good.len() {
            prop_assert!(Sample::decode(&good[..len]).is_err());
        }
        // With a right check, as nobody but us writes it: an impossible field is an error, and any other
        // value is written the same again.
        let mut bytes = good.clone();
        let body = bytes.len() - CHECK_LEN;
        bytes[at.index(body)] = to;
        seal(&mut bytes);
        if let Ok(read) = Sample::decode(&bytes) {
            prop_assert_eq!(Sample::decode(&read.encode()), Ok(read));
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(mut bytes in vec(any::<u8>(), 0..200), sealed: bool) {
        if sealed && bytes.len() > CHECK_LEN {
            bytes[0] = 1;
            seal(&mut bytes);
        }
        let _ = Sample::decode(&bytes);
    }
}

#[test]
fn the_population_is_estimated_from_a_sample() {
    let mut sample = Sample::default();
    for client in 0..50_000_u64 {
        let subject = Subject {
            hash: mix(client),
            assignment: Assignment::Hikyaku,
            share: 655,
            network: Network::of([192, 0, 2, 7].into()),
        };
        let response = Response {
            version: Version::H3,
            bytes: 1000,
            time: Duration::from_millis(100),
            complete: true,
        };
        let at = Timestamp::from_secs(1_800_000_000);
        sample.record(&subject, Site::named(""), &response, at, 1024);
    }
    let group = sample.group(Assignment::Hikyaku);
    assert_eq!((group.clients.len(), group.responses), (1024, 50_000));
    let population = group.population() as f64;
    assert!((population / 50_000.0 - 1.0).abs() < 0.1, "{population}");
}

#[test]
fn a_sample_is_made_to_fit() {
    let mut sample = Sample::default();
    for client in 0..3000_u64 {
        let subject = Subject {
            hash: mix(client),
            assignment: Assignment::ALL[usize::from(client % 10 == 0)],
            share: 6554,
            network: Network::of([192, 0, 2, 7].into()),
        };
        let response = Response {
            version: Version::H3,
            bytes: 1000,
            time: Duration::from_millis(100),
            complete: true,
        };
        let at = Timestamp::from_secs(1_800_000_000);
        sample.record(&subject, Site::named(""), &response, at, 8192);
    }
    let clients = |sample: &Sample| sample.groups.each_ref().map(|group| group.clients.len());
    for (max, least) in [(64 << 10, [1500, 300]), (20_000, [250, 250]), (200, [0, 0])] {
        let bytes = sample.encode_within(max);
        assert!(bytes.len() <= max, "{} of {max}", bytes.len());
        let smaller = Sample::decode(&bytes).unwrap();
        let [own, other] = clients(&smaller);
        assert!(
            own >= least[0] && other >= least[1],
            "{max}: {own} and {other}"
        );
        assert_eq!(smaller.responses(), sample.responses());
        let population = smaller.group(Assignment::Hikyaku).population() as f64;
        assert!(
            own < 100 || (population / 2700.0 - 1.0).abs() < 0.2,
            "{population}"
        );
    }
    assert_eq!(sample.encode_within(1 << 20), sample.encode());
}

#[test]
fn later_samples_of_an_edge_replace_former_ones() {
    let event = |n: u64| {
        let subject = Subject {
            hash: mix(n),
            assignment: Assignment::HoldBack,
            share: 1,
            network: Network::of([192, 0, 2, 7].into()),
        };
        let response = Response {
            version: Version::H2,
            bytes: 0,
            time: Duration::from_millis(5),
            complete: true,
        };
        (subject, 1, response, 1_800_000_000 + n)
    };
    let day = Day(7);
    let mut edges = Edges::default();
    edges.put("a", day, sample(&[event(1), event(2)]));
    edges.put("a", day, sample(&[event(1)]));
    edges.put("b", day, sample(&[event(3)]));
    edges.put("b", Day(6), sample(&[event(4)]));
    assert_eq!(edges.merged(day, MAX).responses(), 3);
    assert_eq!((edges.count(day), edges.count(Day(8))), (2, 0));
    edges.forget_before(day);
    assert_eq!(edges.merged(Day(0), MAX).responses(), 3);
}
