//! Contents that a whole fleet has in common, and leases.

use std::time::{Duration, SystemTime};

use hikyaku_fleet::{Board, Content, Lease, Topic, Wanted};
use hikyaku_testkit::store::Store;

use super::{Edge, eventually};

const TOPIC: Topic = Topic::Certificate;
const VALUE: &str = "hikyaku:1:shared:{certificate/site}";
const INDEX: &str = "hikyaku:1:revision:{certificate}";
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn holding(secret: u8) -> Board {
    let board = Board::default();
    board.set_secrets(&[[secret; 32]]);
    for topic in Topic::ALL {
        board.want(topic, Some(Wanted::All));
    }
    board
}

pub(crate) fn content(stamp: u64, bytes: &str) -> Content {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap().as_secs();
    Content {
        stamp: (now - 1000 + stamp, 0),
        until: now + 3600,
        title: "site.example".to_owned(),
        bytes: bytes.as_bytes().to_vec(),
    }
}

/// Waits until an edge holds a content.
async fn has(edge: &Edge, bytes: &str) {
    eventually(&format!("the content `{bytes}`"), || {
        let held = edge.board.get(TOPIC, "site")?;
        (held.bytes == bytes.as_bytes()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_puts_the_others_hold_and_the_store_does_not_know() {
    let Some(store) = Store::start("what_one_puts_the_others_hold", &[]) else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| Edge::holding(name, &store.url(), holding(1)));
    a.is_up().await;
    a.board.put(TOPIC, "site", content(1, "PRIVATE"));
    assert!(a.fleet.sync(PATIENCE).await);
    has(&b, "PRIVATE").await;
    let raw = store.run(&["--no-raw", "GET", VALUE]);
    assert!(
        !raw.contains("PRIVATE") && !raw.contains("example"),
        "{raw}"
    );
    let lives: u64 = store.run(&["TTL", VALUE]).parse().unwrap();
    assert!((3000..=3600).contains(&lives), "{lives}");
    // One that comes later has it after its first look.
    let late = Edge::holding("late", &store.url(), holding(1));
    late.is_up().await;
    has(&late, "PRIVATE").await;
    let status = serde_json::to_string(&late.fleet.status()).unwrap();
    assert!(status.contains("site.example") && !status.contains("PRIVATE"));
    // A stranger reads nothing, and his own is ignored.
    let stranger = Edge::holding("stranger", &store.url(), holding(2));
    stranger.is_up().await;
    assert_eq!(stranger.board.get(TOPIC, "site"), None);
    assert!(stranger.fleet.status().counts.unsealed >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_value_that_is_put_back_does_not_stand() {
    let Some(store) = Store::start("an_old_value_that_is_put_back", &[]) else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| Edge::holding(name, &store.url(), holding(1)));
    a.is_up().await;
    b.is_up().await;
    a.board.put(TOPIC, "site", content(1, "old"));
    has(&b, "old").await;
    // By the store itself, since its bytes are no text.
    store.run(&[
        "EVAL",
        "redis.call('SET', 'kept', redis.call('GET', KEYS[1]))",
        "1",
        VALUE,
    ]);
    b.board.put(TOPIC, "site", content(2, "new"));
    has(&a, "new").await;
    let back = "redis.call('SET', KEYS[1], redis.call('GET', 'kept')); \
                redis.call('HSET', KEYS[2], 'site', 'ffff')";
    store.run(&["EVAL", back, "2", VALUE, INDEX]);
    eventually("the older value is noticed", || {
        let older = |edge: &Edge| edge.fleet.status().counts.older;
        (older(&a) + older(&b) > 0).then_some(())
    })
    .await;
    has(&a, "new").await;
    has(&b, "new").await;
    // It is written again, so that an edge without any memory gets the new one.
    let late = Edge::holding("late", &store.url(), holding(1));
    has(&late, "new").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_lost_its_memory_or_holds_nonsense_gets_it_again() {
    let Some(store) = Store::start("a_store_gets_contents_again", &[]) else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| Edge::holding(name, &store.url(), holding(1)));
    a.is_up().await;
    a.board.put(TOPIC, "site", content(1, "kept"));
    has(&b, "kept").await;
    store.run(&["FLUSHALL"]);
    eventually("it is written again", || {
        (store.run(&["EXISTS", VALUE]) == "1").then_some(())
    })
    .await;
    store.run(&["SET", VALUE, "nonsense"]);
    store.run(&["HSET", INDEX, "site", "ffff", "no name", "x", "other", "y"]);
    eventually("nonsense is noticed", || {
        let unsealed = |edge: &Edge| edge.fleet.status().counts.unsealed;
        (unsealed(&a) + unsealed(&b) > 0).then_some(())
    })
    .await;
    let late = Edge::holding("late", &store.url(), holding(1));
    has(&late, "kept").await;
    store.run(&["DEL", INDEX]);
    store.run(&["SET", INDEX, "no hash"]);
    assert!(a.fleet.sync(PATIENCE).await, "other things go on");
    has(&a, "kept").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_has_a_lease_until_it_ends_or_is_given_back() {
    let Some(mut store) = Store::start("one_has_a_lease", &[]) else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| Edge::holding(name, &store.url(), holding(1)));
    a.is_up().await;
    b.is_up().await;
    let long = Duration::from_secs(600);
    assert_eq!(a.fleet.lease(TOPIC, "x", long).await, Lease::Taken);
    assert_eq!(b.fleet.lease(TOPIC, "x", long).await, Lease::Elsewhere);
    assert_eq!(b.fleet.lease(TOPIC, "y", long).await, Lease::Taken);
    assert_eq!(
        a.fleet.lease(TOPIC, "x", long).await,
        Lease::Taken,
        "renewed"
    );
    b.fleet.release(TOPIC, "x").await;
    assert_eq!(b.fleet.lease(TOPIC, "x", long).await, Lease::Elsewhere);
    let short = Duration::from_millis(100);
    assert_eq!(a.fleet.lease(TOPIC, "x", short).await, Lease::Taken);
    drop(a);
    let taken = async { while b.fleet.lease(TOPIC, "x", long).await != Lease::Taken {} };
    tokio::time::timeout(PATIENCE, taken).await.unwrap();
    store.kill();
    b.is_down().await;
    assert_eq!(b.fleet.lease(TOPIC, "x", long).await, Lease::Unavailable);
    assert!(!b.fleet.sync(PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_acknowledged_by_all_that_answer_and_taken_back() {
    let Some(store) = Store::start("an_answer_is_acknowledged", &[]) else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| Edge::holding(name, &store.url(), holding(1)));
    // One that answers no authority is not waited for.
    let other = Edge::start("other", &store.url(), "");
    for edge in [&a, &b, &other] {
        edge.is_up().await;
    }
    eventually("a knows the others", || {
        (a.fleet.status().members.len() == 3).then_some(())
    })
    .await;
    let topic = Topic::Challenge;
    a.board.put(topic, "order", content(1, "answer"));
    eventually("it is acknowledged", || {
        a.fleet.is_acknowledged("order").then_some(())
    })
    .await;
    let held = b.board.get(topic, "order").unwrap();
    assert_eq!(held.bytes, b"answer");
    a.board.remove(topic, "order");
    eventually("b has it no more", || {
        b.board.get(topic, "order").is_none().then_some(())
    })
    .await;
    assert!(a.fleet.sync(PATIENCE).await && b.fleet.sync(PATIENCE).await);
    let key = "hikyaku:1:shared:{challenge/order}";
    assert_eq!(store.run(&["EXISTS", key]), "0");
}
