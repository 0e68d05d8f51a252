//! Mechanisms one by one; [`properties`] tests them together.

mod changes;
mod properties;

use std::time::Duration;

use hikyaku_units::{LossRate, Rate};

use super::*;
use crate::config::{Capacity, Ecn, Loss, QueueLimit, Reorder};
use crate::trace::Trace;

pub(crate) use properties::configs;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn mbps(rate: u64) -> Capacity {
    Rate::from_mbps(rate).into()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn loss_of(ppm: u32) -> LossRate {
    LossRate::from_ppm(ppm).unwrap()
}

/// A link on which 1500 B take exactly 1 ms.
fn twelve_mbps() -> LinkConfig {
    LinkConfig {
        rate: mbps(12),
        overhead: 0,
        ..LinkConfig::default()
    }
}

/// Polls the link until it is empty; payloads with the time they were due, in µs.
fn drain<P>(link: &mut Link<P>) -> Vec<(u64, P)> {
    let mut out = Vec::new();
    while let Some(due) = link.next_due() {
        while let Some(delivery) = link.poll(due) {
            out.push((delivery.due.as_micros(), delivery.payload));
        }
    }
    out
}

#[test]
fn packets_leave_at_the_rate_and_arrive_after_the_delay() {
    let overhead = LinkConfig {
        overhead: 300,
        ..twelve_mbps()
    };
    let delayed = LinkConfig {
        one_way_delay: ms(20),
        ..twelve_mbps()
    };
    let no_rate = LinkConfig {
        rate: Capacity::Unlimited,
        one_way_delay: ms(20),
        ..LinkConfig::default()
    };
    struct Case<'a>(&'a str, LinkConfig, &'a [(u64, u32)], &'a [u64]);
    let cases = [
        // name, link, [(at µs, bytes)], [due µs]
        Case("one", twelve_mbps(), &[(5, 1500)], &[1_005]),
        Case(
            "a burst queues",
            twelve_mbps(),
            &[(0, 1500), (0, 750), (0, 1500)],
            &[1_000, 1_500, 2_500],
        ),
        Case(
            "a gap is not made up",
            twelve_mbps(),
            &[(0, 1500), (4_000, 1500)],
            &[1_000, 5_000],
        ),
        Case(
            "overhead counts",
            overhead,
            &[(0, 1200), (0, 1200)],
            &[1_000, 2_000],
        ),
        Case(
            "delay adds",
            delayed,
            &[(0, 1500), (0, 1500)],
            &[21_000, 22_000],
        ),
        Case(
            "no rate, no queue",
            no_rate,
            &[(0, 1500), (1, 9)],
            &[20_000, 20_001],
        ),
        Case(
            "time does not go back",
            twelve_mbps(),
            &[(700, 1500), (0, 1500)],
            &[1_700, 2_700],
        ),
    ];
    for Case(name, config, arrivals, want) in cases {
        let mut link = Link::new(&config, 1);
        for &(now, len) in arrivals {
            assert_eq!(link.enqueue(at(now), len, ()), Verdict::Queued, "{name}");
        }
        let due: Vec<u64> = drain(&mut link).into_iter().map(|(due, ())| due).collect();
        assert_eq!(due, want, "{name}");
    }
}

#[test]
fn a_full_queue_drops_the_arriving_packet() {
    let with = |queue| LinkConfig {
        queue,
        ..twelve_mbps()
    };
    let cases: &[(&str, QueueLimit, &[u32], &[bool])] = &[
        // name, queue, sizes arriving at once, accepted. The first is being sent.
        (
            "three packets wait",
            QueueLimit::Packets(3),
            &[1500; 6],
            &[true, true, true, true, false, false],
        ),
        (
            "none may wait",
            QueueLimit::Packets(0),
            &[1500; 2],
            &[true, false],
        ),
        (
            "bytes, exactly full",
            QueueLimit::Bytes(3_000),
            &[1500; 4],
            &[true, true, true, false],
        ),
        (
            "bytes, a small one still fits",
            QueueLimit::Bytes(2_000),
            &[1500, 1500, 1500, 500],
            &[true, true, false, true],
        ),
        (
            "too small for one",
            QueueLimit::Bytes(10),
            &[1500, 1500],
            &[true, false],
        ),
        (
            "waits at most 2 ms",
            QueueLimit::Time(Duration::from_millis(2)),
            &[1500; 4],
            &[true, true, true, false],
        ),
        (
            "waits less than 2 ms",
            QueueLimit::Time(Duration::from_micros(1_999)),
            &[1500; 4],
            &[true, true, false, false],
        ),
    ];
    for (name, queue, sizes, want) in cases {
        let mut link = Link::new(&with(*queue), 1);
        let accepted: Vec<bool> = sizes
            .iter()
            .map(|&len| link.enqueue(at(0), len, ()) == Verdict::Queued)
            .collect();
        assert_eq!(accepted, *want, "{name}");
        let dropped = want.iter().filter(|&&accepted| !accepted).count() as u64;
        assert_eq!(link.counters().dropped.packets, dropped, "{name}");
    }
}

#[test]
fn room_comes_back_when_the_transmitter_is_free() {
    let mut link = Link::new(
        &LinkConfig {
            queue: QueueLimit::Packets(1),
            ..twelve_mbps()
        },
        1,
    );
    let offers = [
        (0, true),
        (0, true),
        (999, false),
        (1_000, true),
        (1_999, false),
        (3_000, true),
    ];
    for (now, want) in offers {
        let accepted = link.enqueue(at(now), 1500, ()) == Verdict::Queued;
        assert_eq!(accepted, want, "at {now} µs");
    }
}

#[test]
fn jitter_keeps_order_and_stays_within_its_bounds() {
    let config = LinkConfig {
        one_way_delay: Duration::from_millis(10),
        jitter: Duration::from_millis(4),
        ..LinkConfig::default()
    };
    // 10 ms apart: no packet can be held back by the one before.
    let mut link = Link::new(&config, 3);
    for i in 0..4_000 {
        let _ = link.enqueue(at(i * 10_000), 100, i * 10_000);
    }
    let delays: Vec<u64> = drain(&mut link)
        .into_iter()
        .map(|(due, sent)| due - sent)
        .collect();
    let mean = delays.iter().sum::<u64>() as f64 / delays.len() as f64;
    assert!(delays.iter().all(|delay| (10_000..=14_000).contains(delay)));
    assert!((mean - 12_000.0).abs() < 60.0, "{mean}");

    // Back to back: jitter holds nearly all packets back, and none overtakes.
    let mut link = Link::new(&config, 3);
    for i in 0..4_000 {
        let _ = link.enqueue(at(i), 100, i);
    }
    let order: Vec<u64> = drain(&mut link).into_iter().map(|(_, i)| i).collect();
    assert!(order.is_sorted());
    assert_eq!(order.len(), 4_000);
}

#[test]
fn jitter_does_not_change_which_packets_are_lost() {
    let lossy = LinkConfig {
        loss: Loss::Bernoulli(loss_of(50_000)),
        ..LinkConfig::default()
    };
    let both = LinkConfig {
        jitter: Duration::from_millis(3),
        ..lossy.clone()
    };
    let survivors = |config| {
        let mut link = Link::new(&config, 11);
        for i in 0..10_000 {
            let _ = link.enqueue(at(i), 1500, i);
        }
        drain(&mut link)
            .into_iter()
            .map(|(_, i)| i)
            .collect::<Vec<_>>()
    };
    assert_eq!(survivors(lossy), survivors(both));
}

#[test]
fn lost_packets_take_their_share_of_the_rate() {
    let config = LinkConfig {
        loss: Loss::Bernoulli(loss_of(500_000)),
        queue: QueueLimit::Packets(10_000),
        ..twelve_mbps()
    };
    let mut link = Link::new(&config, 1);
    for i in 0..10_000_u64 {
        let _ = link.enqueue(at(0), 1500, i);
    }
    for (due, i) in drain(&mut link) {
        assert_eq!(due, (i + 1) * 1_000);
    }
    assert!(link.counters().lost.packets > 4_800);
}

#[test]
fn no_draw_changes_another() {
    let plain = LinkConfig {
        rate: mbps(100),
        queue: QueueLimit::Packets(10_000),
        ..LinkConfig::default()
    };
    let loss = Loss::Bernoulli(loss_of(50_000));
    let reorder = Reorder::HoldBack {
        share_ppm: 30_000,
        extra_delay: ms(3),
    };
    let lossy = LinkConfig {
        loss,
        ..plain.clone()
    };
    let jittery = LinkConfig {
        jitter: ms(7),
        ..plain.clone()
    };
    let reordering = LinkConfig {
        reorder,
        ..plain.clone()
    };
    let all = LinkConfig {
        jitter: ms(7),
        reorder,
        ..lossy.clone()
    };

    /// Arrival of each packet in µs, in the order of sending.
    fn arrivals(config: &LinkConfig) -> Vec<Option<u64>> {
        let mut link = Link::new(config, 11);
        // Far apart, so that jitter holds no other packet back.
        for i in 0..5_000 {
            let _ = link.enqueue(at(i as u64 * 20_000), 1500, i);
        }
        let mut arrivals = vec![None; 5_000];
        for (due, i) in drain(&mut link) {
            arrivals[i] = Some(due);
        }
        arrivals
    }
    let [plain, lossy, jittery, reordering, all] =
        [plain, lossy, jittery, reordering, all].map(|config| arrivals(&config));
    let extra = |arrival: Option<u64>, i: usize| arrival.map(|due| due - plain[i].unwrap());
    for i in 0..5_000 {
        assert_eq!(all[i].is_some(), lossy[i].is_some(), "loss of packet {i}");
        if let Some(delay) = extra(all[i], i) {
            // Each time is rounded up to a microsecond, so the sum of two is off
            // by one.
            let parts = extra(jittery[i], i).unwrap() + extra(reordering[i], i).unwrap();
            assert!(
                delay.abs_diff(parts) <= 1,
                "packet {i}: {delay} µs, {parts} µs"
            );
        }
    }
}

#[test]
fn a_packet_held_back_is_overtaken_and_the_others_keep_their_order() {
    let config = LinkConfig {
        one_way_delay: ms(10),
        reorder: Reorder::HoldBack {
            share_ppm: 100_000,
            extra_delay: ms(4),
        },
        ..LinkConfig::default()
    };
    let mut link = Link::new(&config, 3);
    for i in 0..10_000 {
        let _ = link.enqueue(at(i * 1_000), 100, i);
    }
    let deliveries = drain(&mut link);
    assert!(deliveries.is_sorted_by_key(|&(due, _)| due));
    let (in_time, late): (Vec<_>, Vec<_>) = deliveries
        .into_iter()
        .map(|(due, i)| (due - i * 1_000, i))
        .partition(|&(delay, _)| delay == 10_000);
    assert!(in_time.is_sorted_by_key(|&(_, i)| i));
    assert!(late.iter().all(|&(delay, _)| delay == 14_000));
    assert!((900..1_100).contains(&late.len()), "{}", late.len());
}

#[test]
fn packets_that_wait_longer_than_the_threshold_are_marked() {
    let config = LinkConfig {
        ecn: Ecn::Step(ms(2)),
        queue: QueueLimit::Packets(4),
        ..twelve_mbps()
    };
    let mut link = Link::new(&config, 1);
    // The first is sent at once; the others wait 1, 2, 3 and 4 ms.
    for i in 0..6 {
        let info = PacketInfo {
            ect: i != 3,
            ..1500.into()
        };
        let _ = link.enqueue(at(0), info, i);
    }
    let mut marks = Vec::new();
    while let Some(delivery) = link.next_due().and_then(|due| link.poll(due)) {
        marks.push((delivery.payload, delivery.mark_ce));
    }
    let want = [(0, false), (1, false), (2, false), (3, false), (4, true)];
    assert_eq!(marks, want, "the fourth's sender cannot take marks");
    let Counters {
        marked, dropped, ..
    } = link.counters();
    assert_eq!((marked.packets, dropped.packets), (1, 1));
}

#[test]
fn a_trace_gives_1500_bytes_at_each_of_its_times() {
    let config = LinkConfig {
        rate: Capacity::Trace(Trace::new(vec![3, 3, 8]).unwrap()),
        one_way_delay: ms(1),
        queue: QueueLimit::Packets(4),
        ..LinkConfig::default()
    };
    let mut link = Link::new(&config, 1);
    for (now_ms, len) in [
        (0, 1_500),
        (0, 750),
        (0, 1_500),
        (0, 100),
        (0, 1_500),
        (0, 40),
    ] {
        let _ = link.enqueue(at(now_ms * 1_000), len, len);
    }
    let due_ms: Vec<u64> = drain(&mut link)
        .iter()
        .map(|&(due, _)| due / 1_000)
        .collect();
    assert_eq!(due_ms, [4, 4, 9, 9, 12], "the sixth found the queue full");

    // 6 ms into a link that began at 100 ms: the opportunities at 3 ms are wasted.
    let mut link = Link::starting_at(at(100_000), &config, 1);
    let _ = link.enqueue(at(106_000), 1_500, ());
    assert_eq!(link.next_due(), Some(at(109_000)));
}

#[test]
fn a_queue_in_time_knows_a_traces_future() {
    let config = LinkConfig {
        rate: Capacity::Trace(Trace::new(vec![1, 20, 21]).unwrap()),
        queue: QueueLimit::Time(ms(5)),
        ..LinkConfig::default()
    };
    let mut link = Link::new(&config, 1);
    assert_eq!(
        link.enqueue(at(0), 1_500, ()),
        Verdict::Queued,
        "sent at 1 ms"
    );
    assert_eq!(
        link.enqueue(at(0), 1_500, ()),
        Verdict::Queued,
        "waits for 1 ms"
    );
    assert_eq!(link.enqueue(at(0), 1_500, ()), Verdict::Dropped, "20 ms");
}

#[test]
fn udp_is_shaped_dropped_or_let_through() {
    let udp = |len: u32| PacketInfo {
        udp: true,
        ..len.into()
    };
    let limit = UdpPolicy::Limit {
        rate: Rate::from_mbps(6),
        queue: QueueLimit::Packets(1),
    };
    struct Case<'a>(&'a str, UdpPolicy, &'a [(u64, u8)], [u64; 2]);
    let cases = [
        // name, policy, deliveries (ms, packet), [policed, dropped] packets
        Case(
            "same",
            UdpPolicy::Same,
            &[(1, 0), (2, 1), (3, 2), (4, 3)],
            [0, 0],
        ),
        Case("drop", UdpPolicy::Drop, &[(1, 3)], [3, 0]),
        // 2 ms in the shaper, then 1 ms in the link, which another packet uses first.
        Case("limit", limit, &[(1, 3), (3, 0), (5, 1)], [1, 0]),
    ];
    for Case(name, udp_policy, want, want_discarded) in cases {
        let config = LinkConfig {
            udp: udp_policy,
            ..twelve_mbps()
        };
        let mut link = Link::new(&config, 1);
        for i in 0..3 {
            let _ = link.enqueue(at(0), udp(1500), i);
        }
        let _ = link.enqueue(at(0), 1500, 3);
        let deliveries: Vec<(u64, u8)> = drain(&mut link)
            .into_iter()
            .map(|(due, i)| (due / 1_000, i))
            .collect();
        let Counters {
            policed, dropped, ..
        } = link.counters();
        assert_eq!(deliveries, want, "{name}");
        assert_eq!([policed.packets, dropped.packets], want_discarded, "{name}");
    }
}

#[test]
fn discarded_packets_are_returned_on_request() {
    let config = LinkConfig {
        queue: QueueLimit::Packets(0),
        loss: Loss::Bernoulli(loss_of(1_000_000)),
        udp: UdpPolicy::Drop,
        ..twelve_mbps()
    };
    let mut link = Link::new(&config, 1);
    let _ = link.enqueue(at(0), 1500, 0);
    assert_eq!(link.next_discarded(), None, "nobody asked");
    link.keep_discarded();
    let _ = link.enqueue(at(1), 1500, 1);
    let udp = PacketInfo {
        udp: true,
        ..60.into()
    };
    let _ = link.enqueue(at(2), udp, 2);
    assert_eq!(link.poll(at(1_000)), None);
    let returned: Vec<_> = std::iter::from_fn(|| link.next_discarded())
        .map(|Discarded { at, payload, cause }| (at.as_micros(), payload, cause))
        .collect();
    let want = [
        (1, 1, Discard::Dropped),
        (2, 2, Discard::Policed),
        (1_000, 0, Discard::Lost),
    ];
    assert_eq!(returned, want);
}
