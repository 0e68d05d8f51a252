use std::collections::BTreeMap;

use proptest::prelude::{Strategy, any, prop, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::*;

/// A step of a test: keys are few, so that deadlines are replaced.
#[derive(Clone, Copy, Debug)]
enum Step {
    Set(usize, Duration),
    Cancel(usize),
    Pass(Duration),
}

/// Spans of every level of the wheel, and of more than all of them.
fn spans() -> impl Strategy<Value = Duration> {
    (any::<u64>(), 0_u32..54)
        .prop_map(|(micros, shift)| Duration::from_micros(micros >> (10 + shift)))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let keys = 0_usize..40;
    let step = prop_oneof![
        4 => (keys.clone(), spans()).prop_map(|(key, after)| Step::Set(key, after)),
        1 => keys.prop_map(Step::Cancel),
        3 => spans().prop_map(|span| Step::Pass(span.min(Duration::from_secs(86_400)))),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// The wheel agrees with a plain map of deadlines: nothing early, nothing over a tick late, and
    /// `next` is never too late.
    #[test]
    fn a_wheel_reports_what_a_map_would(steps in steps()) {
        let start = Instant::now();
        let (mut wheel, mut model) = (Wheel::new(start), BTreeMap::new());
        let mut now = start;
        for step in steps {
            match step {
                Step::Set(key, after) => {
                    wheel.set(key, now + after);
                    model.insert(key, now + after);
                }
                Step::Cancel(key) => {
                    wheel.cancel(key);
                    model.remove(&key);
                }
                Step::Pass(span) => {
                    now += span;
                    let mut due = Vec::new();
                    wheel.expire(now, |key| due.push(key));
                    for key in due {
                        let at = model.remove(&key);
                        prop_assert!(at.is_some_and(|at| at <= now), "{key} came early or twice");
                    }
                    let late = model.values().find(|&&at| at + TICK + TICK <= now);
                    prop_assert_eq!(late, None, "at {:?}", now);
                }
            }
            prop_assert_eq!(wheel.len(), model.len());
            let next = wheel.next();
            let earliest = model.values().min();
            prop_assert_eq!(next.is_some(), earliest.is_some());
            if let (Some(next), Some(&earliest)) = (next, earliest) {
                prop_assert!(next <= earliest.max(now) + TICK + TICK);
            }
            for (key, at) in &model {
                prop_assert_eq!(wheel.get(*key), Some(*at));
            }
        }
    }
}

#[test]
fn ten_thousand_deadlines_come_in_their_time() {
    let start = Instant::now();
    let mut wheel = Wheel::new(start);
    let after = |key: usize| Duration::from_micros((key as u64 * 7919) % 40_000_000);
    for key in 0..10_000 {
        wheel.set(key, start + after(key));
    }
    let (mut reported, mut wakes, mut now) = (0, 0, start);
    while let Some(next) = wheel.next() {
        now = now.max(next);
        wakes += 1;
        wheel.expire(now, |key| {
            let at = start + after(key);
            assert!(
                at <= now && now < at + TICK + TICK,
                "{key} at {:?}",
                now - at
            );
            reported += 1;
        });
    }
    assert_eq!(reported, 10_000);
    // One for each deadline, and one for each slot that comes down.
    assert!(wakes < 20_000, "{wakes} wakes");
}

#[test]
fn deadlines_of_the_past_are_due_at_once() {
    let start = Instant::now() + Duration::from_secs(10);
    let mut wheel = Wheel::new(start);
    wheel.expire(start + Duration::from_secs(1), |_| panic!("nothing is due"));
    wheel.set(3, start);
    wheel.set(usize::MAX, start);
    assert_eq!(wheel.len(), 1);
    let mut due = Vec::new();
    wheel.expire(start + Duration::from_secs(1) + TICK, |key| due.push(key));
    assert_eq!(due, [3]);
    assert!(wheel.is_empty() && wheel.next().is_none());
}
