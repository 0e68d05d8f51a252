//! The netem back end, and its agreement with the pump.

use std::time::{Duration, Instant};

use hikyaku_emulator::link::{Backend, CLIENT_V4, LinkPair, Report, SERVER_V4};
use hikyaku_emulator::topology::{Network, TopologySpec};
use hikyaku_netsim::{Counters, LinkConfig, Loss, QueueLimit};
use hikyaku_units::{LossRate, Rate};

use crate::{measure, topology, udp};
use hikyaku_testkit::{skip, this_test};

/// Client and server with a link of the given back end between them.
fn network(backend: Backend) -> Network {
    let mut spec = TopologySpec::load("pair").unwrap();
    spec.links[0].backend = backend;
    Network::create(&spec).unwrap()
}

/// The fate of 400 packets of 1028 B.
struct Burst {
    /// Packets that arrive.
    count: u64,
    /// Times until the last packet was sent, and until the last came.
    sent: Duration,
    last: Duration,
    report: Report,
}

fn burst_over(network: &mut Network, links: LinkPair) -> Burst {
    network.link_mut("path").unwrap().start(links, 1).unwrap();
    let from = udp(network.node("server").unwrap(), SERVER_V4);
    let to = udp(network.node("client").unwrap(), CLIENT_V4);
    let began = Instant::now();
    for _ in 0..400 {
        from.send_to(&[0; 1_000], to.local_addr().unwrap()).unwrap();
    }
    let sent = began.elapsed();
    to.set_read_timeout(Some(Duration::from_millis(400)))
        .unwrap();
    let (mut count, mut last) = (0, Duration::ZERO);
    while to.recv(&mut [0; 2_000]).is_ok() {
        count += 1;
        last = began.elapsed();
    }
    Burst {
        count,
        sent,
        last,
        report: network.link_mut("path").unwrap().stop().unwrap().unwrap(),
    }
}

/// The route through the middle namespace and the queue, which need no netem.
#[test]
fn the_netem_back_end_queues_at_the_rate() {
    let Some((_guard, _)) = topology() else {
        return;
    };
    let mut network = network(Backend::Netem);
    let config = LinkConfig {
        rate: Rate::from_mbps(10).into(),
        queue: QueueLimit::Packets(100),
        ..LinkConfig::default()
    };
    // 100 packets of 1042 B at 10 Mbit/s.
    let exact_ms = 83.36;
    let error_ms = |_| {
        let links = LinkPair::symmetric(config.clone());
        let burst = burst_over(&mut network, links);
        let (count, report) = (burst.count, burst.report);
        // Waiting packets, those that tbf lets pass at once, and those that leave while others are
        // sent.
        let max = 105 + (burst.sent.as_secs_f64() / exact_ms * 1e5) as u64;
        assert!((100..=max).contains(&count), "{count}: {report:?}");
        assert_eq!(report.down.delivered.packets, count);
        assert_eq!(report.down.delivered.bytes, count * 1_028);
        assert_eq!(report.down.dropped.packets, 400 - count);
        burst.last.as_secs_f64() * 1e3 - exact_ms
    };
    measure(
        "error in ms of the netem back end",
        |error| error.abs() < 8.0,
        error_ms,
    );
    let jitter = LinkConfig {
        jitter: Duration::from_millis(1),
        ..config
    };
    let link = network.link_mut("path").unwrap();
    let refused = link.start(LinkPair::symmetric(jitter), 1).unwrap_err();
    assert!(refused.to_string().contains("jitter"), "{refused}");
}

#[test]
fn netem_and_the_pump_agree() {
    let Some((_guard, _)) = topology() else {
        return;
    };
    if !Backend::Netem.is_available().unwrap() {
        skip(&this_test(), "this kernel has no sch_netem");
        return;
    }
    let config = LinkConfig {
        rate: Rate::from_mbps(10).into(),
        one_way_delay: Duration::from_millis(20),
        queue: QueueLimit::Packets(1_000),
        ..LinkConfig::default()
    };
    let lossy = LinkConfig {
        loss: Loss::Bernoulli(LossRate::from_ppm(100_000).unwrap()),
        ..config.clone()
    };
    let mut networks = [Backend::Tun, Backend::Netem].map(network);
    // 400 packets of 1042 B at 10 Mbit/s, and the delay.
    let exact_ms = 333.44 + 20.0;
    let error_ms = |_| {
        let [pump, netem] = networks.each_mut().map(|network| {
            let links = LinkPair::symmetric(config.clone());
            let burst = burst_over(network, links);
            assert_eq!(burst.count, 400, "{:?}", burst.report);
            burst.last.as_secs_f64() * 1e3 - exact_ms
        });
        pump.abs().max(netem.abs()).max((pump - netem).abs())
    };
    measure(
        "error in ms of either, or between them",
        |error| error < 8.0,
        error_ms,
    );
    let lossy = networks.each_mut().map(|network| {
        let links = LinkPair::symmetric(lossy.clone());
        burst_over(network, links)
    });
    for Burst { count, report, .. } in lossy {
        let Counters {
            delivered, lost, ..
        } = report.down;
        assert_eq!((delivered.packets, lost.packets), (count, 400 - count));
        // Four standard deviations.
        assert!((16..=64).contains(&lost.packets), "{report:?}");
    }
}
