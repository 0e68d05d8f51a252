//! Stores that are killed, hung, slow, full or empty, and edges that write nonsense.

use std::time::{Duration, Instant};

use hikyaku_fleet::Missed;
use hikyaku_testkit::store::{Store, slow};
use rustix::process::Signal;

use super::{Edge, eventually};

const PREFIX: &str = "192.0.2.0/24";

/// The edges `a` and `b`.
fn two(store: &Store) -> [Edge; 2] {
    ["a", "b"].map(|name| Edge::start(name, &store.url(), ""))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_killed_gets_all_again() {
    let Some(mut store) = Store::start("a_store_that_was_killed_gets_all_again", &[]) else {
        return;
    };
    let [a, b] = two(&store);
    a.learn(PREFIX, "before");
    b.sees("a", PREFIX, "before").await;
    store.kill();
    let fault = a.is_down().await;
    assert!(fault.contains(&store.url()), "{fault}");
    b.is_down().await;
    assert_eq!(b.read(PREFIX).await, Err(Missed::Down), "at once");
    a.learn("198.51.100.0/24", "meanwhile");
    store.start_again();
    b.sees("a", "198.51.100.0/24", "meanwhile").await;
    b.sees("a", PREFIX, "before").await;
    let status = a.fleet.status();
    assert_eq!((&status.fault, status.counts.emptied), (&None, 1));
    assert!(status.counts.connections >= 2, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_lost_its_memory_gets_all_again() {
    let Some(store) = Store::start("a_store_that_lost_its_memory_gets_all_again", &[]) else {
        return;
    };
    let [a, b] = two(&store);
    a.learn(PREFIX, "kept");
    b.sees("a", PREFIX, "kept").await;
    store.run(&["FLUSHALL"]);
    b.sees("a", PREFIX, "kept").await;
    assert_eq!(a.fleet.status().counts.emptied, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_store_costs_a_read_nothing() {
    let Some(store) = Store::start("a_hung_store_costs_a_read_nothing", &[]) else {
        return;
    };
    let edge = Edge::start("a", &store.url(), "timeout = \"200ms\"");
    edge.learn(PREFIX, "kept");
    edge.sees("a", PREFIX, "kept").await;
    store.signal(Signal::STOP);
    let short = Duration::from_millis(50);
    let begun = Instant::now();
    let missed = edge.read_within(PREFIX, short).await;
    assert_eq!(missed, Err(Missed::Late), "its deadline ends it");
    assert!(begun.elapsed() >= short);
    let down = eventually("reads end at once", || edge.fleet.status().fault);
    let reads = async {
        // Reads find out sooner than the task alone would.
        while edge.read_within(PREFIX, short).await != Err(Missed::Down) {}
    };
    let (fault, ()) = tokio::join!(down, reads);
    assert!(fault.contains("did not answer within"), "{fault}");
    for _ in 0..10_000 {
        // These would take 500 seconds.
        let missed = edge.read_within(PREFIX, short).await;
        assert_eq!(missed, Err(Missed::Down));
    }
    store.signal(Signal::CONT);
    edge.sees("a", PREFIX, "kept").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_store_answers_late_and_stays_in_use() {
    let Some(store) = Store::start("a_slow_store_answers_late_and_stays_in_use", &[]) else {
        return;
    };
    let delayed = slow(store.address(), Duration::from_millis(200));
    let edge = Edge::start("a", &format!("redis://{delayed}"), "timeout = \"5s\"");
    edge.is_up().await;
    edge.learn(PREFIX, "kept");
    edge.sees("a", PREFIX, "kept").await;
    for _ in 0..5 {
        let missed = edge.read_within(PREFIX, Duration::from_millis(20)).await;
        assert_eq!(missed, Err(Missed::Late));
    }
    assert!(edge.read(PREFIX).await.is_ok());
    let status = edge.fleet.status();
    assert!(status.up && status.counts.late >= 5, "{status:?}");
    assert!(status.answer_us >= 200_000, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_is_said_and_catches_up() {
    let args = ["--maxmemory-policy", "noeviction"];
    let Some(store) = Store::start("a_full_store_is_said_and_catches_up", &args) else {
        return;
    };
    let [a, b] = two(&store);
    a.learn(PREFIX, "before");
    b.sees("a", PREFIX, "before").await;
    store.run(&["CONFIG", "SET", "maxmemory", "1mb"]);
    a.learn("198.51.100.0/24", "too much");
    let fault = eventually("the store is full", || a.fleet.status().write_fault).await;
    assert!(
        fault.contains("has no memory left: raise its `maxmemory`"),
        "{fault}"
    );
    assert!(
        b.read(PREFIX).await.is_ok_and(|fields| fields.len() == 1),
        "reads go on"
    );
    assert!(a.fleet.purge(b"order").await.is_err());
    store.run(&["CONFIG", "SET", "maxmemory", "0"]);
    b.sees("a", "198.51.100.0/24", "too much").await;
    eventually("all is written", || {
        let status = a.fleet.status();
        (status.write_fault.is_none() && status.lag_ms == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_keys_are_added_than_configured() {
    let Some(store) = Store::start("no_more_keys_are_added_than_configured", &[]) else {
        return;
    };
    let fill = "for i = 1, 1000 do redis.call('SET', i, i) end";
    store.run(&["EVAL", fill, "0"]);
    let edge = Edge::start("a", &store.url(), "max_keys = 1000");
    store.run(&["HSET", "hikyaku:1:path:{192.0.2.0/24}", "b", "x"]);
    edge.is_up().await;
    edge.learn(PREFIX, "there already");
    edge.learn("198.51.100.0/24", "new");
    edge.sees("a", PREFIX, "there already").await;
    let status = eventually("a refusal", || {
        let status = edge.fleet.status();
        (status.counts.refused == 1).then_some(status)
    })
    .await;
    assert!(
        status.key_bytes.is_some_and(|bytes| bytes > 0),
        "{status:?}"
    );
    assert_eq!(
        store.run(&["EXISTS", "hikyaku:1:path:{198.51.100.0/24}"]),
        "0"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_costs_its_own_field_alone() {
    let Some(store) = Store::start("nonsense_costs_its_own_field_alone", &[]) else {
        return;
    };
    let key = "hikyaku:1:path:{192.0.2.0/24}";
    store.run(&[
        "HSET",
        key,
        "evil",
        "nonsense",
        "e v i l",
        "x",
        "long",
        &"x".repeat(9000),
    ]);
    store.run(&["SET", "hikyaku:1:path:{198.51.100.0/24}", "no hash"]);
    store.run(&[
        "HSET",
        "hikyaku:1:member:{all}",
        "evil",
        "{\"run\":7}",
        "bad\u{1b}",
        "{}",
    ]);
    let [a, b] = two(&store);
    a.learn("198.51.100.0/24", "has no place");
    a.learn(PREFIX, "good");
    b.sees("a", PREFIX, "good").await;
    assert_eq!(b.read(PREFIX).await.unwrap().len(), 1);
    assert_eq!(b.read("198.51.100.0/24").await.unwrap(), []);
    let status = b.fleet.status();
    assert_eq!((&status.fault, &status.write_fault), (&None, &None));
    assert!(status.counts.ignored >= 4, "{:?}", status.counts);
    let names: Vec<_> = status
        .members
        .iter()
        .map(|member| member.name.as_str())
        .collect();
    assert!(!names.contains(&"evil"), "{names:?}");
}
