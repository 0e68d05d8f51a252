//! The choice end to end: the real server and client over emulated links, in network
//! namespaces. Needs root.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hikyaku_emulator::link::{CLIENT_V4, LinkPair, SERVER_V4, Topology};
use hikyaku_netsim::{LinkConfig, Loss, QueueLimit};
use hikyaku_units::{ByteSize, LossRate, Rate};
use serde_json::Value;
use tempfile::TempDir;

use hikyaku_testkit::{binary, has, skip, this_test};

/// Settings that leave only versions to choose.
const PLAIN_CUBIC: [&str; 2] = ["policy.congestion=cubic", "policy.min_cwnd=off"];
/// The number of sessions after which versions can be compared.
const SESSIONS: usize = 20;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A server and a browser-like client with a link between them.
struct Lab {
    topology: Topology,
    server: Child,
    _dir: TempDir,
    _guard: MutexGuard<'static, ()>,
}

impl Lab {
    /// Starts server, client and link with these settings. `None` without the privileges.
    fn start(settings: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(&this_test(), "emulated links need root");
            return None;
        }
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let topology = Topology::create().unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("page"), vec![b'x'; 1_000_000]).unwrap();
        fs::write(dir.path().join("small"), [b'x'; 45]).unwrap();
        let server = serve(&topology, dir.path(), settings);
        Some(Self {
            topology,
            server,
            _dir: dir,
            _guard: guard,
        })
    }

    /// Limits the server's UDP to 2 Mbit/s.
    fn throttle_udp(&self) {
        let netns = self.topology.server();
        let links = netns
            .output(Command::new("ip").args(["-o", "-4", "route", "get", &CLIENT_V4.to_string()]))
            .unwrap()
            .unwrap();
        let route = String::from_utf8(links.stdout).unwrap();
        let device = route
            .split_whitespace()
            .skip_while(|word| *word != "dev")
            .nth(1)
            .unwrap();
        let commands = [
            format!("qdisc add dev {device} root handle 1: htb default 10"),
            format!("class add dev {device} parent 1: classid 1:10 htb rate 10gbit"),
            format!("class add dev {device} parent 1: classid 1:20 htb rate 2mbit"),
            format!(
                "filter add dev {device} parent 1: protocol ip u32 match ip protocol 17 0xff \
                 flowid 1:20"
            ),
        ];
        for command in commands {
            let mut tc = Command::new("tc");
            tc.args(command.split_whitespace());
            let done = netns.output(&mut tc).unwrap().unwrap();
            assert!(done.status.success(), "tc {command}: {done:?}");
        }
    }

    fn link(&mut self, one_way_delay: u64, loss_percent: f64) {
        self.topology.stop_link().unwrap();
        let config = LinkConfig {
            rate: Rate::from_mbps(100).into(),
            one_way_delay: Duration::from_millis(one_way_delay),
            loss: Loss::Bernoulli(LossRate::from_fraction(loss_percent / 100.0)),
            queue: QueueLimit::Time(Duration::from_millis(50)),
            ..LinkConfig::default()
        };
        let links = LinkPair {
            up: config.clone(),
            down: config,
        };
        self.topology.start_link(links, 1).unwrap();
    }

    /// Makes a session of a browser whose lease of HTTP/3 has ended: it begins over HTTP/2 and
    /// follows `Alt-Svc`. Returns the version of its second request.
    fn visit(&self) -> u64 {
        let url = format!("https://{SERVER_V4}:8443/page");
        let mut get = Command::new(binary());
        get.args([
            "get",
            "--insecure",
            "--json",
            "--alt-svc",
            "follow",
            "--timeout",
            "60s",
        ])
        .args([&url, &url]);
        let output = self.topology.client().output(&mut get).unwrap().unwrap();
        let requests: Vec<Value> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|record: &Value| record["type"] == "request")
            .collect();
        let last = requests.last().unwrap_or_else(|| {
            panic!("no request: {}", String::from_utf8_lossy(&output.stderr));
        });
        assert_eq!(last["status"], 200, "{last}");
        last["http"].as_str().unwrap().parse().unwrap()
    }

    /// Loads 45 bytes thirty times over one HTTP/2 connection, one after the other, by another
    /// project's client.
    fn load_small_ones(&self) {
        let urls = format!("https://{SERVER_V4}:8443/small?[1-30]");
        let mut curl = Command::new("curl");
        curl.args(["-q", "-s", "-k", "--http2", "-o", "/dev/null", &urls]);
        let output = self.topology.client().output(&mut curl).unwrap().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn explain(&self) -> Value {
        let mut explain = Command::new(binary());
        explain.args(["explain", "--json", &CLIENT_V4.to_string()]);
        let output = self
            .topology
            .server()
            .output(&mut explain)
            .unwrap()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts the server in its namespace, and waits until it serves.
fn serve(topology: &Topology, root: &Path, settings: &[&str]) -> Child {
    let mut command = Command::new(binary());
    command
        .arg("serve")
        .arg(root)
        // No client is held back or gets an experiment, since the test asks for the best choice.
        .args([
            "--set",
            "policy.holdback=0",
            "--set",
            "policy.exploration=0",
        ])
        .args(["--set", "log.access=off"])
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .stderr(Stdio::piped());
    let mut server = topology.server().spawn(&mut command).unwrap().unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap().contains("explain")),
        "no greeting"
    );
    server
}

#[test]
fn a_lossy_path_keeps_http3_for_being_faster() {
    let Some(mut lab) = Lab::start(&PLAIN_CUBIC) else {
        return;
    };
    lab.link(1, 5.0);
    for _ in 0..SESSIONS {
        lab.visit();
        if lab.explain()["decision"]["reason_code"] == "h3_faster" {
            assert_eq!(lab.visit(), 3, "advertised, and followed");
            return;
        }
    }
    panic!("never found faster: {:#}", lab.explain());
}

#[test]
fn a_lossy_path_gets_a_congestion_control_that_losses_do_not_hold_back() {
    if !offers_bbr() {
        return skip(&this_test(), "the kernel has no bbr");
    }
    // Without a floor, TCP has no fair congestion control that suffices.
    let Some(mut lab) = Lab::start(&["policy.min_cwnd=off", "policy.version=h2"]) else {
        return;
    };
    lab.link(10, 5.0);
    for _ in 0..SESSIONS {
        assert_eq!(lab.visit(), 2);
        let decision = &lab.explain()["decision"]["congestion"]["tcp"];
        if decision["chosen"] == "bbr" && decision["reason_code"] == "faster" {
            return;
        }
    }
    panic!("never found faster: {:#}", lab.explain());
}

fn offers_bbr() -> bool {
    let offered = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    offered.is_ok_and(|names| names.split_whitespace().any(|name| name == "bbr"))
}

#[test]
fn throttled_udp_is_left_within_two_sessions() {
    let Some(mut lab) = Lab::start(&[]) else {
        return;
    };
    lab.link(5, 0.0);
    assert_eq!(lab.visit(), 3, "unknown clients are advertised HTTP/3");
    assert_eq!(lab.visit(), 3, "and it works");
    lab.throttle_udp();
    let is_left = || lab.explain()["decision"]["reason_code"] == "udp_throttled";
    // An experiment with HTTP/2, which two visits may cause, shows nothing about UDP.
    let mut over_udp = 0;
    for _ in 0..SESSIONS {
        over_udp += usize::from(lab.visit() == 3);
        if over_udp == 2 || is_left() {
            break;
        }
    }
    let decision = lab.explain()["decision"].clone();
    assert_eq!(decision["version"], "h2", "{decision:#}");
    assert_eq!(decision["advertised_for"], Value::Null, "{decision:#}");
    assert_eq!(lab.visit(), 2);
}

#[test]
fn requests_one_after_the_other_are_outcomes_of_their_own() {
    if !has(&this_test(), "curl") {
        return;
    }
    let Some(mut lab) = Lab::start(&["policy.version=h2"]) else {
        return;
    };
    lab.link(10, 0.0);
    lab.load_small_ones();
    let explained = lab.explain();
    let level = &explained["levels"][0];
    let size: ByteSize = serde_json::from_value(level["size"].clone()).unwrap();
    assert!((44..=45).contains(&size.bytes()), "{level:#}");
    let outcomes = level["tcp"]["outcomes"].as_array().unwrap();
    let counted = outcomes.iter().filter_map(|of| of["responses"].as_f64());
    assert!(counted.sum::<f64>() > 10.0, "{level:#}");
}
