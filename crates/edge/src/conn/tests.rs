//! Connections of a server without sockets, under a stopped clock.

mod behind;
mod gain;

use hikyaku_core::client::sample::Observation;
use hikyaku_core::policy::{PolicyConfig, VersionPolicy};
use hikyaku_units::arm::Version;
use http::Request;

use super::*;
use crate::fakes::{Server, policy, sample};
use crate::sections::{Limits, Timeouts};

/// Headers that a browser sends with every request.
fn browser() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("sec-fetch-mode", HeaderValue::from_static("navigate"));
    headers
}

/// The `Alt-Svc` of a response.
fn alt_svc(conn: &Conn) -> Option<String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ALT_SVC, HeaderValue::from_static("h3=\":1\""));
    conn.apply(&mut headers, &Asked::default());
    let value = headers.get(header::ALT_SVC)?;
    Some(value.to_str().unwrap().to_owned())
}

/// Whether a response advertises HTTP/3.
fn advertises(conn: &Conn) -> bool {
    alt_svc(conn).is_some_and(|value| value.starts_with("h3="))
}

async fn after(ms: u64) {
    tokio::time::advance(Duration::from_millis(ms)).await;
}

#[tokio::test(start_paused = true)]
async fn an_account_counts_from_its_opening_to_its_end() {
    let server = Server::start();
    let conn = server.connection(Version::H2);
    assert_eq!(server.shared.metrics.open(Version::H2), 1);
    assert_eq!(
        server.metric("hikyaku_connections_opened_total{version=\"h2\"}"),
        1
    );
    let begun = "hikyaku_decisions_total{reason=\"too_few_samples\"}";
    assert_eq!(server.metric(begun), 1);
    let cubic = "hikyaku_congestion_controls_total{transport=\"tcp\",congestion=\"cubic\"}";
    assert_eq!(server.metric(cubic), 1);
    after(1500).await;
    assert_eq!(conn.age(), Duration::from_millis(1500));
    drop(conn);
    assert_eq!(server.shared.metrics.open(Version::H2), 0);
    assert_eq!(
        server.metric("hikyaku_connections_opened_total{version=\"h2\"}"),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn responses_follow_the_decision_on_http3() {
    let pinned = |version| {
        move || PolicyConfig {
            version,
            ..policy()
        }
    };
    type Policy = Box<dyn Fn() -> PolicyConfig>;
    let cases: [(&str, Policy, Version, Option<&str>); 6] = [
        (
            "unknown, on HTTP/2",
            Box::new(policy),
            Version::H2,
            Some("h3=\":443\"; ma="),
        ),
        (
            "unknown, on HTTP/1.1",
            Box::new(policy),
            Version::H1,
            Some("h3=\":443\"; ma="),
        ),
        (
            "unknown, on HTTP/3",
            Box::new(policy),
            Version::H3,
            Some("h3=\":443\"; ma="),
        ),
        (
            "HTTP/3 alone",
            Box::new(pinned(VersionPolicy::H3)),
            Version::H2,
            Some("h3=\":443\"; ma="),
        ),
        (
            "HTTP/2 alone",
            Box::new(pinned(VersionPolicy::H2)),
            Version::H2,
            None,
        ),
        (
            "HTTP/2 alone, on HTTP/3",
            Box::new(pinned(VersionPolicy::H2)),
            Version::H3,
            Some("clear"),
        ),
    ];
    for (name, policy, version, want) in cases {
        let server = Server::with(&policy(), Limits::default(), Timeouts::default());
        let said = alt_svc(&server.connection(version));
        match want {
            None => assert_eq!(said, None, "{name}"),
            Some(want) => assert!(
                said.as_deref().is_some_and(|said| said.starts_with(want)),
                "{name}: {said:?}"
            ),
        }
        let actions = ["advertise", "withhold", "clear"].map(|action| {
            server.metric(&format!(
                "hikyaku_responses_by_alt_svc_total{{action=\"{action}\"}}"
            ))
        });
        let want = match want {
            None => [0, 1, 0],
            Some("clear") => [0, 0, 1],
            Some(_) => [1, 0, 0],
        };
        assert_eq!(actions, want, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_holds_for_a_second() {
    let server = Server::start();
    let conn = server.connection(Version::H2);
    assert!(advertises(&conn));
    // Others have found out that UDP fails, and notify nobody.
    for event in [UdpEvent::Arrived, UdpEvent::Broke, UdpEvent::Broke] {
        let seen = Observation::Udp(event);
        server.shared.clients.observe(conn.client(), &seen);
    }
    after(1000).await;
    assert!(advertises(&conn), "not older than a second");
    after(1).await;
    assert!(!advertises(&conn));
}

#[tokio::test(start_paused = true)]
async fn a_changed_decision_reaches_the_clients_other_connections_at_once() {
    let server = Server::start();
    let [one, other] = [Version::H2, Version::H2].map(|version| server.connection(version));
    let mut watch = server.watch();
    for event in [UdpEvent::Arrived, UdpEvent::Broke, UdpEvent::Broke] {
        one.udp(event);
    }
    assert!(advertises(&one), "not decided anew yet");
    one.observe(std::iter::once((sample(), clock::now()..clock::now())));
    assert!(!advertises(&one));
    assert!(!advertises(&other), "the same decision");
    let decisions = watch.take("decision");
    assert_eq!(decisions.len(), 2, "one of each connection");
    assert!(
        decisions
            .iter()
            .all(|event| event["reason"] == "udp_broken")
    );
}

#[tokio::test(start_paused = true)]
async fn the_evidence_of_a_browser_on_udp_is_learnt_once() {
    let server = Server::start();
    let mut watch = server.watch();
    let tool = server.connection(Version::H2);
    tool.meet(&HeaderMap::new());
    alt_svc(&tool);
    drop(tool);
    assert!(watch.udp().is_empty(), "a tool follows no advertisement");

    let conn = server.connection(Version::H2);
    conn.meet(&browser());
    let ask = || conn.ledger.open(&Request::get("/").body(()).unwrap());
    drop(ask());
    alt_svc(&conn);
    alt_svc(&conn);
    assert_eq!(watch.udp(), ["back_on_tcp", "advertised"]);
    drop(ask());
    drop(conn);
    assert_eq!(watch.udp(), ["session_ended"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_without_a_request_after_the_advertisement_shows_nothing() {
    let server = Server::start();
    let mut watch = server.watch();
    let conn = server.connection(Version::H2);
    conn.meet(&browser());
    drop(conn.ledger.open(&Request::get("/").body(()).unwrap()));
    alt_svc(&conn);
    watch.udp();
    drop(conn);
    assert!(watch.udp().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_learnt_before_an_address_is_validated() {
    let server = Server::start();
    let mut watch = server.watch();
    let conn = server.open(Version::H3, false);
    conn.observe(std::iter::once((sample(), clock::now()..clock::now())));
    conn.udp(UdpEvent::Broke);
    assert!(watch.udp().is_empty());
    assert_eq!(server.shared.clients.len(), 0);
    conn.validate();
    conn.validate();
    assert_eq!(watch.udp(), ["arrived"]);
    assert!(server.shared.clients.len() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_response_is_reported_as_it_ended() {
    let server = Server::start();
    let conn = server.connection(Version::H2);
    let mut watch = server.watch();
    let request = Request::get("https://a.example/x?y").body(()).unwrap();
    let mut exchange = Exchange::of(&request);
    exchange.status = Some(http::StatusCode::OK);
    exchange.bytes = 1000;
    exchange.complete = true;
    after(250).await;
    let snapshot = Snapshot {
        packets_sent: 9,
        packets_lost: 1,
        ..Snapshot::default()
    };
    conn.ended(&exchange, clock::now(), &snapshot);
    let responses = watch.take("response");
    assert_eq!(responses.len(), 1);
    let response = &responses[0];
    assert_eq!(response["host"], "a.example");
    assert_eq!(response["path"], "/x?y");
    assert_eq!(response["duration_us"], 250_000);
    assert_eq!(response["goodput_bps"], 32_000);
    assert_eq!(response["packets_lost"], 1);
    let counted = "hikyaku_requests_total{version=\"h2\",status=\"2xx\"}";
    assert_eq!(server.metric(counted), 1);
}

#[tokio::test(start_paused = true)]
async fn responses_are_held_to_the_largest_rate_where_the_kernel_does_not() {
    let policy = PolicyConfig {
        max_pacing_rate: "5Mbps".parse().unwrap(),
        ..policy()
    };
    let server = Server::with(&policy, Limits::default(), Timeouts::default());
    assert!(
        server.connection(Version::H2).pacing().is_none(),
        "no pacer"
    );
    let remote: SocketAddr = crate::fakes::CLIENT.parse().unwrap();
    let admission = server.site.admit(remote.ip()).unwrap();
    let opening = Opening {
        peer: server.connection(Version::H3).peer.clone(),
        through: Through::Nothing,
        congestion: Congestion::Cubic,
        pacer: Some(Arc::default()),
        mptcp: Mptcp::None,
        memory: admission.memory(1 << 20, &Limits::default()),
        validated: true,
        handshake: Duration::ZERO,
    };
    let conn = Conn::open(Arc::clone(&server.shared), opening);
    assert_eq!(conn.pacing().unwrap().1, Rate::from_mbps(5));
}

#[tokio::test(start_paused = true)]
async fn what_a_connection_learns_changes_an_old_ones_decision_after_a_pause() {
    let server = Server::start();
    let conn = server.connection(Version::H1);
    let learn = || conn.observe(std::iter::once((sample(), clock::now()..clock::now())));
    after(10_000).await;
    learn();
    for event in [UdpEvent::Arrived, UdpEvent::Broke, UdpEvent::Broke] {
        let seen = Observation::Udp(event);
        server.shared.clients.observe(conn.client(), &seen);
    }
    learn();
    assert!(advertises(&conn), "just decided");
    after(24).await;
    learn();
    assert!(advertises(&conn), "in the pause");
    after(1).await;
    assert!(!advertises(&conn), "with the next response");
}

#[tokio::test(start_paused = true)]
async fn a_decision_from_before_the_handshake_holds_unless_it_is_outdated() {
    // name, whether UDP breaks meanwhile, whether others are notified, ms of the handshake, advertises
    let cases = [
        ("nothing has changed", false, false, 1000, true),
        ("a change that nobody notified of", true, false, 1000, true),
        ("a change", true, true, 0, false),
        ("a long handshake", true, false, 1001, false),
    ];
    for (name, breaks, notified, ms, want) in cases {
        let server = Server::start();
        let clients = &server.shared.clients;
        let opening = server.opening(Version::H2, true);
        let client = opening.peer.remote.ip();
        let early = clients.early(client, Transport::Tcp);
        assert_eq!(clients.len(), 0, "{name}: nothing is kept before");
        for event in [UdpEvent::Arrived, UdpEvent::Broke, UdpEvent::Broke] {
            if breaks {
                clients.observe(client, &Observation::Udp(event));
            }
        }
        if notified {
            clients.changed(client);
        }
        after(ms).await;
        let conn = Conn::open_decided(Arc::clone(&server.shared), opening, &early);
        assert_eq!(advertises(&conn), want, "{name}");
        assert!(clients.len() > 0, "{name}");
    }
}
