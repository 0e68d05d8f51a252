//! The metrics of routes.

use hikyaku_core::egress::Mptcp;
use hikyaku_units::Rate;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::*;
use crate::egress::Content;

#[tokio::test]
async fn goodput_is_compared_with_that_of_clients_held_back() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &["policy.holdback=0", "policy.exploration=0"]);
    let client = "192.0.2.7".parse().unwrap();
    let connection = edge.connection("192.0.2.7", None);
    until("the agent has answered for the client", || {
        edge.name(&connection);
        edge.egress.lookups.known(client).is_some()
    })
    .await;
    let see = |mbps| {
        let known = edge.egress.lookups.known(client);
        let decided = (edge.egress).decide(
            client,
            known.as_ref(),
            Content::NONE,
            Mptcp::None,
            Session(0).into(),
        );
        let goodput = Rate::from_mbps(mbps);
        edge.egress.counts.compare(&decided.decision, goodput);
    };
    see(10);
    see(1000);
    let config = Config::load(None, &["policy.holdback=1".to_owned()]).unwrap();
    edge.reload(&config);
    see(10);

    let mut registry = Registry::default();
    edge.egress.register(&mut registry);
    let mut exposition = String::new();
    text::encode(&mut exposition, &registry).unwrap();
    let value = |name: &str, group: &str| -> f64 {
        let series = format!("route_compared_{name}_total{{group=\"{group}\"}} ");
        let value = exposition
            .lines()
            .find_map(|line| line.strip_prefix(&series));
        value
            .unwrap_or_else(|| panic!("{series} in {exposition}"))
            .parse()
            .unwrap()
    };
    let mean = |group| (value("log_goodput", group) / value("responses", group)).exp();
    assert_eq!(value("responses", "held_back"), 1.0);
    assert_eq!(value("responses", "others"), 2.0);
    assert!((mean("others") / mean("held_back") - 10.0).abs() < 1e-6);
}
