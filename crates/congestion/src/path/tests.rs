use proptest::prelude::*;

use super::*;

/// A path after `rounds` rounds with the times of `rtt`.
fn after(rounds: u32, rtt: impl Fn(u32) -> Duration) -> Path {
    let mut path = Path::default();
    let mut now = Instant::now();
    let mut delivered = 0;
    for round in 0..rounds {
        let sent = now;
        now += rtt(round);
        let sample = Sample {
            rate: 1e6,
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
    assert!(path.recent.len() <= 600, "{}", path.recent.len());
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

#[test]
fn short_paths_have_short_queues() {
    // The RTT, and the smallest delay that counts as a standing queue, in microseconds.
    for (rtt, queue) in [
        (1_000, 1_000),
        (5_000, 1_000),
        (8_000, 1_600),
        (10_000, 2_000),
        (40_000, 2_000),
        (100_000, 5_000),
    ] {
        let [rtt, queue] = [rtt, queue].map(Duration::from_micros);
        assert_eq!(after(10, |_| rtt).threshold(), queue, "RTT {rtt:?}");
    }
}

/// [`Path::queue_at`] without the order of sending.
fn queue_by_scan(path: &Path, sent: Instant) -> Option<Duration> {
    let min = path.min_rtt()?;
    let apart = |at: Instant| at.max(sent).duration_since(at.min(sent));
    let near = path.recent.iter().filter(|(at, _)| apart(*at) <= min / 4);
    let near: Vec<Duration> = near.map(|&(_, rtt)| rtt).collect();
    let last = path.recent.iter().rev().take(NEAR);
    let least = match near.len() < NEAR {
        true => last.map(|&(_, rtt)| rtt).min(),
        false => near.into_iter().min(),
    };
    least.map(|rtt| rtt.saturating_sub(min))
}

proptest! {
    /// Sends packets at most 3 ms apart, and acknowledges them roughly in the order of sending.
    #[test]
    fn a_queue_is_found_as_by_looking_at_every_sample(
        packets in proptest::collection::vec((0..3_000u64, 20_000..30_000u64), 1..300),
        asked in proptest::collection::vec(0..400_000u64, 20),
    ) {
        let begin = Instant::now() + Duration::from_secs(1);
        let mut acks = Vec::new();
        let mut sent = begin;
        for (gap, rtt) in packets {
            sent += Duration::from_micros(gap);
            acks.push((sent + Duration::from_micros(rtt), sent));
        }
        acks.sort();
        let mut path = Path::default();
        for (number, (now, sent)) in acks.into_iter().enumerate() {
            let number = number as u64;
            let sample = Sample {
                rate: 1e6,
                rtt: now - sent,
                sent,
                prior: number.saturating_sub(20) * 1_200,
                limited: false,
            };
            path.on_sample(now, &sample, number * 1_200);
        }
        prop_assert!(path.recent.iter().is_sorted_by_key(|(sent, _)| *sent));
        for at in asked {
            let at = begin - Duration::from_millis(10) + Duration::from_micros(at);
            prop_assert_eq!(path.queue_at(at), queue_by_scan(&path, at));
        }
    }
}
