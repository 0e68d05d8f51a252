//! Live connections that move to another egress route, by real marks, rules and routing tables
//! between a server and a client with two links. Needs root. Without it the tests report a skip and
//! pass.
#![allow(clippy::unwrap_used, reason = "tests")]

mod classes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_edge::tcp_cc::Controls;
use hikyaku_emulator::link::Netns;
use hikyaku_emulator::topology::{Network, TopologySpec};
use hikyaku_testkit::agent::Agent;
use hikyaku_testkit::browser::{Browser, has_chromium};
use hikyaku_testkit::client::block_on;
use hikyaku_testkit::{PATIENCE, Server, Site, binary, eventually, has, skip, this_test};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// The network. Plain packets to the client take link `a`. Packets with the mark of `transit-b`, or
/// from its EPE address, take link `b`, which is three times as fast. Once its changes begin, link
/// `a` drops all packets of the server.
const NETWORK: &str = r#"
description = "a server and a client with two links"

[[nodes]]
name = "client"
addresses = ["2001:db8:9::1/128"]
routes = ["2001:db8:5::/64 via fd00:a::1 src 2001:db8:9::1"]

[[nodes]]
name = "server"
addresses = ["2001:db8:5::1/128", "2001:db8:5::b1/128"]
routes = [
    "2001:db8:9::/64 via fd00:a::2 src 2001:db8:5::1",
    "2001:db8:9::/64 via fd00:b::2 src 2001:db8:5::1 table 100",
]
ip = ["-6 rule add fwmark 0x680002 lookup 100", "-6 rule add from 2001:db8:5::b1 lookup 100"]

[[links]]
name = "a"
a = { node = "server", interface = "path-a", addresses = ["fd00:a::1/64"] }
b = { node = "client", interface = "path-a", addresses = ["fd00:a::2/64"] }
both = { rate = "8Mbps", one_way_delay = "5ms", queue = "100ms" }
changes = { up = [{ at = "0s", loss = "100%" }] }

[[links]]
name = "b"
a = { node = "server", interface = "path-b", addresses = ["fd00:b::1/64"] }
b = { node = "client", interface = "path-b", addresses = ["fd00:b::2/64"] }
both = { rate = "24Mbps", one_way_delay = "5ms", queue = "50ms" }
"#;

const URL: &str = "https://[2001:db8:5::1]:8443/big.bin";
/// More bytes than a test can load in its time.
const SIZE: usize = 24 << 20;
/// The bytes over a link by which it is certainly in use.
const SOME: u64 = 500_000;
/// The bytes that may arrive over a link after it was left: its queue and retransmissions.
const REST: u64 = 300_000;

/// Concurrent links would disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct World {
    server: Server,
    network: Network,
    agent: Option<Agent>,
    config: PathBuf,
    _files: (TempDir, Site),
    _alone: MutexGuard<'static, ()>,
}

impl World {
    fn start(egress: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(&this_test(), "networks of namespaces need root");
            return None;
        }
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let spec = TopologySpec::parse("steering", NETWORK).unwrap();
        let mut network = Network::create(&spec).unwrap();
        network.start_links(7).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("api.sock");
        let config = dir.path().join("edge.toml");
        let text = format!("[egress]\nsocket = {socket:?}\n{egress}\n");
        fs::write(&config, text).unwrap();
        let site = Site::with_big_file(SIZE);
        classes::write(&site);
        let agent = Agent::start(socket);
        let netns = network.node("server").unwrap().name().to_owned();
        let server = Server::try_start_by(
            &["ip", "netns", "exec", &netns],
            &[
                site.path(),
                "--listen",
                "[::]:8443",
                "--config",
                config.to_str().unwrap(),
            ],
        );
        let world = Self {
            server: server.unwrap(),
            network,
            agent: Some(agent),
            config,
            _files: (dir, site),
            _alone: alone,
        };
        world.server.wait_log("the egress agent at");
        Some(world)
    }

    fn client(&self) -> &Netns {
        self.network.node("client").unwrap()
    }

    fn load(&self, url: &str, http: &str) -> Load {
        self.load_with(&["--http", http, url])
    }

    fn load_with(&self, args: &[&str]) -> Load {
        let mut get = Command::new(binary());
        get.args(["get", "--insecure", "--json", "--timeout", "600s"]);
        get.args(args);
        get.stdout(Stdio::piped()).stderr(Stdio::null());
        Load(self.client().spawn(&mut get).unwrap().unwrap())
    }

    /// Bytes that the client has received over a link.
    fn received(&self, link: &str) -> u64 {
        self.client().enter(|| received(link)).unwrap()
    }

    /// Waits until data arrives over `link`, and no more over the `other`.
    #[track_caller]
    fn until_on(&self, link: &str, other: &str) {
        let begun = self.received(link);
        eventually(&format!("data on link {link}"), || {
            (self.received(link) >= begun + SOME).then_some(())
        });
        let left = self.received(other);
        let begun = self.received(link);
        eventually(&format!("more data on link {link}"), || {
            (self.received(link) >= begun + SOME).then_some(())
        });
        let rest = self.received(other) - left;
        assert!(rest < REST, "{rest} bytes on link {other}, which was left");
    }

    /// The bytes over a link in a fixed time.
    fn rate(&self, link: &str) -> u64 {
        let begun = self.received(link);
        thread::sleep(Duration::from_secs(1));
        self.received(link) - begun
    }

    /// Calls `ask` within the server's namespace, where its admin API is.
    fn ask<T: Send>(&self, ask: impl FnOnce(&Server) -> T + Send) -> T {
        let namespace = self.network.node("server").unwrap();
        namespace.enter(|| ask(&self.server)).unwrap()
    }

    /// Returns an answer of the server's admin API.
    fn admin(&self, path: &str) -> Value {
        self.ask(|server| server.admin_json(path))
    }

    /// Waits until responses advertise the address of `transit-b`.
    #[track_caller]
    fn until_address_is_advertised(&self) {
        let head = || {
            let mut curl = Command::new("curl");
            curl.args(["-q", "-sSkI", "--http2", "https://[2001:db8:5::1]:8443/"]);
            let output = self.client().output(&mut curl).unwrap().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        eventually("Alt-Svc with the address of the path", || {
            head()
                .contains("alt-svc: h3=\"[2001:db8:5::b1]:8443\"; ma=60")
                .then_some(())
        });
    }

    /// Runs `ip` on a node.
    fn ip(&self, node: &str, args: &str) {
        let mut ip = Command::new("ip");
        ip.args(args.split(' '));
        let node = self.network.node(node).unwrap();
        let output = node.output(&mut ip).unwrap().unwrap();
        assert!(output.status.success(), "ip {args}: {output:?}");
    }
}

/// Bytes that have come over a link, in the namespace of the thread.
fn received(link: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let mut lines = text.lines().map(str::trim_start);
    let counts = lines.find_map(|line| {
        let rest = line.strip_prefix("path-")?.strip_prefix(link)?;
        rest.strip_prefix(':')
    });
    let first = counts.unwrap().split_whitespace().next().unwrap();
    first.parse().unwrap()
}

/// A download; ended when dropped.
struct Load(Child);

impl Load {
    /// Waits for the end, and returns the record.
    fn finish(mut self) -> Value {
        let out = self.0.stdout.take().unwrap();
        let text = std::io::read_to_string(out).unwrap();
        let last = text.lines().last().unwrap_or_default().to_owned();
        serde_json::from_str(&last).unwrap_or_else(|_| panic!("no record: {text}"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Moves one download by all means there are.
fn moves_with(http: &str, version: &str) {
    let Some(mut world) = World::start("[policy]\nroute = \"plain\"") else {
        return;
    };
    let load = world.load(URL, http);
    world.until_on("a", "b");
    let slow = world.rate("a");

    let pinned = fs::read_to_string(&world.config).unwrap();
    fs::write(&world.config, pinned.replace("plain", "transit-b")).unwrap();
    world.server.signal(Signal::HUP);
    world.until_on("b", "a");
    let fast = world.rate("b");
    assert!(fast > slow * 3 / 2, "{fast} bytes/s on b, {slow} on a");
    let on = |place: usize| {
        let routes = &world.admin("/v1/status")["egress"]["routes"][place];
        ["open", "begun", "moved"].map(|what| routes[what].as_u64().unwrap())
    };
    assert_eq!(on(0), [0, 1, 0], "plain");
    assert_eq!(on(2), [1, 0, 1], "transit-b");
    let known = world.admin("/v1/clients/2001:db8:9::1");
    let routes = known["routes"].as_array().unwrap();
    assert_eq!(
        routes.len(),
        4,
        "three classes, one also for long responses: {known}"
    );
    assert_eq!(routes[0]["route"], "transit-b", "{known}");
    assert_eq!(routes[0]["reason_code"], "pinned", "{known}");

    let agent = world.agent.take().unwrap();
    agent.second_is("down");
    world.until_on("a", "b");
    agent.second_is("up");
    world.until_on("b", "a");
    agent.kill();
    world.until_on("a", "b");
    world.server.wait_log("all connections take the plain way");

    let record = load.finish();
    assert_eq!(record["body_bytes"], SIZE, "{record}");
    let line = world
        .server
        .wait_access("the download", |line| line["version"] == version);
    assert_eq!(line["complete"], true, "{line}");
    assert_eq!(line["route"], "plain", "{line}");
    let lines = world.server.access_lines();
    assert_eq!(
        lines.len(),
        1,
        "it was one response on one connection: {lines:?}"
    );
}

#[test]
fn a_download_over_tcp_moves_with_the_decision() {
    moves_with("2", "h2");
}

#[test]
fn a_download_over_quic_moves_with_the_decision() {
    moves_with("3", "h3");
}

/// A server that decides by itself, without chance.
const ADAPTIVE: &str = r#"
[policy]
route = "adaptive"
exploration = 0.0
holdback = 0.0
avoid_min = "10m"
avoid_max = "10m"
"#;

/// Loads a file whose path silently becomes a black hole, before there is another path. `prepare`
/// gets the server's namespace before there is a connection.
fn leaves_a_black_hole(http: &str, failovers: &str, prepare: impl FnOnce(&Netns)) {
    let Some(world) = World::start(ADAPTIVE) else {
        return;
    };
    prepare(world.network.node("server").unwrap());
    // With a single path, none is left by mistake, however busy this machine is.
    world.agent.as_ref().unwrap().second_is("down");
    let metric = |name: &str| world.ask(|server| server.metric(name));
    eventually("one path only", || {
        (metric("hikyaku_egress_path_up{path=\"transit-b\"}") == 0.0).then_some(())
    });
    let load = world.load(URL, http);
    eventually("data on link a", || {
        (world.received("a") >= SOME).then_some(())
    });
    world.network.begin_changes().unwrap();
    eventually("silence on link a", || (world.rate("a") == 0).then_some(()));
    assert_eq!(metric(failovers), 0.0);

    world.agent.as_ref().unwrap().second_is("up");
    world.until_on("b", "a");
    assert!(metric(failovers) >= 1.0, "it did not fail over");
    assert_eq!(load.finish()["body_bytes"], SIZE);
    let line = world.server.wait_access("the download", |_| true);
    assert_eq!(line["complete"], true, "{line}");
    assert_eq!(line["route"], "transit-b", "{line}");
    assert_eq!(world.server.access_lines().len(), 1, "one response");
}

/// The kernel's own timers wait for longer than the test. So the bytes over the other path are
/// those that `hk_move` lets out, and the retransmissions that their acknowledgements cause.
#[test]
fn tcp_sends_at_once_when_it_leaves_a_black_hole() {
    let test = "tcp_sends_at_once_when_it_leaves_a_black_hole";
    if let Err(error) = Controls::load(false) {
        skip(test, &format!("no congestion control of ours: {error:?}"));
        return;
    }
    let failovers = "hikyaku_route_failovers_total{transport=\"tcp\"}";
    leaves_a_black_hole("2", failovers, |server| {
        // Disables tail loss probes (RFC 8985 §7).
        server
            .set_sysctl("net/ipv4/tcp_early_retrans", "0")
            .unwrap();
        // Postpones retransmission timeouts to 100 s.
        for (way, table) in [("a", "main"), ("b", "100")] {
            let to = format!("2001:db8:9::/64 via fd00:{way}::2 src 2001:db8:5::1");
            let change = format!("-6 route change {to} table {table} rto_min 100s");
            server.ip_command(&change).unwrap();
        }
        assert!(PATIENCE < Duration::from_secs(100));
    });
}

#[test]
fn quic_sends_at_once_when_it_leaves_a_black_hole() {
    let failovers = "hikyaku_route_failovers_total{transport=\"quic\"}";
    leaves_a_black_hole("3", failovers, |_| {});
}

#[test]
fn addresses_bring_new_connections_onto_a_path() {
    if !has("addresses_bring_new_connections_onto_a_path", "curl") {
        return;
    }
    let Some(world) = World::start("steer = \"address\"\n[policy]\nroute = \"transit-b\"") else {
        return;
    };
    world.until_address_is_advertised();

    // The client ignores packets from any other address than its destination.
    let load = world.load("https://[2001:db8:5::b1]:8443/big.bin", "3");
    world.until_on("b", "a");
    assert_eq!(load.finish()["body_bytes"], SIZE);
    let line = world
        .server
        .wait_access("the download", |line| line["version"] == "h3");
    assert_eq!(line["route"], "transit-b", "{line}");
}

#[test]
fn a_browser_follows_an_address_onto_a_path() {
    let test = "a_browser_follows_an_address_onto_a_path";
    if !has(test, "curl") || !has_chromium(test) {
        return;
    }
    let Some(world) = World::start("steer = \"address\"\n[policy]\nroute = \"transit-b\"") else {
        return;
    };
    world.until_address_is_advertised();
    let (a, b) = (world.received("a"), world.received("b"));
    let visits = || block_on(until_h3(&world.server));
    world.client().enter(visits).unwrap();

    let is_part = |line: &Value| {
        let path = line["path"].as_str().unwrap();
        path.starts_with("/big.bin") && line["version"] == "h3"
    };
    let line = world.server.wait_access("a part over HTTP/3", is_part);
    assert_eq!(line["route"], "transit-b", "{line}");
    let (a, b) = (world.received("a") - a, world.received("b") - b);
    assert!(b >= SOME, "{b} bytes by the address, {a} others");
}

/// Makes a browser load parts of a file until one comes over HTTP/3.
async fn until_h3(server: &Server) {
    let rules = "MAP a.test [2001:db8:5::1]";
    let mut browser = Browser::start_with(server, 8443, rules).await;
    browser.open("/").await;
    let begun = Instant::now();
    for number in 0.. {
        let part = format!("/big.bin?{number}");
        let version = browser
            .evaluate(&format!(
                "fetch({part:?}, {{ cache: 'no-store', headers: {{ Range: 'bytes=0-{SOME}' }} }})\
                 .then(answer => answer.arrayBuffer()).then(() => \
                 performance.getEntriesByName(new URL({part:?}, location).href)[0].nextHopProtocol)"
            ))
            .await;
        if version == "h3" {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "still over {version}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn the_subflows_of_mptcp_are_reported() {
    let test = "the_subflows_of_mptcp_are_reported";
    if !Path::new("/proc/sys/net/mptcp/enabled").exists() {
        skip(test, "this kernel has no MPTCP");
        return;
    }
    let Some(world) = World::start("[policy]\nroute = \"plain\"") else {
        return;
    };
    for node in ["server", "client"] {
        world.ip(node, "mptcp limits set subflows 2 add_addr_accepted 2");
    }
    world.ip("server", "mptcp endpoint add 2001:db8:5::b1 signal");
    let _load = world.load_with(&["--http", "2", "--mptcp", URL]);
    let subflows = |known: &Value| known["open"][0]["subflows"].as_array().cloned();
    let known = eventually("two subflows with data", || {
        let known = world.admin("/v1/clients/2001:db8:9::1");
        let two = subflows(&known).filter(|two| two.len() == 2)?;
        let sent = |subflow: &Value| subflow["acked"] != "0B" && subflow["in_flight"] != "0B";
        two.iter().all(sent).then_some(known)
    });
    assert_eq!(known["open"][0]["route"], "plain", "{known:#}");
    // The server's addresses, of which the second is that of a path.
    let ends = [
        ("[2001:db8:5::1]:8443", Value::Null),
        ("[2001:db8:5::b1]:8443", "transit-b".into()),
    ];
    for (subflow, (local, path)) in subflows(&known).unwrap().iter().zip(ends) {
        assert_eq!(
            (&subflow["local"], &subflow["path"]),
            (&local.into(), &path),
            "{subflow:#}"
        );
        assert_eq!(subflow["state"], "established", "{subflow:#}");
        assert!(subflow["rtt"].is_string(), "{subflow:#}");
        assert_eq!(subflow["timeouts"], 0, "{subflow:#}");
        let remote = subflow["remote"].as_str().unwrap();
        assert!(remote.starts_with("[2001:db8:9::1]:"), "{remote}");
        let text = known["text"].as_str().unwrap();
        let line = format!("subflow {local} to {remote}");
        assert!(text.contains(&line), "{text}");
    }
    let bytes = |known: &Value| {
        let subflows = subflows(known).unwrap_or_default();
        let acked = subflows.iter().map(|subflow| subflow["acked"].clone());
        acked.collect::<Vec<_>>()
    };
    eventually("more data on both", || {
        let later = bytes(&world.admin("/v1/clients/2001:db8:9::1"));
        let pairs = bytes(&known).into_iter().zip(later);
        let grown: Vec<bool> = pairs.map(|(before, later)| before != later).collect();
        (grown == [true, true]).then_some(())
    });
    let backup = |known: &Value| {
        let subflows = subflows(known).unwrap_or_default();
        let backup = subflows.iter().map(|subflow| subflow["backup"].as_bool());
        backup.collect::<Vec<_>>()
    };
    assert_eq!(backup(&known), [Some(false); 2], "{known:#}");
    world.ip("server", "mptcp endpoint change 2001:db8:5::b1 backup");
    eventually("the second is backup", || {
        let backup = backup(&world.admin("/v1/clients/2001:db8:9::1"));
        (backup == [Some(false), Some(true)]).then_some(())
    });
}
