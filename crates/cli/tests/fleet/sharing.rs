//! Knowledge, purges and members.

use hikyaku_testkit::store::Store;
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{eventually, hikyaku, this_test};

use super::{Edge, has_shared, section};

#[test]
fn what_one_learns_of_a_prefix_the_other_explains() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| Edge::start(name, &store.url()));
    a.says("answers in");
    a.serve("127.0.9.1");
    has_shared(&store, "a", "127.0.9.0/24");
    b.says("answers in");
    // The first connection of a client whom b has never seen.
    b.serve("127.0.9.2");
    let edges = eventually("a's knowledge", || b.edges_of_pop("127.0.9.2"));
    assert_eq!(edges, 1, "b's own does not come back to it");
    assert!(
        b.server
            .metric("hikyaku_fleet_reads_total{outcome=\"answered\"}")
            >= 1.0
    );
    assert!(a.server.metric("hikyaku_fleet_keys_written_total{}") >= 1.0);

    let said = eventually("both members", || {
        let said = b.fleet();
        (said.contains("\na  ") && said.contains("\nb*")).then_some(said)
    });
    assert!(said.contains("EDGE  POP   VERSION  CONFIG"), "{said}");
    let json = b.server.admin_json("/v1/fleet");
    let members = json["members"].as_array().unwrap();
    let digest = members[0]["config"].as_str().unwrap();
    assert_eq!(digest.len(), 16, "{digest}");
    assert_eq!(b.server.admin_json("/v1/status")["fleet"]["name"], "b");
}

#[test]
fn an_edge_outside_of_a_fleet_says_so() {
    let alone = Edge::with("");
    let said = alone.fleet();
    assert!(said.contains("this edge is in no fleet"), "{said}");
    let admin = alone.server.admin.to_string();
    let output = hikyaku(&["purge", "--fleet", "--admin", &admin, "https://a.example/"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("this edge is in no fleet"), "{said}");
    let status = alone.server.admin_json("/v1/status");
    assert!(status.get("fleet").is_none(), "{status}");
    assert!(!alone.server.admin("/metrics").contains("hikyaku_fleet"));
}

#[test]
fn a_reload_joins_moves_and_leaves() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let edge = Edge::with("");
    edge.reload(&section("first", &store.url()));
    edge.says("\nfirst*");
    edge.serve("127.0.9.1");
    has_shared(&store, "first", "127.0.9.0/24");
    edge.reload(&section("second", &format!("{}/1", store.url())));
    edge.says("\nsecond*");
    // Another database has nothing of it.
    let key = "hikyaku:1:path:{127.0.9.0/24}";
    eventually("all in the other database", || {
        (store.run(&["-n", "1", "HEXISTS", key, "second"]) == "1").then_some(())
    });
    let compare = |server: &str| {
        let file = format!("{}/edge.toml", edge.site.path());
        let admin = format!("admin.listen={server}");
        let output = hikyaku(&[
            "check",
            "--config",
            &file,
            edge.site.path(),
            "--set",
            &admin,
            "--fleet",
        ]);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = compare(&edge.server.admin.to_string());
    // The server was started with more arguments than the check.
    assert!(said.contains("second: another configuration, "), "{said}");
    let said = compare("127.0.0.1:1");
    assert!(
        said.contains("asking the admin API at 127.0.0.1:1"),
        "{said}"
    );
    edge.reload("");
    edge.says("this edge is in no fleet");
    let wrong = "[fleet]\nstore = \"redis://u:hush@a/x\"";
    edge.site.write("wrong.toml", wrong.as_bytes());
    let file = format!("{}/wrong.toml", edge.site.path());
    let output = hikyaku(&["check", edge.site.path(), "--config", &file]);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(
        said.contains("its database is no number") && !said.contains("hush"),
        "{said}"
    );
}

#[test]
fn a_reload_of_what_clients_carry_keeps_the_connection_to_the_store() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let config = section("a", &store.url());
    let edge = Edge::with(&config);
    edge.says("answers in");
    let fleet = || edge.server.admin_json("/v1/fleet");
    let digest = || {
        let of = fleet()["members"][0]["config"].clone();
        of.as_str().map(str::to_owned)
    };
    let before = eventually("its own report", digest);
    let connections = || {
        let list = store.run(&["CLIENT", "LIST"]);
        let ids = list.lines().filter(|line| !line.contains("cmd=client"));
        let ids = ids.filter_map(|line| line.split(' ').next().map(str::to_owned));
        ids.collect::<Vec<_>>()
    };
    let connected = connections();
    assert!(!connected.is_empty());
    edge.reload(&format!("{config}carry = false\n"));
    eventually("the new configuration's report", || {
        digest().filter(|digest| *digest != before)
    });
    assert_eq!(connections(), connected);
}

#[test]
fn a_purge_reaches_all_edges() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let caches = "[cache]\nenabled = true\ndefault_ttl = \"1h\"\n";
    let start = |name| {
        // All have the same URLs, though they have other ports.
        let site = format!("[[site]]\nnames = [\"localhost\"]\nupstream = \"{upstream}\"\n");
        let config = format!("{caches}{}{site}", section(name, &store.url()));
        let edge = Edge::with(&config);
        edge.says("answers in");
        edge
    };
    let [a, b] = ["a", "b"].map(start);
    let url = |edge: &Edge| format!("https://localhost:{}/head", edge.server.port());
    hikyaku_testkit::get(&[&url(&b)]);
    let entries = "hikyaku_cache_entries{site=\"localhost\"}";
    b.server.wait_metric(entries, 1.0);
    let admin = a.server.admin.to_string();
    let output = hikyaku(&["purge", "--fleet", "--admin", &admin, &url(&b)]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("0 responses purged here; the other edges"),
        "{said}"
    );
    eventually("b's cache is empty", || {
        (b.server.metric(entries) < 0.5).then_some(())
    });
    assert!(b.server.metric("hikyaku_fleet_purges_total{}") >= 1.0);
}
