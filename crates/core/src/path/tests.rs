mod explained;
mod kept;
mod properties;
mod simulation;
mod stalls;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Candidates, Criterion, Mode, PathId, PathNames, PathObservation, PathSet, PathTable,
    PathTableConfig, Route, RouteDecision, decide_route,
};
use crate::decide::{Group, Session};
use crate::policy::PolicyConfig;
use crate::table::Scope;
use crate::units::{Rate, Timestamp};

/// The path that plain takes, and two others.
const BEST: PathId = PathId(0);
const OTHER: PathId = PathId(1);
const THIRD: PathId = PathId(2);
const PLAIN: Route = Route::Plain;
const STEERED: Route = Route::Steered(OTHER);
const SEVERAL: Route = Route::Aggregated;

/// A table under a virtual clock, with what a client of an AS may get.
struct World {
    table: PathTable,
    policy: Arc<PolicyConfig>,
    candidates: Candidates,
    now: Timestamp,
}

const CLIENT: &str = "192.0.2.1";
const NEIGHBOUR: &str = "192.0.2.2";
const AS: Option<u32> = Some(64_496);

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

impl World {
    /// Without experiments and hold-back, which tests of other things do not expect.
    fn new() -> Self {
        Self::with(PolicyConfig {
            exploration: 0.0,
            holdback: 0.0,
            ..PolicyConfig::default()
        })
    }

    fn with(policy: PolicyConfig) -> Self {
        let policy = Arc::new(policy);
        let config = PathTableConfig {
            max_records: 1000,
            hash_key: [1, 2],
            journal: true,
        };
        Self {
            table: PathTable::new(config, Arc::clone(&policy)),
            policy,
            candidates: Candidates {
                plain_is: Some(BEST),
                paths: [BEST, OTHER, THIRD].into_iter().collect(),
                aggregate: true,
                ..Candidates::default()
            },
            now: Timestamp::from_secs(1_800_000_000),
        }
    }

    fn pass(&mut self, secs: u64) {
        self.now = self.now.saturating_add(Duration::from_secs(secs));
    }

    fn learn(&mut self, client: &str, route: Route, seen: &PathObservation) {
        let carrier = route.carrier(self.candidates.plain_is);
        self.table.learn(addr(client), AS, carrier, seen, self.now);
    }

    /// Responses of 1 MB.
    fn see(&mut self, client: &str, route: Route, times: usize, mbps: u64, rtt_ms: u64) {
        for _ in 0..times {
            self.learn(client, route, &response(mbps, rtt_ms));
        }
    }

    /// Decides without applying it.
    fn asked(&self, client: &str, criterion: Criterion) -> RouteDecision {
        let view = self.table.view(addr(client), AS, self.now);
        let session = Session(1);
        decide_route(&view, criterion, &self.candidates, &self.policy, session, 1)
    }

    fn decide(&mut self, client: &str, criterion: Criterion) -> RouteDecision {
        let decision = self.asked(client, criterion);
        self.table.decided(addr(client), criterion, &decision);
        decision
    }

    fn goodput(&self, client: &str, route: Route) -> Option<f64> {
        let view = self.table.view(addr(client), AS, self.now);
        let goodput = view.quality(route, self.candidates.plain_is).goodput();
        goodput.map(Rate::mbps)
    }
}

fn response(mbps: u64, rtt_ms: u64) -> PathObservation {
    PathObservation {
        bytes: 1_000_000,
        duration: Duration::from_micros(8_000_000 / mbps),
        app_limited: false,
        rtt: Some(Duration::from_millis(rtt_ms)),
        packets_sent: 700,
        packets_lost: 0,
        stalled: Duration::ZERO,
    }
}

#[test]
fn what_is_surely_better_is_chosen() {
    use Criterion::{Goodput, Rtt, Stall};
    // name, wants, [(route, responses, Mbit/s, RTT in ms)], route, reason
    type Case<'a> = (
        &'a str,
        Criterion,
        &'a [(Route, usize, u64, u64)],
        Route,
        &'a str,
    );
    let cases: &[Case<'_>] = &[
        ("nothing is known", Goodput, &[], PLAIN, "too_few_samples"),
        (
            "plain alone is known",
            Goodput,
            &[(PLAIN, 20, 10, 30)],
            PLAIN,
            "too_few_samples",
        ),
        (
            "the other alone is known",
            Goodput,
            &[(STEERED, 20, 10, 30)],
            PLAIN,
            "too_few_samples",
        ),
        (
            "one response is too few, however fast",
            Goodput,
            &[(PLAIN, 20, 10, 30), (STEERED, 1, 90, 30)],
            PLAIN,
            "too_few_samples",
        ),
        (
            "two are enough where they differ very much",
            Goodput,
            &[(PLAIN, 20, 10, 30), (STEERED, 2, 20, 30)],
            STEERED,
            "more_goodput",
        ),
        (
            "but not for what eight would prove",
            Goodput,
            &[(PLAIN, 20, 10, 30), (STEERED, 2, 14, 30)],
            PLAIN,
            "too_few_samples",
        ),
        (
            "as eight do",
            Goodput,
            &[(PLAIN, 20, 10, 30), (STEERED, 8, 14, 30)],
            STEERED,
            "more_goodput",
        ),
        (
            "the other is twice as fast",
            Goodput,
            &[(PLAIN, 20, 10, 30), (STEERED, 8, 20, 30)],
            STEERED,
            "more_goodput",
        ),
        (
            "a gain that is not sure",
            Goodput,
            &[(PLAIN, 20, 20, 30), (STEERED, 4, 23, 30)],
            PLAIN,
            "no_gain",
        ),
        (
            "a gain that is too small",
            Goodput,
            &[(PLAIN, 99, 100, 30), (STEERED, 99, 103, 30)],
            PLAIN,
            "no_gain",
        ),
        (
            "several are better than the best single one",
            Goodput,
            &[
                (PLAIN, 20, 10, 30),
                (STEERED, 16, 20, 30),
                (SEVERAL, 16, 30, 30),
            ],
            SEVERAL,
            "more_goodput",
        ),
        (
            "several are better than plain, but not than the best single one",
            Goodput,
            &[
                (PLAIN, 20, 10, 30),
                (STEERED, 16, 20, 30),
                (SEVERAL, 16, 20, 30),
            ],
            STEERED,
            "more_goodput",
        ),
        (
            "interactive content wants the shorter one, however slow",
            Rtt,
            &[(PLAIN, 20, 100, 60), (STEERED, 20, 10, 30)],
            STEERED,
            "shorter_rtt",
        ),
        (
            "bulk content does not",
            Goodput,
            &[(PLAIN, 20, 100, 60), (STEERED, 20, 10, 30)],
            PLAIN,
            "no_gain",
        ),
        (
            "live content without stalls wants the shorter one",
            Stall,
            &[(PLAIN, 20, 20, 60), (STEERED, 20, 15, 30)],
            STEERED,
            "shorter_rtt",
        ),
        (
            "but enough goodput before that",
            Stall,
            &[(PLAIN, 20, 20, 60), (STEERED, 20, 4, 30)],
            PLAIN,
            "no_gain",
        ),
        (
            "so that a longer one may be better",
            Stall,
            &[(PLAIN, 20, 4, 30), (STEERED, 20, 20, 60)],
            STEERED,
            "more_goodput",
        ),
    ];
    for (name, wants, seen, route, code) in cases {
        let mut world = World::new();
        for &(route, times, mbps, rtt) in *seen {
            world.see(CLIENT, route, times, mbps, rtt);
        }
        let decision = world.decide(CLIENT, *wants);
        let got = (decision.route, decision.reason.code());
        assert_eq!(got, (*route, *code), "{name}: {decision:?}");
    }
}

#[test]
fn routes_of_one_rtt_differ_by_loss() {
    let mut world = World::new();
    for (route, lost) in [(PLAIN, 14), (STEERED, 0)] {
        for _ in 0..20 {
            let seen = PathObservation {
                packets_lost: lost,
                ..response(20, 30)
            };
            world.learn(CLIENT, route, &seen);
        }
    }
    let decision = world.decide(CLIENT, Criterion::Rtt);
    assert_eq!(
        (decision.route, decision.reason.code()),
        (STEERED, "less_loss")
    );
}

#[test]
fn operators_have_the_last_word() {
    let all = World::new().candidates;
    let of = |mode, paths: &[PathId]| Candidates {
        mode,
        allowed: paths.iter().copied().collect(),
        ..all
    };
    let named = |path| Candidates {
        named: Some(path),
        ..all
    };
    let alone = Candidates {
        paths: PathSet::EMPTY,
        aggregate: false,
        ..all
    };
    // name, policy.path, candidates, route, reason
    type Case<'a> = (&'a str, &'a str, Candidates, Route, &'a str);
    let cases: &[Case<'_>] = &[
        ("all pinned to plain", "plain", all, PLAIN, "pinned"),
        ("to a path", "transit-b", named(OTHER), STEERED, "pinned"),
        (
            "to the path that plain takes, which BGP may change",
            "transit-a",
            named(BEST),
            Route::Steered(BEST),
            "pinned",
        ),
        (
            "to one that there is not",
            "transit-z",
            all,
            PLAIN,
            "pinned_missing",
        ),
        (
            "to one that is down",
            "transit-b",
            Candidates {
                paths: [BEST].into_iter().collect(),
                ..named(OTHER)
            },
            PLAIN,
            "pinned_missing",
        ),
        ("to several", "aggregate", all, SEVERAL, "pinned"),
        ("without MPTCP", "aggregate", alone, PLAIN, "pinned_missing"),
        (
            "policy: plain",
            "adaptive",
            of(Mode::Plain, &[]),
            PLAIN,
            "policy",
        ),
        (
            "policy: several",
            "adaptive",
            of(Mode::Aggregated, &[]),
            SEVERAL,
            "policy",
        ),
        (
            "policy: one path",
            "adaptive",
            Candidates {
                aggregate: false,
                ..of(Mode::Steered, &[THIRD])
            },
            Route::Steered(THIRD),
            "policy",
        ),
        (
            "policy: the better of two",
            "adaptive",
            of(Mode::Steered, &[OTHER, THIRD]),
            STEERED,
            "no_gain",
        ),
        (
            "policy: of these paths",
            "adaptive",
            of(Mode::Adaptive, &[BEST, THIRD]),
            PLAIN,
            "no_gain",
        ),
        ("no path", "adaptive", alone, PLAIN, "only"),
    ];
    for (name, path, candidates, route, code) in cases {
        let mut world = World::with(PolicyConfig {
            path: path.parse().unwrap(),
            exploration: 0.0,
            holdback: 0.0,
            ..PolicyConfig::default()
        });
        world.see(CLIENT, PLAIN, 20, 10, 30);
        world.see(CLIENT, STEERED, 20, 20, 30);
        world.see(CLIENT, Route::Steered(THIRD), 20, 5, 30);
        world.candidates = *candidates;
        let decision = world.decide(CLIENT, Criterion::Goodput);
        let got = (decision.route, decision.reason.code());
        assert_eq!(got, (*route, *code), "{name}: {decision:?}");
    }
}

#[test]
fn the_hold_back_group_stays_on_plain() {
    let mut world = World::with(PolicyConfig {
        holdback: 1.0,
        ..PolicyConfig::default()
    });
    world.see(CLIENT, PLAIN, 20, 10, 30);
    world.see(CLIENT, STEERED, 20, 20, 30);
    let decision = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!((decision.route, decision.group), (PLAIN, Group::HoldBack));
}

#[test]
fn a_new_prefix_starts_with_what_its_as_has_shown() {
    let mut world = World::new();
    // Access lines differ by far more than the paths do.
    for (n, mbps) in (0..8).zip([5, 200, 20, 80, 10, 150, 40, 8]) {
        let client = format!("198.51.{n}.1");
        world.see(&client, PLAIN, 8, mbps, 30);
        world.see(&client, STEERED, 2, 2 * mbps, 20);
    }
    let new = "203.0.113.1";
    assert_eq!(
        world.goodput(new, PLAIN),
        None,
        "differences alone are known"
    );
    let decision = world.decide(new, Criterion::Goodput);
    assert_eq!(decision.route, STEERED, "{decision:?}");
    assert_eq!(world.decide(new, Criterion::Rtt).route, STEERED);

    // Its own samples count more.
    world.see(new, STEERED, 6, 10, 30);
    world.see(new, PLAIN, 6, 30, 30);
    let decision = world.decide(new, Criterion::Goodput);
    assert_eq!(decision.route, PLAIN, "{decision:?}");

    let foreign = world.table.view(addr("203.0.114.1"), Some(1), world.now);
    let quality = foreign.quality(STEERED, world.candidates.plain_is);
    assert_eq!(quality.samples(Criterion::Goodput), 0.0, "another AS");
}

#[test]
fn what_is_common_to_all_routes_says_nothing_of_their_difference() {
    let mut world = World::new();
    for n in 0..8 {
        let client = format!("198.51.{n}.1");
        world.see(&client, PLAIN, 8, 40, 30);
        world.see(&client, STEERED, 2, 36, 30);
    }
    world.pass(3 * 3600);
    // In the evening all is slower, as plain's responses show.
    for n in 0..8 {
        world.see(&format!("198.51.{n}.1"), PLAIN, 40, 10, 30);
    }
    let decision = world.decide("203.0.113.1", Criterion::Goodput);
    assert_eq!(decision.route, PLAIN, "{decision:?}");
}

#[test]
fn plain_and_its_path_are_known_as_one() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 20, 10, 30);
    world.see(CLIENT, STEERED, 20, 20, 30);
    assert_eq!(
        world.goodput(CLIENT, Route::Steered(BEST)),
        world.goodput(CLIENT, PLAIN)
    );
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, STEERED);
    // BGP chooses the better one: plain takes it, and there is nothing to gain by a mark.
    world.candidates.plain_is = Some(OTHER);
    assert!((world.goodput(CLIENT, PLAIN).unwrap() - 20.0).abs() < 0.1);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
}

#[test]
fn app_limited_responses_raise_a_goodput_but_never_lower_it() {
    let mut world = World::new();
    let limited = |mbps| PathObservation {
        app_limited: true,
        ..response(mbps, 30)
    };
    world.see(CLIENT, PLAIN, 16, 20, 30);
    for _ in 0..20 {
        world.learn(CLIENT, PLAIN, &limited(2));
    }
    assert!((world.goodput(CLIENT, PLAIN).unwrap() - 20.0).abs() < 0.1);
    for _ in 0..40 {
        world.learn(CLIENT, PLAIN, &limited(40));
    }
    assert!(world.goodput(CLIENT, PLAIN).unwrap() > 30.0);
    // Alone they are worth little: nothing is decided by them.
    for _ in 0..20 {
        world.learn(NEIGHBOUR, STEERED, &limited(2));
    }
    assert_eq!(world.asked(CLIENT, Criterion::Goodput).route, PLAIN);
}

#[test]
fn what_was_chosen_is_kept_until_it_is_expected_to_be_worse() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 16, 10, 30);
    world.see(CLIENT, STEERED, 16, 20, 30);
    assert_eq!(
        world.decide(CLIENT, Criterion::Goodput).reason.code(),
        "more_goodput"
    );
    // Twelve hours later plain has faded, and hardly anything could be proved against it.
    world.pass(12 * 3600);
    world.see(CLIENT, STEERED, 16, 20, 30);
    let decision = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!((decision.route, decision.reason.code()), (STEERED, "kept"));
    // It gets worse than plain was: back at once, without proof.
    world.see(CLIENT, STEERED, 48, 9, 30);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
    // Other criteria were not kept on anything.
    assert_eq!(world.decide(CLIENT, Criterion::Rtt).route, PLAIN);
}

#[test]
fn several_are_left_when_they_harm() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 16, 20, 30);
    world.see(CLIENT, SEVERAL, 16, 30, 30);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, SEVERAL);
    // A client without MPTCP does not change that for its neighbours.
    world.candidates.aggregate = false;
    assert_eq!(world.decide(NEIGHBOUR, Criterion::Goodput).route, PLAIN);
    world.candidates.aggregate = true;
    world.see(CLIENT, SEVERAL, 16, 21, 30);
    let decision = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!((decision.route, decision.reason.code()), (SEVERAL, "kept"));
    world.see(CLIENT, SEVERAL, 48, 18, 30);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
}

#[test]
fn backups_are_never_explored() {
    let mut world = World::with(PolicyConfig {
        exploration: 1.0,
        holdback: 0.0,
        ..PolicyConfig::default()
    });
    world.candidates.aggregate = false;
    world.candidates.backup.insert(OTHER);
    let unknown = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!(unknown.route, PLAIN, "there is nothing to compare with");
    world.see(CLIENT, PLAIN, 2, 10, 30);
    let decision = world.decide(CLIENT, Criterion::Goodput);
    assert_eq!(
        (decision.route, decision.group),
        (Route::Steered(THIRD), Group::Explore)
    );
    world.candidates.backup.insert(THIRD);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
}

#[test]
fn tables_are_bounded_and_forget() {
    let mut world = World::new();
    for n in 0..3000 {
        let client = format!("10.{}.{}.1", n / 256, n % 256);
        world.see(&client, PLAIN, 1, 10, 30);
    }
    assert_eq!((world.table.len(), world.table.capacity()), (1000, 1000));
    world.see(CLIENT, STEERED, 8, 10, 30);
    let prefix = "192.0.2.0/24".parse().unwrap();
    assert_eq!(
        world.table.forget(Scope::Prefix(prefix)),
        2,
        "and the client"
    );
    assert_eq!(world.goodput(CLIENT, STEERED), None);
    for (client, other) in [(CLIENT, NEIGHBOUR), ("2001:db8:1::1", "2001:db8:1:0ff::1")] {
        world.see(client, STEERED, 8, 10, 30);
        let forgotten = world.table.forget(Scope::Address(addr(other)));
        assert_eq!(
            forgotten,
            usize::from(client != CLIENT),
            "a /56 is one client"
        );
    }
    assert_eq!(world.table.forget(Scope::Address(addr(CLIENT))), 1);
    assert_eq!(world.goodput(CLIENT, STEERED), None);
    world.see(CLIENT, STEERED, 8, 10, 30);
    world.see(CLIENT, PLAIN, 8, 10, 30);
    world.table.forget_path(OTHER);
    assert_eq!(world.goodput(CLIENT, STEERED), None);
    assert!(world.goodput(CLIENT, PLAIN).is_some());
    world.table.forget(Scope::All);
    assert!(world.table.is_empty());
}
