//! Alarms, and whether they turn out to be false.

use super::*;

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
fn acknowledgements_at_once_are_of_the_former_path_despite_retransmissions() {
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
fn needless_retransmissions_show_a_false_alarm() {
    // From 200 on nothing is acknowledged. From 260 on packets that were sent after the alarm are
    // acknowledged. Up to 270 forty packets are sent again, of which the receiver may have some.
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
        let delivered = of_kind(|signal| matches!(signal, Signal::Delivered));
        assert_eq!(delivered.is_some(), patience > MIN_PATIENCE);
        delivered
    };
    assert_eq!(delivered(40), Some(300));
    assert_eq!(delivered(20), Some(300));
    assert_eq!(delivered(19), None, "most was lost");
    assert_eq!(delivered(0), None);
}

#[test]
fn more_acknowledged_than_sent_since_shows_a_false_alarm() {
    // From 200 on nothing is acknowledged, and the window is full at 205. An alarm makes room for ten
    // packets. From 260 on packets that were under way before are acknowledged, with a gap, or else
    // these ten only.
    let start = Instant::now();
    let delivered = |pause: bool| {
        let mut watch = Watch::new(start, MS * ACK_DELAY);
        let mut alarm = None;
        (0..600_u32).find_map(|now| {
            let of_failover = if alarm.is_some() { 10 } else { 0 };
            let resumed = u64::from(now.saturating_sub(260));
            let of_former = if pause { 4 * resumed } else { 0 };
            let acked =
                4 * u64::from(now.min(200).saturating_sub(RTT)) + (of_former + 2 * resumed.min(5));
            let sent = 4 * u64::from(now.min(205)) + of_failover + 6 * resumed;
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
fn acknowledgements_over_the_other_path_are_no_false_alarm() {
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
