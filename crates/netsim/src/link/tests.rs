use hikyaku_core::units::{LossRate, Rate};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::config::Loss;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn mbps(rate: u64) -> Option<Rate> {
    Some(Rate::from_bits_per_sec(rate * 1_000_000))
}

fn loss_of(ppm: u32) -> LossRate {
    LossRate::from_ppm(ppm).unwrap()
}

/// 1500 B take exactly 1 ms.
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
    let ms = Duration::from_millis;
    let overhead = LinkConfig {
        overhead: 300,
        ..twelve_mbps()
    };
    let delayed = LinkConfig {
        one_way_delay: ms(20),
        ..twelve_mbps()
    };
    let no_rate = LinkConfig {
        rate: None,
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

    // Back to back: nearly all are, and none overtakes.
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

prop_compose! {
    fn configs()(
        rate in prop::option::of(1_000_u64..2_000_000_000),
        delay_us in 0_u64..300_000,
        jitter_us in 0_u64..20_000,
        ppm in 0_u32..=1_000_000,
        bursts in any::<bool>(),
        queue in prop_oneof![
            (0_u64..200_000).prop_map(QueueLimit::Bytes),
            (0_u32..200).prop_map(QueueLimit::Packets),
            (0_u64..100_000).prop_map(|us| QueueLimit::Time(Duration::from_micros(us))),
        ],
        overhead in 0_u32..100,
    ) -> LinkConfig {
        let loss_bad = loss_of(ppm);
        let loss_good = loss_of(ppm / 50);
        LinkConfig {
            rate: rate.map(Rate::from_bits_per_sec),
            one_way_delay: Duration::from_micros(delay_us),
            jitter: Duration::from_micros(jitter_us),
            loss: if bursts {
                Loss::GilbertElliott { p_ppm: 20_000, r_ppm: 200_000, loss_good, loss_bad }
            } else {
                Loss::Bernoulli(loss_bad)
            },
            queue,
            overhead,
        }
    }
}

/// Arrivals: the gap before each in µs, and its length in bytes.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u32)>> {
    vec(
        (prop_oneof![3 => Just(0), 1 => 0_u64..5_000], 1_u32..=1_500),
        1..300,
    )
}

/// Sends all of `arrivals`, polling where `poll` says so, and drains the link.
fn run(
    config: &LinkConfig,
    seed: u64,
    arrivals: &[(u64, u32)],
    poll: impl Fn(usize) -> bool,
) -> (Vec<(u64, usize)>, Vec<Verdict>, Counters) {
    let mut link = Link::new(config, seed);
    let (mut now, mut deliveries, mut verdicts) = (0, Vec::new(), Vec::new());
    for (i, &(gap, len)) in arrivals.iter().enumerate() {
        now += gap;
        if poll(i) {
            while let Some(delivery) = link.poll(at(now)) {
                deliveries.push((delivery.due.as_micros(), delivery.payload));
            }
        }
        verdicts.push(link.enqueue(at(now), len, i));
    }
    deliveries.extend(drain(&mut link));
    assert_eq!(link.in_link(), 0);
    (deliveries, verdicts, link.counters())
}

proptest! {
    #[test]
    fn every_packet_is_delivered_or_counted(config in configs(), seed: u64, arrivals in arrivals()) {
        let mut link = Link::new(&config, seed);
        let (mut now, mut delivered, mut offered) = (0, Tally::default(), Tally::default());
        for &(gap, len) in &arrivals {
            now += gap;
            offered.count(len);
            let _ = link.enqueue(at(now), len, len);
            while let Some(delivery) = link.poll(at(now)) {
                delivered.count(delivery.payload);
            }
            let Counters { delivered: counted, lost, dropped } = link.counters();
            prop_assert_eq!(counted, delivered);
            let accounted = counted.packets + lost.packets + dropped.packets;
            prop_assert_eq!(accounted + link.in_link() as u64, offered.packets);
        }
        for (_, len) in drain(&mut link) {
            delivered.count(len);
        }
        let Counters { delivered: counted, lost, dropped } = link.counters();
        prop_assert_eq!(counted, delivered);
        prop_assert_eq!(counted.bytes + lost.bytes + dropped.bytes, offered.bytes);
    }

    #[test]
    fn order_is_kept_and_nothing_is_early(config in configs(), seed: u64, arrivals in arrivals()) {
        let (deliveries, ..) = run(&config, seed, &arrivals, |_| false);
        prop_assert!(deliveries.is_sorted());
        let mut sent = 0;
        let sent: Vec<u64> = arrivals.iter().map(|&(gap, _)| { sent += gap; sent }).collect();
        for (due, i) in deliveries {
            prop_assert!(due >= sent[i] + config.one_way_delay.as_micros() as u64);
        }
    }

    #[test]
    fn polling_changes_nothing(config in configs(), seed: u64, arrivals in arrivals(), every in 1_usize..9) {
        let never = run(&config, seed, &arrivals, |_| false);
        let often = run(&config, seed, &arrivals, |i| i % every == 0);
        prop_assert_eq!(never, often);
    }

    #[test]
    fn the_wire_never_exceeds_its_rate(config in configs(), seed: u64, arrivals in arrivals()) {
        let config = LinkConfig { jitter: Duration::ZERO, ..config };
        let Some(rate) = config.rate else { return Ok(()) };
        let (deliveries, ..) = run(&config, seed, &arrivals, |_| true);
        let bits = |i: usize| u128::from(arrivals[i].1 + config.overhead) * 8;
        for window in deliveries.windows(2) {
            let [(before, _), (due, i)] = window else { unreachable!("windows of two") };
            // Both ends are rounded up to a microsecond.
            let gap_ns = u128::from(due - before + 1) * 1_000;
            prop_assert!(gap_ns * u128::from(rate.bits_per_sec()) >= bits(*i) * 1_000_000_000);
        }
    }

    #[test]
    fn a_backlogged_link_is_exactly_as_fast_as_its_rate(
        bits_per_sec in 1_000_000_u64..10_000_000_000, lens in vec(40_u32..=1_500, 1..400),
    ) {
        let config = LinkConfig {
            rate: Some(Rate::from_bits_per_sec(bits_per_sec)),
            ..LinkConfig::default()
        };
        let mut link = Link::new(&config, 1);
        for &len in &lens {
            prop_assert_eq!(link.enqueue(at(0), len, ()), Verdict::Queued);
        }
        let bits: u128 = lens.iter().map(|&len| u128::from(len + 14) * 8).sum();
        let finish_ns = bits * 1_000_000_000 / u128::from(bits_per_sec);
        let last = drain(&mut link).last().map(|&(due, ())| u128::from(due));
        prop_assert_eq!(last, Some(finish_ns.div_ceil(1_000)));
    }

    #[test]
    fn a_queue_limited_in_time_bounds_the_wait(arrivals in arrivals(), limit_us in 0_u64..50_000) {
        let limit = QueueLimit::Time(Duration::from_micros(limit_us));
        let config = LinkConfig { queue: limit, ..twelve_mbps() };
        let (deliveries, ..) = run(&config, 1, &arrivals, |_| true);
        let mut now = 0;
        let sent: Vec<u64> = arrivals.iter().map(|&(gap, _)| { now += gap; now }).collect();
        for (due, i) in deliveries {
            let sending_us = (u64::from(arrivals[i].1) * 8).div_ceil(12);
            prop_assert!(due <= sent[i] + limit_us + sending_us + 1);
        }
    }
}
