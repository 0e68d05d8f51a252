//! Members, and two of one name.

use hikyaku_fleet::Member;
use hikyaku_testkit::store::Store;

use super::{Edge, eventually};

fn member(edge: &Edge, name: &str) -> Option<Member> {
    let members = edge.fleet.status().members;
    members.into_iter().find(|member| member.name == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn members_tell_of_themselves() {
    let Some(store) = Store::start("members_tell_of_themselves", &[]) else {
        return;
    };
    // Of an edge that an hour has passed for, and of a newer version.
    let old =
        r#"{"run":"x","version":"0","started_ms":1,"config":"c","skew_ms":0,"lag_ms":0,"at_ms":1}"#;
    store.run(&["HSET", "hikyaku:1:member:{all}", "gone", old]);
    let a = Edge::start("a", &store.url(), "pop = \"fra\"");
    let b = Edge::start("b", &store.url(), "");
    let seen = eventually("a in b's list", || member(&b, "a")).await;
    assert_eq!(
        (seen.version.as_str(), seen.config.as_str()),
        ("0.1.0", "c0ffee")
    );
    assert_eq!(
        (seen.pop.as_deref(), seen.own, seen.silent),
        (Some("fra"), false, false)
    );
    // One host has one clock.
    assert!(seen.skew_ms.abs() < 60_000, "{seen:?}");
    let own = eventually("b in its own list", || member(&b, "b")).await;
    assert!(own.own);
    eventually("the one of long ago is forgotten", || {
        let left = store.run(&["HEXISTS", "hikyaku:1:member:{all}", "gone"]);
        (left == "0").then_some(())
    })
    .await;
    drop(a);
    let silent = eventually("a falls silent", || member(&b, "a").filter(|a| a.silent)).await;
    assert!(silent.heard_ms > 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_edges_of_one_name_are_found() {
    let Some(store) = Store::start("two_edges_of_one_name_are_found", &[]) else {
        return;
    };
    let (first, second) = (
        Edge::start("a", &store.url(), ""),
        Edge::start("a", &store.url(), ""),
    );
    let both = || first.fleet.status().duplicate && second.fleet.status().duplicate;
    eventually("both find the other", || both().then_some(())).await;
    drop(second);
    eventually("one is alone again", || {
        (!first.fleet.status().duplicate).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_no_second_edge() {
    let Some(store) = Store::start("a_restart_is_no_second_edge", &[]) else {
        return;
    };
    let first = Edge::start("a", &store.url(), "");
    eventually("its field", || member(&first, "a")).await;
    first.fleet.stop().await;
    let second = Edge::start("a", &store.url(), "");
    eventually("its own field", || {
        member(&second, "a").filter(|a| !a.silent)
    })
    .await;
    assert!(!second.fleet.status().duplicate);
}
