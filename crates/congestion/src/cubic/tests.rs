use proptest::prelude::*;

use super::*;

const MTU: u16 = 1_200;
const RTT: Duration = Duration::from_millis(50);

/// A controller and its clock.
struct Path {
    cubic: Cubic,
    now: Instant,
}

impl Path {
    fn new() -> Self {
        Self {
            cubic: Cubic::new(MTU),
            now: Instant::now(),
        }
    }

    /// A controller in congestion avoidance with a window of so many packets.
    fn avoiding(packets: f64) -> Self {
        let mut path = Self::new();
        path.cubic.window = packets * f64::from(MTU);
        path.lose();
        path.now += RTT;
        path
    }

    fn packets(&self) -> f64 {
        self.cubic.window / f64::from(MTU)
    }

    fn lose(&mut self) {
        self.now += Duration::from_millis(1);
        self.cubic.congested(self.now, self.now, false);
    }

    /// A round trip in which a whole window is acknowledged, packet by packet.
    fn round(&mut self, limited: bool) {
        let count = self.packets().round().max(1.0);
        for _ in 0..count as u32 {
            self.now += RTT.div_f64(count);
            let sent = self.now - RTT;
            let mss = f64::from(MTU);
            self.cubic.acked(self.now, sent, mss, limited, RTT);
        }
    }

    fn rounds(&mut self, count: u32) {
        (0..count).for_each(|_| self.round(false));
    }
}

#[test]
fn larger_packets_raise_the_initial_window_while_nothing_was_lost() {
    // The initial window, the window after a round, the packets found then, and the growth by them.
    let cases = [
        (1_200, 1_452, 2_520.0),
        (1_452, 1_200, 0.0),
        (1_200, 9_000, 6_000.0),
    ];
    for (mtu, larger, more) in cases {
        let mut path = Path::new();
        path.cubic.set_mtu(mtu);
        path.round(false);
        let begun = path.cubic.window;
        path.cubic.set_mtu(larger);
        assert_eq!(path.cubic.window, begun + more, "{mtu} to {larger}");
        path.lose();
        let lost = path.cubic.window;
        path.cubic.set_mtu(1_472);
        assert_eq!(
            path.cubic.window,
            lost.max(2.0 * 1_472.0),
            "{mtu} to {larger}"
        );
    }
}

#[test]
fn slow_start_doubles_each_round() {
    let mut path = Path::new();
    let begun = path.packets();
    path.rounds(3);
    assert!(
        (path.packets() / begun / 8.0 - 1.0).abs() < 0.05,
        "{}",
        path.packets()
    );
}

#[test]
fn a_loss_takes_three_tenths_once_in_a_round() {
    let mut path = Path::avoiding(100.0);
    assert!((path.packets() - 70.0).abs() < 0.1);
    // Another packet of the same flight is lost.
    let sent = path.now - RTT * 2;
    path.cubic.congested(path.now, sent, false);
    assert!((path.packets() - 70.0).abs() < 0.1);
}

/// RFC 9438 figure 1: concave up to the window of the last loss, reached after K, then convex.
#[test]
fn the_window_is_back_after_k_and_goes_on_beyond() {
    let mut path = Path::avoiding(1_000.0);
    // K = cbrt(1000 x 0.3 / 0.4) = 9.1 s.
    let k = (1_000.0_f64 * 0.3 / 0.4).cbrt();
    let at = |path: &mut Path, secs: f64| {
        let until = (secs / RTT.as_secs_f64()) as u32;
        path.rounds(until);
        path.packets()
    };
    let half = at(&mut path, k / 2.0);
    assert!((940.0..985.0).contains(&half), "{half}");
    let whole = at(&mut path, k / 2.0);
    assert!((990.0..1_010.0).contains(&whole), "{whole}");
    let beyond = at(&mut path, k);
    assert!((1_250.0..1_350.0).contains(&beyond), "{beyond}");
}

/// §4.3: where CUBIC's own curve is slower than Reno, it grows as Reno would.
#[test]
fn small_windows_grow_as_reno() {
    let mut path = Path::avoiding(20.0);
    let begun = path.packets();
    path.rounds(10);
    let grown = path.packets() - begun;
    assert!((4.0..7.0).contains(&grown), "{grown}: 0.53 packets a round");
}

#[test]
fn a_flow_that_gets_less_leaves_room() {
    let mut path = Path::avoiding(100.0);
    path.lose();
    let mss = f64::from(MTU);
    assert!((path.cubic.w_max / mss - 70.0 * 0.85).abs() < 0.5);
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut path = Path::avoiding(100.0);
    path.rounds(1);
    let before = path.packets();
    (0..200).for_each(|_| path.round(true));
    assert_eq!(path.packets(), before);
    // Nor does the curve jump to its value at this time.
    path.rounds(1);
    assert!(path.packets() < before * 1.1, "{} {before}", path.packets());
}

#[test]
fn persistent_congestion_begins_again_with_two_packets() {
    let mut path = Path::avoiding(100.0);
    let (now, sent) = (path.now + RTT, path.now);
    path.cubic.congested(now, sent, true);
    assert_eq!(path.packets(), 2.0);
    path.now = now + RTT * 2;
    path.rounds(3);
    assert!((14.0..17.0).contains(&path.packets()), "{}", path.packets());
}

#[test]
fn an_outage_reduces_the_threshold_once() {
    let mut path = Path::avoiding(100.0);
    let before = path.packets();
    let sent = path.now;
    for _ in 0..3 {
        path.now += RTT * 4;
        path.cubic.congested(path.now, path.now - RTT, true);
    }
    path.now += RTT;
    path.cubic.congested(path.now, sent, false);
    path.now += RTT * 2;
    path.rounds(6);
    let window = path.packets();
    assert!((0.65..0.75).contains(&(window / before)), "{window}");
}

proptest! {
    #[test]
    fn the_window_stays_within_bounds(events in prop::collection::vec(0u8..4, 1..300)) {
        let mut path = Path::new();
        for event in events {
            let before = path.cubic.window;
            match event {
                0 => path.lose(),
                1 => path.round(true),
                2 => {
                    path.now += RTT;
                    path.cubic.congested(path.now, path.now, true);
                }
                _ if path.packets() < 500.0 => path.round(false),
                _ => path.lose(),
            }
            prop_assert!(path.cubic.window >= 2.0 * f64::from(MTU));
            prop_assert!(path.cubic.window <= before * 2.5);
            prop_assert!(path.cubic.window.is_finite());
        }
    }
}
