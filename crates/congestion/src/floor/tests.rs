use hikyaku_units::{ByteSize, SavedPath};
use proptest::prelude::*;

use super::*;
use crate::Algorithm;
use crate::testing::Link;

const MTU: u16 = 1_200;
const RTT: Duration = Duration::from_millis(40);

fn path_of(rate: f64, queue: f64, loss: u64, known: Option<SavedPath>) -> Link {
    let settings = Settings {
        algorithm: Algorithm::Floor,
        known,
        ..Settings::default()
    };
    Link::new(settings, RTT, rate, queue, loss)
}

/// The window, taken when no probe runs.
fn calm(link: &mut Link) -> f64 {
    link.controller.floor().0.cubic.window_bytes()
}

#[test]
fn a_lossy_path_is_filled() {
    let mut link = path_of(400.0, 400.0, 40, None);
    link.rounds(60);
    let windows: Vec<f64> = (0..20).map(|_| link.round().window()).collect();
    assert!(windows.iter().all(|window| *window > 280.0), "{windows:?}");
    assert!(windows.iter().all(|window| *window < 620.0), "{windows:?}");
    // CUBIC alone: 1.2 / sqrt(1/40) = 8 packets.
}

#[test]
fn slow_start_survives_losses_without_a_queue() {
    let mut link = path_of(1_000.0, 1_000.0, 50, None);
    link.rounds(8);
    assert!(link.window() > 600.0, "{}", link.window());
}

#[test]
fn a_first_visit_triples_while_no_queue_shows() {
    let after = |rounds, rapid| {
        let settings = Settings {
            algorithm: Algorithm::Floor,
            start: crate::Start {
                rapid,
                ..crate::Start::default()
            },
            ..Settings::default()
        };
        let mut link = Link::new(settings, RTT, 2_000.0, 2_000.0, 0);
        link.rounds(rounds).window()
    };
    let (rapid, slow) = (after(4, true), after(4, false));
    assert!(rapid > 1.8 * slow, "{rapid} {slow}");
}

#[test]
fn a_loss_ends_tripling() {
    let mut link = path_of(2_000.0, 2_000.0, 0, None);
    link.rounds(2);
    let before = link.window();
    let now = link.now;
    link.controller.lost(now, now, false, u64::from(MTU));
    let after = link.rounds(2).window();
    assert!(after < 4.1 * before, "{before} {after}");
}

#[test]
fn a_slow_start_that_loses_a_fifth_is_congestion() {
    // In a queue that stands from the first packet on, no RTT rises.
    let mut link = path_of(1_000.0, 1_000.0, 4, None);
    link.rounds(3);
    assert!(!link.controller.floor().0.in_slow_start());
    // Losses of one in twenty are chance.
    let mut lossy = path_of(1_000.0, 1_000.0, 20, None);
    lossy.rounds(3);
    assert!(lossy.controller.floor().0.in_slow_start());
}

#[test]
fn a_jump_that_meets_congestion_leaves_half_of_what_was_delivered() {
    let mut link = Link::new(known_of(400, Algorithm::Floor), RTT, 30.0, 10.0, 0);
    let jumped =
        |link: &mut Link| matches!(link.controller.floor().0.resume, Resume::Unvalidated { .. });
    while !jumped(&mut link) {
        link.step();
    }
    let pipe = loop {
        link.step();
        match link.controller.floor().0.resume {
            Resume::Retreat { pipe, .. } => break pipe / f64::from(MTU),
            Resume::Off => panic!("no congestion was met"),
            _ => {}
        }
    };
    assert!(
        link.window() <= pipe / 2.0 + 0.1,
        "{} of {pipe}",
        link.window()
    );
    while matches!(link.controller.floor().0.resume, Resume::Retreat { .. }) {
        assert!(
            link.window() <= pipe / 2.0 + 0.1,
            "it grew: {}",
            link.window()
        );
        link.step();
    }
}

#[test]
fn a_jump_waits_for_data_that_fills_the_window() {
    let settings = known_of(400, Algorithm::Floor);
    let mut idle = Link::new(settings, RTT, 400.0, 400.0, 0);
    // The handshake: a packet, and its acknowledgement.
    idle.handshake();
    let (window, now) = (idle.window(), idle.now);
    assert!(window < 40.0, "{window}");
    idle.rounds(1);
    assert!(idle.window() >= 200.0, "{} at {now:?}", idle.window());
}

#[test]
fn a_loss_in_a_queue_is_cubics() {
    let mut link = path_of(200.0, 400.0, 0, None);
    link.rounds(30);
    let before = calm(&mut link);
    let now = link.now + Duration::from_millis(1);
    for _ in 0..10 {
        let sample = Sample {
            rate: 1e6,
            rtt: RTT * 2,
            sent: now,
            prior: 0,
            limited: false,
        };
        link.controller.floor().1.on_sample(now, &sample, 0);
    }
    link.controller.lost(now, now, false, u64::from(MTU));
    let after = calm(&mut link);
    assert!((after / before - 0.7).abs() < 0.01, "{before} {after}");
}

#[test]
fn marks_are_always_congestion() {
    let mut link = path_of(400.0, 400.0, 40, None);
    link.rounds(40);
    let before = calm(&mut link);
    let now = link.now + Duration::from_millis(1);
    link.controller.lost(now, now, false, 0);
    assert!(calm(&mut link) < before * 0.71);
}

#[test]
fn a_known_path_is_resumed_with_half_of_it() {
    let known = SavedPath {
        bdp: ByteSize::from_bytes(400 * u64::from(MTU)),
        min_rtt: RTT,
    };
    let mut link = path_of(400.0, 400.0, 0, Some(known));
    link.rounds(2);
    assert!(link.window() >= 200.0, "{}", link.window());
    let mut other = path_of(
        400.0,
        400.0,
        0,
        Some(SavedPath {
            min_rtt: RTT * 5,
            ..known
        }),
    );
    other.rounds(1);
    assert!(other.window() < 30.0, "another path: {}", other.window());
}

/// Settings of a connection over a known path that carries so many packets of 1460 bytes.
fn known_of(packets: u64, algorithm: Algorithm) -> Settings {
    let known = SavedPath {
        bdp: ByteSize::from_bytes(packets * 1460),
        min_rtt: RTT,
    };
    Settings {
        algorithm,
        known: Some(known),
        ..Settings::default()
    }
}

#[test]
fn a_known_path_begins_with_a_quarter_of_it() {
    for (packets, algorithm, want) in [
        (20, Algorithm::Floor, 10.0),
        (80, Algorithm::Floor, 20.0),
        (400, Algorithm::Floor, 32.0),
        (400, Algorithm::Cubic, 10.0),
        (400, Algorithm::Bbr, 10.0),
    ] {
        let link = Link::new(known_of(packets, algorithm), RTT, 400.0, 400.0, 0);
        let case = format!("{packets} packets, {algorithm}");
        let initial = quinn_proto::congestion::Controller::initial_window(&link.controller);
        assert!(
            (link.window() - want).abs() < 0.3,
            "{case}: {}",
            link.window()
        );
        assert_eq!(initial, link.controller.current(), "{case}");
    }
}

#[test]
fn an_initial_window_goes_back_to_cubics() {
    let link = || Link::new(known_of(400, Algorithm::Floor), RTT, 400.0, 400.0, 0);
    let usual = Cubic::new(MTU).window_bytes();

    // A loss before the first measurement counts as a loss with a queue.
    let mut lost = link();
    let now = lost.now;
    let (floor, path) = lost.controller.floor();
    floor.congested(now, now, false, u64::from(MTU), path);
    assert!(
        (calm(&mut lost) - 0.7 * usual).abs() < 1.0,
        "{}",
        calm(&mut lost)
    );

    // On another path, the window grows from CUBIC's.
    let mut other = link();
    let sent = other.now;
    let now = sent + RTT * 5;
    let sample = Sample {
        rate: 1e6,
        rtt: RTT * 5,
        sent,
        prior: 0,
        limited: false,
    };
    let (floor, path) = other.controller.floor();
    floor.sampled(now, &sample, false, path);
    assert!(
        (calm(&mut other) - usual).abs() < 1.0,
        "{}",
        calm(&mut other)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn windows_stay_within_bounds(
        rate in 5.0_f64..500.0,
        queue in 0.01_f64..4.0,
        loss in 0_u64..200,
    ) {
        let mut link = path_of(rate, rate * queue, if loss < 3 { 0 } else { loss }, None);
        for _ in 0..60 {
            link.round();
            prop_assert!(link.window() >= 2.0);
            prop_assert!(link.window().is_finite());
            prop_assert!(link.window() < 40.0 + 3.0 * rate * (1.0 + queue));
        }
    }
}
