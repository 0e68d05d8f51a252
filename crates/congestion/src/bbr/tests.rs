use super::*;
use crate::testing::Link;
use crate::{Algorithm, Settings};

const RTT: Duration = Duration::from_millis(40);

fn path_of(rate: f64, queue: f64, loss: u64) -> Link {
    let settings = Settings {
        algorithm: Algorithm::Bbr,
        ..Settings::default()
    };
    Link::new(settings, RTT, rate, queue, loss)
}

#[test]
fn startup_ends_when_the_path_is_full_and_leaves_no_queue() {
    let mut link = path_of(400.0, 400.0, 0);
    link.rounds(30);
    assert!(matches!(link.controller.bbr().phase, Phase::ProbeBw { .. }));
    let windows: Vec<f64> = (0..24).map(|_| link.round().window()).collect();
    assert!(
        windows.iter().all(|w| (250.0..560.0).contains(w)),
        "{windows:?}"
    );
    assert_eq!(link.lost_in(20), 0);
}

#[test]
fn random_losses_are_no_congestion() {
    let mut link = path_of(400.0, 400.0, 20);
    link.rounds(60);
    let delivered = link.delivered_in(40);
    let possible = 400.0 * 40.0 * 0.95;
    assert!(delivered > 0.85 * possible, "{delivered} of {possible}");
}

#[test]
fn the_smallest_rtt_is_probed_each_ten_seconds() {
    let mut link = path_of(400.0, 400.0, 0);
    link.rounds(20);
    let least = (0..300)
        .map(|_| link.round().window())
        .fold(f64::INFINITY, f64::min);
    assert!((least - PROBE_RTT_PACKETS).abs() < 0.01, "{least}");
    link.rounds(20);
    assert!(link.window() > 250.0, "{}", link.window());
}

#[test]
fn persistent_congestion_begins_anew() {
    let mut link = path_of(400.0, 400.0, 0);
    link.rounds(30);
    link.controller.lost(link.now, link.now, true, 1_200);
    assert!((link.window() - PROBE_RTT_PACKETS).abs() < 0.01);
    link.rounds(20);
    assert!(link.window() > 250.0, "{}", link.window());
}

#[test]
fn phases_follow_the_draft() {
    let mut link = path_of(400.0, 400.0, 0);
    link.rounds(30);
    let mut seen = Vec::new();
    for _ in 0..200 {
        link.step();
        if let Phase::ProbeBw { index, .. } = link.controller.bbr().phase
            && seen.last() != Some(&index)
        {
            seen.push(index);
        }
    }
    for _ in 0..20 {
        link.round();
        if let Phase::ProbeBw { index, .. } = link.controller.bbr().phase
            && seen.last() != Some(&index)
        {
            seen.push(index);
        }
    }
    assert!(
        seen.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 8),
        "{seen:?}"
    );
}
