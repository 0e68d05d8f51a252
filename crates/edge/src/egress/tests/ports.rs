//! Ports that have no room for some classes of content.

use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::Value;

use super::agent::path_by_port;
use super::*;
use crate::egress::Outstanding;

const MARK_C: u32 = MARK_B + 1;
const ROOM: [f64; 3] = [1.0; 3];
/// In the order in which a border drains a port.
const CLASSES: [&str; 3] = ["bulk", "live", "interactive"];
/// A port without room for the first so many of these classes.
const FULL: [[f64; 3]; 4] = [ROOM, [0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0; 3]];

/// Nothing but ports changes the choice.
fn start(agent: &Agent, set: &[&str]) -> Edge {
    let fixed = ["policy.holdback=0", "policy.exploration=0"];
    Edge::start(agent, &[&fixed, set].concat())
}

/// Has a connection send content of a class.
fn send(connection: &Arc<ConnRoute>, class: &str) -> Outstanding {
    let (path, media_type) = match class {
        "live" => ("/1.m4s", "video/mp4"),
        "interactive" => ("/", "text/html"),
        _ => ("/disk.iso", "application/octet-stream"),
    };
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))]);
    connection.begin(path, &headers, Some(1 << 20))
}

/// The route of a class in the server's explanation, with the reason, and each route's verdict.
fn explained(edge: &Edge, class: &str, mptcp: bool) -> (String, String, Vec<(String, String)>) {
    let client = "192.0.2.7".parse().unwrap();
    let all = edge.egress.explain(client, mptcp, Session(0).into());
    let of = all.into_iter().find(|of| of.class == class).unwrap();
    let verdict = |it: hikyaku_core::egress::RouteSummary| (it.route, it.verdict_code);
    let verdicts = of.routes.into_iter().map(verdict).collect();
    (of.route, of.reason_code, verdicts)
}

#[tokio::test]
async fn classes_leave_a_full_port_in_their_order_and_come_back() {
    let agent = Agent::start();
    let edge = start(&agent, &[]);
    let running = CLASSES.map(|_| edge.connection("192.0.2.7", None));
    // The responses go on all the time.
    let _sending = [0, 1, 2].map(|place| send(&running[place], CLASSES[place]));
    for connection in &running {
        edge.until_two_ways(connection).await;
        assert_eq!(edge.name(connection), "plain");
    }
    agent.send("path", &path_by_port("transit-b", MARK_B, ROOM));
    for full in [1, 2, 3, 2, 1, 0] {
        agent.send("path", &path_by_port("transit-a", MARK_A, FULL[full]));
        for (place, class) in CLASSES.into_iter().enumerate() {
            let leaves = place < full;
            let (route, mark) = if leaves {
                ("transit-b", MARK_B)
            } else {
                ("plain", 0)
            };
            // Plain is transit-a, by its port.
            edge.until_on(&running[place], route).await;
            assert_eq!(running[place].mark(), mark, "{class}, {full} are full");
            let visit = edge.connection("192.0.2.7", None);
            let _sending = send(&visit, class);
            assert_eq!(edge.name(&visit), route, "a new {class}, {full} are full");
            let (chosen, reason, verdicts) = explained(&edge, class, false);
            assert_eq!(chosen, route, "{class}, {full} are full");
            assert_eq!(reason == "full", leaves, "{class}: {reason}");
            let of_plain = (
                "plain".to_owned(),
                (if leaves { "full" } else { "chosen" }).to_owned(),
            );
            assert_eq!(verdicts[0], of_plain, "{class}, {full} are full");
        }
    }
}

#[tokio::test]
async fn a_response_moves_while_it_runs() {
    let agent = Agent::start();
    let edge = start(&agent, &[]);
    let connection = edge.connection_with_two_ways().await;
    let mut sending = send(&connection, "bulk");
    sending.sent(1 << 10);
    assert_eq!(edge.name(&connection), "plain");
    let changes = connection.changes();
    assert!(!connection.is_outdated());
    agent.send("path", &path_by_port("transit-a", MARK_A, FULL[1]));
    until("its meter is woken", || connection.is_outdated()).await;
    assert!(connection.update(Session(0).into()).moved);
    assert_eq!(connection.changes(), changes + 1);
    assert_eq!(connection.mark(), MARK_B);
}

#[tokio::test]
async fn a_full_port_is_left_by_address_too() {
    let agent = Agent::start();
    let set = ["policy.holdback=0", "policy.exploration=0"];
    let edge = Edge::start_by(&agent, &set, SteerBy::Addresses);
    let connection = edge.connection("2001:db9:1::7", None);
    edge.until_two_ways(&connection).await;
    let _sending = send(&connection, "bulk");
    edge.name(&connection);
    assert_eq!(connection.advertised(), None, "plain needs no address");
    agent.send("path", &path_by_port("transit-a", MARK_A, FULL[1]));
    let there = "2001:db8:5::b1".parse().ok();
    until("the other route's address is advertised", || {
        edge.name(&connection);
        connection.advertised() == there
    })
    .await;
    agent.send("path", &path_by_port("transit-a", MARK_A, ROOM));
    until("none is needed again", || {
        edge.name(&connection);
        connection.advertised().is_none()
    })
    .await;
}

/// Whether the last hint is of this mode and class, and names these full paths.
fn last_hint(agent: &Agent, mode: &str, class: &str, full: &[&str]) -> bool {
    let names = |hint: &Value| match hint.get("full") {
        Some(names) => names == &json!(full),
        None => full.is_empty(),
    };
    let hints = agent.hints();
    let last = hints.last();
    last.is_some_and(|hint| hint["mode"] == mode && hint["class"] == class && names(hint))
}

#[tokio::test]
async fn subflows_by_a_full_port_become_backup_until_it_has_room() {
    let agent = Agent::start();
    agent.reach(&["transit-a", "transit-b", "transit-c"]);
    let edge = start(&agent, &[]);
    let connection = edge.connection("192.0.2.7", Some(77));
    edge.until_two_ways(&connection).await;
    for (name, mark) in [("transit-b", MARK_B), ("transit-c", MARK_C)] {
        agent.send("path", &path_by_port(name, mark, ROOM));
    }
    agent.judge("192.0.2.0/24", &[verdict(&[], "aggregated", &[])]);
    edge.until_on(&connection, "aggregate").await;
    let html = send(&connection, "interactive");
    let until_hinted = async |class, full: &[&str]| {
        until(&format!("{full:?} are full for {class}"), || {
            edge.name(&connection);
            last_hint(&agent, "aggregated", class, full)
        })
        .await;
    };
    until_hinted("interactive", &[]).await;
    agent.send("path", &path_by_port("transit-a", MARK_A, FULL[1]));
    // It has room for this class, so the port changes nothing, and then for that one no more.
    let bulk = [send(&connection, "bulk"), send(&connection, "bulk")];
    until_hinted("bulk", &["transit-a"]).await;
    drop(bulk);
    until_hinted("interactive", &[]).await;
    agent.send("path", &path_by_port("transit-a", MARK_A, FULL[3]));
    until_hinted("interactive", &["transit-a"]).await;
    agent.send("path", &path_by_port("transit-b", MARK_B, FULL[3]));
    until_hinted("interactive", &["transit-a", "transit-b"]).await;
    agent.send("path", &path_by_port("transit-a", MARK_A, ROOM));
    until_hinted("interactive", &["transit-b"]).await;
    agent.send("path", &path_by_port("transit-b", MARK_B, ROOM));
    until_hinted("interactive", &[]).await;
    drop(html);
}

#[tokio::test]
async fn one_subflow_carries_data_where_all_ports_are_full() {
    let agent = Agent::start();
    let edge = start(&agent, &["policy.route=aggregate"]);
    let connection = edge.connection("192.0.2.7", Some(77));
    edge.until_on(&connection, "aggregate").await;
    let _sending = send(&connection, "bulk");
    for (name, mark) in [("transit-a", MARK_A), ("transit-b", MARK_B)] {
        agent.send("path", &path_by_port(name, mark, [0.0; 3]));
    }
    until("one of two has room", || {
        edge.name(&connection);
        let hints = agent.hints();
        let full = hints.last().map(|hint| hint["full"].clone());
        full.is_some_and(|full| full.as_array().is_some_and(|full| full.len() == 1))
    })
    .await;
    // Not even for a moment are all subflows backup.
    let both = |hint: &Value| hint["full"].as_array().is_some_and(|full| full.len() > 1);
    assert!(!agent.hints().iter().any(both));
}

#[tokio::test]
async fn several_routes_are_left_for_the_only_port_with_room() {
    let agent = Agent::start();
    let edge = start(&agent, &[]);
    let connection = edge.connection("192.0.2.7", Some(77));
    edge.until_two_ways(&connection).await;
    let _sending = send(&connection, "bulk");
    edge.name(&connection);
    // Several are far better.
    let b = edge.egress.state().names().id("transit-b").unwrap();
    for (route, mbps) in [
        (Route::Plain, 20),
        (Route::Steered(b), 20),
        (Route::Aggregated, 60),
    ] {
        edge.sees("192.0.2.7", route, 16, mbps);
    }
    connection.update(Session(0).into());
    assert_eq!(edge.name(&connection), "aggregate");
    agent.send("path", &path_by_port("transit-b", MARK_B, ROOM));
    agent.send("path", &path_by_port("transit-a", MARK_A, FULL[1]));
    edge.until_on(&connection, "transit-b").await;
    until("the agent knows", || {
        last_hint(&agent, "steered", "bulk", &["transit-a"])
    })
    .await;
    let (route, reason, verdicts) = explained(&edge, "bulk", true);
    assert_eq!((&route[..], &reason[..]), ("transit-b", "full"));
    let want = [
        ("plain", "full"),
        ("transit-b", "chosen"),
        ("aggregate", "full"),
    ];
    let want = want.map(|(route, code)| (route.to_owned(), code.to_owned()));
    assert_eq!(verdicts, want);
    agent.send("path", &path_by_port("transit-a", MARK_A, ROOM));
    edge.until_on(&connection, "aggregate").await;
    until("the agent knows", || {
        last_hint(&agent, "aggregated", "bulk", &[])
    })
    .await;
}
