//! Commands for `ip` and `tc`.

use hikyaku_netsim::{Capacity, Ecn, LinkConfig, Loss, QueueLimit, Reorder, UdpPolicy};

use crate::link::pump::LinkPair;

/// Interfaces of the middle namespace: the peers of the ends' interfaces, and a pair between them.
/// The queue of a direction is on the pair. Its wire is on the peer of the end to which it leads.
pub(super) const A: &str = "a0";
pub(super) const B: &str = "b0";
const UP_QUEUE: &str = "up0";
const DOWN_QUEUE: &str = "down0";

/// Queue and wire of each direction.
pub(super) const UP: [&str; 2] = [UP_QUEUE, B];
pub(super) const DOWN: [&str; 2] = [DOWN_QUEUE, A];

/// An ingress interface, and the egress interface of its redirection.
const REDIRECTIONS: [[&str; 2]; 4] = [
    [A, UP_QUEUE],
    [DOWN_QUEUE, B],
    [B, DOWN_QUEUE],
    [UP_QUEUE, A],
];

/// The MAC address of both ends. Without ARP the kernel sends to its own address, and the other end
/// takes that for its own.
const MAC: &str = "02:68:79:00:00:01";

/// Ethernet's header, which a qdisc of a veth interface counts.
const ETHERNET_HEADER: u32 = 14;

/// A limit that is never reached: packets in netem are on the wire.
const WIRE_LIMIT: u32 = 1_000_000;

/// Longest time that tbf may send ahead of its rate, in ns: its timers are no finer.
const BURST_NS: u64 = 100_000;

/// Lines for `ip` that make an end's interface, a veth whose peer is in `middle`.
pub(super) fn end(interface: &str, peer: &str, middle: &str, mtu: u32) -> String {
    format!(
        "link add name {interface} mtu {mtu} address {MAC} type veth peer name {peer} mtu {mtu} netns {middle}\n\
         link set dev {interface} arp off gso_max_segs 1\n"
    )
}

/// Lines for `ip` that complete the middle namespace.
pub(super) fn middle(mtu: u32) -> String {
    let mut lines =
        format!("link add name {UP_QUEUE} mtu {mtu} type veth peer name {DOWN_QUEUE} mtu {mtu}\n");
    for interface in [A, B, UP_QUEUE, DOWN_QUEUE] {
        lines += &format!("link set dev {interface} addrgenmode none gso_max_segs 1\n");
        lines += &format!("link set dev {interface} up\n");
    }
    lines
}

/// Commands for `tc` that let packets pass.
pub(super) fn open() -> Vec<String> {
    let redirect = |[from, to]: [&str; 2]| {
        let action = if [A, B].contains(&from) {
            // A copy belongs to no socket. Otherwise the sender would notice the queue's length,
            // which a network card hides. The original ends here, since it is for another Ethernet
            // address.
            format!("mirred egress mirror dev {to}")
        } else {
            format!("mirred egress redirect dev {to}")
        };
        [
            format!("qdisc add dev {from} clsact"),
            // Every packet matches.
            format!("filter add dev {from} ingress protocol all u32 match u32 0 0 action {action}"),
        ]
    };
    REDIRECTIONS.into_iter().flat_map(redirect).collect()
}

/// Commands for `tc` that undo [`open`] and [`shape`]. Those without anything to undo fail.
pub(super) fn close() -> Vec<String> {
    let remove = |[interface, _]: [&str; 2]| {
        ["clsact", "root"].map(|qdisc| format!("qdisc del dev {interface} {qdisc}"))
    };
    REDIRECTIONS.into_iter().flat_map(remove).collect()
}

/// Commands for `tc` that give a link its properties, or the property that netem lacks.
pub(super) fn shape(links: &LinkPair) -> Result<Vec<String>, &'static str> {
    let mut commands = direction(UP, &links.up)?;
    commands.extend(direction(DOWN, &links.down)?);
    Ok(commands)
}

fn direction([queue, wire]: [&str; 2], config: &LinkConfig) -> Result<Vec<String>, &'static str> {
    let LinkConfig {
        rate,
        one_way_delay,
        jitter,
        loss,
        reorder,
        queue: limit,
        ecn,
        udp,
        overhead,
    } = config;
    let refused = [
        (!jitter.is_zero(), "`jitter` without reordering"),
        (*reorder != Reorder::None, "`reorder`"),
        (*ecn != Ecn::Off, "`ecn`"),
        (*udp != UdpPolicy::Same, "a policy on `udp`"),
        (*overhead < ETHERNET_HEADER, "an `overhead` below 14"),
    ];
    if let Some((_, what)) = refused.into_iter().find(|(is_asked, _)| *is_asked) {
        return Err(what);
    }
    let mut commands = match rate {
        Capacity::Unlimited => Vec::new(),
        Capacity::Trace(_) => return Err("a `trace`"),
        Capacity::Rate(rate) if rate.bits_per_sec() == 0 => return Err("a `rate` of zero"),
        Capacity::Rate(rate) => {
            let overhead = overhead - ETHERNET_HEADER;
            queue_of(queue, rate.bits_per_sec(), *limit, overhead)
        }
    };
    let delay_us = one_way_delay.as_micros();
    if delay_us == 0 && *loss == Loss::None {
        // A pfifo counts packets, and works without netem.
        commands.push(format!(
            "qdisc add dev {wire} root pfifo limit {WIRE_LIMIT}"
        ));
    } else {
        let loss = loss_of(*loss);
        commands.push(format!(
            "qdisc add dev {wire} root netem limit {WIRE_LIMIT} delay {delay_us}us{loss}"
        ));
    }
    Ok(commands)
}

fn queue_of(interface: &str, bits_per_sec: u64, limit: QueueLimit, overhead: u32) -> Vec<String> {
    let bytes_in = |ns: u128| u128::from(bits_per_sec) * ns / 8 / 1_000_000_000;
    let burst = bytes_in(BURST_NS.into()).max(3_200);
    // tbf's own queue counts bytes; a pfifo counts packets and takes its place.
    let (bytes, packets) = match limit {
        QueueLimit::Bytes(bytes) => (bytes.into(), None),
        QueueLimit::Time(time) => (bytes_in(time.as_nanos()), None),
        QueueLimit::Packets(packets) => (3_200, Some(packets)),
    };
    let overhead = match overhead {
        0 => String::new(),
        overhead => format!(" overhead {overhead}"),
    };
    let mut commands = vec![format!(
        "qdisc add dev {interface} root handle 1: tbf rate {bits_per_sec}bit burst {burst} limit {bytes}{overhead}"
    )];
    commands.extend(packets.map(|packets| {
        format!("qdisc add dev {interface} parent 1:1 handle 10: pfifo limit {packets}")
    }));
    commands
}

fn loss_of(loss: Loss) -> String {
    let percent = |ppm: u32| format!("{}%", f64::from(ppm) / 10_000.0);
    match loss {
        Loss::None => String::new(),
        Loss::Bernoulli(rate) => format!(" loss random {}", percent(rate.ppm())),
        Loss::GilbertElliott {
            p_ppm,
            r_ppm,
            loss_good,
            loss_bad,
        } => {
            let chances = [p_ppm, r_ppm, loss_bad.ppm(), loss_good.ppm()].map(percent);
            format!(" loss gemodel {}", chances.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hikyaku_netsim::Trace;
    use hikyaku_units::{LossRate, Rate};

    use super::*;

    fn loss(ppm: u32) -> LossRate {
        LossRate::from_ppm(ppm).unwrap()
    }

    #[test]
    fn a_link_is_a_tbf_and_a_netem() {
        let link = |queue, loss| LinkConfig {
            rate: Rate::from_mbps(200).into(),
            one_way_delay: Duration::from_micros(12_500),
            loss,
            queue,
            ..LinkConfig::default()
        };
        let burst = Loss::GilbertElliott {
            p_ppm: 2_000,
            r_ppm: 100_000,
            loss_good: loss(10),
            loss_bad: loss(300_000),
        };
        let bernoulli = Loss::Bernoulli(loss(1_000));
        let slow = LinkConfig {
            rate: Rate::from_mbps(1).into(),
            overhead: 38,
            ..link(QueueLimit::Bytes(30_000), Loss::None)
        };
        let delay = "qdisc add dev b0 root netem limit 1000000 delay 12500us";
        let cases = [
            (
                "queue in time",
                link(QueueLimit::Time(Duration::from_millis(50)), bernoulli),
                vec![
                    "qdisc add dev up0 root handle 1: tbf rate 200000000bit burst 3200 limit 1250000".to_owned(),
                    format!("{delay} loss random 0.1%"),
                ],
            ),
            (
                "queue in packets, bursts of loss",
                link(QueueLimit::Packets(100), burst),
                vec![
                    "qdisc add dev up0 root handle 1: tbf rate 200000000bit burst 3200 limit 3200".to_owned(),
                    "qdisc add dev up0 parent 1:1 handle 10: pfifo limit 100".to_owned(),
                    format!("{delay} loss gemodel 0.2% 10% 30% 0.001%"),
                ],
            ),
            (
                "more overhead than Ethernet's",
                slow,
                vec![
                    "qdisc add dev up0 root handle 1: tbf rate 1000000bit burst 3200 limit 30000 overhead 24".to_owned(),
                    delay.to_owned(),
                ],
            ),
            (
                "nothing",
                LinkConfig::default(),
                vec!["qdisc add dev b0 root pfifo limit 1000000".to_owned()],
            ),
        ];
        for (name, config, want) in cases {
            assert_eq!(direction(UP, &config), Ok(want), "{name}");
        }
    }

    #[test]
    fn properties_that_netem_lacks_are_rejected() {
        let plain = LinkConfig::default;
        let trace = Trace::new(vec![1]).unwrap();
        let hold_back = Reorder::HoldBack {
            share_ppm: 1,
            extra_delay: Duration::ZERO,
        };
        let cases = [
            (
                LinkConfig {
                    jitter: Duration::from_millis(1),
                    ..plain()
                },
                "`jitter` without reordering",
            ),
            (
                LinkConfig {
                    reorder: hold_back,
                    ..plain()
                },
                "`reorder`",
            ),
            (
                LinkConfig {
                    ecn: Ecn::Step(Duration::ZERO),
                    ..plain()
                },
                "`ecn`",
            ),
            (
                LinkConfig {
                    udp: UdpPolicy::Drop,
                    ..plain()
                },
                "a policy on `udp`",
            ),
            (
                LinkConfig {
                    overhead: 0,
                    ..plain()
                },
                "an `overhead` below 14",
            ),
            (
                LinkConfig {
                    rate: Capacity::Trace(trace),
                    ..plain()
                },
                "a `trace`",
            ),
            (
                LinkConfig {
                    rate: Rate::from_mbps(0).into(),
                    ..plain()
                },
                "a `rate` of zero",
            ),
        ];
        for (config, what) in cases {
            let links = LinkPair {
                down: config,
                ..LinkPair::default()
            };
            assert_eq!(shape(&links), Err(what));
        }
    }

    #[test]
    fn each_direction_has_its_own_route_through_the_middle() {
        let redirections: Vec<String> = open()
            .into_iter()
            .filter(|command| command.starts_with("filter"))
            .collect();
        let want = [
            ("a0", "up0"),
            ("down0", "b0"),
            ("b0", "down0"),
            ("up0", "a0"),
        ];
        assert_eq!(redirections.len(), want.len());
        for (command, (from, to)) in redirections.iter().zip(want) {
            assert!(command.starts_with(&format!("filter add dev {from} ingress")));
            assert!(command.contains(&format!("dev {to}")), "{command}");
        }
        assert_eq!(close().len(), 8);
        // The interface's name is also a word of `ip`.
        let end = end("up", A, "m", 1500);
        assert!(end.starts_with("link add name up mtu 1500 "), "{end}");
        assert!(end.contains("peer name a0 mtu 1500 netns m\nlink set dev up "));
    }
}
