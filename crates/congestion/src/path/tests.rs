use super::*;

/// A path on which each of `rounds` takes as long as `rtt` says.
fn after(rounds: u32, rtt: impl Fn(u32) -> Duration) -> Path {
    let mut path = Path::default();
    let mut now = Instant::now();
    let mut delivered = 0;
    for round in 0..rounds {
        let sent = now;
        now += rtt(round);
        let sample = Sample {
            rate: 1e6,
            loss: 0.0,
            rtt: now - sent,
            sent,
            prior: delivered,
            limited: false,
        };
        delivered += 1_200;
        path.on_sample(now, &sample, delivered);
    }
    path
}

#[test]
fn little_is_kept_of_short_round_trips() {
    let path = after(600_000, |_| Duration::from_micros(100));
    assert!(path.floors.len() <= 301, "{}", path.floors.len());
    assert!(path.recent.len() <= 600, "{}", path.recent.len());
    assert!(path.rates.len() <= 11, "{}", path.rates.len());
    assert_eq!(path.min_rtt(), Some(Duration::from_micros(100)));
}

#[test]
fn one_rtt_that_is_too_small_changes_nothing() {
    let rtt = |round| Duration::from_millis(if round == 50 { 1 } else { 40 });
    assert_eq!(after(100, rtt).min_rtt(), Some(Duration::from_millis(40)));
}

#[test]
fn a_longer_route_becomes_the_paths_own_in_half_a_minute() {
    let rtt = |round| Duration::from_millis(if round < 100 { 40 } else { 60 });
    assert_eq!(after(110, rtt).min_rtt(), Some(Duration::from_millis(40)));
    assert_eq!(after(700, rtt).min_rtt(), Some(Duration::from_millis(60)));
}
