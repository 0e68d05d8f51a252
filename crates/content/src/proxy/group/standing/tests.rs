use proptest::prelude::*;

use super::*;

const TERMS: Terms = Terms {
    avoid_after: 3,
    avoid_min: Duration::from_secs(5),
    avoid_max: Duration::from_secs(40),
    slow_start: Duration::from_secs(10),
    rise: 2,
    fall: 3,
};

fn at(secs: f32) -> Time {
    Duration::from_secs_f32(secs)
}

fn fail(health: &mut Health, times: u32, now: f32) -> Option<Change> {
    let changes = (0..times).map(|_| health.failed(at(now), at(now)));
    changes.fold(None, Option::or)
}

const fn avoided(secs: u64) -> Option<Change> {
    Some(Change::Avoided(Duration::from_secs(secs)))
}

#[test]
fn failures_in_a_row_make_it_avoided_and_each_trial_that_fails_for_longer() {
    let mut health = Health::new(TERMS);
    assert_eq!(fail(&mut health, 2, 1.0), None);
    assert_eq!(health.succeeded(at(0.0), at(1.0)), None);
    assert_eq!(fail(&mut health, 2, 2.0), None, "they count anew");
    assert!(health.is_up() && !health.is_quiet());
    assert_eq!(fail(&mut health, 1, 2.0), avoided(5));
    assert_eq!(health.standing(at(6.9)), Standing::Down);
    let mut now = 7.0;
    for pause in [10, 20, 40, 40] {
        assert_eq!(health.standing(at(now)), Standing::Trial, "{pause}");
        assert_eq!(health.standing(at(now)), Standing::Down, "one at a time");
        assert_eq!(fail(&mut health, 1, now), avoided(pause));
        now += pause as f32;
        assert_eq!(health.standing(at(now - 0.1)), Standing::Down, "{pause}");
    }
    assert_eq!(health.standing(at(now)), Standing::Trial);
    let answered = health.succeeded(at(now), at(now));
    assert_eq!(answered, Some(Change::Returned));
    assert!(health.is_up());
}

#[test]
fn a_trial_of_which_nothing_is_heard_is_followed_by_another() {
    let mut health = Health::new(TERMS);
    fail(&mut health, 3, 0.0);
    assert_eq!(health.standing(at(5.0)), Standing::Trial);
    assert_eq!(health.standing(at(9.9)), Standing::Down);
    assert_eq!(health.standing(at(10.0)), Standing::Trial);
}

#[test]
fn failures_far_apart_and_those_of_former_requests_do_not_count() {
    let mut health = Health::new(TERMS);
    assert_eq!(fail(&mut health, 2, 0.0), None);
    assert_eq!(fail(&mut health, 2, 61.0), None, "too far apart");
    assert_eq!(fail(&mut health, 1, 62.0), avoided(5));
    let old = health.failed(at(61.0), at(63.0));
    assert_eq!(old, None, "it had begun before");
    assert_eq!(health.succeeded(at(61.0), at(63.0)), None, "so had this");
    assert!(!health.is_up());
    assert_eq!(health.standing(at(67.0)), Standing::Trial);
    assert_eq!(health.failed(at(61.0), at(67.0)), None, "no trial's");
    health.succeeded(at(67.0), at(68.0));
    for _ in 0..5 {
        assert_eq!(health.failed(at(67.5), at(69.0)), None);
    }
    assert!(health.is_up(), "they had begun before its return");
}

#[test]
fn a_relapse_soon_after_its_return_doubles_the_pause() {
    for (after, pause) in [(1.0, 10), (39.0, 10), (41.0, 5)] {
        let mut health = Health::new(TERMS);
        fail(&mut health, 3, 0.0);
        assert_eq!(health.standing(at(5.0)), Standing::Trial);
        health.succeeded(at(5.0), at(5.0));
        assert_eq!(fail(&mut health, 3, 5.0 + after), avoided(pause), "{after}");
    }
}

#[test]
fn where_all_are_down_an_answer_ends_the_pause() {
    let mut health = Health::new(TERMS);
    fail(&mut health, 3, 0.0);
    let answered = health.succeeded(at(1.0), at(1.0));
    assert_eq!(answered, Some(Change::Returned));
}

#[test]
fn checks_turn_it_off_and_on_by_rise_and_fall() {
    let mut health = Health::new(TERMS);
    // the outcome, the change, whether it is up then
    let checks = [
        (false, None, true),
        (false, None, true),
        (true, None, true),
        (false, None, true),
        (false, None, true),
        (false, Some(Change::Off), false),
        (false, None, false),
        (true, None, false),
        (false, None, false),
        (true, None, false),
        (true, Some(Change::On), true),
        (true, None, true),
    ];
    for (step, (is_well, change, is_up)) in checks.into_iter().enumerate() {
        let got = health.checked(is_well, at(step as f32));
        assert_eq!((got, health.is_up()), (change, is_up), "{step}");
        let answers = health.standing(at(step as f32));
        assert_eq!(answers != Standing::Down, is_up, "{step}");
    }
    fail(&mut health, 3, 20.0);
    for is_well in [false, false, false, true, true] {
        health.checked(is_well, at(21.0));
    }
    assert!(health.is_up(), "checks end the pause, too");
}

#[test]
fn its_share_grows_evenly_after_its_return() {
    let mut health = Health::new(TERMS);
    assert_eq!(health.standing(at(0.0)), Standing::Up(1.0));
    fail(&mut health, 3, 0.0);
    health.standing(at(5.0));
    health.succeeded(at(5.0), at(10.0));
    for (now, share) in [(10.0, 0.05), (12.5, 0.25), (15.0, 0.5), (19.0, 0.9)] {
        assert_eq!(health.standing(at(now)), Standing::Up(share), "{now}");
        assert!(!health.is_quiet());
    }
    assert_eq!(health.standing(at(20.0)), Standing::Up(1.0));
    assert!(health.is_quiet());
    let terms = Terms {
        slow_start: Duration::ZERO,
        ..TERMS
    };
    let mut health = Health::new(terms);
    fail(&mut health, 3, 0.0);
    health.standing(at(5.0));
    health.succeeded(at(5.0), at(5.0));
    assert_eq!(health.standing(at(5.0)), Standing::Up(1.0));
}

#[test]
fn zero_failures_never_make_it_avoided() {
    let mut health = Health::new(Terms {
        avoid_after: 0,
        ..TERMS
    });
    assert_eq!(fail(&mut health, 1000, 0.0), None);
    assert_eq!(health.standing(at(0.0)), Standing::Up(1.0));
}

proptest! {
    /// Whatever happens, an upstream that answers again is back after its longest pause.
    #[test]
    fn it_is_never_lost(events in prop::collection::vec((0..3_u8, 0.0..30.0_f32), 0..200)) {
        let mut health = Health::new(TERMS);
        let mut now = Time::ZERO;
        for (event, pause) in events {
            now += at(pause);
            match event {
                0 => { health.failed(now, now); }
                1 => { health.succeeded(now, now); }
                _ => { health.standing(now); }
            }
            if let Some(avoided) = health.avoided {
                prop_assert!(avoided.pause <= TERMS.avoid_max);
                prop_assert!(avoided.until <= now + TERMS.avoid_max);
            }
        }
        now += TERMS.avoid_max;
        if health.standing(now) == Standing::Trial {
            health.succeeded(now, now);
        }
        now += TERMS.slow_start;
        prop_assert_eq!(health.standing(now), Standing::Up(1.0));
    }
}
