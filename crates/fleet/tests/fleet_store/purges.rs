//! Purges of caches over the fleet.

use hikyaku_testkit::store::Store;

use super::{Edge, eventually};

fn orders(edge: &Edge) -> Vec<String> {
    let text = |order: Option<Vec<u8>>| {
        order.map_or("all".to_owned(), |order| String::from_utf8(order).unwrap())
    };
    edge.purged().into_iter().map(text).collect()
}

async fn has(edge: &Edge, expected: &[&str]) {
    eventually(&format!("the purges {expected:?}"), || {
        (orders(edge) == expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_apply_a_purge_once_and_who_comes_later_does_not() {
    let Some(mut store) = Store::start("others_apply_a_purge_once", &[]) else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| Edge::start(name, &store.url(), ""));
    a.is_up().await;
    b.is_up().await;
    a.fleet.purge(b"one").await.unwrap();
    has(&b, &["one"]).await;
    let late = Edge::start("late", &store.url(), "");
    late.is_up().await;
    b.fleet.purge(b"two").await.unwrap();
    has(&a, &["two"]).await;
    has(&late, &["two"]).await;
    has(&b, &["one"]).await;
    // Of a store that lost its memory, all purges are new.
    store.kill();
    a.is_down().await;
    assert!(a.fleet.purge(b"lost").await.is_err());
    store.start_again();
    a.is_up().await;
    a.fleet.purge(b"three").await.unwrap();
    has(&b, &["one", "three"]).await;
    let long = a.fleet.purge(&vec![0; 20_000]).await.unwrap_err();
    assert!(long.to_string().contains("longer than 16 KiB"), "{long}");
}

#[tokio::test(flavor = "multi_thread")]
async fn purges_of_an_outage_are_made_up_for() {
    let Some(store) = Store::start("purges_of_an_outage_are_made_up_for", &[]) else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| Edge::start(name, &store.url(), ""));
    a.is_up().await;
    b.is_up().await;
    a.fleet.purge(b"seen").await.unwrap();
    has(&b, &["seen"]).await;
    // More purges than are kept come while the connections are closed, by another edge.
    let entry = "for i = 1, 1100 do redis.call('XADD', KEYS[1], 'MAXLEN', 1024, '*', 'v', 1, 'edge', 'c', \
                 'order', 'n') end";
    let key = "hikyaku:1:purge:{all}";
    store.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    store.run(&["EVAL", entry, "1", key]);
    eventually("the whole cache is purged", || {
        b.purged().contains(&None).then_some(())
    })
    .await;
    eventually("the kept ones are applied", || {
        (b.purged().len() == 1 + 1 + 1024).then_some(())
    })
    .await;
}
