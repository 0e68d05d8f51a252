use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{Algorithm, Settings, factory};

const MTU: u16 = 1200;
const ALGORITHMS: [Algorithm; 3] = [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr];

fn build(algorithm: Algorithm, min_cwnd: Option<u64>, now: Instant) -> Box<dyn Controller> {
    factory(algorithm, &Settings { min_cwnd }).build(now, MTU)
}

#[test]
fn a_floor_holds_from_the_start() {
    let now = Instant::now();
    for algorithm in ALGORITHMS {
        let floored = build(algorithm, Some(373_760), now);
        assert_eq!(floored.window(), 373_760, "{algorithm}");
        assert_eq!(floored.initial_window(), 373_760, "{algorithm}");
        assert_eq!(floored.metrics().congestion_window, 373_760, "{algorithm}");
        assert_eq!(floored.clone_box().window(), 373_760, "{algorithm}");
    }
}

#[test]
fn a_low_floor_changes_nothing() {
    let now = Instant::now();
    for algorithm in ALGORITHMS {
        let plain = build(algorithm, None, now);
        let floored = build(algorithm, Some(2 * 1460), now);
        assert_eq!(floored.window(), plain.window(), "{algorithm}");
        assert_eq!(
            floored.initial_window(),
            plain.initial_window(),
            "{algorithm}"
        );
    }
}

#[test]
fn persistent_congestion_ends_at_the_floor() {
    let start = Instant::now();
    let sent = start + Duration::from_millis(1);
    let later = start + Duration::from_secs(1);
    for algorithm in [Algorithm::Cubic, Algorithm::NewReno] {
        let mut plain = build(algorithm, None, start);
        let mut floored = build(algorithm, Some(100_000), start);
        for controller in [&mut plain, &mut floored] {
            controller.on_congestion_event(later, sent, true, 12_000);
        }
        assert_eq!(plain.window(), 2 * u64::from(MTU), "{algorithm}");
        assert_eq!(floored.window(), 100_000, "{algorithm}");
    }
}

proptest! {
    /// Whatever is lost, the window is the larger of the floor and what the algorithm says.
    #[test]
    fn the_window_is_the_larger_one(
        algorithm in prop::sample::select(&ALGORITHMS[..2]),
        min_cwnd in 0_u64..1_000_000,
        losses in prop::collection::vec((1_u64..1_000, any::<bool>()), 0..50),
    ) {
        let start = Instant::now();
        let mut plain = build(algorithm, None, start);
        let mut floored = build(algorithm, Some(min_cwnd), start);
        let mut now = start;
        for (millis, persistent) in losses {
            let sent = now;
            now += Duration::from_millis(millis);
            plain.on_congestion_event(now, sent, persistent, 1200);
            floored.on_congestion_event(now, sent, persistent, 1200);
            prop_assert_eq!(floored.window(), plain.window().max(min_cwnd));
        }
    }
}
