//! Connections' routes against an agent that is none, over a real Unix socket.

mod admission;
mod agent;
mod credited;
mod explained;
mod mptcp;
mod notified;
mod ports;
mod stalls;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_core::choice::Session;
use hikyaku_core::egress::{Blame, Route};
use hikyaku_core::policy::PolicyConfig;
use http::Request;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Classes, ConnRoute, Egress, EgressConfig, MptcpGate, Rules, SteerBy};
use crate::clock::Clock;
use crate::config::Config;
use crate::fakes::{InForce, in_force, part, replace};
use crate::ledger::Ledger;
use crate::mptcp::Mptcp;
use agent::{Agent, MARK_A, MARK_B, path, verdict};

/// A test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Egress as a configuration asks for it.
pub(super) fn open(config: &Config, rules: &InForce<Rules>) -> Option<Arc<Egress>> {
    let (journal, clock) = (config.state.dir.is_some(), Clock::start());
    Egress::new(&config.egress, config.mptcp, part(rules), journal, clock)
}

pub(super) fn rules(config: &Config) -> InForce<Rules> {
    let classes = Classes::new(&config.classes).unwrap();
    in_force(Rules::new(config.policy.clone(), classes))
}

struct Edge {
    egress: Arc<Egress>,
    rules: InForce<Rules>,
    end: CancellationToken,
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Edge {
    /// Steers by marks, whatever the tests may do.
    fn start(agent: &Agent, set: &[&str]) -> Self {
        Self::start_by(agent, set, SteerBy::Marks)
    }

    fn start_by(agent: &Agent, set: &[&str], by: SteerBy) -> Self {
        let set: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
        let mut config = Config::load(None, &set).unwrap();
        config.egress.socket = Some(agent.socket().to_owned());
        let rules = rules(&config);
        let mut egress = open(&config, &rules).unwrap();
        Arc::get_mut(&mut egress).unwrap().by = by;
        let end = CancellationToken::new();
        egress.start(&TaskTracker::new(), &end);
        Self { egress, rules, end }
    }

    /// Puts another policy and other classes into force.
    fn reload(&self, config: &Config) {
        let classes = Classes::new(&config.classes).unwrap();
        let rules = Rules::new(config.policy.clone(), classes);
        replace(&self.rules, rules.after(&self.egress.rules.load()));
        self.egress.reloaded();
    }

    fn connection(&self, client: &str, token: Option<u32>) -> Arc<ConnRoute> {
        let client: IpAddr = client.parse().unwrap();
        let local = if client.is_ipv4() {
            "0.0.0.0:443"
        } else {
            "[::]:443"
        };
        self.connection_to(client, local, token)
    }

    fn connection_to(&self, client: IpAddr, local: &str, token: Option<u32>) -> Arc<ConnRoute> {
        let ends = (client, local.parse().unwrap());
        let mptcp = token.map_or(Mptcp::None, Mptcp::Token);
        let ledger = Arc::new(Ledger::watched());
        ConnRoute::open(
            Arc::clone(&self.egress),
            ends,
            mptcp,
            ledger,
            Session(0).into(),
        )
    }

    /// A connection that has another way than plain.
    async fn connection_with_two_ways(&self) -> Arc<ConnRoute> {
        let connection = self.connection("192.0.2.7", None);
        self.until_two_ways(&connection).await;
        connection
    }

    async fn until_two_ways(&self, connection: &ConnRoute) {
        until("there are two ways", || {
            self.name(connection);
            connection.has_others()
        })
        .await;
    }

    fn name(&self, connection: &ConnRoute) -> String {
        if connection.is_outdated() {
            connection.update(Session(0).into());
        }
        self.egress.name(connection.route())
    }

    async fn until_on(&self, connection: &ConnRoute, route: &str) {
        let what = format!("the connection is on {route}");
        until(&what, || self.name(connection) == route).await;
    }

    async fn until_connected(&self, connected: bool) {
        let what = format!("connected: {connected}");
        until(&what, || self.egress.is_connected() == connected).await;
    }
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test]
async fn connections_follow_the_agent() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &["policy.route=transit-b"]);
    let connection = edge.connection("2001:db9:1::7", None);
    assert_eq!(edge.name(&connection), "plain", "nothing is waited for");
    edge.until_on(&connection, "transit-b").await;
    assert_eq!(connection.mark(), MARK_B);
    let begun = connection.changes();

    agent.send("path", &path("transit-b", "down", MARK_B, &[]));
    edge.until_on(&connection, "plain").await;
    assert_eq!(connection.mark(), 0);
    assert!(connection.changes() > begun);
    agent.send("path", &path("transit-b", "up", MARK_B, &[]));
    edge.until_on(&connection, "transit-b").await;
    agent.send("path", &path("transit-b", "draining", MARK_B, &[]));
    edge.until_on(&connection, "plain").await;
    agent.send("path", &path("transit-b", "up", MARK_B + 1, &[]));
    edge.until_on(&connection, "transit-b").await;
    assert_eq!(connection.mark(), MARK_B + 1, "a path may get another mark");
}

#[tokio::test]
async fn a_drain_at_another_edge_holds_whatever_the_agent_reports() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &["policy.route=transit-b"]);
    let connection = edge.connection("2001:db9:1::7", None);
    edge.until_on(&connection, "transit-b").await;
    assert_eq!(edge.egress.own_drains().unwrap().len(), 0);
    let began = edge
        .egress
        .clock
        .now()
        .saturating_sub(Duration::from_secs(7200));
    let drain = super::Elsewhere::new("fra-2", Some(began), "work");
    let drain = [("transit-b".to_owned(), Arc::new(drain))];
    edge.egress.drain_elsewhere(drain.into_iter().collect());
    edge.until_on(&connection, "plain").await;
    let summary = || serde_json::to_string(&edge.egress.summary()).unwrap();
    assert!(summary().contains("\"draining\",\"reason\":\"drained at fra-2: work\""));
    let client = "2001:db9:1::7".parse().unwrap();
    let explained = edge.egress.explain(client, false, Session(0).into());
    let text = explained[0].to_string();
    assert!(
        text.contains("; drained at fra-2 for 2 h: work\n"),
        "{text}"
    );
    // The agent does not know of it.
    agent.send("path", &path("transit-b", "up", MARK_B + 1, &[]));
    agent.send("path", &path("transit-a", "down", MARK_B + 2, &[]));
    until("the events are applied", || {
        summary().contains("\"transit-a\",\"state\":\"down\"")
    })
    .await;
    assert_eq!(edge.name(&connection), "plain");
    edge.egress
        .drain_elsewhere(std::collections::BTreeMap::new());
    edge.until_on(&connection, "transit-b").await;
}

#[tokio::test]
async fn a_lookup_is_kept_until_routes_change() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &["policy.route=transit-b"]);
    let connection = edge.connection("192.0.2.7", None);
    edge.until_on(&connection, "transit-b").await;
    let neighbour = edge.connection("192.0.2.9", None);
    assert_eq!(edge.name(&neighbour), "transit-b", "its prefix is known");
    let asked = agent.lookups();
    assert_eq!(asked, ["192.0.2.0/24"]);

    agent.reach(&["transit-a"]);
    let elsewhere = json!({"path": "transit-b", "prefixes": ["198.51.100.0/24", "2001:db8::/32"]});
    agent.send("routes", &elsewhere);
    let other = edge.connection("2001:db8:0:1::1", None);
    until("the other client is asked for", || {
        agent.lookups().len() >= 2
    })
    .await;
    assert_eq!(
        edge.name(&connection),
        "transit-b",
        "others' routes changed"
    );
    agent.send(
        "routes",
        &json!({"path": "transit-b", "prefixes": ["192.0.2.128/25"]}),
    );
    edge.until_on(&connection, "plain").await;
    edge.until_on(&neighbour, "plain").await;
    drop(other);

    agent.reach(&["transit-a", "transit-b"]);
    agent.send("routes", &json!({"path": "transit-b", "prefixes": []}));
    edge.until_on(&connection, "transit-b").await;
}

#[tokio::test]
async fn without_its_agent_connections_go_back_to_plain() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &["policy.route=transit-a"]);
    let connection = edge.connection("192.0.2.7", None);
    edge.until_on(&connection, "transit-a").await;
    let socket = agent.stop().await;
    edge.until_connected(false).await;
    assert_eq!(
        edge.name(&connection),
        "transit-a",
        "for a few seconds still"
    );
    edge.until_on(&connection, "plain").await;
    let _agent = Agent::start_at(socket);
    edge.until_on(&connection, "transit-a").await;
}

#[tokio::test]
async fn malformed_answers_leave_connections_plain() {
    let cases = [
        ("garbage", "event: snapshot\ndata: {]\n\n"),
        ("no snapshot", "event: ready\ndata: {\"ready\":true}\n\n"),
        ("not UTF-8", "event: snapshot\ndata: \u{fffd}\n\n"),
    ];
    for (name, first) in cases {
        let agent = Agent::start_with(first.replace('\u{fffd}', "\\"));
        let edge = Edge::start(&agent, &["policy.route=transit-a"]);
        let connection = edge.connection("192.0.2.7", None);
        until("it was tried twice", || agent.streams() >= 2).await;
        assert_eq!(edge.name(&connection), "plain", "{name}");
        assert!(!edge.egress.is_connected(), "{name}");
    }
}

#[tokio::test]
async fn a_malformed_event_costs_a_new_snapshot_and_no_path() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &["policy.route=transit-a"]);
    let connection = edge.connection("192.0.2.7", None);
    edge.until_on(&connection, "transit-a").await;
    let changes = connection.changes();
    agent.send("path", &json!({"name": "transit-a", "state": "sideways"}));
    until("it is connected again", || agent.streams() == 2).await;
    edge.until_connected(true).await;
    assert_eq!(edge.name(&connection), "transit-a");
    assert_eq!(connection.changes(), changes, "it never left");
}

#[tokio::test]
async fn policies_hold_for_their_clients_and_classes() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &[]);
    let connection = edge.connection("192.0.2.7", None);
    let other = edge.connection("198.51.100.7", None);
    edge.until_connected(true).await;
    let steered = || verdict(&["bulk"], "steered", &["transit-b"]);
    agent.judge("192.0.2.0/24", &[steered()]);
    let asked = Request::get("https://a.example/disk.iso").body(()).unwrap();
    let headers = http::HeaderMap::new();
    let sending = connection.begin(asked.uri().path(), &headers, Some(1 << 20));
    edge.until_on(&connection, "transit-b").await;
    assert_eq!(edge.name(&other), "plain");
    let plain = || verdict(&[], "plain", &[]);
    agent.judge("192.0.2.0/24", &[plain(), steered()]);
    edge.until_on(&connection, "plain").await;
    let other_class = verdict(&["live"], "plain", &[]);
    agent.judge("192.0.2.0/24", &[other_class, steered(), plain()]);
    edge.until_on(&connection, "transit-b").await;
    let of_part = |part: &str| {
        let mut verdict = plain();
        verdict["clients"] = json!([part]);
        verdict
    };
    agent.judge("192.0.2.0/24", &[of_part("192.0.2.0/29"), steered()]);
    edge.until_on(&connection, "plain").await;
    agent.judge("192.0.2.0/24", &[of_part("192.0.2.8/29"), steered()]);
    edge.until_on(&connection, "transit-b").await;
    drop(sending);
}

#[tokio::test]
async fn a_connection_has_the_class_of_most_of_its_bytes() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &[]);
    let connection = edge.connection("192.0.2.7", None);
    let html = http::HeaderMap::from_iter([(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("text/html"),
    )]);
    let rules = edge.egress.rules.load();
    let class = || rules.classes.name(connection.class()).to_owned();
    assert_eq!(class(), "");
    let page = connection.begin("/", &html, Some(50_000));
    assert_eq!(class(), "interactive");
    let mut file = connection.begin("/disk.iso", &http::HeaderMap::new(), Some(100_000));
    assert_eq!(class(), "bulk");
    let stream = connection.begin("/live.m3u8", &http::HeaderMap::new(), None);
    assert_eq!(class(), "live", "an unknown length counts 1 MB");
    drop(stream);
    assert_eq!(class(), "bulk");
    file.sent(80_000);
    drop(connection.begin("/other", &html, Some(1)));
    assert_eq!(class(), "interactive");
    drop((file, page));
    assert_eq!(class(), "interactive", "the last, while nothing is sent");
}

#[tokio::test]
async fn a_connection_knows_how_much_it_is_asked_for_at_a_time() {
    let agent = Agent::start();
    let edge = Edge::start(&agent, &[]);
    let connection = edge.connection("192.0.2.7", None);
    let begin = |length| connection.begin("/disk.iso", &http::HeaderMap::new(), length);
    let asked = || connection.content().bytes;
    assert_eq!(asked(), 0);
    let first = begin(Some(40_000_000));
    assert!(connection.is_outdated(), "a long one may want another way");
    edge.name(&connection);
    let second = begin(Some(1_000_000));
    assert!(!connection.is_outdated());
    assert_eq!(asked(), 41_000_000, "together");
    drop(first);
    assert_eq!(asked(), 1_000_000);
    connection.update(Session(0).into());
    let third = begin(Some(50_000_000));
    assert!(connection.is_outdated(), "one that joins another, too");
    edge.name(&connection);
    drop((second, third));
    assert_eq!(asked(), 50_000_000, "the last, while none is open");
    for nothing in [begin(Some(0)), begin(Some(0))] {
        assert_eq!(asked(), 50_000_000, "304, HEAD");
        drop(nothing);
    }
    assert!(!connection.is_outdated());
    let mut unknown = begin(None);
    assert!(connection.is_outdated());
    assert_eq!(asked(), 1_000_000);
    unknown.sent(1_500_000);
    assert_eq!(asked(), 1_500_000, "more than was taken for it");
    edge.name(&connection);
    let beside = begin(Some(2_000));
    assert_eq!(asked(), 1_502_000);
    assert!(!connection.is_outdated());
    drop((beside, unknown));
    edge.name(&connection);
    drop(begin(Some(1_400_000)));
    assert!(!connection.is_outdated(), "much the same again");
}

#[tokio::test]
async fn addresses_are_named_where_marks_are_not_used() {
    let agent = Agent::start();
    let set = ["policy.route=transit-b"];
    let edge = Edge::start_by(&agent, &set, SteerBy::Addresses);
    let six = edge.connection("2001:db9:1::7", None);
    let four = edge.connection("192.0.2.7", None);
    let address = |text: &str| Some(text.parse::<IpAddr>().unwrap());
    let advertised = |connection: &ConnRoute| {
        edge.name(connection);
        connection.advertised()
    };
    until("an address is named", || {
        advertised(&six) == address("2001:db8:5::b1")
    })
    .await;
    until("no other family's is", || advertised(&four).is_none()).await;
    assert_eq!((edge.name(&six), six.mark()), ("plain".to_owned(), 0));

    let client = "2001:db9:1::7".parse().unwrap();
    let there = edge.connection_to(client, "[2001:db8:5::b1]:443", None);
    assert_eq!(edge.name(&there), "transit-b", "what comes there takes it");
    agent.send(
        "path",
        &path("transit-b", "down", MARK_B, &["2001:db8:5::b1"]),
    );
    until("none is named", || advertised(&six).is_none()).await;
}

#[tokio::test]
async fn nothing_is_said_to_be_steered_where_marks_cannot_be_set() {
    let agent = Agent::start();
    let edge = Edge::start_by(&agent, &["policy.route=transit-b"], SteerBy::Nothing);
    let connection = edge.connection("2001:db9:1::7", None);
    until("the agent's answer decides", || {
        let decided = connection.update(Session(0).into()).decided;
        matches!(decided.decision.route, Route::Steered(_))
    })
    .await;
    assert_eq!(edge.name(&connection), "plain");
    assert_eq!(connection.mark(), 0);
    assert_eq!(connection.advertised(), None);
}
