use std::time::Duration;

use hikyaku_units::ByteSize;
use hikyaku_units::SavedPath;
use proptest::prelude::*;

use super::*;
use crate::Algorithm;
use crate::testing::Link;

const MTU: u16 = 1_200;
const RTT: Duration = Duration::from_millis(40);
const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::Cubic,
    Algorithm::NewReno,
    Algorithm::Bbr,
    Algorithm::Floor,
];

fn settings(algorithm: Algorithm, min_cwnd: Option<u64>) -> Settings {
    Settings {
        algorithm,
        min_cwnd,
        ..Settings::default()
    }
}

fn build(algorithm: Algorithm, min_cwnd: Option<u64>, now: Instant) -> Box<dyn Controller> {
    Arc::new(Factory(settings(algorithm, min_cwnd))).build(now, MTU)
}

#[test]
fn a_fixed_floor_holds_from_the_start() {
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
        assert_eq!(floored.initial_window(), plain.initial_window());
    }
}

#[test]
fn persistent_congestion_ends_at_the_floor() {
    let start = Instant::now();
    let sent = start + Duration::from_millis(1);
    let later = start + Duration::from_secs(1);
    for algorithm in [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Floor] {
        let mut plain = build(algorithm, None, start);
        let mut floored = build(algorithm, Some(100_000), start);
        for controller in [&mut plain, &mut floored] {
            controller.on_congestion_event(later, sent, true, 12_000);
        }
        assert_eq!(plain.window(), 2 * u64::from(MTU), "{algorithm}");
        assert_eq!(floored.window(), 100_000, "{algorithm}");
    }
}

#[test]
fn a_handle_reaches_the_connections_controller_through_its_clones() {
    let controller = build(Algorithm::Cubic, None, Instant::now());
    let handle = Handle::of(controller.clone_box()).expect("it is ours");
    assert_eq!(handle.acked_bytes(), 0);
    let mut adaptive = controller.into_any().downcast::<Adaptive>().expect("ours");
    let now = Instant::now();
    adaptive.acked(now, now, 1_200, false, RTT);
    assert_eq!(handle.acked_bytes(), 1_200);
}

#[test]
fn the_largest_rate_is_returned_once() {
    let handle = Handle::new(Instant::now());
    for (rate, app_limited) in [(5, false), (9, true), (2, false)] {
        handle.sampled(rate, app_limited);
    }
    assert_eq!(handle.take_delivery_rate(), Some((9, true)));
    assert_eq!(handle.take_delivery_rate(), None);
    handle.sampled(3, false);
    assert_eq!(handle.take_delivery_rate(), Some((3, false)));
}

/// A path of 400 packets a round that loses one in `loss`, after `rounds` under `algorithm`.
fn under(algorithm: Algorithm, loss: u64, rounds: u32) -> Link {
    let mut link = Link::new(settings(algorithm, None), RTT, 400.0, 400.0, loss);
    link.rounds(rounds);
    link
}

#[test]
fn a_change_in_mid_connection_fills_the_path_at_once() {
    for from in [Algorithm::Bbr, Algorithm::Floor] {
        for to in [Algorithm::Bbr, Algorithm::Floor] {
            let mut link = under(from, 50, 60);
            let handle = link.controller.handle().clone();
            handle.change(settings(to, None));
            let delivered = link.delivered_in(10);
            assert!(
                delivered > 0.8 * 400.0 * 10.0,
                "{from} to {to}: {delivered}"
            );
            assert_eq!(link.controller.settings.algorithm, to);
        }
    }
}

#[test]
fn a_change_begins_from_the_bdp_not_from_a_collapsed_window() {
    // Before the losses, the path carried 400 packets a round.
    for to in [Algorithm::Cubic, Algorithm::Floor, Algorithm::Bbr] {
        let mut link = under(Algorithm::Cubic, 0, 60);
        for _ in 0..8 {
            let now = link.now + Duration::from_millis(1);
            link.now = now;
            link.controller.lost(now, now, false, 1_200);
        }
        assert!(link.window() < 100.0, "{}", link.window());
        let handle = link.controller.handle().clone();
        // A change to the algorithm in force does nothing.
        handle.change(settings(
            if to == Algorithm::Cubic {
                Algorithm::Bbr
            } else {
                Algorithm::Cubic
            },
            None,
        ));
        link.rounds(1);
        handle.change(settings(to, None));
        link.rounds(2);
        assert!(link.window() > 250.0, "{to}: {}", link.window());
    }
}

#[test]
fn a_fixed_floor_can_be_set_and_taken_back() {
    let mut link = under(Algorithm::Cubic, 20, 40);
    assert!(link.window() < 100.0);
    let handle = link.controller.handle().clone();
    handle.change(settings(Algorithm::Cubic, Some(480_000)));
    assert!(link.round().window() >= 400.0);
    handle.change(settings(Algorithm::Cubic, None));
    assert!(link.rounds(2).window() < 100.0);
}

#[test]
fn a_known_path_changes_only_the_begin() {
    let known = SavedPath {
        bdp: ByteSize::from_bytes(480_000),
        min_rtt: RTT,
    };
    let mut link = under(Algorithm::Floor, 0, 40);
    let before = link.window();
    link.controller.handle().clone().change(Settings {
        known: Some(known),
        ..settings(Algorithm::Floor, None)
    });
    let after = link.round().window();
    assert!((after / before - 1.0).abs() < 0.5, "{before} {after}");
}

proptest! {
    /// Whenever the settings change, the window stays within the path's capacity.
    #[test]
    fn changes_keep_the_window_within_bounds(
        rate in 20.0_f64..300.0,
        loss in prop::sample::select(vec![0_u64, 20, 100]),
        changes in prop::collection::vec((0_usize..4, 1_u32..12), 1..8),
    ) {
        let mut link = Link::new(Settings::default(), RTT, rate, rate, loss);
        let handle = link.controller.handle().clone();
        for (index, rounds) in changes {
            handle.change(settings(ALGORITHMS[index], None));
            for _ in 0..rounds {
                let window = link.round().window();
                prop_assert!(window >= 2.0);
                prop_assert!(window < 60.0 + 8.0 * rate, "{} of {}", window, rate);
            }
        }
    }
}

#[test]
fn a_handle_shows_the_state_of_the_controller() {
    let mut link = Link::new(settings(Algorithm::Floor, None), RTT, 400.0, 400.0, 40);
    let handle = link.controller.handle().clone();
    let begun = State {
        algorithm: Algorithm::Floor,
        slow_start: true,
        floor: None,
        doubt_rounds: 0,
    };
    assert_eq!(handle.state(), begun);

    link.rounds(60);
    let State {
        slow_start, floor, ..
    } = handle.state();
    let floor = floor.expect("the path is known and its losses are random") / u64::from(MTU);
    assert!(!slow_start);
    assert!((300..600).contains(&floor), "{floor} packets of 400");

    let now = link.now;
    link.controller.lost(now, now, true, u64::from(MTU));
    link.rounds(2);
    let doubting = handle.state();
    assert_eq!(doubting.floor, None);
    assert!((1..=32).contains(&doubting.doubt_rounds), "{doubting:?}");

    handle.change(settings(Algorithm::Bbr, Some(50_000)));
    link.rounds(1);
    let State {
        algorithm, floor, ..
    } = handle.state();
    assert_eq!((algorithm, floor), (Algorithm::Bbr, Some(50_000)));
}

#[test]
fn a_handle_shows_bytes_and_times_at_any_time() {
    let start = Instant::now();
    let mut adaptive = Adaptive::new(start, MTU, settings(Algorithm::Cubic, None));
    let handle = adaptive.handle().clone();
    for packet in 0..4 {
        adaptive.on_sent(start, 1_200, packet);
    }
    let (sent, in_flight) = (handle.flight().sent, handle.flight().in_flight);
    assert_eq!(
        (sent, in_flight),
        (4_800, 4_800),
        "before any acknowledgement"
    );
    let later = start + RTT;
    adaptive.acked(later, start + RTT / 4, 1_200, false, RTT);
    adaptive.acked(later, start, 1_200, false, RTT);
    adaptive.acks_ended(later, 2_400, false, Some(1));
    let flight = handle.flight();
    assert_eq!((flight.acked, flight.in_flight), (2_400, 2_400));
    assert_eq!(flight.srtt, RTT, "of the oldest packet");
    assert_eq!(flight.rttvar, RTT / 2);
    assert_eq!(flight.acked_at - start, RTT);
    assert_eq!(flight.mtu, MTU);
    assert!(!flight.repairing);
    adaptive.lost(later, start, false, 1_200);
    assert_eq!(handle.in_flight(), 1_200);
    assert!(handle.flight().repairing);
    // The retransmission is acknowledged a round trip later.
    for (sent, repairing) in [(start, true), (later, false)] {
        adaptive.acked(later + RTT, sent, 1_200, false, RTT);
        adaptive.acks_ended(later + RTT, 0, false, Some(2));
        assert_eq!(handle.flight().repairing, repairing);
    }
    let flight = handle.flight();
    assert_eq!(flight.min_rtt, RTT);
    assert!(flight.srtt > RTT, "one of them took two");
    let left = later + 2 * RTT;
    handle.failover(left);
    for sent in [left - RTT, left] {
        adaptive.acked(left + RTT, sent, 1_200, false, RTT);
    }
    assert_eq!(handle.flight().acked_of_former, 1_200);
}

#[test]
fn a_connection_that_left_its_path_may_send_at_once_and_keeps_its_window() {
    for algorithm in ALGORITHMS {
        let mut link = under(algorithm, 0, 20);
        let controller = &mut link.controller;
        let handle = controller.handle().clone();
        let window = controller.window();
        let left = Instant::now() + Duration::from_secs(60);
        let sent = left - RTT;
        controller.on_sent(sent, window, 1 << 40);
        let in_flight = handle.in_flight();
        handle.failover(left);
        let room = 10 * u64::from(handle.flight().mtu);
        assert_eq!(
            controller.window(),
            window.max(in_flight + room),
            "{algorithm}"
        );
        controller.acks_ended(left + RTT, window, false, None);
        assert_eq!(
            controller.window(),
            window,
            "{algorithm}: until something is acknowledged"
        );
        controller.on_congestion_event(left + RTT, sent, true, window);
        assert_eq!(
            controller.window(),
            window,
            "{algorithm}: losses of the former path"
        );
        controller.on_congestion_event(left + RTT, left, true, window / 10);
        assert!(
            controller.window() < window,
            "{algorithm}: and of the new one"
        );
    }
}

/// RFC 9000 §9.4: quinn makes another controller for another path.
#[test]
fn a_handle_follows_its_connection_to_another_path() {
    let now = Instant::now();
    let known = SavedPath {
        bdp: ByteSize::from_bytes(480_000),
        min_rtt: RTT,
    };
    let factory = Arc::new(OfConnection::new(Settings {
        known: Some(known),
        ..settings(Algorithm::Floor, None)
    }));
    let build = || Arc::clone(&factory).build(now, MTU);
    let ours = |controller: Box<dyn Controller>| {
        controller.into_any().downcast::<Adaptive>().expect("ours")
    };
    let mut first = ours(build());
    let handle = first.handle().clone();
    let later = now + RTT;
    first.acked(later, now, 1_200, false, RTT);
    first.acks_ended(later, 2_400, false, None);
    assert_eq!(handle.flight().srtt, RTT);
    let mut second = ours(build());
    assert!(second.initial_window() < first.initial_window());
    let flight = handle.flight();
    assert_eq!((flight.srtt, flight.in_flight), (Duration::ZERO, 0));
    handle.change(settings(Algorithm::Bbr, None));
    second.acked(later, now, 1_200, false, RTT);
    second.acks_ended(later, 0, false, None);
    assert_eq!(handle.acked_bytes(), 2_400);
    assert_eq!(handle.state().algorithm, Algorithm::Bbr);
}

/// The summary that a client carries is known when its handshake has begun already.
#[test]
fn a_connection_begins_with_what_is_known_after_its_handshake() {
    const MOST: u64 = 32 * MTU as u64;
    let now = Instant::now();
    let with = |min_rtt| Settings {
        known: Some(SavedPath {
            bdp: ByteSize::from_bytes(480_000),
            min_rtt,
        }),
        ..settings(Algorithm::Floor, None)
    };
    for former in ALGORITHMS {
        for (known, same_path) in [(RTT, true), (4 * RTT, false)] {
            let mut controller = Adaptive::new(now, MTU, settings(former, None));
            let handle = controller.handle().clone();
            // The packets of the handshake.
            controller.on_sent(now, 1_200, 0);
            let later = now + RTT;
            controller.acked(later, now, 1_200, true, RTT);
            controller.acks_ended(later, 0, true, Some(0));
            handle.begin(with(known));
            // There is room for the packet with which it begins, however full the former window is.
            assert_eq!(controller.window(), MOST, "{former}");
            controller.on_sent(later, 1_200, 1);
            assert_eq!(handle.state().algorithm, Algorithm::Floor, "{former}");
            assert_eq!(controller.window() == MOST, same_path, "{former}");
            // Once data fill the window, it is half of the known one (RFC 9959). No acknowledgement is
            // awaited: the handshake has shown the round-trip time.
            for packet in 2..40 {
                controller.on_sent(later, 1_200, packet);
            }
            let want = if same_path {
                240_000
            } else {
                10 * u64::from(MTU)
            };
            assert_eq!(controller.window(), want, "{former}");
        }
    }
}
