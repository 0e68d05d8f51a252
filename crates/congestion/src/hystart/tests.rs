use super::*;

const BASE: u64 = 40;

/// A round in which ten packets are sent, and those of the round before acknowledged after
/// `ms` each.
fn round(hystart: &mut HyStart, number: u64, ms: u64) -> Growth {
    for packet in 0..10 {
        hystart.on_sent(number * 10 + packet);
    }
    let mut growth = Growth::Full;
    for packet in 0..10 {
        hystart.on_rtt(Duration::from_millis(ms));
        let acked = (number * 10 + packet).checked_sub(10);
        growth = hystart.on_acked(acked);
    }
    growth
}

fn after(rounds: &[u64]) -> Vec<Growth> {
    let mut hystart = HyStart::default();
    let each = rounds.iter().zip(0..);
    each.map(|(&ms, number)| round(&mut hystart, number, ms))
        .collect()
}

#[test]
fn steady_times_never_end_slow_start() {
    assert!(
        after(&[BASE; 30])
            .iter()
            .all(|growth| *growth == Growth::Full)
    );
}

#[test]
fn a_rise_is_watched_for_five_rounds_and_then_ends_it() {
    let growth = after(&[BASE, BASE, 46, 50, 54, 58, 62, 66, 70]);
    assert_eq!(growth[..2], [Growth::Full; 2]);
    assert_eq!(growth[2], Growth::Slow);
    assert_eq!(growth[6], Growth::Slow, "{growth:?}");
    assert_eq!(growth[8], Growth::Over, "{growth:?}");
}

#[test]
fn a_rise_that_goes_away_was_jitter() {
    let growth = after(&[BASE, BASE, 60, BASE, BASE, BASE, BASE, BASE, BASE, BASE]);
    assert_eq!(growth[2], Growth::Slow);
    assert!(
        growth[4..].iter().all(|growth| *growth == Growth::Full),
        "{growth:?}"
    );
}

#[test]
fn the_threshold_is_an_eighth_within_limits() {
    let ms = Duration::from_millis;
    for (rtt, want) in [(1, 4), (32, 4), (80, 10), (128, 16), (900, 16)] {
        assert_eq!(threshold(ms(rtt)), ms(want), "{rtt} ms");
    }
}

#[test]
fn few_samples_tell_nothing() {
    let mut hystart = HyStart::default();
    round(&mut hystart, 0, BASE);
    round(&mut hystart, 1, BASE);
    for packet in 20..30 {
        hystart.on_sent(packet);
    }
    for acked in 10..17 {
        hystart.on_rtt(Duration::from_millis(90));
        assert_eq!(hystart.on_acked(Some(acked)), Growth::Full);
    }
}
