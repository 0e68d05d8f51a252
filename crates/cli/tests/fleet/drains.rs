//! Drains of egress routes that hold at all edges of a PoP.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use hikyaku_testkit::agent::Agent;
use hikyaku_testkit::store::Store;
use hikyaku_testkit::{eventually, hikyaku, this_test};
use rustix::process::Signal;
use serde_json::Value;

use super::{Edge, section};

/// An edge with an agent of its own, and the file of secrets that is in `dir`.
fn edge(dir: &Path, name: &str, pop: &str, store: &str) -> (Edge, Agent) {
    let (keys, socket) = (dir.join("keys"), dir.join(format!("{name}.sock")));
    fs::write(&keys, "01".repeat(32)).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
    let agent = Agent::start(socket.clone());
    let fleet = section(name, store).replace("here", pop);
    let edge = Edge::with(&format!(
        "{fleet}key_file = {keys:?}\n[egress]\nsocket = {socket:?}\n"
    ));
    edge.server.wait_log("the egress agent at");
    (edge, agent)
}

/// Waits until the second egress route stands so at an edge; gives the reason.
#[track_caller]
fn second_is(edge: &Edge, state: &str) -> Value {
    eventually(&format!("transit-b is {state}"), || {
        let status = edge.server.admin_json("/v1/status");
        let path = status["egress"]["paths"][1].clone();
        (path["state"] == state).then(|| path["reason"].clone())
    })
}

#[test]
fn a_drain_holds_at_all_edges_of_the_pop_and_over_restarts() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let start = |name, pop| edge(dir.path(), name, pop, &store.url());
    let (a, agent) = start("a", "fra");
    let (b, _agent_of_b) = start("b", "fra");
    let (other, _agent_of_other) = start("other", "gru");
    for edge in [&a, &b, &other] {
        edge.says("answers in");
    }
    agent.drain_second(Some("fibre work"));
    second_is(&a, "draining");
    assert_eq!(second_is(&b, "draining"), "drained at a: fibre work");
    b.says("transit-b at a");
    let explained = || {
        b.serve("127.0.0.1");
        let admin = b.server.admin.to_string();
        let output = hikyaku(&["explain", "127.0.0.1", "--admin", &admin]);
        let text = String::from_utf8(output.stdout).unwrap();
        text.contains("; drained at a for ").then_some(text)
    };
    let text = eventually("the drain in `hikyaku explain`", explained);
    assert!(text.contains(": fibre work\n"), "{text}");
    // One that comes later has it, too, and the edge of the drain need not be there.
    let mut a = a;
    a.server.signal(Signal::KILL);
    a.server.wait_exit();
    let (late, _agent_of_late) = start("late", "fra");
    assert_eq!(second_is(&late, "draining"), "drained at a: fibre work");
    other.says("transit-b at a");
    second_is(&other, "up");
    // It ends where it began.
    agent.kill();
    let (_a, _agent) = start("a", "fra");
    second_is(&late, "up");
    second_is(&b, "up");
}
