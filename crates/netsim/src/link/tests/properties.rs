//! Properties of every link.

use hikyaku_units::Rate;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn micros(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_micros)
}

fn queues() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (0_u64..200_000).prop_map(QueueLimit::Bytes),
        (0_u32..200).prop_map(QueueLimit::Packets),
        micros(0..100_000).prop_map(QueueLimit::Time),
    ]
}

fn rates() -> impl Strategy<Value = Rate> {
    (1_000_u64..2_000_000_000).prop_map(Rate::from_bits_per_sec)
}

fn capacities() -> impl Strategy<Value = Capacity> {
    let traces = vec(0_u64..50, 1..20).prop_filter_map("takes no time", |mut times| {
        times.sort_unstable();
        Trace::new(times).ok()
    });
    prop_oneof![
        1 => Just(Capacity::Unlimited),
        3 => rates().prop_map(Capacity::Rate),
        1 => traces.prop_map(Capacity::Trace),
    ]
}

fn losses() -> impl Strategy<Value = Loss> {
    (1_u32..=1_000_000, any::<bool>()).prop_map(|(ppm, bursts)| {
        let loss_bad = loss_of(ppm);
        let loss_good = loss_of(ppm / 50);
        if bursts {
            Loss::GilbertElliott {
                p_ppm: 20_000,
                r_ppm: 200_000,
                loss_good,
                loss_bad,
            }
        } else {
            Loss::Bernoulli(loss_bad)
        }
    })
}

fn reorders() -> impl Strategy<Value = Reorder> {
    option::of((0_u32..=1_000_000, micros(0..20_000))).prop_map(|hold_back| match hold_back {
        None => Reorder::None,
        Some((share_ppm, extra_delay)) => Reorder::HoldBack {
            share_ppm,
            extra_delay,
        },
    })
}

fn policies() -> impl Strategy<Value = UdpPolicy> {
    prop_oneof![
        Just(UdpPolicy::Same),
        Just(UdpPolicy::Drop),
        (rates(), queues()).prop_map(|(rate, queue)| UdpPolicy::Limit { rate, queue }),
    ]
}

fn ecns() -> impl Strategy<Value = Ecn> {
    option::of(micros(0..20_000)).prop_map(|threshold| threshold.map_or(Ecn::Off, Ecn::Step))
}

prop_compose! {
    pub(crate) fn configs()(
        rate in capacities(),
        one_way_delay in micros(0..300_000),
        jitter in micros(0..20_000),
        loss in losses(),
        reorder in reorders(),
        queue in queues(),
        ecn in ecns(),
        udp in policies(),
        overhead in 0_u32..100,
    ) -> LinkConfig {
        LinkConfig { rate, one_way_delay, jitter, loss, reorder, queue, ecn, udp, overhead }
    }
}

/// Patches of arbitrary properties with their times in µs.
fn patches() -> impl Strategy<Value = Vec<(u64, LinkPatch)>> {
    let patch = (configs(), any::<u16>()).prop_map(|(config, mask)| {
        let has = |bit: u32| mask >> bit & 1 == 1;
        LinkPatch {
            rate: has(0).then_some(config.rate),
            one_way_delay: has(1).then_some(config.one_way_delay),
            jitter: has(2).then_some(config.jitter),
            loss: has(3).then_some(config.loss),
            reorder: has(4).then_some(config.reorder),
            queue: has(5).then_some(config.queue),
            ecn: has(6).then_some(config.ecn),
            udp: has(7).then_some(config.udp),
            overhead: has(8).then_some(config.overhead),
        }
    });
    vec((0_u64..500_000, patch), 0..4)
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: u64,
    info: PacketInfo,
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![3 => Just(0), 1 => 0_u64..5_000];
    let arrival = (gap, 1_u32..=1_500, any::<bool>(), any::<bool>());
    vec(arrival, 1..300).prop_map(|arrivals| {
        let mut now = 0;
        let arrival = |(gap, len, udp, ect)| {
            now += gap;
            let info = PacketInfo { len, udp, ect };
            Arrival { at: now, info }
        };
        arrivals.into_iter().map(arrival).collect()
    })
}

fn link_of<P>(config: &LinkConfig, seed: u64, patches: &[(u64, LinkPatch)]) -> Link<P> {
    let mut link = Link::new(config, seed);
    for (at_us, patch) in patches {
        link.patch(at(*at_us), patch.clone());
    }
    link
}

/// Sends all of `arrivals`, polls where `poll` says so, and drains the link.
/// Returns deliveries in µs, verdicts, and the counters.
fn run(
    mut link: Link<usize>,
    arrivals: &[Arrival],
    poll: impl Fn(usize) -> bool,
) -> (Vec<(u64, usize)>, Vec<Verdict>, Counters) {
    let (mut deliveries, mut verdicts) = (Vec::new(), Vec::new());
    for (i, arrival) in arrivals.iter().enumerate() {
        if poll(i) {
            while let Some(delivery) = link.poll(at(arrival.at)) {
                deliveries.push((delivery.due.as_micros(), delivery.payload));
            }
        }
        verdicts.push(link.enqueue(at(arrival.at), arrival.info, i));
    }
    deliveries.extend(drain(&mut link));
    assert_eq!(link.in_link(), 0);
    (deliveries, verdicts, link.counters())
}

proptest! {
    #[test]
    fn every_packet_is_delivered_or_counted(
        config in configs(), patches in patches(), seed: u64, arrivals in arrivals(),
    ) {
        let mut link = link_of(&config, seed, &patches);
        link.keep_discarded();
        let (mut delivered, mut offered) = (Tally::default(), Tally::default());
        for arrival in &arrivals {
            offered.count(arrival.info.len);
            let _ = link.enqueue(at(arrival.at), arrival.info, arrival.info.len);
            while let Some(delivery) = link.poll(at(arrival.at)) {
                delivered.count(delivery.payload);
            }
            let counters = link.counters();
            prop_assert_eq!(counters.delivered, delivered);
            prop_assert_eq!(fates(&counters).packets + link.in_link() as u64, offered.packets);
        }
        for (_, len) in drain(&mut link) {
            delivered.count(len);
        }
        let counters = link.counters();
        prop_assert_eq!(counters.delivered, delivered);
        prop_assert_eq!(fates(&counters), offered);
        while let Some(discarded) = link.next_discarded() {
            delivered.count(discarded.payload);
        }
        prop_assert_eq!(delivered, offered);
        prop_assert_eq!(link.queued(), Tally::default());
    }

    #[test]
    fn order_is_kept_and_nothing_is_early(
        config in configs(), seed: u64, arrivals in arrivals(),
    ) {
        let config = LinkConfig { reorder: Reorder::None, udp: UdpPolicy::Same, ..config };
        let (deliveries, ..) = run(link_of(&config, seed, &[]), &arrivals, |_| false);
        prop_assert!(deliveries.is_sorted());
        prop_assert!(deliveries.is_sorted_by_key(|&(_, i)| i));
        for (due, i) in deliveries {
            prop_assert!(due >= arrivals[i].at + config.one_way_delay.as_micros() as u64);
        }
    }

    #[test]
    fn polling_changes_nothing(
        config in configs(), patches in patches(), seed: u64,
        arrivals in arrivals(), every in 1_usize..9,
    ) {
        let never = run(link_of(&config, seed, &patches), &arrivals, |_| false);
        let often = run(link_of(&config, seed, &patches), &arrivals, |i| i % every == 0);
        prop_assert_eq!(never, often);
    }

    #[test]
    fn nothing_is_due_before_the_link_says_so(
        config in configs(), patches in patches(), seed: u64, arrivals in arrivals(),
    ) {
        let mut link = link_of(&config, seed, &patches);
        let mut arrivals = arrivals.iter().peekable();
        loop {
            let now = match (link.next_due(), arrivals.peek()) {
                (due, Some(next)) if due.is_none_or(|due| due.as_micros() > next.at) => {
                    let now = at(next.at);
                    let _ = link.enqueue(now, next.info, ());
                    arrivals.next();
                    now
                }
                (Some(due), _) => due,
                (None, _) => break,
            };
            while let Some(delivery) = link.poll(now) {
                prop_assert_eq!(delivery.due, now);
            }
        }
    }

    #[test]
    fn the_wire_never_exceeds_its_rate(
        config in configs(), rate in rates(), seed: u64, arrivals in arrivals(),
    ) {
        let config = LinkConfig {
            rate: rate.into(),
            jitter: Duration::ZERO,
            reorder: Reorder::None,
            ..config
        };
        let (deliveries, ..) = run(link_of(&config, seed, &[]), &arrivals, |_| true);
        let bits = |i: usize| u128::from(arrivals[i].info.len + config.overhead) * 8;
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
            rate: Rate::from_bits_per_sec(bits_per_sec).into(),
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
    fn a_backlogged_trace_wastes_no_byte(lens in vec(40_u32..=1_500, 1..400)) {
        let config = LinkConfig {
            rate: Capacity::Trace(Trace::new(vec![1, 2, 2, 5]).unwrap()),
            ..LinkConfig::default()
        };
        let mut link = Link::new(&config, 1);
        for &len in &lens {
            prop_assert_eq!(link.enqueue(at(0), len, ()), Verdict::Queued);
        }
        let bytes: u64 = lens.iter().copied().map(u64::from).sum();
        let opportunities = bytes.div_ceil(1_500);
        let want_ms = (opportunities - 1) / 4 * 5 + [1, 2, 2, 5][(opportunities - 1) as usize % 4];
        let last = drain(&mut link).last().map(|&(due, ())| due);
        prop_assert_eq!(last, Some(want_ms * 1_000));
    }

    #[test]
    fn a_queue_limited_in_time_bounds_the_wait(arrivals in arrivals(), limit_us in 0_u64..50_000) {
        let limit = QueueLimit::Time(Duration::from_micros(limit_us));
        let config = LinkConfig { queue: limit, ..twelve_mbps() };
        let (deliveries, ..) = run(link_of(&config, 1, &[]), &arrivals, |_| true);
        for (due, i) in deliveries {
            let Arrival { at, info } = arrivals[i];
            let sending_us = (u64::from(info.len) * 8).div_ceil(12);
            prop_assert!(due <= at + limit_us + sending_us + 1);
        }
    }
}

/// Packets that have left the link, by any fate.
fn fates(counters: &Counters) -> Tally {
    let Counters {
        delivered,
        lost,
        dropped,
        policed,
        marked: _,
    } = *counters;
    let fates = [delivered, lost, dropped, policed];
    Tally {
        packets: fates.iter().map(|tally| tally.packets).sum(),
        bytes: fates.iter().map(|tally| tally.bytes).sum(),
    }
}
