//! Networks from descriptions, in the kernel: needs root.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_emulator::link::Netns;
use hikyaku_emulator::topology::{Network, TopologySpec};
use socket2::{Domain, Protocol, Socket, Type};

use hikyaku_testkit::{skip, this_test};

/// A network from TOML or a shipped name, unless there are no privileges.
fn network(description: &str) -> Option<Network> {
    if !rustix::process::geteuid().is_root() {
        skip(&this_test(), "networks of namespaces need root");
        return None;
    }
    let spec = match description.contains('\n') {
        true => TopologySpec::parse("test", description),
        false => TopologySpec::load(description),
    };
    Some(Network::create(&spec.unwrap()).unwrap())
}

fn node<'a>(network: &'a Network, name: &str) -> &'a Netns {
    network.node(name).unwrap()
}

/// The shortest of a few round trips of a UDP packet, `None` if none comes back.
fn round_trip(from: &Netns, to: &Netns, address: &str) -> Option<Duration> {
    let address: SocketAddr = address.parse().unwrap();
    let server = to.enter(|| UdpSocket::bind(address)).unwrap().unwrap();
    let mut unspecified = address;
    unspecified.set_ip(match address.is_ipv4() {
        true => [0; 4].into(),
        false => [0_u16; 8].into(),
    });
    unspecified.set_port(0);
    let client = from
        .enter(|| UdpSocket::bind(unspecified))
        .unwrap()
        .unwrap();
    for socket in [&client, &server] {
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
    }
    let mut buffer = [0; 16];
    let trip = || -> std::io::Result<Duration> {
        let begun = Instant::now();
        client.send_to(b"there", address)?;
        let (_, back) = server.recv_from(&mut buffer)?;
        server.send_to(b"and back", back)?;
        client.recv_from(&mut buffer)?;
        Ok(begun.elapsed())
    };
    let mut trip = trip;
    (0..5).filter_map(|_| trip().ok()).min()
}

const ROUTED: &str = r#"
description = "two links behind one another"

[[nodes]]
name = "client"
routes = ["default via 10.1.0.2", "default via fd00:1::2"]

[[nodes]]
name = "router"
addresses = ["10.9.9.9/32"]
forward = true

[[nodes]]
name = "server"
congestion_control = "reno"
sysctls = { "net.ipv4.tcp_ecn" = 0, "net.ipv6.conf.eth0.hop_limit" = 33 }
routes = ["default via 10.2.0.2", "default via fd00:2::2"]
rules = ["from 10.99.0.0/16 lookup 99", "from fd00:99::/32 lookup 99"]
ip = ["-6 route add unreachable default table 99"]

[[links]]
name = "near"
a = { node = "client", interface = "eth0", addresses = ["10.1.0.1/24", "fd00:1::1/64"] }
b = { node = "router", interface = "near", addresses = ["10.1.0.2/24", "fd00:1::2/64"] }
both = { one_way_delay = "5ms" }

[[links]]
name = "far"
a = { node = "router", interface = "far", addresses = ["10.2.0.2/24", "fd00:2::2/64"] }
b = { node = "server", interface = "eth0", addresses = ["10.2.0.1/24", "fd00:2::1/64"] }
mtu = 1400
up = { one_way_delay = "5ms" }
down = { one_way_delay = "10ms" }
changes = { down = [{ at = "50ms", one_way_delay = "30ms" }] }
"#;

#[test]
fn packets_pass_through_a_router_over_two_links() {
    let Some(mut network) = network(ROUTED) else {
        return;
    };
    let trip = |network: &Network, address: &str| {
        round_trip(node(network, "client"), node(network, "server"), address)
    };
    assert_eq!(trip(&network, "10.2.0.1:7"), None, "no link is started");
    network.start_links(1).unwrap();
    for address in ["10.2.0.1:7", "[fd00:2::1]:7"] {
        let took = trip(&network, address).unwrap();
        let expected = Duration::from_millis(25);
        assert!(
            (expected..expected * 3).contains(&took),
            "{address}: {took:?}"
        );
    }

    // Changes wait until they are begun.
    network.begin_changes().unwrap();
    let changed = Duration::from_millis(45);
    let begun = Instant::now();
    while trip(&network, "10.2.0.1:7").unwrap() < changed {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "the link never changes"
        );
    }

    // One by one.
    let report = network.link_mut("far").unwrap().stop().unwrap().unwrap();
    assert!(report.up.delivered.packets > 0 && report.down.delivered.packets > 0);
    assert_eq!(trip(&network, "10.2.0.1:7"), None, "one link is stopped");
    let direct = round_trip(
        node(&network, "client"),
        node(&network, "router"),
        "10.9.9.9:7",
    );
    assert!(direct.is_some(), "the other one runs");
}

#[test]
fn nodes_are_as_described() {
    let Some(network) = network(ROUTED) else {
        return;
    };
    let cases = [
        ("client", "net/ipv4/tcp_no_metrics_save", "1"),
        ("client", "net/ipv4/tcp_congestion_control", "cubic"),
        ("client", "net/ipv4/ip_forward", "0"),
        ("router", "net/ipv4/ip_forward", "1"),
        ("router", "net/ipv6/conf/all/forwarding", "1"),
        ("server", "net/ipv4/tcp_congestion_control", "reno"),
        ("server", "net/ipv4/tcp_ecn", "0"),
        ("server", "net/ipv6/conf/eth0/hop_limit", "33"),
    ];
    for (name, key, expected) in cases {
        let read = || std::fs::read_to_string(Path::new("/proc/sys").join(key));
        let value = node(&network, name).enter(read).unwrap().unwrap();
        assert_eq!(value.trim(), expected, "{name}: {key}");
    }
    let ip = |arguments: &[&str]| {
        let mut command = std::process::Command::new("ip");
        let output = node(&network, "server")
            .output(command.args(arguments))
            .unwrap()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(ip(&["link", "show", "eth0"]).contains("mtu 1400"));
    assert!(ip(&["rule"]).contains("from 10.99.0.0/16 lookup 99"));
    assert!(ip(&["-6", "rule"]).contains("from fd00:99::/32 lookup 99"));
    assert!(ip(&["-6", "route", "show", "table", "99"]).contains("unreachable default"));
}

#[test]
fn interfaces_may_be_called_as_words_of_ip_are() {
    const NAMES: [&str; 9] = [
        "a", "address", "dev", "mtu", "name", "netns", "type", "up", "-x",
    ];
    let mut text = "description = \"names\"\nnodes = [".to_owned();
    for kind in ["links", "wires", "lans"] {
        text += &format!("{{ name = \"{kind}-1\" }}, {{ name = \"{kind}-2\" }}, ");
    }
    text += "]\n";
    for (i, name) in (0..).zip(NAMES) {
        for (kind, net) in [("links", 1), ("wires", 2), ("lans", 3)] {
            let end = |n: u32| {
                format!(
                    "{{ node = \"{kind}-{n}\", interface = \"{name}\", addresses = [\"10.{net}.{i}.{n}/24\"] }}"
                )
            };
            let ends = match kind {
                "lans" => format!("ports = [{}, {}]", end(1), end(2)),
                _ => format!("a = {}\nb = {}", end(1), end(2)),
            };
            text += &format!("[[{kind}]]\nname = \"l{i}\"\nmtu = 1400\n{ends}\n");
        }
    }
    let Some(network) = network(&text) else {
        return;
    };
    for (node, netns) in network.nodes() {
        for name in NAMES {
            let mut ip = std::process::Command::new("ip");
            ip.args(["address", "show", "dev", name]);
            let output = netns.output(&mut ip).unwrap().unwrap();
            let shown = String::from_utf8(output.stdout).unwrap();
            for word in [&format!(" {name}"), "mtu 1400", "UP", "inet 10."] {
                assert!(shown.contains(word), "{node}, {name}: {word}: {shown}");
            }
        }
    }
}

#[test]
fn a_lan_joins_several_nodes_and_a_wire_two() {
    let description = r#"
        description = "three routers on one Ethernet segment, and a host behind one"
        nodes = [
            { name = "r1", forward = true },
            { name = "r2", routes = ["10.8.0.0/24 via 10.7.0.1"] },
            { name = "r3" },
            { name = "host", routes = ["default via 10.8.0.1"] },
        ]

        [[lans]]
        name = "core"
        mtu = 9000
        ports = [
            { node = "r1", interface = "core", addresses = ["10.7.0.1/24", "fd00:7::1/64"] },
            { node = "r2", interface = "core", addresses = ["10.7.0.2/24", "fd00:7::2/64"] },
            { node = "r3", interface = "core", addresses = ["10.7.0.3/24", "fd00:7::3/64"] },
        ]

        [[wires]]
        name = "access"
        a = { node = "r1", interface = "host", addresses = ["10.8.0.1/24"] }
        b = { node = "host", interface = "eth0", addresses = ["10.8.0.2/24"] }
    "#;
    let Some(network) = network(description) else {
        return;
    };
    let cases = [
        ("r1", "r3", "10.7.0.3:7"),
        ("r2", "r3", "[fd00:7::3]:7"),
        ("r3", "r2", "10.7.0.2:7"),
        ("r2", "host", "10.8.0.2:7"),
    ];
    for (from, to, address) in cases {
        let took = round_trip(node(&network, from), node(&network, to), address);
        assert!(took.is_some(), "{from} to {to} at {address}");
    }
}

/// Opens a listener in `to` and sends to it from `from` for the duration `time`. Returns the bytes
/// that came.
fn transfer(from: &Netns, to: &Netns, address: &str, protocol: Protocol, time: Duration) -> u64 {
    let address: SocketAddr = address.parse().unwrap();
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).unwrap();
    let listen = || {
        let socket = socket();
        // MPTCP takes subflows at the server's other addresses, too.
        let any = SocketAddr::from(([0; 4], address.port()));
        socket.bind(&any.into()).unwrap();
        socket.listen(1).unwrap();
        TcpListener::from(socket)
    };
    let listener = to.enter(listen).unwrap();
    let connect = || {
        let socket = socket();
        socket.connect(&address.into()).unwrap();
        TcpStream::from(socket)
    };
    let mut sender = from.enter(connect).unwrap();
    sender
        .set_write_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    receiver
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let begun = Instant::now();
            while begun.elapsed() < time {
                sender.write_all(&[0; 16 << 10]).unwrap();
            }
        });
        let begun = Instant::now();
        let mut bytes = 0;
        let mut buffer = vec![0; 64 << 10];
        while begun.elapsed() < time {
            bytes += receiver.read(&mut buffer).unwrap() as u64;
        }
        // The sender ends, whatever is still in its buffers.
        while receiver.read(&mut buffer).is_ok_and(|len| len > 0) {}
        bytes
    })
}

#[test]
fn flows_share_the_dumbbells_bottleneck() {
    let Some(mut network) = network("dumbbell") else {
        return;
    };
    network.start_links(1).unwrap();
    const TIME: Duration = Duration::from_secs(3);
    let shares: Vec<u64> = thread::scope(|scope| {
        let network = &network;
        let flows = [1, 2, 3].map(|i| {
            scope.spawn(move || {
                let server = node(network, &format!("server{i}"));
                let client = node(network, &format!("client{i}"));
                let address = format!("10.105.{i}.1:5001");
                transfer(server, client, &address, Protocol::TCP, TIME)
            })
        });
        flows.map(|flow| flow.join().unwrap()).into()
    });
    let rate = shares.iter().sum::<u64>() as f64 * 8.0 / TIME.as_secs_f64();
    // Payload of 1448 in 1514 B at most; a slow start and a busy machine below.
    assert!((30e6..96e6).contains(&rate), "{rate} bit/s: {shares:?}");
    assert!(shares.iter().all(|&share| share > 500_000), "{shares:?}");
    let report = network
        .link_mut("bottleneck")
        .unwrap()
        .stop()
        .unwrap()
        .unwrap();
    assert!(report.down.delivered.bytes >= shares.iter().sum());
    assert_eq!(report.faults, 0, "{report:?}");
}

#[test]
fn mptcp_uses_both_of_two_paths() {
    let Some(mut network) = network("two-paths") else {
        return;
    };
    if !Path::new("/proc/sys/net/mptcp/enabled").exists() {
        skip(&this_test(), "this kernel has no MPTCP");
        return;
    }
    network.start_links(1).unwrap();
    let (client, server) = (node(&network, "client"), node(&network, "server"));
    // Upwards: the server must be the listener to announce its addresses.
    let time = Duration::from_secs(2);
    transfer(client, server, "10.104.1.2:5001", Protocol::MPTCP, time);
    for path in ["path1", "path2"] {
        let [up, _] = network.link_mut(path).unwrap().delivered_bytes();
        assert!(up > 200_000, "{path} carried {up} B");
    }
}

#[test]
fn failed_parts_are_named_and_leave_nothing() {
    if !rustix::process::geteuid().is_root() {
        skip(&this_test(), "networks of namespaces need root");
        return;
    }
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "congestion control",
            "congestion_control = 'leave-broken-x1'",
            &[
                "building node `broken-x1`",
                "tcp_congestion_control",
                "leave-broken-x1",
            ],
        ),
        (
            "parameter",
            "sysctls = { 'net.ipv4.no_such' = 1 }",
            &["building node `broken-x1`", "net/ipv4/no_such"],
        ),
        (
            "route",
            "routes = ['10.0.0.0/8 via 192.0.2.1']",
            &[
                "building node `broken-x1`",
                "-4 route add 10.0.0.0/8 via 192.0.2.1",
            ],
        ),
        (
            "command",
            "ip = ['no such thing']",
            &["building node `broken-x1`", "no such thing"],
        ),
    ];
    for (name, line, words) in cases {
        let text = format!("description = ''\n[[nodes]]\nname = 'broken-x1'\n{line}\n");
        let spec = TopologySpec::parse("test", &text).unwrap();
        let error = anyhow::Error::from(Network::create(&spec).unwrap_err());
        let message = format!("{error:#}");
        for word in *words {
            assert!(message.contains(word), "{name}: no `{word}` in: {message}");
        }
    }
    let left = std::fs::read_dir("/run/netns").unwrap();
    let own = format!("hkyk-{}-", std::process::id());
    for name in left.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        assert!(
            !(name.starts_with(&own) && name.ends_with("broken-x1")),
            "{name}"
        );
    }
}

#[test]
fn a_panic_leaves_nothing_and_ends_processes_inside() {
    let Some(network) = network(ROUTED) else {
        return;
    };
    let path = Path::new("/run/netns").join(node(&network, "client").name());
    let mut sleep = std::process::Command::new("sleep");
    let mut child = node(&network, "client")
        .spawn(sleep.arg("1000"))
        .unwrap()
        .unwrap();
    assert!(path.exists());
    let panic = catch_unwind(AssertUnwindSafe(move || {
        let _network = network;
        panic!("on purpose");
    }));
    assert!(panic.is_err());
    assert!(!path.exists());
    assert!(!child.wait().unwrap().success());
}
