use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::experiment::data::Data;
use crate::experiment::library;
use crate::experiment::record::Conditions;

const CAPACITY: f64 = 600.0;

fn experiment(spec: Spec, seed: u64) -> Experiment {
    let out = tempfile::tempdir().unwrap();
    let conditions = Conditions {
        seed,
        ..Conditions::default()
    };
    Experiment {
        name: "test".to_owned(),
        cells: spec.cells(seed),
        arms: spec.arms.iter().map(|arm| arm.name.clone()).collect(),
        left_out: Vec::new(),
        data: Data::open(out.path(), "", &conditions, false).unwrap(),
        conditions,
        out: out.path().to_owned(),
        root: out.path().to_owned(),
        spec,
    }
}

fn shipped(name: &str) -> Spec {
    library::find(name).unwrap().parse(false).unwrap()
}

fn planned(name: &str, seed: u64) -> (Spec, Vec<Job>) {
    let spec = shipped(name);
    let jobs = jobs(&[experiment(spec.clone(), seed)], CAPACITY);
    (spec, jobs)
}

#[test]
fn every_session_is_planned_once() {
    // experiment, sessions
    let cases = [
        ("version-sweep", 5 * 6 * 6 * 2 * 2 * 5),
        ("model", 6 * 6 * 5 * 6 * (5 + 3 + 3 + 3)),
        ("version-eval", 18 * 6 * (2 * 5 + 3 * 13)),
    ];
    for (name, want) in cases {
        let (spec, jobs) = planned(name, 1);
        let sessions: Vec<Key> = jobs.iter().flat_map(|job| job.keys(&spec)).collect();
        assert_eq!(sessions.len(), want, "{name}");
        let distinct: std::collections::HashSet<&Key> = sessions.iter().collect();
        assert_eq!(distinct.len(), want, "{name}");
    }
}

#[test]
fn the_order_is_the_seeds() {
    let order = |seed| planned("version-eval", seed).1;
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn arms_of_a_repeat_follow_each_other() {
    let (_, jobs) = planned("version-sweep", 1);
    let mut places: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (i, job) in jobs.iter().enumerate() {
        places
            .entry((job.cell.clone(), job.repeat))
            .or_default()
            .push(i);
    }
    assert!(places.values().all(|places| places[1] == places[0] + 1));
    // Neither always comes first.
    let first: BTreeSet<usize> = jobs.iter().step_by(2).map(|job| job.arm).collect();
    assert_eq!(first.len(), 2);
}

#[test]
fn jobs_that_need_the_machine_come_first_then_the_longest() {
    let (_, jobs) = planned("version-sweep", 1);
    let alone = |job: &Job| job.cost.weight > CAPACITY / 2.0;
    assert!(jobs.iter().any(alone));
    let end = jobs.iter().rposition(alone).unwrap();
    // Its cell's other arm may be slower.
    assert!(jobs[..end].iter().filter(|job| !alone(job)).count() < end / 10);
    let rest: Vec<f64> = jobs[end + 1..]
        .iter()
        .map(|job| job.cost.duration)
        .collect();
    let (early, late) = rest.split_at(rest.len() / 2);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    assert!(mean(early) > 2.0 * mean(late));
}

#[test]
fn arms_share_their_seeds_and_nothing_else_does() {
    let (spec, jobs) = planned("version-sweep", 1);
    let seed_of = |job: &Job| seed(1, &job.cell, job.repeat, job.sessions.start);
    let distinct: BTreeSet<u64> = jobs.iter().map(seed_of).collect();
    let congestion_controls = 2;
    assert_eq!(
        distinct.len(),
        jobs.len() / spec.arms.len() / congestion_controls
    );
    assert_ne!(seed(1, &jobs[0].cell, 0, 0), seed(2, &jobs[0].cell, 0, 0));
    assert_ne!(seed(1, &jobs[0].cell, 0, 0), seed(1, &jobs[0].cell, 0, 1));
}

#[test]
fn loss_makes_cubic_light_and_leaves_bbr_heavy() {
    let (_, jobs) = planned("version-sweep", 1);
    let weight = |congestion: &str, loss: &str, delay: &str| {
        let found = jobs.iter().find(|job| {
            let is = |axis, value| job.cell.get(axis) == Some(value);
            is(Axis::Rate, "600Mbps")
                && is(Axis::Congestion, congestion)
                && is(Axis::Loss, loss)
                && is(Axis::OneWayDelay, delay)
        });
        found.unwrap().cost.weight
    };
    assert!(weight("cubic", "0%", "25ms") > 300.0);
    assert!(weight("bbr", "5%", "25ms") > 300.0);
    assert!(weight("cubic", "5%", "25ms") < 10.0);
}

#[test]
fn flows_leave_room_for_their_programs() {
    let (_, jobs) = planned("fairness", 1);
    // Over a link of 50 Mbit/s.
    assert!(jobs.iter().all(|job| job.cost.weight >= 100.0));
}

#[test]
fn where_one_arm_remembers_all_have_runs_of_many_sessions() {
    let (spec, jobs) = planned("version-eval", 1);
    for job in &jobs {
        // Fixed arms have no warm-up, and count their sessions as the others do.
        let fixed = spec.memoryless(&spec.arms[job.arm]);
        let want = if fixed { 8..13 } else { 0..13 };
        assert_eq!(job.sessions, want, "{}", spec.arms[job.arm].name);
    }
    let (_, jobs) = planned("version-sweep", 1);
    assert!(jobs.iter().all(|job| job.sessions == (0..1)));
}

#[test]
fn visitors_stay_as_long_as_their_workload_says_and_count_all() {
    let (spec, jobs) = planned("epe-capacity", 1);
    let visitors = spec.workload.visitors.as_ref().unwrap();
    for job in &jobs {
        assert!(job.cost.duration >= visitors.duration.as_secs_f64());
        // Fifty streams of 600 kbit/s, or both links.
        assert!(job.cost.weight >= 30.0 * PATHS_WEIGHT, "{:?}", job.cost);
    }
}
