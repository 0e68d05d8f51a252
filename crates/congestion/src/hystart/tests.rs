use super::*;

const BASE: u64 = 40;

/// A slow start after its first flight.
fn begun() -> HyStart {
    let mut hystart = HyStart::default();
    (0..10).for_each(|packet| hystart.on_sent(packet));
    hystart
}

/// Runs a round: ten packets are acknowledged after `ms` each, and each makes room for another.
fn round(hystart: &mut HyStart, number: u64, ms: u64) -> Growth {
    let mut growth = Growth::Full;
    for packet in number * 10..(number + 1) * 10 {
        hystart.on_rtt(Duration::from_millis(ms));
        growth = hystart.on_acked(Some(packet));
        hystart.on_sent(packet + 10);
    }
    growth
}

fn after(rounds: &[u64]) -> Vec<Growth> {
    let mut hystart = begun();
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
fn few_samples_change_nothing() {
    let mut hystart = begun();
    round(&mut hystart, 0, BASE);
    round(&mut hystart, 1, BASE);
    // The first of these acknowledgements still ends the round before.
    for packet in 20..28 {
        hystart.on_rtt(Duration::from_millis(90));
        assert_eq!(hystart.on_acked(Some(packet)), Growth::Full);
    }
    hystart.on_rtt(Duration::from_millis(90));
    assert_eq!(hystart.on_acked(Some(28)), Growth::Slow);
}
