//! The floors of QUIC and TCP in lock step: the Rust `Rule`, and the headers of `crates/edge/bpf` compiled
//! for this machine. Both get the same events and have to be in the same state after each.
//!
//! Decisions are equal: rounds, trust, probes, answers, the end of slow start. Whole numbers stand
//! in for fractions on TCP, so quantities are equal within [`agree`]'s tolerances. A rounding could
//! tip a decision. None does with these seeds, and the same seeds give the same events everywhere.
//!
//! Three things are left out, since the two sides cannot know them alike. Whether a loss met a queue
//! is QUIC's judgement for both. The others are the RTTs that TCP leaves out, and CUBIC itself.

mod agree;
mod native;
mod world;

use agree::Difference;
use native::Native;
use world::{Kind, World};

/// Follows both sides for `events` of a path, and returns which cases were covered.
fn compare(native: &Native, kind: Kind, seeds: std::ops::Range<u64>, events: usize) -> Covered {
    let mut covered = Covered::default();
    for seed in seeds {
        let steps = World::new(kind, seed).steps(events);
        let input: Vec<_> = steps.iter().map(|step| step.event).collect();
        let states = native.follow(&input);
        assert_eq!(states.len(), steps.len(), "{kind:?}, seed {seed}");
        let mut difference = Difference::default();
        for (index, (step, state)) in steps.iter().zip(&states).enumerate() {
            if let Err(what) = difference.check(step, state) {
                panic!(
                    "{kind:?}, seed {seed}, event {index}: {what}\n{:#?}\nTCP {state:#?}",
                    step
                );
            }
            covered.count(step);
        }
    }
    covered
}

/// That paths went where the rule has something to decide.
#[derive(Debug, Default)]
struct Covered {
    events: u64,
    probes: u64,
    /// Events in doubt.
    doubted: u64,
    /// By [`hikyaku_congestion::rule::Step`] and [`hikyaku_congestion::rule::Answer`].
    lost_trust: u64,
    plateaus: u64,
    raised: u64,
    forgiven: u64,
    queues_of_probes: u64,
    congestions: u64,
}

impl Covered {
    fn count(&mut self, step: &world::Step) {
        use hikyaku_congestion::rule::{Answer, Step};
        self.events += 1;
        self.probes += u64::from(step.rule.of_probe);
        self.doubted += u64::from(step.rule.doubt_left > 0);
        match step.decision {
            world::Decision::Round(Step::Doubt) => self.lost_trust += 1,
            world::Decision::Round(Step::Plateau) => self.plateaus += 1,
            world::Decision::Round(Step::Raise) => self.raised += 1,
            world::Decision::Loss(Answer::Forgiven) => self.forgiven += 1,
            world::Decision::Loss(Answer::Probe) => self.queues_of_probes += 1,
            world::Decision::Loss(Answer::Congestion) => self.congestions += 1,
            world::Decision::Round(Step::None) | world::Decision::None => {}
        }
    }
}

#[test]
fn a_lossy_path_is_probed_alike() {
    let covered = compare(&Native::build(), Kind::Lossy, 0..300, 1_500);
    assert!(
        covered.probes > 10_000 && covered.raised > 1_000,
        "{covered:?}"
    );
}

#[test]
fn a_policer_ends_trust_alike() {
    let covered = compare(&Native::build(), Kind::Policed, 0..300, 1_500);
    assert!(
        covered.lost_trust > 300 && covered.doubted > 10_000,
        "{covered:?}"
    );
}

#[test]
fn a_queue_is_met_alike() {
    let covered = compare(&Native::build(), Kind::Queued, 0..300, 1_500);
    let queues = covered.queues_of_probes;
    assert!(queues > 300 && covered.congestions > 300, "{covered:?}");
}

#[test]
fn a_path_that_changes_is_seen_alike() {
    let covered = compare(&Native::build(), Kind::Changing, 0..300, 1_500);
    assert!(covered.events >= 450_000, "{covered:?}");
}

#[test]
fn a_limited_application_is_followed_alike() {
    let covered = compare(&Native::build(), Kind::Limited, 0..300, 1_500);
    assert!(covered.plateaus > 100, "{covered:?}");
}

#[test]
fn timeouts_and_marks_are_taken_alike() {
    let covered = compare(&Native::build(), Kind::Disturbed, 0..300, 1_500);
    assert!(
        covered.doubted > 10_000 && covered.probes > 1_000,
        "{covered:?}"
    );
}

#[test]
fn a_long_connection_stays_alike() {
    let native = Native::build();
    for kind in Kind::ALL {
        compare(&native, kind, 1_000..1_004, 60_000);
    }
}

#[test]
fn events_without_a_model_are_followed_alike() {
    let covered = compare(&Native::build(), Kind::Noise, 0..500, 1_000);
    assert!(
        covered.probes > 1_000 && covered.lost_trust > 100,
        "{covered:?}"
    );
}
