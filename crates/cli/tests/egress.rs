//! A server beside an egress agent, on one host: its knowledge of egress routes, and its reports.
#![allow(clippy::unwrap_used, reason = "tests")]

use hikyaku_testkit::agent::Agent;
use hikyaku_testkit::{Server, Site, eventually, get, hikyaku};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The size from about which a response shows a goodput.
const BIG: usize = 2_000_000;

/// A site, a state directory and an agent's socket, which outlive servers.
struct Host {
    site: Site,
    dir: TempDir,
}

impl Host {
    fn new() -> Self {
        let site = Site::with_big_file(BIG);
        site.write("index.html", b"start");
        let dir = tempfile::tempdir().unwrap();
        Self { site, dir }
    }

    fn agent(&self) -> Agent {
        Agent::start(self.dir.path().join("api.sock"))
    }

    /// A server with an agent and a state directory.
    fn server(&self) -> Server {
        self.server_with(&[])
    }

    fn server_with(&self, settings: &[&str]) -> Server {
        let socket = self.dir.path().join("api.sock");
        let socket = format!("egress.socket={socket:?}");
        let server = self.start(&[&[socket.as_str()], settings].concat());
        server.wait_log("the egress agent at");
        server
    }

    fn start(&self, settings: &[&str]) -> Server {
        let state = self.dir.path().join("state");
        let mut args = vec![self.site.path(), "--state", state.to_str().unwrap()];
        args.extend(settings.iter().flat_map(|set| ["--set", set]));
        Server::start(&args)
    }
}

/// The estimate of the plain route, once the server has asked the agent about the client.
fn plain(server: &Server) -> Value {
    let known = eventually("the client's routes", || {
        get(&[&server.url("/")]);
        let known = server.admin_json("/v1/clients/127.0.0.1");
        known["routes"][0]["routes"].is_array().then_some(known)
    });
    assert_eq!(known["routes"][0]["plain_is"], "transit-a", "{known:#}");
    known["routes"][0]["routes"][0].clone()
}

#[test]
fn estimates_of_a_network_are_reported() {
    let host = Host::new();
    let _agent = host.agent();
    let server = host.server();
    assert_eq!(server.admin_json("/v1/networks"), json!([]));
    let network = eventually("the client's AS", || {
        get(&[&server.url("/big.bin")]);
        let networks = server.admin_json("/v1/networks?limit=1");
        networks.get(0).cloned()
    });
    assert_eq!(network["asn"], 64_999, "{network:#}");
    assert_eq!(network["routes"][0]["route"], "transit-a", "{network:#}");

    let admin = server.admin.to_string();
    let explain = |subject: &str| hikyaku(&["explain", subject, "--admin", &admin]);
    let output = explain("AS64999");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("AS64999, last seen "), "{text}");
    assert!(text.contains("\n  transit-a  "), "{text}");
    for (subject, why) in [
        ("AS64998", "nothing is known of this AS"),
        ("ASx", "expected an IPv4 or IPv6 address"),
    ] {
        let output = explain(subject);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(why), "{text}");
    }
}

#[test]
fn the_reason_why_the_way_of_plain_packets_is_not_known_is_shown() {
    let host = Host::new();
    let agent = host.agent();
    let server = host.server();
    plain(&server);
    let why = "the server's main table spreads them over borders 192.0.2.1 and 192.0.2.2";
    agent.plain_is_unknown(why);
    let known = eventually("the reason", || {
        get(&[&server.url("/")]);
        let known = server.admin_json("/v1/clients/127.0.0.1");
        known["routes"][0]["plain_unknown"]
            .is_string()
            .then_some(known)
    });
    let routes = &known["routes"][0];
    assert_eq!(routes["plain_unknown"], why, "{known:#}");
    assert_eq!(routes["plain_is"], Value::Null, "{known:#}");
    let admin = server.admin.to_string();
    let output = hikyaku(&["explain", "127.0.0.1", "--admin", &admin]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains(&format!("which route plain takes is not known: {why}\n")),
        "{text}"
    );
}

#[test]
fn routes_are_known_after_a_restart() {
    let host = Host::new();
    let agent = host.agent();
    let mut server = host.server();
    let learnt = eventually("the goodput of plain", || {
        get(&[&server.url("/big.bin")]);
        let plain = plain(&server);
        plain["goodput"].is_string().then_some(plain)
    });
    assert!(learnt["samples"].as_f64().unwrap() > 0.0, "{learnt}");
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    agent.kill();

    let agent = host.agent();
    let mut server = host.server();
    server.wait_log("with egress routes known from before");
    let known = plain(&server);
    assert!(
        known["goodput"].is_string(),
        "small responses show none: {known}"
    );
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());

    // Routes without an agent are not kept.
    let mut server = host.start(&[]);
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    let server = host.server();
    assert!(
        !server.log().contains("with egress routes"),
        "{}",
        server.log()
    );
    assert!(plain(&server)["goodput"].is_null());
    drop(agent);
}

#[test]
fn the_status_shows_the_connections_of_each_route() {
    let host = Host::new();
    let agent = host.agent();
    // All clients are held back, so that no others are there for a comparison.
    let server = host.server_with(&["policy.holdback=1.0"]);
    plain(&server);
    let begun = eventually("goodput of those held back", || {
        get(&[&server.url("/big.bin")]);
        let egress = server.admin_json("/v1/status")["egress"].clone();
        egress["compared"]["held_back"]["goodput_bps"]
            .is_u64()
            .then_some(egress)
    });
    assert_eq!(begun["connected"], true, "{begun:#}");
    assert_eq!(begun["compared"]["others"]["responses"], 0, "{begun:#}");
    assert!(begun["compared"]["others"]["goodput_bps"].is_null());
    let routes = begun["routes"].as_array().unwrap();
    let names: Vec<&str> = routes
        .iter()
        .map(|r| r["route"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["plain", "transit-a", "transit-b", "aggregate"]);
    let number = |key: &str| routes[0][key].as_u64().unwrap();
    assert!(number("bytes") > BIG as u64, "{begun:#}");
    assert!(number("begun") > 1 && number("responses") > 1, "{begun:#}");
    for other in &routes[1..] {
        assert_eq!((&other["begun"], &other["bytes"]), (&0.into(), &0.into()));
    }
    eventually("no connection is left open", || {
        let egress = server.admin_json("/v1/status")["egress"].clone();
        (egress["routes"][0]["open"] == 0).then_some(())
    });

    agent.second_is("down");
    eventually("the second path is down", || {
        let egress = server.admin_json("/v1/status")["egress"].clone();
        (egress["paths"][1]["state"] == "down").then_some(())
    });
}
