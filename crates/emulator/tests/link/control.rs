//! Marks, policies, changes, samples, packet log, and links side by side.

use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_emulator::link::{
    CLIENT_V4, ChangePair, LinkPair, LinkSet, SERVER_V4, Sample, Topology,
};
use hikyaku_netsim::{
    Change, Counters, Ecn, LinkConfig, LinkPatch, Loss, QueueLimit, Tally, UdpPolicy,
};
use hikyaku_units::{LossRate, Rate};

use crate::{content, stop, tcp_rate, topology, udp};

#[test]
fn clients_have_links_of_their_own() {
    let Some((_guard, mut topology)) = topology() else {
        return;
    };
    let delayed = |ms| {
        LinkPair::symmetric(LinkConfig {
            one_way_delay: Duration::from_millis(ms),
            ..LinkConfig::default()
        })
    };
    let clients = [Ipv4Addr::new(10, 128, 0, 1), Ipv4Addr::new(10, 128, 1, 1)];
    for client in clients {
        let add = format!("address add {client}/32 dev hkyk0\n");
        topology.client().ip(&add).unwrap();
    }
    topology
        .server()
        .ip("route add 10.128.0.0/9 dev hkyk0\n")
        .unwrap();
    // The second client's link loses all packets up.
    let mut deaf = delayed(0);
    deaf.up.loss = Loss::Bernoulli(LossRate::from_ppm(1_000_000).unwrap());
    let links = LinkSet {
        common: delayed(50),
        own: vec![(clients[0].into(), delayed(10)), (clients[1].into(), deaf)],
    };
    topology.start_link(links, 1).unwrap();
    let server = udp(topology.server(), SERVER_V4);
    let round_trip = |from: Ipv4Addr| {
        let client = udp(topology.client(), from);
        let begun = Instant::now();
        client
            .send_to(b"ping", server.local_addr().unwrap())
            .unwrap();
        let (_, source) = server.recv_from(&mut [0; 8]).ok()?;
        server.send_to(b"pong", source).unwrap();
        client.recv(&mut [0; 8]).ok()?;
        Some(begun.elapsed())
    };
    let ms = Duration::from_millis;
    let near = round_trip(clients[0]).unwrap();
    assert!(near >= ms(20), "{near:?}");
    let far = round_trip(CLIENT_V4).unwrap();
    assert!(far >= ms(100), "{far:?}");
    assert!(near < far, "{near:?}, {far:?}");
    assert_eq!(round_trip(clients[1]), None);
    let report = stop(&mut topology);
    // The counts of all links together.
    assert_eq!(
        (report.up.delivered.packets, report.up.lost.packets),
        (2, 1)
    );
    assert_eq!(report.down.delivered.packets, 2);
    assert!(report.lateness.count() == 4, "{report:?}");
}

/// Counts datagrams until none has come for a while.
fn count_datagrams(socket: &UdpSocket) -> u64 {
    socket
        .set_read_timeout(Some(Duration::from_millis(400)))
        .unwrap();
    let mut count = 0;
    while socket.recv(&mut [0; 2_000]).is_ok() {
        count += 1;
    }
    count
}

#[test]
fn a_queue_marks_packets_that_can_be_marked() {
    let Some((_guard, mut topology)) = topology() else {
        return;
    };
    let config = LinkConfig {
        rate: Rate::from_mbps(10).into(),
        ecn: Ecn::Step(Duration::from_millis(20)),
        ..LinkConfig::default()
    };
    topology.start_link(LinkPair::symmetric(config), 1).unwrap();
    let from = udp(topology.server(), SERVER_V4);
    let to = udp(topology.client(), CLIENT_V4);
    let state = quinn_udp::UdpSocketState::new((&from).into()).unwrap();
    let receiver = quinn_udp::UdpSocketState::new((&to).into()).unwrap();
    // 40 packets of 1200 B take 40 ms: the first half waits less than 20 ms.
    for ecn in [None, Some(quinn_udp::EcnCodepoint::Ect0)] {
        let transmit = quinn_udp::Transmit {
            destination: to.local_addr().unwrap(),
            ecn,
            contents: &content(1_172 * 40),
            segment_size: Some(1_172),
            src_ip: None,
        };
        state.send((&from).into(), &transmit).unwrap();
        let (mut marked, mut all) = (0, 0);
        while all < 40 {
            let mut buffer = vec![0; 1 << 16];
            let mut meta = [quinn_udp::RecvMeta::default()];
            let mut slices = [std::io::IoSliceMut::new(&mut buffer)];
            let received = receiver.recv((&to).into(), &mut slices, &mut meta);
            if received.is_err() {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            let [meta] = meta;
            let datagrams = meta.len.div_ceil(meta.stride);
            all += datagrams;
            if meta.ecn == Some(quinn_udp::EcnCodepoint::Ce) {
                marked += datagrams;
            } else {
                assert_eq!(meta.ecn, ecn);
            }
        }
        let want = if ecn.is_none() { 0..=0 } else { 19..=21 };
        assert!(want.contains(&marked), "{ecn:?}: {marked} marked");
    }
    let down = stop(&mut topology).down;
    assert!((19..=21).contains(&down.marked.packets), "{down:?}");
}

#[test]
fn udp_may_be_blocked_while_tcp_passes() {
    let Some((_guard, mut topology)) = topology() else {
        return;
    };
    let config = LinkConfig {
        udp: UdpPolicy::Drop,
        ..LinkConfig::default()
    };
    topology.start_link(LinkPair::symmetric(config), 1).unwrap();
    let from = udp(topology.server(), SERVER_V4);
    let to = udp(topology.client(), CLIENT_V4);
    for _ in 0..7 {
        from.send_to(&[1; 100], to.local_addr().unwrap()).unwrap();
    }
    assert_eq!(count_datagrams(&to), 0);
    assert!(tcp_rate(&topology) > 1e6);
    let Counters {
        policed, delivered, ..
    } = stop(&mut topology).down;
    assert_eq!(
        policed,
        Tally {
            packets: 7,
            bytes: 7 * 128
        }
    );
    assert!(delivered.packets > 100);
}

#[test]
fn changes_begin_at_the_request() {
    let Some((_guard, mut topology)) = topology() else {
        return;
    };
    topology
        .start_link(LinkPair::symmetric(LinkConfig::default()), 1)
        .unwrap();
    let from = udp(topology.server(), SERVER_V4);
    let to = udp(topology.client(), CLIENT_V4);
    let target = to.local_addr().unwrap();
    let pass = || -> Duration {
        let sent = Instant::now();
        from.send_to(&[1], target).unwrap();
        to.recv(&mut [0; 8]).unwrap();
        sent.elapsed()
    };
    thread::sleep(Duration::from_millis(100));
    let slower = Change {
        at: Duration::from_millis(300),
        patch: LinkPatch {
            one_way_delay: Some(Duration::from_millis(150)),
            ..LinkPatch::default()
        },
    };
    let began = Instant::now();
    let changes = ChangePair {
        down: vec![slower],
        ..ChangePair::default()
    };
    topology.link().begin_changes(changes).unwrap();
    let (mut before, mut after) = (0, 0);
    while after < 2 {
        let sent = began.elapsed();
        let delay = pass();
        // Packets within a wake-up of the change may be on either side.
        if sent > Duration::from_millis(310) {
            after += 1;
            assert!(delay >= Duration::from_millis(150), "{sent:?}: {delay:?}");
        } else if began.elapsed() < Duration::from_millis(290) {
            before += 1;
        }
    }
    assert!(before > 10, "{before} packets passed fast");
    stop(&mut topology);
}

#[test]
fn changes_can_begin_at_the_first_packet() {
    let Some((_guard, mut topology)) = topology() else {
        return;
    };
    topology
        .start_link(LinkPair::symmetric(LinkConfig::default()), 1)
        .unwrap();
    let server = udp(topology.server(), SERVER_V4);
    let client = udp(topology.client(), CLIENT_V4);
    let slow = Duration::from_millis(150);
    let slower = Change {
        at: Duration::from_millis(200),
        patch: LinkPatch {
            one_way_delay: Some(slow),
            ..LinkPatch::default()
        },
    };
    let changes = ChangePair {
        up: vec![slower],
        ..ChangePair::default()
    };
    topology
        .link()
        .begin_changes_at_first_packet(changes)
        .unwrap();
    let pass = |from: &UdpSocket, to: &UdpSocket| -> Duration {
        let sent = Instant::now();
        from.send_to(&[1], to.local_addr().unwrap()).unwrap();
        to.recv(&mut [0; 8]).unwrap();
        sent.elapsed()
    };
    // A packet down does not count.
    pass(&server, &client);
    thread::sleep(Duration::from_millis(300));
    assert!(pass(&client, &server) < slow, "the first packet");
    thread::sleep(Duration::from_millis(250));
    assert!(pass(&client, &server) >= slow, "after the change");
    stop(&mut topology);
}

#[test]
fn a_run_is_sampled_and_logged() {
    let Some((_guard, mut topology)) = topology() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("packets.csv");
    topology.link_mut().log_packets(Some(path.clone()));
    let config = LinkConfig {
        rate: Rate::from_mbps(1).into(),
        loss: Loss::Bernoulli(LossRate::from_ppm(200_000).unwrap()),
        queue: QueueLimit::Packets(40),
        overhead: 0,
        ..LinkConfig::default()
    };
    topology.start_link(LinkPair::symmetric(config), 1).unwrap();
    let from = udp(topology.server(), SERVER_V4);
    let to = udp(topology.client(), CLIENT_V4);
    // 41 packets of 1250 B take 10 ms each, and 9 find the queue full.
    for _ in 0..50 {
        from.send_to(&[0; 1_222], to.local_addr().unwrap()).unwrap();
    }
    assert_eq!(topology.link().state().down.counters.lost, Tally::default());
    let received = count_datagrams(&to);
    let state = topology.link().state();
    let report = stop(&mut topology);
    assert_eq!(
        (state.up.counters, state.down.counters),
        (report.up, report.down)
    );
    let Counters {
        delivered,
        lost,
        dropped,
        ..
    } = report.down;
    assert_eq!((delivered.packets, dropped.packets), (received, 9));
    assert_eq!(delivered.packets + lost.packets, 41);

    let samples = &report.samples;
    assert!(samples.len() >= 7, "{samples:?}");
    assert!(samples.is_sorted_by_key(|sample| sample.down.counters.delivered.packets));
    // A busy machine may pause at one of them.
    let late = |(i, sample): (usize, &Sample)| sample.at - Sample::INTERVAL * (i as u32 + 1);
    let mut late: Vec<Duration> = samples.iter().enumerate().map(late).collect();
    late.sort_unstable();
    assert!(late[late.len() / 2] < Duration::from_millis(50), "{late:?}");
    // After 100 ms, 10 have left, one is being sent, and 30 wait.
    let Tally { packets, bytes } = samples[0].down.queued;
    let left = samples[0].at.as_millis() as u64 / 10;
    assert!((37..=41).contains(&(packets + left)), "{:?}", samples[0]);
    assert_eq!(bytes, packets * 1_250);

    let log = std::fs::read_to_string(path).unwrap();
    let source = from.local_addr().unwrap().port();
    let target = to.local_addr().unwrap().port();
    let fates = |fate: &str| {
        let line = format!(",down,1250,17,{source},{target},{fate}");
        log.lines().filter(|other| other.ends_with(&line)).count() as u64
    };
    let logged = ["delivered", "lost", "dropped"].map(fates);
    assert_eq!(logged, [delivered.packets, lost.packets, dropped.packets]);
}

#[test]
fn twelve_links_run_side_by_side() {
    let Some((_guard, _)) = topology() else {
        return;
    };
    let config = LinkConfig {
        rate: Rate::from_mbps(8).into(),
        one_way_delay: Duration::from_millis(5),
        queue: QueueLimit::Packets(1_000),
        ..LinkConfig::default()
    };
    let mut topologies: Vec<Topology> = (0..12).map(|_| Topology::create().unwrap()).collect();
    thread::scope(|scope| {
        for (seed, topology) in topologies.iter_mut().enumerate() {
            let links = LinkPair::symmetric(config.clone());
            topology.start_link(links, seed as u64).unwrap();
            scope.spawn(|| {
                let from = udp(topology.server(), SERVER_V4);
                let to = udp(topology.client(), CLIENT_V4);
                for _ in 0..300 {
                    from.send_to(&[0; 972], to.local_addr().unwrap()).unwrap();
                }
                assert_eq!(count_datagrams(&to), 300);
                let report = stop(topology);
                assert_eq!(report.down.delivered.packets, 300);
                // 300 packets of 1014 B at 8 Mbit/s.
                assert!(report.elapsed >= Duration::from_micros(300 * 1_014));
            });
        }
    });
}
