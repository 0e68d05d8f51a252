//! Servers whose store is dead, dies, hangs and comes back.

use hikyaku_testkit::store::{Store, free_port};
use hikyaku_testkit::{eventually, this_test};
use rustix::process::Signal;

use super::{Edge, has_shared};

#[test]
fn a_server_starts_although_the_store_is_dead() {
    let edge = Edge::start("a", &format!("redis://127.0.0.1:{}", free_port()));
    edge.serve("127.0.9.1");
    let said = edge.says("fault");
    assert!(
        said.contains("nothing listens at redis://127.0.0.1:"),
        "{said}"
    );
    edge.server.wait_log("this edge goes on by itself");
    assert!(edge.server.metric("hikyaku_fleet_store_up") < 0.5);
    let admin = edge.server.admin.to_string();
    let purge = ["purge", "--fleet", "--admin", &admin, "https://a.example/"];
    let output = hikyaku_testkit::hikyaku(&purge);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("nothing is purged, since the other edges can't be told"),
        "{said}"
    );
}

#[test]
fn an_outage_loses_nothing() {
    let Some(mut store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| Edge::start(name, &store.url()));
    a.says("answers in");
    b.says("answers in");
    a.serve("127.0.9.1");
    has_shared(&store, "a", "127.0.9.0/24");
    store.kill();
    a.says("fault");
    a.serve("127.0.10.1");
    b.serve("127.0.10.2");
    assert_eq!(b.edges_of_pop("127.0.10.2"), None);
    store.start_again();
    has_shared(&store, "a", "127.0.10.0/24");
    has_shared(&store, "a", "127.0.9.0/24");
    b.hears("127.0.10.3");
    a.server.wait_log("is used again");
}

#[test]
fn a_hung_store_holds_no_client_up() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let edge = Edge::start("a", &store.url());
    edge.says("answers in");
    store.signal(Signal::STOP);
    for client in 1..=20 {
        edge.serve(&format!("127.0.{client}.1"));
    }
    edge.says("did not answer within");
    // Neither does it hold up a stop.
    let mut edge = edge;
    edge.server.signal(Signal::TERM);
    assert!(edge.server.wait_exit().success());
    store.signal(Signal::CONT);
}

#[test]
fn a_restart_loses_nothing_that_the_store_has() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let samples = |edge: &Edge| {
        let explained = edge.server.admin_json("/v1/clients/127.0.9.9");
        let levels = explained["levels"].as_array()?;
        let network = levels.iter().find(|level| level["key"] == "127.0.9.0/24")?;
        network["samples"].as_f64()
    };
    let mut known = 0.0;
    for _ in 0..3 {
        let mut edge = Edge::start("a", &store.url());
        edge.says("answers in");
        edge.serve("127.0.9.1");
        let now = eventually("more than before", || {
            samples(&edge).filter(|now| *now > known + 0.9)
        });
        known = now;
        edge.server.signal(Signal::TERM);
        assert!(edge.server.wait_exit().success());
    }
}

#[test]
fn a_restart_writes_its_last_knowledge() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let mut edge = Edge::start("a", &store.url());
    edge.says("answers in");
    edge.serve("127.0.9.1");
    edge.server
        .wait_access("the download", |line| line["path"] == "/big.bin");
    edge.server.signal(Signal::TERM);
    assert!(edge.server.wait_exit().success());
    has_shared(&store, "a", "127.0.9.0/24");
}
