//! Changes while the link runs.

use super::*;
use crate::patch::Change;

fn patch() -> LinkPatch {
    LinkPatch::default()
}

/// Sends 1500 B each ms for 10 ms through `config`, with `patch` at 5.5 ms.
/// Deliveries (µs, packet).
fn run(config: &LinkConfig, patch: LinkPatch) -> Vec<(u64, u64)> {
    let mut link = Link::new(config, 1);
    link.patch(at(5_500), patch);
    for i in 0..10 {
        let _ = link.enqueue(at(i * 1_000), 1500, i);
    }
    drain(&mut link)
}

#[test]
fn changes_act_at_their_time_and_spare_packets_on_the_wire() {
    let delayed = LinkConfig {
        one_way_delay: ms(20),
        ..twelve_mbps()
    };
    let from = |first: u64, dues: [u64; 5]| -> Vec<u64> {
        let before = (0..5).map(|i| first + i * 1_000);
        before.chain(dues).collect()
    };
    struct Case(&'static str, LinkConfig, LinkPatch, Vec<u64>);
    let cases = [
        // name, link, patch at 5.5 ms, due µs of packets 0 to 9
        Case(
            "half the rate: half of the sixth was sent",
            twelve_mbps(),
            LinkPatch {
                rate: Some(mbps(6)),
                ..patch()
            },
            from(1_000, [6_500, 8_500, 10_500, 12_500, 14_500]),
        ),
        Case(
            "twice the rate",
            twelve_mbps(),
            LinkPatch {
                rate: Some(mbps(24)),
                ..patch()
            },
            from(1_000, [5_750, 6_500, 7_500, 8_500, 9_500]),
        ),
        Case(
            "a longer path: five are on the wire",
            delayed.clone(),
            LinkPatch {
                one_way_delay: Some(ms(40)),
                ..patch()
            },
            from(21_000, [46_000, 47_000, 48_000, 49_000, 50_000]),
        ),
        Case(
            "a shorter path overtakes nothing",
            delayed,
            LinkPatch {
                one_way_delay: Some(ms(18)),
                ..patch()
            },
            from(21_000, [25_000, 25_000, 26_000, 27_000, 28_000]),
        ),
        Case(
            "more overhead: not for the one being sent",
            twelve_mbps(),
            LinkPatch {
                overhead: Some(750),
                ..patch()
            },
            from(1_000, [6_000, 7_500, 9_000, 10_500, 12_000]),
        ),
    ];
    for Case(name, config, patch, want) in cases {
        let due: Vec<u64> = run(&config, patch)
            .into_iter()
            .map(|(due, _)| due)
            .collect();
        assert_eq!(due, want, "{name}");
    }
}

#[test]
fn loss_queue_and_policies_change() {
    let delivered = |patch| -> Vec<u64> {
        run(&twelve_mbps(), patch)
            .into_iter()
            .map(|(_, i)| i)
            .collect()
    };
    let all_lost = Loss::Bernoulli(loss_of(1_000_000));
    let lost = LinkPatch {
        loss: Some(all_lost),
        ..patch()
    };
    assert_eq!(delivered(lost), [0, 1, 2, 3, 4]);

    let mut link = Link::new(&twelve_mbps(), 1);
    let udp = PacketInfo {
        udp: true,
        ..100.into()
    };
    link.patch(
        at(10),
        LinkPatch {
            udp: Some(UdpPolicy::Drop),
            ..patch()
        },
    );
    link.patch(
        at(20),
        LinkPatch {
            queue: Some(QueueLimit::Packets(2)),
            ..patch()
        },
    );
    assert_eq!(link.enqueue(at(9), udp, 0), Verdict::Queued);
    assert_eq!(link.enqueue(at(10), udp, 1), Verdict::Policed);
    for now in 11..=13 {
        assert_eq!(link.enqueue(at(now), 1500, 2), Verdict::Queued);
    }
    assert_eq!(
        link.enqueue(at(20), 1500, 3),
        Verdict::Dropped,
        "three wait already"
    );
    assert_eq!(
        link.queued(),
        Tally {
            packets: 3,
            bytes: 4_500
        }
    );
    assert_eq!(link.config().queue, QueueLimit::Packets(2));
}

#[test]
fn a_limit_on_udp_comes_changes_and_goes() {
    let udp = PacketInfo {
        udp: true,
        ..1500.into()
    };
    let limit = |mbps| {
        let rate = Rate::from_mbps(mbps);
        let queue = QueueLimit::Packets(100);
        LinkPatch {
            udp: Some(UdpPolicy::Limit { rate, queue }),
            ..patch()
        }
    };
    let config = LinkConfig {
        overhead: 0,
        ..LinkConfig::default()
    };
    let mut link = Link::new(&config, 1);
    link.patch(at(1_000), limit(12));
    link.patch(at(3_000), limit(6));
    link.patch(
        at(4_000),
        LinkPatch {
            udp: Some(UdpPolicy::Same),
            ..patch()
        },
    );
    for (now, i) in [
        (0, 0),
        (1_000, 1),
        (1_000, 2),
        (1_000, 3),
        (1_000, 4),
        (4_500, 5),
    ] {
        let _ = link.enqueue(at(now), udp, i);
    }
    // 12 Mbit/s to 3 ms, then 6 Mbit/s, also for packets in the shaper after the
    // limit.
    let want = [
        (0, 0),
        (2_000, 1),
        (3_000, 2),
        (4_500, 5),
        (5_000, 3),
        (7_000, 4),
    ];
    assert_eq!(drain(&mut link), want);
}

#[test]
fn an_outage_lasts_until_the_rate_comes_back() {
    let mut link = Link::new(&twelve_mbps(), 1);
    let change = |at, rate| Change {
        at,
        patch: LinkPatch {
            rate: Some(mbps(rate)),
            ..patch()
        },
    };
    // Relative to a request at 100 ms, given in any order.
    link.schedule(at(100_000), &[change(ms(50), 12), change(ms(2), 0)]);
    for i in 0..4 {
        let _ = link.enqueue(at(100_000), 1500, i);
    }
    let due: Vec<u64> = drain(&mut link).into_iter().map(|(due, _)| due).collect();
    assert_eq!(due, [101_000, 102_000, 151_000, 152_000]);
}

#[test]
fn a_change_that_is_past_acts_now() {
    let mut link = Link::new(&twelve_mbps(), 1);
    let _ = link.enqueue(at(500), 1500, ());
    assert_eq!(link.poll(at(700)), None);
    link.patch(
        at(0),
        LinkPatch {
            rate: Some(mbps(24)),
            ..patch()
        },
    );
    let due: Vec<u64> = drain(&mut link).into_iter().map(|(due, ())| due).collect();
    assert_eq!(due, [1_100], "1200 B were left");
}
