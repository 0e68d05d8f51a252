mod false_alarms;
mod lengths;

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

/// Packets sent from `time` on are lost.
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
fn an_alarm_reports_the_silence_and_comes_again_more_and_more_seldom() {
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
fn a_busy_machine_reads_acknowledgements_before_it_judges() {
    let start = Instant::now();
    let link = Link::new(BULK, in_time);
    let mut watch = Watch::new(start, MS * ACK_DELAY);
    for now in 0..100 {
        watch.look(start + MS * now, &link.flight(start, now));
    }
    // The acknowledgements of 40 ms have not been read yet.
    let late = start + MS * 140;
    assert_eq!(watch.look(late, &link.flight(start, 99)), None);
    assert_eq!(watch.look(late + MS, &link.flight(start, 141)), None);
}

#[test]
fn repairs_are_silent_for_a_round_trip() {
    // A queue has overflowed. From 480 to 500 acknowledgements report each second packet, and the others
    // are sent again at once. Nothing is heard of the four last before these are acknowledged.
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
