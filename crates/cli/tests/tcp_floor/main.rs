//! Our congestion controls of TCP on emulated links, with the kernel's own sockets. Needs root and
//! a kernel that loads them. Without, the tests report a skip and pass.
#![allow(clippy::unwrap_used, reason = "tests")]

mod anew;
mod mptcp;
mod server;
mod startup;
mod syn_ack;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_edge::tcp_cc::{Control, Controls, Prefix, Setting};
use hikyaku_emulator::link::{CLIENT_V4, LinkPair, SERVER_V4, Topology};
use hikyaku_netsim::{Capacity, LinkConfig, Loss, QueueLimit};
use hikyaku_units::ByteSize;
use hikyaku_units::SavedPath;
use hikyaku_units::arm::Congestion;
use hikyaku_units::{LossRate, Rate};

use bytes::Bytes;
use hikyaku_testkit::{PATIENCE, Server, Site, client, eventually, get, has, skip, this_test};
use rustix::process::Signal;

const RTT: Duration = Duration::from_millis(40);
const MSS: u32 = 1448;
const FLOOR: Control = Control::Floor {
    over: Congestion::Cubic,
    bytes: 200 * MSS,
};

const FAIR: Control = Control::Fair { known: None };

/// Concurrent links would disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> Option<MutexGuard<'static, ()>> {
    if !rustix::process::geteuid().is_root() {
        skip(&this_test(), "emulated links and eBPF need root");
        return None;
    }
    Some(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
}

fn load() -> Option<Controls> {
    match Controls::load(true) {
        Ok(controls) => Some(controls),
        Err(error) => {
            let why = format!("this kernel does not take our congestion controls: {error:?}");
            skip(&this_test(), &why);
            None
        }
    }
}

/// A link of 100 Mbit/s, its namespaces, and the controls.
struct Lab {
    topology: Topology,
    controls: Controls,
    _alone: MutexGuard<'static, ()>,
}

/// A TCP connection from the client's namespace to the server's.
struct Pair {
    server: TcpStream,
    client: TcpStream,
}

/// A socket in the output of ss(8).
#[derive(Debug)]
struct Seen {
    control: String,
    cwnd: u32,
    /// Retransmitted bytes.
    retransmitted: u64,
}

impl Lab {
    fn start(loss: f64) -> Option<Self> {
        Self::on(link(loss))
    }

    fn on(link: LinkPair) -> Option<Self> {
        let alone = alone()?;
        let controls = load()?;
        let mut topology = Topology::create().unwrap();
        topology.start_link(link, 7).unwrap();
        Some(Self {
            topology,
            controls,
            _alone: alone,
        })
    }

    fn listen(&self) -> TcpListener {
        let bind = || TcpListener::bind((SERVER_V4, 0)).unwrap();
        self.topology.server().enter(bind).unwrap()
    }

    fn connect(&self, listener: &TcpListener) -> Pair {
        let target = listener.local_addr().unwrap();
        let connect = || TcpStream::connect(target).unwrap();
        let client = self.topology.client().enter(connect).unwrap();
        let (server, _) = listener.accept().unwrap();
        Pair { server, client }
    }

    fn set(&self, pair: &Pair, control: Control) {
        let peer = IpAddr::from(CLIENT_V4);
        let set = self
            .controls
            .set_congestion(&pair.server, peer, false, control);
        set.unwrap();
    }

    fn see(&self, pair: &Pair) -> Seen {
        let peer = pair.client.local_addr().unwrap();
        let filter = format!("dport = :{}", peer.port());
        let mut ss = Command::new("ss");
        ss.args(["-tinH"]).args(filter.split(' '));
        let output = self.topology.server().output(&mut ss).unwrap().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        see(&text)
    }

    /// Sends `bytes` while `watch` is called each 20 ms.
    fn send(&self, pair: &mut Pair, bytes: usize, mut watch: impl FnMut(Seen)) {
        let mut server = pair.server.try_clone().unwrap();
        let mut client = pair.client.try_clone().unwrap();
        let sending = thread::spawn(move || server.write_all(&vec![7; bytes]).unwrap());
        let receiving = thread::spawn(move || {
            let mut received = vec![0; bytes];
            client.read_exact(&mut received).unwrap();
            assert!(received.iter().all(|&byte| byte == 7));
        });
        while !receiving.is_finished() {
            watch(self.see(pair));
            thread::sleep(Duration::from_millis(20));
        }
        sending.join().unwrap();
        receiving.join().unwrap();
    }

    /// The windows of a new connection while it sends the second half of `bytes`, sorted.
    fn late_windows(&self, control: Control, bytes: usize) -> Vec<u32> {
        let mut pair = self.connect(&self.listen());
        self.set(&pair, control);
        self.send(&mut pair, bytes / 2, |_| {});
        let mut windows = Vec::new();
        self.send(&mut pair, bytes / 2, |seen| windows.push(seen.cwnd));
        windows.sort_unstable();
        windows
    }
}

/// Parses the first socket in ss's output.
fn see(text: &str) -> Seen {
    let details = text.lines().nth(1).unwrap_or_else(|| panic!("{text}"));
    let words: Vec<&str> = details.split_whitespace().collect();
    let value = |name| words.iter().find_map(|word| word.strip_prefix(name));
    Seen {
        control: words[0].to_owned(),
        cwnd: value("cwnd:")
            .unwrap_or_else(|| panic!("{details}"))
            .parse()
            .unwrap(),
        // ss omits the field as long as there is no retransmission.
        retransmitted: value("bytes_retrans:").map_or(0, |bytes| bytes.parse().unwrap()),
    }
}

fn link(loss: f64) -> LinkPair {
    let config = LinkConfig {
        rate: Capacity::Rate(Rate::from_bits_per_sec(100_000_000)),
        one_way_delay: RTT / 2,
        queue: QueueLimit::Time(RTT),
        ..LinkConfig::default()
    };
    let mut down = config.clone();
    if loss > 0.0 {
        down.loss = Loss::Bernoulli(LossRate::from_ppm((loss * 1e6) as u32).unwrap());
    }
    LinkPair { up: config, down }
}

#[test]
fn a_fixed_floor_holds_through_losses() {
    let Some(lab) = Lab::start(0.05) else { return };
    let listener = lab.listen();
    let least = |control| {
        let mut pair = lab.connect(&listener);
        lab.set(&pair, control);
        let mut windows = Vec::new();
        lab.send(&mut pair, 1_500_000, |seen| windows.push(seen.cwnd));
        windows.into_iter().min().unwrap()
    };
    // The test would see a kernel that lowers the window.
    assert!(least(Control::Plain(Congestion::Cubic)) < 50);
    for over in [Congestion::Cubic, Congestion::Bbr] {
        let floor = Control::Floor {
            over,
            bytes: 200 * MSS,
        };
        assert!(least(floor) >= 200, "{over:?}");
    }
}

#[test]
fn a_fixed_floor_holds_through_a_timeout_and_idle_time() {
    let Some(mut lab) = Lab::start(0.0) else {
        return;
    };
    let listener = lab.listen();
    for over in [Congestion::Cubic, Congestion::Bbr] {
        let floor = Control::Floor {
            over,
            bytes: 200 * MSS,
        };
        let mut pair = lab.connect(&listener);
        lab.set(&pair, floor);
        lab.send(&mut pair, 500_000, |_| {});
        // No packet arrives, so that the timer expires more than once.
        lab.topology.start_link(link(1.0), 1).unwrap();
        let mut server = pair.server.try_clone().unwrap();
        server.write_all(&[7; 100_000]).unwrap();
        thread::sleep(Duration::from_secs(1));
        let seen = lab.see(&pair);
        assert!(seen.cwnd >= 200, "after a timeout: {seen:?}");
        lab.topology.start_link(link(0.0), 2).unwrap();
        pair.client.read_exact(&mut [0; 100_000]).unwrap();
        thread::sleep(Duration::from_secs(2));
        lab.send(&mut pair, 500_000, |seen| {
            assert!(seen.cwnd >= 200, "after idle time: {seen:?}");
        });
    }
}

#[test]
fn a_prefix_has_settings_that_a_socket_overrules() {
    let Some(lab) = Lab::start(0.0) else { return };
    let setting = |floor: u32, init_window: u32| {
        Some(Setting {
            floor: floor * MSS,
            init_window,
            known: None,
        })
    };
    let listener = lab.listen();
    let name = lab.controls.name(FLOOR);
    rustix::net::sockopt::set_tcp_congestion(&listener, &name).unwrap();
    let first = || lab.see(&lab.connect(&listener)).cwnd;
    assert_eq!(first(), 10, "nothing is known");
    lab.controls
        .set_prefix(Prefix::ALL, setting(0, 40))
        .unwrap();
    assert_eq!(first(), 40, "an initial window for all");
    let client = Prefix::of(CLIENT_V4.into());
    lab.controls.set_prefix(client, setting(60, 0)).unwrap();
    assert_eq!(first(), 60, "a floor for the client's address");
    let pair = lab.connect(&listener);
    let bytes = 80 * MSS;
    lab.set(
        &pair,
        Control::Floor {
            over: Congestion::Cubic,
            bytes,
        },
    );
    let mut server = pair.server.try_clone().unwrap();
    server.write_all(b"x").unwrap();
    thread::sleep(RTT * 2);
    assert_eq!(lab.see(&pair).cwnd, 80, "the socket's own");
    lab.controls.set_prefix(client, None).unwrap();
    lab.controls.set_prefix(client, None).unwrap();
    assert_eq!(first(), 40, "the client's is gone");
}

#[test]
fn a_live_connection_changes_its_control_and_floor() {
    let Some(lab) = Lab::start(0.02) else { return };
    let mut pair = lab.connect(&lab.listen());
    let floor = |over, segments: u32| Control::Floor {
        over,
        bytes: segments * MSS,
    };
    let steps = [
        Control::Plain(Congestion::Cubic),
        floor(Congestion::Cubic, 100),
        floor(Congestion::Cubic, 300),
        FAIR,
        floor(Congestion::Bbr, 250),
        Control::Plain(Congestion::Bbr),
        FAIR,
        Control::Plain(Congestion::Cubic),
    ];
    for control in steps {
        lab.set(&pair, control);
        let mut last = None;
        lab.send(&mut pair, 400_000, |seen| last = Some(seen));
        let seen = lab.see(&pair);
        assert_eq!(seen.control, lab.controls.name(control), "{control:?}");
        if let Control::Floor { bytes, .. } = control {
            assert!(seen.cwnd >= bytes / MSS, "{control:?}: {seen:?} {last:?}");
        }
    }
}

/// The median of some connections. A busy machine can delay any one of them, which looks like a
/// queue.
fn median<T: Ord>(mut of: Vec<T>) -> T {
    of.sort_unstable();
    of.swap_remove(of.len() / 2)
}

#[test]
fn a_fair_floor_keeps_a_lossy_path_full() {
    let Some(lab) = Lab::start(0.01) else { return };
    let mean = |control| {
        let late = lab.late_windows(control, 5_000_000);
        late.iter().sum::<u32>() / late.len() as u32
    };
    let plain = mean(Control::Plain(Congestion::Cubic));
    // A busy machine's delays look like a queue, for which the floor yields: the least disturbed of
    // five connections counts.
    let fair = (0..5).map(|_| mean(FAIR)).max().unwrap();
    // The path carries 100 Mbit/s * 40 ms = 345 segments.
    assert!(plain < 100, "{plain}");
    assert!((200..900).contains(&fair), "{fair}");
}

/// A false alarm lasts 32 rounds, which is half of this test, with windows of plain CUBIC: at most
/// 15 segments.
#[test]
fn many_probes_at_random_losses_do_not_end_trust() {
    let Some(lab) = Lab::start(0.05) else { return };
    let low_percent = || {
        let windows = lab.late_windows(FAIR, 60_000_000);
        windows.partition_point(|&window| window < 150) * 100 / windows.len()
    };
    let low = median((0..3).map(|_| low_percent()).collect());
    assert!(low < 20, "{low} %");
}

/// A queue that is too short to be seen: 10 packets of 0.12 ms. With trust, more than a tenth would
/// be sent twice, again and again. CUBIC overshoots in slow start alone.
#[test]
fn a_policer_ends_trust() {
    let mut policed = link(0.0);
    policed.down.queue = QueueLimit::Packets(10);
    let Some(lab) = Lab::on(policed) else { return };
    let mut pair = lab.connect(&lab.listen());
    lab.set(&pair, FAIR);
    let bytes = 30_000_000;
    let [early, late] = [(), ()].map(|()| {
        lab.send(&mut pair, bytes, |_| {});
        lab.see(&pair).retransmitted
    });
    assert!(early > 0, "the queue was never full");
    assert!((late - early) * 20 < bytes as u64, "{early}, then {late}");
}

#[test]
fn a_known_path_begins_with_half_of_its_bdp() {
    let Some(lab) = Lab::start(0.0) else { return };
    let listener = lab.listen();
    let after_first_round = |min_rtt| {
        let mut pair = lab.connect(&listener);
        let known = Some(SavedPath {
            bdp: ByteSize::from_bytes(u64::from(320 * MSS)),
            min_rtt,
        });
        lab.set(&pair, Control::Fair { known });
        let before = lab.see(&pair).cwnd;
        lab.send(&mut pair, 1, |_| {});
        thread::sleep(RTT);
        (before, lab.see(&pair).cwnd)
    };
    assert_eq!(after_first_round(RTT), (32, 160));
    let (before, other) = after_first_round(RTT * 5);
    assert_eq!(before, 32);
    assert!(other < 20, "another path: {other}");
}
