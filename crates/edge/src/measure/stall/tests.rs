use super::*;

const MS: Duration = Duration::from_millis(1);
const RTT: u32 = 20;
const ACK_DELAY: u32 = 40;

/// Nothing was lost.
fn in_order(sent: u64, acked: u64) -> Flight {
    Flight {
        sent,
        in_flight: sent - acked,
        acked,
        acked_at: None,
        srtt: MS * RTT,
        rttvar: MS / 2,
        min_rtt: MS * RTT,
        mark: 0,
        packet: 1,
        repairing: false,
        former: acked,
        former_packet: 1,
        resent: 0,
        duplicates: 0,
    }
}

/// A sender and its receiver, millisecond by millisecond. Times are from the start.
struct Link {
    /// Packets by the time of sending.
    sent: Vec<u32>,
    /// When each is acknowledged; `None` if never.
    acked: Vec<Option<u32>>,
}

impl Link {
    /// Sends `packets` in each millisecond of `from..until` that is a multiple of `every`, and
    /// acknowledges each after a round trip, or as `at` says of its time of sending.
    fn new(
        (from, until, every, packets): (u32, u32, u32, u32),
        at: impl Fn(u32) -> Option<u32>,
    ) -> Self {
        let times = (from..until).filter(|time| time % every == 0);
        let sent: Vec<_> = times
            .flat_map(|time| (0..packets).map(move |_| time))
            .collect();
        let acked = sent.iter().map(|&time| at(time)).collect();
        Self { sent, acked }
    }

    fn flight(&self, start: Instant, now: u32) -> Flight {
        let sent = self.sent.iter().filter(|&&at| at <= now).count() as u64;
        let acks = self.acked.iter().flatten().filter(|&&at| at <= now);
        let acked = acks.clone().count() as u64;
        // Nothing is sent again.
        let came = |acked: &&Option<u32>| acked.is_some_and(|at| at <= now);
        Flight {
            former: self.acked.iter().take_while(came).count() as u64,
            acked_at: acks.max().map(|&at| start + MS * at),
            ..in_order(sent, acked)
        }
    }

    /// Signals by their times, until `end`, with looks as the watch wants them.
    fn watch(&self, end: u32) -> Vec<(u32, Signal)> {
        let start = Instant::now();
        let mut watch = Watch::new(start, MS * ACK_DELAY);
        let mut signals = Vec::new();
        let mut next = start;
        for now in 0..end {
            let at = start + MS * now;
            if at < next {
                continue;
            }
            let flight = self.flight(start, now);
            signals.extend(watch.look(at, &flight).map(|signal| (now, signal)));
            next = watch.next(&flight);
        }
        signals
    }

    /// Times of alarms.
    fn alarms(&self, end: u32) -> Vec<u32> {
        let signals = self.watch(end).into_iter();
        signals
            .filter(|(_, signal)| matches!(signal, Signal::Stalled(_)))
            .map(|(at, _)| at)
            .collect()
    }
}

/// Two packets a millisecond: 24 Mbit/s.
const BULK: (u32, u32, u32, u32) = (0, 1000, 1, 2);

fn in_time(sent: u32) -> Option<u32> {
    Some(sent + RTT)
}

/// What is sent from `time` on is lost.
fn hole(time: u32) -> impl Fn(u32) -> Option<u32> {
    move |sent| (sent < time).then_some(sent + RTT)
}

#[test]
fn a_black_hole_is_noticed_soon_and_nothing_else_is_one() {
    // The last acknowledgement before a hole at 500 comes at 519.
    type Acks = Box<dyn Fn(u32) -> Option<u32>>;
    let cases: Vec<(&str, (u32, u32, u32, u32), Acks, Option<(u32, u32)>)> = vec![
        ("bulk", BULK, Box::new(in_time), None),
        (
            "bulk into a hole",
            BULK,
            Box::new(hole(500)),
            Some((528, 533)),
        ),
        (
            "bulk until its window is full",
            (0, 520, 1, 2),
            Box::new(hole(500)),
            Some((528, 533)),
        ),
        (
            "media, 20 packets each 40 ms, into a hole",
            (0, 1000, 40, 20),
            Box::new(hole(500)),
            // Sent at 520, due at 540.
            Some((547, 556)),
        ),
        (
            "1 Mbit/s into a hole",
            (0, 1000, 12, 1),
            Box::new(hole(500)),
            Some((560, 590)),
        ),
        ("media", (0, 1000, 40, 20), Box::new(in_time), None),
        ("ends", (0, 500, 1, 2), Box::new(in_time), None),
        (
            "slow start: a burst in each round trip",
            (0, 1000, RTT, 10),
            Box::new(in_time),
            None,
        ),
        (
            "bursts after pauses",
            (0, 1000, 150, 100),
            Box::new(in_time),
            None,
        ),
        (
            "single packets, acknowledged late",
            (0, 1000, 100, 1),
            Box::new(|sent| Some(sent + RTT + ACK_DELAY)),
            None,
        ),
        (
            "pairs, acknowledged late",
            (0, 1000, 100, 2),
            Box::new(|sent| Some(sent + RTT + ACK_DELAY)),
            None,
        ),
        (
            "acknowledgements each 8 ms",
            BULK,
            Box::new(|sent| Some((sent + RTT).next_multiple_of(8))),
            None,
        ),
        (
            "every tenth packet lost",
            BULK,
            Box::new(|sent| (sent % 10 != 0).then_some(sent + RTT)),
            None,
        ),
        (
            "the last packet lost",
            (0, 500, 1, 1),
            Box::new(hole(499)),
            None,
        ),
        (
            "a pause of the link of 7 ms",
            BULK,
            Box::new(|sent| {
                Some(if (480..487).contains(&sent) {
                    507
                } else {
                    sent + RTT
                })
            }),
            None,
        ),
    ];
    for (name, sending, acks, want) in cases {
        let first = Link::new(sending, acks).alarms(700).first().copied();
        match want {
            None => assert_eq!(first, None, "{name}"),
            Some((from, to)) => {
                assert!(
                    first.is_some_and(|at| (from..=to).contains(&at)),
                    "{name}: {first:?}"
                );
            }
        }
    }
}

#[test]
fn an_alarm_tells_of_the_silence_and_comes_again_more_and_more_seldom() {
    let signals = Link::new((0, 3000, 1, 2), hole(500)).watch(3000);
    let Some((_, Signal::Stalled(stall))) = signals.first() else {
        panic!("{signals:?}");
    };
    assert!(stall.overdue >= AT_ONCE && stall.overdue <= stall.in_flight);
    assert_eq!(stall.srtt, MS * RTT);
    let times: Vec<_> = signals.iter().map(|(at, _)| at).collect();
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        gaps.len() >= 2 && gaps.windows(2).all(|pair| pair[1] > pair[0] * 3 / 2),
        "{times:?}"
    );
}

#[test]
fn a_path_that_nothing_was_sent_over_is_not_blamed() {
    // The hole takes all that the sender may have in flight. What it sends from 900 on, over the next
    // path, is acknowledged.
    let before = Link::new((0, 520, 1, 2), hole(500));
    let after = Link::new((900, 910, 1, 2), in_time);
    let link = Link {
        sent: [before.sent, after.sent].concat(),
        acked: [before.acked, after.acked].concat(),
    };
    let signals = link.watch(1400);
    let [(_, Signal::Stalled(_)), (at, Signal::Resumed { .. })] = signals[..] else {
        panic!("{signals:?}");
    };
    assert!((920..926).contains(&at), "{at}");
}

#[test]
fn a_link_that_pauses_is_given_more_patience() {
    // Nothing gets through in the first 16 ms of each 200, and all of it then.
    let paused = |sent: u32| match sent % 200 {
        0..16 => sent - sent % 200 + 16 + RTT,
        _ => sent + RTT,
    };
    let link = Link::new((0, 4000, 1, 2), |sent| Some(paused(sent)));
    let signals = link.watch(4000);
    let [
        (_, Signal::Stalled(_)),
        (
            _,
            Signal::Resumed {
                silent,
                false_alarm: true,
            },
        ),
    ] = signals[..]
    else {
        panic!("one alarm, taken back: {signals:?}");
    };
    assert!((16 * MS..=40 * MS).contains(&silent), "{silent:?}");
}

#[test]
fn a_first_short_pause_does_not_hide_a_black_hole() {
    // The link pauses for 12 ms, and carries nothing from 500 on.
    let noticed = |pauses: &'static [u32]| {
        let link = Link::new(BULK, move |sent| {
            let of_pause = |begin: &&u32| (**begin..**begin + 12).contains(&sent);
            match pauses.iter().find(of_pause) {
                Some(begin) => Some(begin + 12 + RTT),
                None => (sent < 500).then_some(sent + RTT),
            }
        });
        let alarms = link.alarms(600);
        assert_eq!(alarms.len(), pauses.len() + 1, "{alarms:?}");
        alarms[pauses.len()]
    };
    assert!((528..533).contains(&noticed(&[])), "{}", noticed(&[]));
    let after_one = noticed(&[200]);
    assert!((530..537).contains(&after_one), "{after_one}");
}

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
fn an_acknowledgement_that_was_held_back_does_not_end_an_alarm() {
    // The last packet before the hole waits for a second one, which never comes; from 540 on
    // everything takes another path.
    let link = Link::new(BULK, |sent| match sent {
        499 => Some(499 + RTT + ACK_DELAY / 2),
        500..540 => None,
        sent => Some(sent + RTT),
    });
    let mut signals = link.watch(1000).into_iter();
    let stalled = signals.next();
    assert!(
        matches!(stalled, Some((520..=535, Signal::Stalled(_)))),
        "{stalled:?}"
    );
    let resumed = signals.next();
    assert!(
        matches!(resumed, Some((560..=566, Signal::Resumed { .. }))),
        "{resumed:?}"
    );
    assert_eq!(signals.next(), None);
}

#[test]
fn a_busy_machine_reads_acknowledgements_before_it_judges() {
    let start = Instant::now();
    let link = Link::new(BULK, in_time);
    let mut watch = Watch::new(start, MS * ACK_DELAY);
    for now in 0..100 {
        watch.look(start + MS * now, &link.flight(start, now));
    }
    // What came in 40 ms has not been read yet.
    let late = start + MS * 140;
    assert_eq!(watch.look(late, &link.flight(start, 99)), None);
    assert_eq!(watch.look(late + MS, &link.flight(start, 141)), None);
}

#[test]
fn repairs_are_silent_for_a_round_trip() {
    // A queue has overflowed. From 480 to 500 acknowledgements tell of each second packet, and the
    // others are sent again at once; of the four last nothing is heard before these are acknowledged.
    let start = Instant::now();
    let first_signal = |hole: bool| {
        let mut watch = Watch::new(start, MS * ACK_DELAY);
        (480..600).find_map(|now: u32| {
            let four_each_ms = |from: u32| u64::from(4 * (now.clamp(from, from + RTT) - from));
            let sent_again = four_each_ms(480);
            let repaired = if hole { 0 } else { four_each_ms(500) };
            let the_last = if repaired < 80 { 4 } else { 0 };
            let flight = Flight {
                in_flight: 160 + the_last - sent_again - repaired,
                repairing: true,
                former: 0,
                resent: sent_again,
                duplicates: 0,
                ..in_order(2000 + sent_again, 1000 + sent_again + repaired)
            };
            let signal = watch.look(start + MS * now, &flight);
            signal.map(|_| now)
        })
    };
    assert_eq!(first_signal(false), None);
    let in_a_hole = first_signal(true);
    assert!(
        in_a_hole.is_some_and(|at| (515..=520).contains(&at)),
        "half of what was sent again is overdue: {in_a_hole:?}"
    );
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
fn what_comes_at_once_is_of_the_former_path_though_something_was_sent_again() {
    // Nothing is acknowledged from 200 on, the alarm comes at 211, and at 213 something is sent again.
    let start = Instant::now();
    let false_alarm = |resumed: u32| {
        let mut watch = Watch::new(start, MS * ACK_DELAY);
        (0..400).find_map(|now: u32| {
            let acked = match now {
                200.. if now < resumed => 180,
                _ => now - RTT.min(now),
            };
            let flight = Flight {
                acked_at: (now >= resumed).then_some(start + MS * resumed),
                resent: u64::from(now >= 213),
                duplicates: 0,
                ..in_order(now.into(), acked.into())
            };
            match watch.look(start + MS * now, &flight) {
                Some(Signal::Resumed { false_alarm, .. }) => Some(false_alarm),
                _ => None,
            }
        })
    };
    assert_eq!(false_alarm(214), Some(true));
    assert_eq!(false_alarm(235), Some(false), "it may be the other path's");
}

#[test]
fn what_was_sent_again_and_had_come_tells_of_a_false_alarm() {
    // From 200 on nothing is acknowledged; from 260 on what was sent after the alarm is, and up to 270
    // forty packets are sent again, of which the receiver may have some.
    let start = Instant::now();
    let delivered = |had: u64| {
        let mut watch = Watch::new(start, MS * ACK_DELAY);
        let mut signals = Vec::new();
        for now in 0..800_u32 {
            let acked = match now {
                ..200 => now - RTT.min(now),
                200..260 => 180,
                _ => 181 + now - 260,
            };
            let flight = Flight {
                former: acked.min(180).into(),
                resent: 4 * u64::from(now.clamp(260, 270) - 260),
                duplicates: if now < 300 { 0 } else { had },
                ..in_order(now.into(), acked.into())
            };
            let signal = watch.look(start + MS * now, &flight);
            signals.extend(signal.map(|signal| (now, signal)));
        }
        let of_kind = |wanted: fn(&Signal) -> bool| {
            let found = signals.iter().find(|(_, signal)| wanted(signal));
            found.map(|(at, _)| *at)
        };
        let resumed = |signal: &Signal| {
            let Signal::Resumed { false_alarm, .. } = signal else {
                return false;
            };
            assert!(!false_alarm, "nobody knows yet");
            true
        };
        assert_eq!(of_kind(resumed), Some(260));
        let patience = watch.patience.0;
        let told = of_kind(|signal| matches!(signal, Signal::Delivered));
        assert_eq!(told.is_some(), patience > LEAST_PATIENCE);
        told
    };
    assert_eq!(delivered(40), Some(300));
    assert_eq!(delivered(20), Some(300));
    assert_eq!(delivered(19), None, "most was lost");
    assert_eq!(delivered(0), None);
}

#[test]
fn more_than_was_sent_since_tells_of_a_false_alarm() {
    // From 200 on nothing is acknowledged, and something is missing of what is then; the window is full at 205.
    // An alarm makes room for ten packets. From 260 on it is what was under way before, or else these ten only.
    let start = Instant::now();
    let delivered = |pause: bool| {
        let mut watch = Watch::new(start, MS * ACK_DELAY);
        let mut alarm = None;
        (0..600_u32).find_map(|now| {
            let of_kick = if alarm.is_some() { 10 } else { 0 };
            let resumed = u64::from(now.saturating_sub(260));
            let of_former = if pause { 4 * resumed } else { 0 };
            let acked =
                4 * u64::from(now.min(200).saturating_sub(RTT)) + (of_former + 2 * resumed.min(5));
            let sent = 4 * u64::from(now.min(205)) + of_kick + 6 * resumed;
            let flight = Flight {
                former: acked.min(600),
                resent: 1,
                ..in_order(sent, acked)
            };
            match watch.look(start + MS * now, &flight)? {
                Signal::Stalled(_) => alarm = Some(now),
                Signal::Resumed { false_alarm, .. } => assert!(!false_alarm, "nobody knows yet"),
                Signal::Delivered => return Some(now),
            }
            None
        })
    };
    assert!(
        delivered(true).is_some_and(|at| at <= 270),
        "{:?}",
        delivered(true)
    );
    assert_eq!(delivered(false), None);
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
    assert_eq!(watch.patience.0, LEAST_PATIENCE);
}

#[test]
fn what_comes_after_the_other_path_was_taken_is_no_false_alarm() {
    // From 550 on everything takes another path of the same length.
    let link = Link::new(BULK, |sent| {
        (!(500..550).contains(&sent)).then_some(sent + RTT)
    });
    let signals = link.watch(1000);
    let [
        (_, Signal::Stalled(_)),
        (at, Signal::Resumed { silent, .. }),
    ] = signals[..]
    else {
        panic!("{signals:?}");
    };
    assert!((570..576).contains(&at) && silent >= 50 * MS);
    // As patient as before: a second hole is noticed as soon.
    let link = Link::new(BULK, |sent| {
        (!(500..550).contains(&sent) && sent < 800).then_some(sent + RTT)
    });
    let alarms = link.alarms(1000);
    assert!(
        alarms[1..].iter().any(|at| (825..=834).contains(at)),
        "{alarms:?}"
    );
}
