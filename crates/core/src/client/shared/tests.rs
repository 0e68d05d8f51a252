//! Contributions and totals by example.

mod properties;

use super::statistic::{OF_PART, PARTS};
use super::{Contribution, Contributions, MAX_ENCODED_LEN, Remote, Statistic};
use crate::client::estimate::{Estimate, LossCount, MinRtt, OpenRate};
use crate::client::udp::{UdpHealth, UdpState};
use crate::codec::{CHECK_LEN, DecodeError, seal};
use crate::fleet::{Pop, Reach, Register};
use crate::policy::PolicyConfig;
use crate::stat::Stat;
use hikyaku_units::{Secs, Timestamp};

const START: u32 = 1_800_000_000;
const HOUR: u32 = 3600;

fn now() -> Timestamp {
    Timestamp::from_secs(START.into())
}

fn policy() -> PolicyConfig {
    PolicyConfig::default()
}

fn here() -> Pop {
    Pop::named("fra1")
}

/// A prefix with so many path samples of this RTT, seen `ago` seconds before now.
fn path(samples: f32, rtt_ms: u32, ago: u32) -> Estimate {
    let at = Secs::new(START - ago);
    let rate = Stat {
        mean: 17.0,
        var: 0.04,
        weight: samples,
    };
    Estimate {
        at,
        samples,
        min_rtt: MinRtt {
            current: rtt_ms * 1000,
            previous: 0,
            begun: at,
        },
        srtt: rtt_ms * 1100,
        loss: [
            LossCount {
                sent: 1000.0,
                lost: 10.0,
            },
            LossCount::default(),
        ],
        rate: [rate, Stat::default()],
        open_rate: [OpenRate(17.5), OpenRate::default()],
        size: 11.5,
        size_weight: samples,
        ..Estimate::default()
    }
}

fn udp(state: UdpState, ago: u32) -> Estimate {
    Estimate {
        at: Secs::new(START - ago),
        udp: UdpHealth {
            state,
            ..UdpHealth::default()
        },
        ..Estimate::default()
    }
}

/// As readers get it.
fn read(own: &Estimate, pop: Pop) -> Contribution {
    let written = Contribution::of(own, pop, &policy().half_life).unwrap();
    Contribution::decode(&written.encode(), now()).unwrap()
}

/// The total of edges 1, 2 and so on, as edge 0 of `fra1` reads it.
fn remote(edges: &[(Estimate, Pop)]) -> Remote {
    let mut contributions = Contributions::default();
    for (edge, (own, pop)) in (1..).zip(edges) {
        contributions.put(edge, read(own, *pop));
    }
    contributions.remote(&0, here(), now(), &policy())
}

/// The table of statistics in the document is the one in the code.
#[test]
fn the_document_names_each_statistic_with_its_reach() {
    let document = include_str!("../../../../../docs/fleet.md");
    let rows: Vec<Vec<&str>> = document
        .lines()
        .filter(|line| line.ends_with("| PoP |") || line.ends_with("| fleet |"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let named: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (row[1], row[row.len() - 2]))
        .collect();
    let want = Statistic::ALL.map(|statistic| {
        let reach = match statistic.reach() {
            Reach::Pop => "PoP",
            Reach::Fleet => "fleet",
        };
        (statistic.name(), reach)
    });
    assert_eq!(named, want);
}

#[test]
fn parts_lie_one_behind_the_other() {
    let mut next = 0;
    for statistic in Statistic::ALL {
        assert_eq!(statistic.first(), next);
        for place in statistic.places() {
            assert_eq!(OF_PART[place], statistic);
        }
        next = statistic.places().end;
    }
    assert_eq!(next, PARTS);
}

#[test]
fn the_path_is_that_of_the_pop_and_the_rest_that_of_the_fleet() {
    let there = Pop::named("sin1");
    let total = remote(&[
        (path(10.0, 20, 0), here()),
        (path(10.0, 20, 0), here()),
        (path(10.0, 200, 0), there),
    ]);
    let (pop, fleet) = (total.pop.unwrap(), total.fleet.unwrap());
    assert_eq!((pop.edges, fleet.edges), (2, 3));
    let near = |got: f32, want: f32| (got - want).abs() < 1e-3 * want;
    assert!(near(pop.estimate.samples, 20.0), "{pop:?}");
    let rtt = pop.estimate.min_rtt.get().unwrap().as_secs_f32();
    assert!(near(rtt, 0.02), "{pop:?}");
    assert!(near(pop.estimate.loss[0].sent, 2000.0), "{pop:?}");
    assert!(near(pop.estimate.loss[0].lost, 20.0), "{pop:?}");
    assert!(near(pop.estimate.rate[0].var, 0.04), "{pop:?}");
    assert_eq!(pop.estimate.size_weight, 0.0);
    assert_eq!(fleet.estimate.samples, 0.0);
    assert_eq!(fleet.estimate.min_rtt.get(), None);
    assert!(near(fleet.estimate.size_weight, 30.0), "{fleet:?}");
    assert!(near(fleet.estimate.size, 11.5), "{fleet:?}");
}

#[test]
fn an_edge_does_not_hear_itself() {
    let mut contributions = Contributions::default();
    contributions.put(0, read(&path(10.0, 20, 0), here()));
    let total = contributions.remote(&0, here(), now(), &policy());
    assert_eq!((total.pop, total.fleet), (None, None));
}

#[test]
fn weights_fade_to_the_newest_observation() {
    let half_life = policy().half_life.rate.as_secs() as u32;
    let total = remote(&[
        (path(8.0, 20, half_life), here()),
        (path(8.0, 20, 0), here()),
    ]);
    let pop = total.pop.unwrap().estimate;
    assert_eq!(pop.at, Secs::new(START));
    assert!((pop.rate[0].weight - 12.0).abs() < 0.01, "{pop:?}");
    let old = remote(&[(path(8.0, 20, half_life), here())]);
    let old = old.pop.unwrap().estimate;
    assert_eq!(old.at, Secs::new(START - half_life));
    assert!((old.rate[0].weight - 8.0).abs() < 0.01, "{old:?}");
}

#[test]
fn udp_fails_where_more_edges_say_so_than_saw_it_work() {
    let later = Secs::new(START + HOUR);
    let works = |ago| {
        let seen = Secs::new(START - ago);
        udp(UdpState::Working { since: seen, seen }, 0)
    };
    let never = udp(UdpState::NeverCame { next_probe: later }, 0);
    let broken = udp(
        UdpState::Broken {
            since: Secs::new(START),
            next_probe: later,
        },
        0,
    );
    let suspect = udp(
        UdpState::Suspect {
            since: Secs::new(START),
            delivered: false,
        },
        0,
    );
    let days = 86_400;
    // name, edges, number of the state: 0 unknown, 1 working, 3 never came, 4 broken
    type Case<'a> = (&'a str, &'a [Estimate], u8);
    let cases: &[Case<'_>] = &[
        ("suspicions are not shared", &[suspect, suspect], 0),
        ("one that works", &[works(0)], 1),
        ("one that fails", &[never], 3),
        ("one against one", &[never, works(0)], 1),
        (
            "one against one of a week ago",
            &[never, works(7 * days)],
            3,
        ),
        ("the kind that most name", &[never, broken, broken], 4),
        ("long ago", &[works(30 * days)], 0),
    ];
    for (name, edges, want) in cases {
        let edges: Vec<_> = edges.iter().map(|edge| (*edge, here())).collect();
        let total = remote(&edges).fleet;
        let state = total.map_or(UdpState::Unknown, |fleet| fleet.estimate.udp.state);
        let got = match state {
            UdpState::Unknown => 0,
            UdpState::Working { .. } => 1,
            UdpState::Suspect { .. } => 2,
            UdpState::NeverCame { next_probe } => {
                assert!(next_probe.get().abs_diff(later.get()) <= 60, "{name}");
                3
            }
            UdpState::Broken { .. } => 4,
            UdpState::Throttled { .. } => 5,
        };
        assert_eq!(got, *want, "{name}: {state:?}");
    }
}

#[test]
fn no_edge_plans_a_probe_later_than_the_reader_would() {
    let next_probe = Secs::new(START + 30 * 86_400);
    let never = udp(UdpState::NeverCame { next_probe }, 0);
    let total = remote(&[(never, here())]).fleet.unwrap();
    let latest = Secs::new(START).saturating_add(policy().udp.probe_max);
    let want = UdpState::NeverCame { next_probe: latest };
    assert_eq!(total.estimate.udp.state, want);
}

#[test]
fn what_is_no_contribution_is_refused_with_the_reason() {
    let good = read(&path(10.0, 20, 0), here()).encode();
    assert!(good.len() <= MAX_ENCODED_LEN);
    assert_eq!(MAX_ENCODED_LEN, 113, "the document says so");
    let changed = |place: usize, value: u8| {
        let mut bytes = good.to_vec();
        bytes[place] = value;
        seal(&mut bytes);
        bytes
    };
    let mut longer = good.to_vec();
    longer.insert(good.len() - CHECK_LEN, 0);
    seal(&mut longer);
    let mut unsealed = good.to_vec();
    unsealed[20] ^= 1;
    let ahead = path(10.0, 20, 0);
    let ahead = Estimate {
        at: Secs::new(START + 301),
        ..ahead
    };
    let ahead = Contribution::of(&ahead, here(), &policy().half_life).unwrap();
    let field = |field| Err(DecodeError::Field { field });
    type Case<'a> = (&'a str, Vec<u8>, Result<(), DecodeError>);
    let cases: &[Case<'_>] = &[
        ("good", good.to_vec(), Ok(())),
        ("nothing", vec![], Err(DecodeError::Length { len: 0 })),
        (
            "another release's",
            changed(0, 2),
            Err(DecodeError::Version { version: 2 }),
        ),
        (
            "too long",
            longer.clone(),
            Err(DecodeError::Length { len: longer.len() }),
        ),
        ("changed", unsealed, Err(DecodeError::Check)),
        ("unknown statistics", changed(16, 0xff), field("statistics")),
        (
            "of the future",
            ahead.encode().to_vec(),
            field("time of observation"),
        ),
    ];
    for (name, bytes, want) in cases {
        let got = Contribution::decode(bytes, now()).map(drop);
        assert_eq!(got, *want, "{name}");
    }
    let fields = cases.iter().enumerate();
    let (read, unread) = Contributions::read(fields.map(|(n, case)| (n, &*case.1)), now());
    assert_eq!((read.len(), unread), (1, cases.len() - 1));
}

#[test]
fn a_clock_that_is_a_little_ahead_adds_no_weight() {
    let ahead = Estimate {
        at: Secs::new(START + 200),
        ..path(10.0, 20, 0)
    };
    let total = remote(&[(ahead, here())]).pop.unwrap().estimate;
    assert_eq!(total.at, Secs::new(START));
    assert!((total.samples - 10.0).abs() < 0.01, "{total:?}");
}

#[test]
fn nothing_observed_is_no_contribution() {
    let half_life = policy().half_life;
    assert_eq!(
        Contribution::of(&Estimate::default(), here(), &half_life),
        None
    );
}

#[test]
fn pops_are_told_apart_by_name() {
    let names = ["", "a", "aa", "fra1", "fra2", "sin1"];
    for (place, name) in names.iter().enumerate() {
        let same = names
            .iter()
            .position(|other| Pop::named(other) == Pop::named(name));
        assert_eq!(same, Some(place));
    }
}
