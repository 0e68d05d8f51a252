//! A route that becomes slower while it is used, beside one that does not.

use super::{
    AS, BEST, CLIENT, Criterion, Mptcp, OTHER, PLAIN, Phase, Route, STEERED, World, addr,
    decide_route,
};
use crate::choice::{Session, Visit};
use crate::egress::RouteObservation;
use crate::policy::PolicyConfig;
use hikyaku_units::mix::draw;
use std::time::Duration;

/// Visits of one client, whose goodput scatters.
struct Visits {
    world: World,
    session: u32,
    /// Standard deviation of goodput's logarithm.
    sd: f64,
    /// Size of each response.
    bytes: u32,
    seed: u64,
    last: Route,
    moves: u32,
    /// Visits that are no experiments.
    steady: u32,
}

impl Visits {
    fn new(seed: u64, sd: f64) -> Self {
        let mut world = World::with(PolicyConfig {
            holdback: 0.0,
            ..PolicyConfig::default()
        });
        world.candidates.mptcp = Mptcp::None;
        Self {
            world,
            session: 0,
            sd,
            bytes: 2_000_000,
            seed,
            last: PLAIN,
            moves: 0,
            steady: 0,
        }
    }

    /// A visit after some seconds, with the goodput of plain and of all others. Returns its route, and
    /// counts moves between sessions that do not explore.
    fn visit(&mut self, after: u64, plain: f64, other: f64) -> Route {
        self.world.pass(after);
        self.session += 1;
        let view = self.world.table.view(addr(CLIENT), AS, self.world.now);
        // Visits that follow each other soon are one session.
        let session = if after < 60 { 0 } else { self.session };
        let visit = Visit::from(Session(session));
        let wants = Criterion::Goodput.into();
        let World {
            candidates, policy, ..
        } = &self.world;
        let decision = decide_route(&view, wants, candidates, policy, visit, self.seed);
        self.world.table.decided(addr(CLIENT), wants, &decision);
        let mbps = if decision.route == PLAIN {
            plain
        } else {
            other
        };
        let [a, b] = [0, 1].map(|n| draw([self.seed, self.session.into(), n, 5]));
        let normal = (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        let rate = mbps * 1e6 * (self.sd * normal).exp();
        for seen in parts(rate, self.bytes) {
            self.world.learn(CLIENT, decision.route, &seen);
        }
        if decision.reason.code() != "explore" {
            self.steady += 1;
            self.moves += u32::from(decision.route != self.last);
            self.last = decision.route;
        }
        decision.route
    }
}

/// The observations of a response: its first second, in which the window opens, and then each further one.
fn parts(rate: f64, bytes: u32) -> Vec<RouteObservation> {
    let opening = 0.05;
    let whole = f64::from(bytes) * 8.0 / rate + opening;
    let mut seen = Vec::new();
    let mut begin = 0.0;
    while begin < whole {
        let end = if whole < begin + 1.0 {
            whole
        } else {
            begin + 1.0
        };
        let sent = rate * (end - begin.max(opening)) / 8.0;
        seen.push(RouteObservation {
            bytes: sent as u64,
            duration: Duration::from_secs_f64(end - begin),
            phase: if begin < 1.0 {
                Phase::Startup
            } else {
                Phase::Sustained
            },
            rtt: Some(Duration::from_millis(20)),
            packets_sent: (sent / 1400.0) as u32,
            ..RouteObservation::default()
        });
        begin = end;
    }
    seen
}

/// Visits over a decay in steps of 20 s, as a queue that others fill. Returns the time until plain is left
/// for the first time, counted from when it is worse than the others, and the moves. `None` where the
/// session is an experiment for most of the time.
fn decay(seed: u64, every: usize, sd: f64) -> Option<(usize, u32)> {
    let mut visits = Visits::new(seed, sd);
    for _ in 0..400 {
        visits.visit(60, 60.0, 20.0);
    }
    assert_eq!(visits.last, PLAIN, "{seed}");
    decay_from(visits, every)
}

/// As [`decay`], after other visits.
fn decay_from(mut visits: Visits, every: usize) -> Option<(usize, u32)> {
    let steps = [60.0, 50.0, 40.0, 30.0, 20.0, 14.0, 10.0, 8.0];
    let worse_at = 100;
    (visits.moves, visits.steady) = (0, 0);
    let mut left_at = 600;
    for at in (0..600).step_by(every) {
        let step = (at / 20).min(steps.len() - 1);
        visits.visit(every as u64, steps[step], 20.0);
        if visits.last != PLAIN {
            left_at = left_at.min(at);
        }
    }
    let visited = 600 / every as u32;
    (2 * visits.steady > visited).then(|| (left_at.saturating_sub(worse_at), visits.moves))
}

#[test]
fn a_route_that_decays_is_left_within_two_minutes_by_one_move() {
    for every in [2, 4, 8, 12, 20] {
        for sd in [0.1, 0.2, 0.3, 0.4, 0.5] {
            let runs: Vec<_> = (0..)
                .filter_map(|seed| decay(seed, every, sd))
                .take(30)
                .collect();
            let mut left: Vec<_> = runs.iter().map(|run| run.0).collect();
            left.sort_unstable();
            let what = format!("a visit each {every} s, scattering by {sd}: {runs:?}");
            // Two minutes for nine of ten, or 16 visits where these are rarer. The others meet with slow responses
            // of the route that they look at.
            assert!(left[26] <= 120.max(16 * every), "{what}");
            assert!(left[29] <= 160.max(25 * every), "{what}");
            let moves = runs.iter().map(|run| run.1);
            // One of all runs has a third: chance while the routes are alike.
            let many = moves.clone().filter(|moves| *moves > 2).count();
            assert!(many <= 1, "{what}");
            assert!(moves.sum::<u32>() <= 36, "{what}");
        }
    }
}

#[test]
fn noise_is_no_decline_in_whole_days() {
    for sd in [0.2, 0.3, 0.5] {
        let (mut declines, mut moves) = (0, 0);
        for seed in 0..5 {
            let mut visits = Visits::new(seed, sd);
            for _ in 0..2_880 {
                visits.visit(30, 40.0, 30.0);
                let world = &visits.world;
                let view = world.table.view(addr(CLIENT), AS, world.now);
                let quality = view.quality(PLAIN, world.candidates.plain_is);
                declines += u32::from(quality.declined == Some(Duration::ZERO));
            }
            moves += visits.moves;
        }
        assert!(declines <= 1, "{declines} in five days, scattering by {sd}");
        assert!(moves <= 4, "{moves} moves in five days, scattering by {sd}");
    }
}

#[test]
fn where_all_routes_become_slower_the_client_moves_once_at_most() {
    for seed in 0..20 {
        let mut visits = Visits::new(seed, 0.3);
        for _ in 0..400 {
            visits.visit(60, 60.0, 50.0);
        }
        let steady = visits.last;
        visits.moves = 0;
        for _ in 0..200 {
            visits.visit(5, 15.0, 12.5);
        }
        assert!(
            visits.moves <= 2,
            "{} moves of seed {seed} from {steady:?}",
            visits.moves
        );
    }
}

#[test]
fn noise_moves_nobody_to_and_fro() {
    let mut moves = 0;
    for seed in 0..10 {
        let mut visits = Visits::new(seed, 0.5);
        for _ in 0..2_000 {
            visits.visit(30, 40.0, 40.0);
        }
        moves += visits.moves;
    }
    assert!(
        moves <= 60,
        "{moves} moves in 20,000 visits of equal routes"
    );
}

#[test]
fn the_explanation_has_the_decline() {
    let mut world = World::new();
    world.see(CLIENT, PLAIN, 16, 60, 20);
    world.see(CLIENT, STEERED, 8, 20, 20);
    let quality = |world: &World| {
        let view = world.table.view(addr(CLIENT), AS, world.now);
        *view.quality(PLAIN, world.candidates.plain_is)
    };
    assert_eq!(quality(&world).declined, None);
    for _ in 0..8 {
        world.pass(10);
        world.see(CLIENT, PLAIN, 1, 6, 20);
    }
    world.pass(40);
    let declined = quality(&world).declined.unwrap();
    assert!(declined >= Duration::from_secs(40) && declined < Duration::from_secs(110));
    let goodput = quality(&world).goodput(Phase::Startup).unwrap().mbps();
    assert!(goodput < 8.0, "{goodput} Mbit/s");
    // Samples of the other are older than that.
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, PLAIN);
    world.see(CLIENT, STEERED, 3, 20, 20);
    assert_eq!(world.decide(CLIENT, Criterion::Goodput).route, STEERED);
}

#[test]
fn differences_that_neighbours_saw_before_keep_no_client_on_a_route_that_decays() {
    for (neighbours, every) in [(1, 2), (4, 2), (40, 2), (4, 4), (40, 4), (4, 12), (40, 12)] {
        let runs = (0..20).filter_map(|seed| {
            let mut visits = Visits::new(seed, 0.2);
            visits.world.candidates.egresses = [BEST, OTHER].into_iter().collect();
            for neighbour in 0..neighbours {
                let near = format!("192.0.2.{}", neighbour + 10);
                for (route, mbps) in [(PLAIN, 60), (PLAIN, 60), (STEERED, 20)] {
                    visits.world.see(&near, route, 1, mbps, 20);
                    visits.world.pass(60);
                }
            }
            for _ in 0..20 {
                visits.visit(every as u64, 60.0, 20.0);
            }
            decay_from(visits, every)
        });
        let mut left: Vec<_> = runs.map(|run| run.0).collect();
        left.sort_unstable();
        let what = format!("{neighbours} neighbours, a visit each {every} s: {left:?}");
        assert!(left.len() >= 15, "{what}");
        // Two minutes, or some twenty visits: the other route is as good as unknown.
        assert!(left[left.len() / 2] <= 120.max(20 * every), "{what}");
        assert!(left[left.len() * 9 / 10] <= 160.max(32 * every), "{what}");
    }
}
