//! The part of explanations that concerns routes.

use hikyaku_core::egress::RoutesExplanation;

use super::*;

fn verdicts(edge: &Edge, mptcp: bool) -> Vec<(String, String)> {
    let client = "192.0.2.7".parse().unwrap();
    let explained = edge.egress.explain(client, mptcp, Session(0).into());
    let of = |of: &RoutesExplanation| (of.class.clone(), of.long);
    let found: Vec<_> = explained.iter().map(of).collect();
    let found: Vec<_> = found
        .iter()
        .map(|(class, long)| (&class[..], *long))
        .collect();
    let classes = [
        ("live", false),
        ("interactive", false),
        ("bulk", false),
        ("bulk", true),
    ];
    assert_eq!(found, classes);
    let of_bulk = explained.into_iter().find(|of| of.class == "bulk").unwrap();
    let routes = of_bulk.routes.into_iter();
    routes.map(|it| (it.route, it.verdict_code)).collect()
}

#[tokio::test]
async fn each_of_the_agents_paths_has_its_verdict() {
    let agent = Agent::start();
    agent.reach(&["transit-a"]);
    let edge = Edge::start(&agent, &["policy.holdback=0", "policy.exploration=0"]);
    let connection = edge.connection("192.0.2.7", Some(77));
    let client = "192.0.2.7".parse().unwrap();
    until("the agent has answered for the client", || {
        edge.name(&connection);
        !edge
            .egress
            .explain(client, true, Session(0).into())
            .is_empty()
    })
    .await;
    let pairs = |verdicts: &[(&str, &str)]| -> Vec<(String, String)> {
        let owned = verdicts.iter();
        owned
            .map(|(route, code)| ((*route).to_owned(), (*code).to_owned()))
            .collect()
    };
    assert_eq!(
        verdicts(&edge, true),
        pairs(&[
            ("plain", "chosen"),
            ("transit-b", "unreachable"),
            ("aggregate", "too_few_samples")
        ])
    );
    agent.send("path", &path("transit-b", "down", MARK_B, &[]));
    let without = pairs(&[("plain", "chosen"), ("transit-b", "not_up")]);
    until("the path is down", || verdicts(&edge, false) == without).await;
}
