//! The emulated link against real sockets: needs root.
//!
//! The tests run one at a time, because they measure. One that the machine
//! disturbed is measured again, a few times at most.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_core::units::{LossRate, Rate};
use hikyaku_lab::link::{
    Backend, CLIENT_V4, ChangePair, LinkPair, Netns, Report, SERVER_V4, SERVER_V6, Sample, Topology,
};
use hikyaku_lab::topology::{Network, TopologySpec};
use hikyaku_netsim::{
    Change, Counters, Ecn, LinkConfig, LinkPatch, Loss, QueueLimit, Tally, UdpPolicy,
};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A topology, unless there are no privileges to make one.
fn topology() -> Option<(MutexGuard<'static, ()>, Topology)> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: emulated links need root");
        return None;
    }
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    Some((guard, Topology::create().unwrap()))
}

/// A UDP socket that holds all a test sends, however long its reader waits for a
/// CPU.
fn udp(netns: &Netns, ip: Ipv4Addr) -> UdpSocket {
    let socket = netns.enter(|| UdpSocket::bind((ip, 0))).unwrap().unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    socket
}

fn stop(topology: &mut Topology) -> Report {
    let report = topology.stop_link().unwrap().unwrap();
    assert_eq!(report.faults, 0, "{report:?}");
    report
}

/// Measures until `good`, because other load on the machine makes the pump late.
fn measure(name: &str, good: impl Fn(f64) -> bool, mut run: impl FnMut(u64) -> f64) {
    let mut results = Vec::new();
    for seed in 1..=4 {
        let result = run(seed);
        results.push(result);
        if good(result) {
            eprintln!("{name}: {results:?}");
            return;
        }
    }
    panic!("{name}: {results:?}");
}

/// Sends from server to client as fast as TCP goes. Returns the wire's rate in
/// bit/s, of which 1448 B in 1514 are payload.
fn tcp_rate(topology: &Topology) -> f64 {
    let bind = || TcpListener::bind((SERVER_V4, 0)).unwrap();
    let listener = topology.server().enter(bind).unwrap();
    let target = listener.local_addr().unwrap();
    let sender = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let chunk = vec![0; 1 << 16];
        while stream.write_all(&chunk).is_ok() {}
    });
    let mut stream = topology
        .client()
        .enter(|| TcpStream::connect(target))
        .unwrap()
        .unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut read_for = |duration: Duration| {
        let (start, mut bytes) = (Instant::now(), 0);
        loop {
            bytes += stream.read(&mut buffer).unwrap();
            let elapsed = start.elapsed();
            if elapsed >= duration {
                return bytes as f64 / elapsed.as_secs_f64();
            }
        }
    };
    read_for(Duration::from_secs(1));
    let goodput = read_for(Duration::from_secs(4));
    drop(stream);
    sender.join().unwrap();
    goodput * 8.0 * 1514.0 / 1448.0
}

#[test]
fn the_rate_is_exact() {
    let Some((_guard, mut topology)) = topology() else {
        return;
    };
    for mbps in [10, 200] {
        let config = LinkConfig {
            rate: Rate::from_mbps(mbps).into(),
            one_way_delay: Duration::from_millis(2),
            queue: QueueLimit::Time(Duration::from_millis(50)),
            ..LinkConfig::default()
        };
        let error = |seed| {
            topology
                .start_link(LinkPair::symmetric(config.clone()), seed)
                .unwrap();
            let rate = tcp_rate(&topology);
            let report = stop(&mut topology);
            eprintln!(
                "{mbps} Mbit/s: CPU {:.0?} of {:.0?}",
                report.cpu, report.elapsed
            );
            rate / (mbps as f64 * 1e6) - 1.0
        };
        measure(
            &format!("relative error at {mbps} Mbit/s"),
            |error| error.abs() <= 0.005,
            error,
        );
    }
}

#[test]
fn the_round_trip_takes_both_delays() {
    let Some((_guard, mut topology)) = topology() else {
        return;
    };
    let config = LinkConfig {
        one_way_delay: Duration::from_micros(12_500),
        ..LinkConfig::default()
    };
    let error_ms = |seed| {
        topology
            .start_link(LinkPair::symmetric(config.clone()), seed)
            .unwrap();
        let echo = udp(topology.server(), SERVER_V4);
        let ping = udp(topology.client(), CLIENT_V4);
        let target = echo.local_addr().unwrap();
        let mut rtts = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; 64];
                loop {
                    let (len, from) = echo.recv_from(&mut buffer).unwrap();
                    if len == 0 {
                        return;
                    }
                    echo.send_to(&buffer[..len], from).unwrap();
                }
            });
            for _ in 0..200 {
                let start = Instant::now();
                ping.send_to(&[1], target).unwrap();
                ping.recv(&mut [0; 64]).unwrap();
                rtts.push(start.elapsed().as_secs_f64() * 1e3);
                thread::sleep(Duration::from_millis(3));
            }
            ping.send_to(&[], target).unwrap();
        });
        stop(&mut topology);
        assert!(rtts.iter().all(|&rtt| rtt >= 25.0), "{rtts:?}");
        // The slowest tenth shows how long the test's own threads wait for a CPU
        // when the machine is busy, which is none of the link's.
        rtts.sort_by(f64::total_cmp);
        let nearest = &rtts[..rtts.len() * 9 / 10];
        nearest.iter().sum::<f64>() / nearest.len() as f64 - 25.0
    };
    measure("mean RTT error in ms", |error| error <= 0.5, error_ms);
}

#[test]
fn loss_is_within_its_95_percent_interval() {
    let Some((_guard, mut topology)) = topology() else {
        return;
    };
    const SENT: u32 = 30_000;
    let loss = Loss::Bernoulli(LossRate::from_ppm(10_000).unwrap());
    let config = LinkConfig {
        loss,
        ..LinkConfig::default()
    };
    topology.start_link(LinkPair::symmetric(config), 5).unwrap();
    let from = udp(topology.server(), SERVER_V4);
    let to = udp(topology.client(), CLIENT_V4);
    from.connect(to.local_addr().unwrap()).unwrap();
    let received = thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut count = 0_u32;
            while to.recv(&mut [0; 256]).is_ok() {
                count += 1;
            }
            count
        });
        for _ in 0..SENT / 20 {
            (0..20).for_each(|_| assert_eq!(from.send(&[7; 200]).unwrap(), 200));
            thread::sleep(Duration::from_millis(1));
        }
        receiver.join().unwrap()
    });
    let down = stop(&mut topology).down;
    assert_eq!(
        down.lost.packets,
        u64::from(SENT - received),
        "lost elsewhere: {down:?}"
    );
    let n = f64::from(SENT);
    let half_width = 1.96 * (0.01 * 0.99 / n).sqrt();
    let measured = f64::from(SENT - received) / n;
    assert!((measured - 0.01).abs() <= half_width, "{measured}");
}

/// Bytes that do not repeat within a transfer.
fn content(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let word = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::iter::repeat_with(word)
        .flat_map(u64::to_le_bytes)
        .take(len)
        .collect()
}

fn lossy() -> LinkConfig {
    LinkConfig {
        rate: Rate::from_mbps(300).into(),
        one_way_delay: Duration::from_millis(1),
        jitter: Duration::from_millis(1),
        loss: Loss::Bernoulli(LossRate::from_ppm(5_000).unwrap()),
        queue: QueueLimit::Time(Duration::from_millis(20)),
        ..LinkConfig::default()
    }
}

#[test]
fn tcp_passes_unchanged_through_loss() {
    let Some((_guard, mut topology)) = topology() else {
        return;
    };
    let sent = content(12_000_000);
    for server in [IpAddr::V4(SERVER_V4), IpAddr::V6(SERVER_V6)] {
        topology
            .start_link(LinkPair::symmetric(lossy()), 3)
            .unwrap();
        let listener = topology
            .server()
            .enter(|| TcpListener::bind((server, 0)))
            .unwrap()
            .unwrap();
        let target = listener.local_addr().unwrap();
        let received = thread::scope(|scope| {
            scope.spawn(|| listener.accept().unwrap().0.write_all(&sent).unwrap());
            let mut stream = topology
                .client()
                .enter(|| TcpStream::connect(target))
                .unwrap()
                .unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            received
        });
        let report = stop(&mut topology);
        assert!(received == sent, "{server}: {report:?}");
        assert!(report.down.lost.packets > 20, "{server}: {report:?}");
    }
}

#[test]
fn udp_super_packets_pass_unchanged() {
    let Some((_guard, mut topology)) = topology() else {
        return;
    };
    let loss = Loss::Bernoulli(LossRate::from_ppm(200_000).unwrap());
    topology
        .start_link(
            LinkPair::symmetric(LinkConfig {
                loss,
                ..LinkConfig::default()
            }),
            3,
        )
        .unwrap();
    const SEGMENT: usize = 1_200;
    let from = udp(topology.server(), SERVER_V4);
    let to = udp(topology.client(), CLIENT_V4);
    let state = quinn::udp::UdpSocketState::new((&from).into()).unwrap();
    assert!(
        state.max_gso_segments() >= 10,
        "the kernel has UDP segmentation offload"
    );

    let sent = content(SEGMENT * 9 + 300);
    for _ in 0..40 {
        let transmit = quinn::udp::Transmit {
            destination: to.local_addr().unwrap(),
            ecn: None,
            contents: &sent,
            segment_size: Some(SEGMENT),
            src_ip: None,
        };
        state.send((&from).into(), &transmit).unwrap();
    }
    let (mut buffer, mut received) = ([0; 2_000], 0);
    while let Ok(len) = to.recv(&mut buffer) {
        assert!(
            sent.chunks(SEGMENT)
                .any(|segment| segment == &buffer[..len]),
            "{len} bytes"
        );
        received += 1;
    }
    let down = stop(&mut topology).down;
    assert_eq!(
        (
            down.delivered.packets,
            down.delivered.packets + down.lost.packets
        ),
        (received, 400)
    );
    assert!(
        (40..120).contains(&down.lost.packets),
        "each segment is lost by itself: {down:?}"
    );
}

#[test]
fn nothing_is_left_behind() {
    let Some((_guard, mut topology)) = topology() else {
        return;
    };
    let paths = [topology.client(), topology.server()].map(|netns| {
        assert!(
            netns
                .name()
                .starts_with(&format!("hkyk-{}-", std::process::id()))
        );
        Path::new("/run/netns").join(netns.name())
    });
    assert!(paths.iter().all(|path| path.exists()));
    topology
        .start_link(LinkPair::symmetric(LinkConfig::default()), 1)
        .unwrap();
    drop(topology);
    assert!(!paths.iter().any(|path| path.exists()));
}

/// Takes what comes until nothing has for a while; the number of datagrams.
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
fn a_queue_marks_what_can_be_marked() {
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
    let state = quinn::udp::UdpSocketState::new((&from).into()).unwrap();
    let receiver = quinn::udp::UdpSocketState::new((&to).into()).unwrap();
    // 40 packets of 1200 B take 40 ms: the first half waits less than 20 ms.
    for ecn in [None, Some(quinn::udp::EcnCodepoint::Ect0)] {
        let transmit = quinn::udp::Transmit {
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
            let mut meta = [quinn::udp::RecvMeta::default()];
            let mut slices = [std::io::IoSliceMut::new(&mut buffer)];
            let received = receiver.recv((&to).into(), &mut slices, &mut meta);
            if received.is_err() {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            let [meta] = meta;
            let datagrams = meta.len.div_ceil(meta.stride);
            all += datagrams;
            if meta.ecn == Some(quinn::udp::EcnCodepoint::Ce) {
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
        // What is sent within a wake-up of the change may be on either side.
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
    for (i, sample) in samples.iter().enumerate() {
        let late = sample.at - Sample::INTERVAL * (i as u32 + 1);
        assert!(late < Duration::from_millis(50), "{sample:?}");
    }
    // After 100 ms, 10 have left, one is being sent, and 30 wait.
    let Tally { packets, bytes } = samples[0].down.queued;
    assert!((27..=31).contains(&packets), "{:?}", samples[0]);
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
    let all = networks.each_mut().map(|network| {
        let links = LinkPair::symmetric(config.clone());
        burst_over(network, links)
    });
    // 400 packets of 1042 B at 10 Mbit/s, and the delay.
    let exact = Duration::from_micros(333_440 + 20_000);
    for (count, last, report) in all {
        assert_eq!(count, 400, "{report:?}");
        eprintln!("LAST {last:?} exact {exact:?} {count}");
    }
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
