//! Hints to the agent on MPTCP connections.

use hikyaku_core::egress::{Scheduling, SubflowRtt};
use serde_json::Value;

use super::*;
use crate::egress::SubflowEnds;

#[tokio::test]
async fn the_agent_is_notified_of_mptcp_connections() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &["policy.route=aggregate"]);
    let connection = edge.connection("192.0.2.7", Some(77));
    edge.until_on(&connection, "aggregate").await;
    let hint = json!({"token": 77, "class": "", "mode": "aggregated", "avoid": [], "order": []});
    until("the agent knows", || agent.hints().contains(&hint)).await;
    let sending = connection.begin("/disk.iso", &http::HeaderMap::new(), Some(1 << 20));
    edge.name(&connection);
    let hint =
        json!({"token": 77, "class": "bulk", "mode": "aggregated", "avoid": [], "order": []});
    until("the agent knows the class", || {
        agent.hints().contains(&hint)
    })
    .await;
    connection.subflow_stalled("2001:db8:5::b1".parse().unwrap());
    edge.name(&connection);
    connection.update(Session(0).into());
    let hint = json!({"token": 77, "class": "bulk", "mode": "aggregated", "avoid": ["transit-b"], "order": []});
    until("the agent knows the stall", || {
        agent.hints().contains(&hint)
    })
    .await;
    drop(sending);

    agent.refuse_connections();
    let other = edge.connection("192.0.2.7", Some(78));
    edge.until_on(&other, "plain").await;
    edge.until_on(&connection, "plain").await;
    assert_eq!(
        agent.paths(),
        [("transit-a", MARK_A), ("transit-b", MARK_B)]
    );
}

#[tokio::test]
async fn a_policy_that_aggregates_lets_silent_paths_be_left() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &[]);
    let connection = edge.connection("192.0.2.7", Some(77));
    edge.until_two_ways(&connection).await;
    agent.judge("192.0.2.0/24", &[verdict(&[], "aggregated", &[])]);
    edge.until_on(&connection, "aggregate").await;
    assert!(connection.has_others(), "its subflows are watched");

    let initial = "192.0.2.200".parse().unwrap();
    let blame = connection.subflow_stalled(initial);
    assert!(matches!(blame, Blame::Route { .. }), "{blame:?}");
    connection.update(Session(0).into());
    until("the agent leaves the initial one", || {
        agent
            .hints()
            .last()
            .is_some_and(|hint| hint["avoid"] == json!(["transit-a"]))
    })
    .await;

    let other = "2001:db8:5::b1".parse().unwrap();
    assert_eq!(
        connection.subflow_stalled(other),
        Blame::Client,
        "all are silent"
    );
    connection.update(Session(0).into());
    until("it leaves none", || {
        agent
            .hints()
            .last()
            .is_some_and(|hint| hint["avoid"] == json!([]))
    })
    .await;
}

/// Subflows over the plain way and over transit-b, whose round-trip time is lower.
fn two_subflows() -> [(SubflowRtt, SubflowEnds); 2] {
    [(1, 60, "192.0.2.200:443"), (2, 20, "192.0.2.201:443")].map(|(id, ms, local)| {
        let rtt = Duration::from_millis(ms);
        let rtt = SubflowRtt {
            id,
            srtt: rtt,
            min_rtt: rtt,
            idle: Duration::ZERO,
        };
        let ends = SubflowEnds {
            local: local.parse().unwrap(),
            remote: "192.0.2.7:50000".parse().unwrap(),
        };
        (rtt, ends)
    })
}

#[tokio::test]
async fn the_agent_is_notified_which_subflow_comes_first() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &["policy.route=aggregate"]);
    let connection = edge.connection("192.0.2.7", Some(77));
    assert_eq!(connection.scheduling_state(), None);
    edge.until_on(&connection, "aggregate").await;
    let html: http::HeaderMap = [(http::header::CONTENT_TYPE, "text/html".parse().unwrap())]
        .into_iter()
        .collect();
    let page = connection.begin("/", &html, Some(20_000));
    connection.see_subflows(&two_subflows());
    let by_rtt = json!([
        {"local": "192.0.2.201:443", "remote": "192.0.2.7:50000"},
        {"local": "192.0.2.200:443", "remote": "192.0.2.7:50000"},
    ]);
    let last_is = |order: &Value| {
        agent
            .hints()
            .last()
            .is_some_and(|hint| hint["order"] == *order)
    };
    until("the lower round-trip time comes first", || last_is(&by_rtt)).await;
    let state = connection.scheduling_state().unwrap();
    assert_eq!(state.scheduling, Scheduling::LowestRtt);
    assert_eq!(state.class.as_deref(), Some("interactive"));

    // The class changes with the content, on the same connection.
    let bulk = connection.begin("/disk.iso", &http::HeaderMap::new(), Some(1 << 20));
    drop(page);
    until("all subflows carry data", || {
        connection.see_subflows(&two_subflows());
        last_is(&json!([]))
    })
    .await;
    drop(bulk);

    let page = connection.begin("/", &html, Some(20_000));
    connection.see_subflows(&two_subflows());
    until("the order is there again", || last_is(&by_rtt)).await;
    edge.reload(&Config::load(None, &["policy.route=plain".to_owned()]).unwrap());
    edge.until_on(&connection, "plain").await;
    connection.see_subflows(&two_subflows());
    until("a single route has no order", || last_is(&json!([]))).await;
    drop(page);
}

#[tokio::test]
async fn the_operator_may_have_one_scheduling_for_all() {
    let agent = Agent::start();
    let set = ["policy.route=aggregate", "policy.scheduling=lowest_rtt"];
    let edge = Edge::start(&agent, &set);
    let connection = edge.connection("192.0.2.7", Some(77));
    edge.until_on(&connection, "aggregate").await;
    let sending = connection.begin("/disk.iso", &http::HeaderMap::new(), Some(1 << 20));
    connection.see_subflows(&two_subflows());
    until("a subflow comes first", || {
        let hints = agent.hints();
        hints
            .last()
            .is_some_and(|hint| hint["order"][0]["local"] == "192.0.2.201:443")
    })
    .await;
    let state = connection.scheduling_state().unwrap();
    let text = "data on the subflow of the lowest RTT by policy.scheduling";
    assert_eq!(state.to_string(), text);
    drop(sending);
}

#[test]
fn configuration() {
    let config = Config::default();
    assert_eq!(config.egress, EgressConfig::default());
    assert!(open(&config, &rules(&config)).is_none());
}
