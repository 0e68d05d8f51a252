//! The netem back end, and whether it agrees with the pump.

use std::time::{Duration, Instant};

use hikyaku_core::units::{LossRate, Rate};
use hikyaku_lab::link::{Backend, CLIENT_V4, LinkPair, Report, SERVER_V4};
use hikyaku_lab::topology::{Network, TopologySpec};
use hikyaku_netsim::{Counters, LinkConfig, Loss, QueueLimit};

use crate::{measure, topology, udp};

/// Client and server with a link of the given back end between them.
fn network(backend: Backend) -> Network {
    let mut spec = TopologySpec::load("pair").unwrap();
    spec.links[0].backend = backend;
    Network::create(&spec).unwrap()
}

/// Packets of 1028 B that arrive of 400 sent at once, and how long the last took.
fn burst_over(network: &mut Network, links: LinkPair) -> (u64, Duration, Report) {
    network.link_mut("path").unwrap().start(links, 1).unwrap();
    let from = udp(network.node("server").unwrap(), SERVER_V4);
    let to = udp(network.node("client").unwrap(), CLIENT_V4);
    let sent = Instant::now();
    for _ in 0..400 {
        from.send_to(&[0; 1_000], to.local_addr().unwrap()).unwrap();
    }
    to.set_read_timeout(Some(Duration::from_millis(400)))
        .unwrap();
    let (mut count, mut last) = (0, Duration::ZERO);
    while to.recv(&mut [0; 2_000]).is_ok() {
        count += 1;
        last = sent.elapsed();
    }
    let report = network.link_mut("path").unwrap().stop().unwrap().unwrap();
    (count, last, report)
}

/// The way through the middle namespace and the queue, which need no netem.
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
        let (count, last, report) = burst_over(&mut network, links);
        // Those that wait, and those that tbf lets go at once.
        assert!((100..=105).contains(&count), "{count}: {report:?}");
        assert_eq!(report.down.delivered.packets, count);
        assert_eq!(report.down.delivered.bytes, count * 1_028);
        assert_eq!(report.down.dropped.packets, 400 - count);
        last.as_secs_f64() * 1e3 - exact_ms
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
        eprintln!("SKIPPED: this kernel has no sch_netem");
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
            let (count, last, report) = burst_over(network, links);
            assert_eq!(count, 400, "{report:?}");
            last.as_secs_f64() * 1e3 - exact_ms
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
    for (count, _, report) in lossy {
        let Counters {
            delivered, lost, ..
        } = report.down;
        assert_eq!((delivered.packets, lost.packets), (count, 400 - count));
        // Four standard deviations.
        assert!((16..=64).contains(&lost.packets), "{report:?}");
    }
}
