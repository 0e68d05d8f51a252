//! Of which clients MPTCP is taken.

use std::net::IpAddr;

use hikyaku_core::egress::{Mptcp as Candidate, Route, RouteObservation};
use hikyaku_core::policy::RoutePolicy;

use super::*;
use hikyaku_testkit::{skip, this_test};

/// An agent and a server that can choose; `None` where the kernel does not allow it, which is printed.
async fn ground() -> Option<(Agent, Edge)> {
    let agent = Agent::start();
    let set = [
        "policy.holdback=0",
        "policy.exploration=0.02",
        "egress.mptcp=adaptive",
    ];
    let edge = Edge::start(&agent, &set);
    if edge.egress.gate().is_none() {
        let why = "choosing among sockets needs CAP_BPF and CAP_PERFMON";
        skip(&this_test(), why);
        return None;
    }
    edge.until_connected(true).await;
    let in_force = || edge.egress.gate().is_some_and(MptcpGate::is_in_force);
    until("MPTCP is taken of some", in_force).await;
    Some((agent, edge))
}

impl Edge {
    fn takes_all_of(&self, client: &str) -> bool {
        let client: IpAddr = client.parse().unwrap();
        self.egress.gate().unwrap().takes_all_of(client)
    }

    /// Has a client load 2 MB by a route some times.
    pub(super) fn sees(&self, client: &str, route: Route, times: usize, mbps: u64) {
        let client: IpAddr = client.parse().unwrap();
        let seen = RouteObservation {
            bytes: 2_000_000,
            duration: Duration::from_micros(16_000_000 / mbps),
            rtt: Some(Duration::from_millis(20)),
            packets_sent: 1500,
            ..RouteObservation::default()
        };
        // Which plain packets take.
        let plain_is = self.egress.state().names().id("transit-a");
        let now = self.egress.clock.now();
        let mut table = self.egress.table.lock();
        for _ in 0..times {
            table.learn(client, None, route.carrier(plain_is), &seen, now);
        }
    }

    /// Loads something over a connection that knows the agent's answer, and closes it.
    async fn visit(&self, client: &str, file: &str) {
        let connection = self.connection(client, None);
        let headers = http::HeaderMap::new();
        let mut sending = connection.begin(file, &headers, Some(1_000_000));
        sending.sent(1_000_000);
        drop(sending);
        self.until_two_ways(&connection).await;
    }
}

#[tokio::test]
async fn mptcp_is_taken_where_several_paths_pay() {
    let Some((_agent, edge)) = ground().await else {
        return;
    };
    edge.visit("192.0.2.7", "/disk.iso").await;
    assert!(!edge.takes_all_of("192.0.2.7"), "nothing is known");
    for host in 10..20 {
        let neighbour = format!("192.0.2.{host}");
        edge.sees(&neighbour, Route::Plain, 4, 3 * host);
        edge.sees(&neighbour, Route::Aggregated, 4, 6 * host);
    }
    edge.sees("192.0.2.5", Route::Plain, 16, 40);
    edge.sees("192.0.2.5", Route::Aggregated, 16, 20);
    edge.visit("192.0.2.10", "/disk.iso").await;
    edge.visit("192.0.2.5", "/disk.iso").await;
    let takes = |client| edge.takes_all_of(client);
    assert!(takes("192.0.2.10"), "it has twice as much by several");
    assert!(takes("192.0.2.200"), "so will a newcomer of its network");
    assert!(!takes("192.0.2.5"), "who is worse off is left out");
    assert!(!takes("198.51.100.1"), "others are not concerned");

    edge.visit("192.0.2.10", "/live.m3u8").await;
    assert!(!takes("192.0.2.10"), "no stall is spared by several paths");
    edge.visit("192.0.2.10", "/disk.iso").await;

    let drawn = edge.connection("192.0.2.5", Some(1));
    assert_eq!(drawn.mptcp(), Candidate::Drawn);
    let taken = edge.connection("192.0.2.10", Some(2));
    assert_eq!(taken.mptcp(), Candidate::Taken);
    edge.until_on(&taken, "aggregate").await;

    let mut policy = PolicyConfig::clone(&edge.egress.rules.load().policy);
    policy.route = RoutePolicy::Plain;
    edge.reload(&Config {
        policy,
        ..Config::default()
    });
    assert!(takes("198.51.100.1"), "where nothing is chosen, of all");
}

#[tokio::test]
async fn operators_say_of_whom_mptcp_is_taken() {
    let Some((agent, edge)) = ground().await else {
        return;
    };
    let policy = |name: &str, clients: &[&str], mode: &str| {
        json!({"name": name, "order": 1, "clients": clients, "classes": [], "mode": mode,
               "paths": [], "backup": []})
    };
    let policies = [
        policy("a", &["192.0.2.0/24", "2001:db8::/32"], "aggregated"),
        policy("b", &["198.51.100.0/24"], "steered"),
    ];
    agent.send("policies", &json!({"policies": policies}));
    until("the policies hold", || edge.takes_all_of("192.0.2.7")).await;
    assert!(edge.takes_all_of("2001:db8:1::7"));
    assert!(!edge.takes_all_of("198.51.100.7"));
    agent.send(
        "policies",
        &json!({"policies": [policy("c", &[], "aggregated")]}),
    );
    until("they hold for all", || edge.takes_all_of("198.51.100.7")).await;
    agent.send("policies", &json!({"policies": []}));
    until("they are gone", || !edge.takes_all_of("192.0.2.7")).await;
}

#[tokio::test]
async fn an_agent_that_leaves_mptcp_to_the_kernel_gets_all_of_it() {
    let Some((agent, edge)) = ground().await else {
        return;
    };
    agent.refuse_connections();
    let connection = edge.connection("192.0.2.7", Some(77));
    until("the agent has refused", || {
        edge.name(&connection);
        edge.takes_all_of("198.51.100.7")
    })
    .await;
    assert_eq!(connection.mptcp(), Candidate::None);
}
