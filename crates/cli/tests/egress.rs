//! A server beside an agent of egress paths, on one host: what it learns and tells of them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::agent::Agent;
use common::{Server, Site, eventually, get};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// From about this size on a response shows a goodput.
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

    /// A server that keeps what it learns, and has an agent or not.
    fn server(&self, agent: bool) -> Server {
        let state = self.dir.path().join("state");
        let socket = format!("egress.socket={:?}", self.dir.path().join("api.sock"));
        let mut args = vec![self.site.path(), "--state", state.to_str().unwrap()];
        if agent {
            args.extend(["--set", &socket]);
        }
        let server = Server::start(&args);
        if agent {
            server.wait_log("the egress agent at");
        }
        server
    }
}

/// What is known of the way that plain packets take, once the agent was asked about the client.
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
fn routes_are_known_after_a_restart() {
    let host = Host::new();
    let agent = host.agent();
    let mut server = host.server(true);
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
    let mut server = host.server(true);
    server.wait_log("with egress routes known from before");
    let known = plain(&server);
    assert!(
        known["goodput"].is_string(),
        "small responses show none: {known}"
    );
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());

    // What nobody looks after is not kept.
    let mut server = host.server(false);
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    let server = host.server(true);
    assert!(
        !server.log().contains("with egress routes"),
        "{}",
        server.log()
    );
    assert!(plain(&server)["goodput"].is_null());
    drop(agent);
}
