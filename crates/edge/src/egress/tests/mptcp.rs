//! Hints to the agent on MPTCP connections.

use super::*;

#[tokio::test]
async fn the_agent_is_notified_of_mptcp_connections() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &["policy.route=aggregate"]);
    let connection = edge.connection("192.0.2.7", Some(77));
    edge.until_on(&connection, "aggregate").await;
    let hint = json!({"token": 77, "class": "", "mode": "aggregated", "avoid": []});
    until("the agent knows", || agent.hints().contains(&hint)).await;
    let sending = connection.begin("/disk.iso", &http::HeaderMap::new(), Some(1 << 20));
    edge.name(&connection);
    let hint = json!({"token": 77, "class": "bulk", "mode": "aggregated", "avoid": []});
    until("the agent knows the class", || {
        agent.hints().contains(&hint)
    })
    .await;
    connection.subflow_stalled("2001:db8:5::b1".parse().unwrap());
    edge.name(&connection);
    connection.update(Session(0).into());
    let hint = json!({"token": 77, "class": "bulk", "mode": "aggregated", "avoid": ["transit-b"]});
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

#[test]
fn configuration() {
    let config = Config::default();
    assert_eq!(config.egress, EgressConfig::default());
    assert!(open(&config, &rules(&config)).is_none());
}
