//! Stores of all kinds: alone, with TLS, with users, at a socket, in a cluster, behind sentinels.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use hikyaku_fleet::{Lease, Topic};
use hikyaku_testkit::PATIENCE;
use hikyaku_testkit::store::{Store, cli, free_port, programs};

use super::board::{content, holding};
use super::{Edge, eventually};

/// The user that the guide says suffices, but its name: its rights.
fn needed() -> &'static str {
    let guide = include_str!("../../../../docs/fleet.md");
    let line = guide.lines().map(str::trim);
    let mut rights = line.filter_map(|line| line.strip_prefix("user hikyaku on >PASSWORD "));
    rights.next().expect("the guide has a user")
}

async fn shares(a: &Edge, b: &Edge) {
    a.learn("192.0.2.0/24", "of a");
    b.learn("192.0.2.0/24", "of b");
    a.learn("2001:db8::/48", "six");
    b.sees("a", "192.0.2.0/24", "of a").await;
    b.sees("a", "2001:db8::/48", "six").await;
    a.sees("b", "192.0.2.0/24", "of b").await;
    let fields = a.read("192.0.2.0/24").await.unwrap();
    let edges: Vec<_> = fields.iter().map(|field| field.edge.as_str()).collect();
    assert_eq!(edges, ["a", "b"]);
    assert_eq!(a.read("198.51.100.0/24").await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn edges_read_what_others_learnt() {
    for program in programs("edges_read_what_others_learnt") {
        let store = Store::of(program, &[]);
        let (a, b) = (
            Edge::start("a", &store.url(), ""),
            Edge::start("b", &store.url(), "prefix = \"hikyaku\""),
        );
        shares(&a, &b).await;
        let other = Edge::start("c", &store.url(), "prefix = \"other\"");
        other.is_up().await;
        assert_eq!(other.read("192.0.2.0/24").await.unwrap(), []);
        let ttl: u64 = store
            .run(&["TTL", "hikyaku:1:path:{192.0.2.0/24}"])
            .parse()
            .unwrap();
        assert!((86_000..=86_400).contains(&ttl), "{ttl}");
        // A stop writes the last changes.
        a.learn("203.0.113.0/24", "last");
        a.fleet.stop().await;
        b.sees("a", "203.0.113.0/24", "last").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_and_a_socket_are_used() {
    let test = "a_database_and_a_socket_are_used";
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("redis.sock");
    let socket = socket.to_str().unwrap();
    let Some(store) = Store::start(test, &["--unixsocket", socket]) else {
        return;
    };
    let a = Edge::start("a", &format!("{}/3", store.url()), "");
    let b = Edge::start("b", &format!("redis+unix://{socket}?db=3"), "");
    shares(&a, &b).await;
    assert_eq!(store.run(&["DBSIZE"]), "0");
    assert_ne!(store.run(&["-n", "3", "DBSIZE"]), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_least_rights_suffices() {
    let user = format!("user edge on >s3cret {}", needed());
    let (user_key, user) = user.split_once(' ').unwrap();
    let args: Vec<&str> = [&format!("--{user_key}")[..]]
        .into_iter()
        .chain(user.split(' '))
        .map(|word| &*word.to_owned().leak())
        .collect();
    let Some(store) = Store::start("a_user_with_the_least_rights_suffices", &args) else {
        return;
    };
    let file = store.dir().join("password");
    fs::write(&file, "s3cret\n").unwrap();
    let more = format!("user = \"edge\"\npassword_file = \"{}\"", file.display());
    let mut a = Edge::start("a", &store.url(), &more);
    let url = store.url().replace("://", "://edge:s3cret@");
    let b = Edge::holding("b", &url, holding(1));
    shares(&a, &b).await;
    a.fleet.purge(b"order").await.unwrap();
    eventually("b's purge", || (!b.purged().is_empty()).then_some(())).await;
    // After a pause it looks for purges that it has missed.
    store.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    a.fleet.stop().await;
    a = Edge::holding("a", &url, holding(1));
    a.is_up().await;
    // Contents are put and held by others. Those that hold them write them again, but for answers to
    // authorities, which are taken back.
    for topic in Topic::ALL {
        a.board.put(topic, "shared", content(1, "kept"));
        eventually(&format!("{topic:?} at b"), || b.board.get(topic, "shared")).await;
    }
    a.board.remove(Topic::Challenge, "shared");
    eventually("no challenge at b", || {
        let held = b.board.get(Topic::Challenge, "shared");
        held.is_none().then_some(())
    })
    .await;
    // A lease is taken, renewed, refused to others and given back.
    let (topic, time) = (Topic::Certificate, Duration::from_secs(600));
    for (edge, expected) in [
        (&a, Lease::Taken),
        (&a, Lease::Taken),
        (&b, Lease::Elsewhere),
    ] {
        assert_eq!(edge.fleet.lease(topic, "x", time).await, expected);
    }
    a.fleet.release(topic, "x").await;
    assert_eq!(b.fleet.lease(topic, "x", time).await, Lease::Taken);
    let log = store.run(&["ACL", "LOG"]);
    assert_eq!(log, "", "commands that were refused");
    for edge in [&a, &b] {
        let status = edge.fleet.status();
        assert_eq!((&status.fault, &status.write_fault), (&None, &None));
        assert!(!format!("{:?} {:?}", edge.fleet, edge.fleet.status()).contains("s3cret"));
    }
}

/// A certificate for 127.0.0.1, and its key.
fn certificate(dir: &Path) -> [String; 2] {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    [
        ("cert.pem", made.cert.pem()),
        ("key.pem", made.signing_key.serialize_pem()),
    ]
    .map(|(name, text)| {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_checks_the_stores_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let [cert, key] = certificate(dir.path());
    let tls_port = free_port();
    let port = tls_port.to_string();
    let args = [
        "--tls-port",
        &port,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
    ];
    let args = [&args[..], &["--tls-auth-clients", "no"]].concat();
    let Some(store) = Store::start("tls_checks_the_stores_certificate", &args) else {
        return;
    };
    let url = format!("rediss://127.0.0.1:{tls_port}");
    let roots = format!("ca_file = \"{cert}\"");
    shares(
        &Edge::start("a", &url, &roots),
        &Edge::start("b", &url, &roots),
    )
    .await;
    let other = tempfile::tempdir().unwrap();
    let [foreign, _] = certificate(other.path());
    let stranger = Edge::start("c", &url, &format!("ca_file = \"{foreign}\""));
    let fault = stranger.is_down().await;
    assert!(
        fault.contains("name its roots in `fleet.ca_file`"),
        "{fault}"
    );
    let plain = Edge::start("d", &store.url().replace("redis:", "rediss:"), &roots);
    let fault = plain.is_down().await;
    assert!(
        fault.contains("without TLS wants redis:// in `fleet.store`"),
        "{fault}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_three_is_used() {
    let test = "a_cluster_of_three_is_used";
    if programs(test).is_empty() {
        return;
    }
    let nodes: Vec<Store> = (0..3)
        .map(|_| {
            let bus = free_port().to_string();
            let args = ["--cluster-enabled", "yes", "--cluster-port", &bus];
            Store::start(test, &args).unwrap()
        })
        .collect();
    let places: Vec<String> = nodes
        .iter()
        .map(|node| node.address().to_string())
        .collect();
    let mut create = vec!["--cluster", "create"];
    create.extend(places.iter().map(String::as_str));
    create.push("--cluster-yes");
    let made = cli(nodes[0].address().port(), &create);
    assert!(made.status.success(), "{made:?}");
    let begun = Instant::now();
    while !nodes
        .iter()
        .all(|node| node.run(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
    {
        assert!(begun.elapsed() < PATIENCE, "the cluster never comes up");
    }
    let config = |name: &str, urls: &str| {
        let text = format!("store = [{urls}]\ncluster = true\nname = \"{name}\"");
        toml::from_str(&text).unwrap()
    };
    let all: Vec<String> = nodes
        .iter()
        .map(|node| format!("\"{}\"", node.url()))
        .collect();
    let a = Edge::configured(config("a", &all.join(", ")));
    // Each node names the others.
    let b = Edge::configured(config("b", &all[1]));
    shares(&a, &b).await;
    for network in 0..50 {
        a.learn(&format!("203.0.{network}.0/24"), "spread");
    }
    for network in 0..50 {
        b.sees("a", &format!("203.0.{network}.0/24"), "spread")
            .await;
    }
    for node in &nodes {
        assert_ne!(node.run(&["DBSIZE"]), "0", "each node has some");
    }
    eventually("the sum of all nodes' keys", || {
        (b.fleet.status().keys? >= 52).then_some(())
    })
    .await;
    a.fleet.purge(b"order").await.unwrap();
    eventually("b's purge", || (!b.purged().is_empty()).then_some(())).await;
    // Another node has some of these.
    let alone = Edge::start("c", &nodes[0].url(), "");
    for network in 0..50 {
        alone.learn(&format!("203.0.{network}.0/24"), "alone");
    }
    let fault = alone.is_down().await;
    assert!(fault.contains("set `fleet.cluster = true`"), "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_lead_to_the_next_primary() {
    let test = "sentinels_lead_to_the_next_primary";
    let Some(mut primary) = Store::start(test, &[]) else {
        return;
    };
    let port = primary.address().port().to_string();
    let replica = Store::start(test, &["--replicaof", "127.0.0.1", &port]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sentinel.conf");
    let text = format!(
        "sentinel monitor main 127.0.0.1 {port} 1\nsentinel down-after-milliseconds main 500\n\
         sentinel failover-timeout main 2000\n"
    );
    fs::write(&file, text).unwrap();
    eventually("the replica's copy", || {
        let info = replica.run(&["INFO", "replication"]);
        info.contains("master_link_status:up").then_some(())
    })
    .await;
    let sentinel = Store::start(test, &[file.to_str().unwrap(), "--sentinel"]).unwrap();
    // A sentinel learns of replicas from the primary.
    eventually("the sentinel's replica", || {
        let known = sentinel.run(&["SENTINEL", "replicas", "main"]);
        known
            .contains(&replica.address().port().to_string())
            .then_some(())
    })
    .await;
    let unknown = Edge::start("c", &sentinel.url(), "sentinel = \"other\"");
    let fault = unknown.is_down().await;
    assert!(fault.contains("knows no primary `other`"), "{fault}");
    let edges = ["a", "b"].map(|name| Edge::start(name, &sentinel.url(), "sentinel = \"main\""));
    let [a, b] = &edges;
    shares(a, b).await;
    primary.kill();
    a.is_down().await;
    a.learn("203.0.113.0/24", "after");
    b.sees("a", "203.0.113.0/24", "after").await;
    assert!(replica.run(&["EXISTS", "hikyaku:1:path:{203.0.113.0/24}"]) == "1");
}
