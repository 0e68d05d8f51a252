//! Paths of other lengths, and with queues.

use super::*;

#[test]
fn a_deep_queue_is_given_half_of_its_time() {
    // Of 200 ms of queue, nothing comes for `pause`; before it the path may have been left for a while.
    let alarms = |pause: u32, left: bool| {
        let start = Instant::now();
        let mut watch = Watch::new(start, MS * ACK_DELAY);
        let signals = (0..1000).filter_map(|now: u32| {
            let silent = (500..500 + pause).contains(&now);
            let acked = if silent { 499 } else { now };
            let acked = 4 * u64::from(acked.saturating_sub(RTT + 200));
            let flight = Flight {
                srtt: MS * (RTT + 200),
                ..in_order(4 * u64::from(now), acked)
            }
            .on(
                u32::from(left && (300..330).contains(&now)),
                left && now >= 300,
            );
            watch.look(start + MS * now, &flight)
        });
        signals
            .filter(|signal| matches!(signal, Signal::Stalled(_)))
            .count()
    };
    for left in [false, true] {
        assert_eq!(alarms(95, left), 0);
        assert_eq!(alarms(120, left), 1);
    }
}

#[test]
fn a_longer_path_is_not_taken_for_queued() {
    // At 500 the connection goes over from 20 to 100 ms, and nothing comes from 3000 on.
    let noticed = |short_before: bool| {
        let start = Instant::now();
        let mut watch = Watch::new(start, MS * ACK_DELAY);
        (0..3400_u32).find(|&now| {
            let short = short_before && now < 500;
            let of = |rtt: u32| u64::from(now.min(3000 - 1).saturating_sub(rtt));
            let acked = 2 * if short {
                of(20)
            } else {
                of(100).max(480.min(of(20)))
            };
            // It takes some samples.
            let srtt = match now {
                _ if !short_before => 100,
                ..500 => 20,
                500..600 => 20 + (now - 500) * 4 / 5,
                _ => 100,
            };
            let flight = Flight {
                srtt: MS * srtt,
                min_rtt: MS * if short_before { 20 } else { 100 },
                ..in_order(2 * u64::from(now), acked)
            }
            .on(u32::from(!short), short_before && !short);
            let signal = watch.look(start + MS * now, &flight);
            matches!(signal, Some(Signal::Stalled(_)))
        })
    };
    let of_its_own = noticed(false);
    assert!(
        of_its_own.is_some_and(|at| (3010..3020).contains(&at)),
        "{of_its_own:?}"
    );
    assert_eq!(noticed(true), of_its_own);
}

#[test]
fn a_longer_path_that_was_taken_between_responses_is_no_stall() {
    // A response over a path of 20 ms, and from 1000 on one over 100 ms: srtt is the former's until then.
    let start = Instant::now();
    let mut watch = Watch::new(start, MS * ACK_DELAY);
    for now in 0..400_u32 {
        let [sent, acked] = [0, RTT].map(|rtt| 2 * u64::from(now.saturating_sub(rtt).min(300)));
        let seen = watch.look(start + MS * now, &in_order(sent, acked));
        assert_eq!(seen, None);
    }
    watch.rest(start + MS * 400);
    for now in 1000..1400_u32 {
        let [sent, acked] =
            [0, 100].map(|rtt| 600 + 2 * u64::from((now - 1000).saturating_sub(rtt)));
        let flight = Flight {
            srtt: MS * if now <= 1100 { RTT } else { 100 },
            ..in_order(sent, acked)
        }
        .on(1, true);
        assert_eq!(watch.look(start + MS * now, &flight), None, "at {now}");
    }
}

#[test]
fn a_long_path_may_pause() {
    // Nothing is acknowledged for 13 ms, which over 20 ms of RTT would be a black hole.
    let pause = |now: u32| (300..313).contains(&now);
    let alarms = |rtt: u32| {
        let start = Instant::now();
        let mut watch = Watch::new(start, MS * ACK_DELAY);
        let signals = (0..400).filter_map(|now: u32| {
            let acked = if pause(now) { 299 } else { now };
            let acked = 4 * u64::from(acked.saturating_sub(rtt));
            let flight = Flight {
                srtt: MS * rtt,
                ..in_order(4 * u64::from(now), acked)
            };
            watch.look(start + MS * now, &flight)
        });
        signals
            .filter(|signal| matches!(signal, Signal::Stalled(_)))
            .count()
    };
    assert_eq!(alarms(RTT), 1);
    assert_eq!(alarms(42), 0);
}

#[test]
fn a_short_path_is_not_taken_for_a_deep_queue_that_was_left() {
    // Up to 500 packets wait for 200 ms; from the alarm on the other path has 20 ms, and some room at first.
    let start = Instant::now();
    let mut watch = Watch::new(start, MS * ACK_DELAY);
    let mut moved = None;
    for now in 0..900_u32 {
        let of_former = 4 * u64::from(now.min(500).saturating_sub(RTT + 200));
        let under_way = 4 * u64::from(now.min(500));
        let at = |time: u32| match moved {
            Some(at) if time >= at => 10 + 4 * u64::from((time - at).saturating_sub(RTT)),
            _ => 0,
        };
        let acked = of_former + at(now.saturating_sub(RTT));
        let flight = Flight {
            srtt: MS * (RTT + 200),
            former: of_former,
            resent: at(now) / 2,
            ..in_order(under_way + at(now), acked)
        }
        .on(moved.is_some().into(), moved.is_some());
        match watch.look(start + MS * now, &flight) {
            Some(Signal::Stalled(_)) if moved.is_none() => moved = Some(now),
            Some(Signal::Resumed {
                false_alarm: false, ..
            })
            | None => {}
            signal => panic!("{signal:?} at {now}"),
        }
    }
    assert!(
        moved.is_some_and(|at| (595..615).contains(&at)),
        "{moved:?}"
    );
    assert_eq!(watch.patience.0, MIN_PATIENCE);
}
