//! Connections through balancers, proxies and port mappings.

use super::*;
use crate::behind::BehindConfig;
use crate::fakes::CLIENT;
use hikyaku_content::{Scheme, Via};
use hikyaku_units::Network;

const BALANCER: &str = "10.0.0.1";

/// A server whose balancers and proxies are in 10.0.0.0/8.
fn server() -> Server {
    let network: Vec<Network> = vec!["10.0.0.0/8".parse().unwrap()];
    Server::behind(BehindConfig {
        proxy_protocol: network.clone(),
        trusted: network,
        ..BehindConfig::default()
    })
}

fn open(server: &Server, through: Through) -> Arc<Conn> {
    let mut opening = server.opening(Version::H2, true);
    opening.through = through;
    if through == Through::Proxy {
        opening.peer.remote = SocketAddr::new(BALANCER.parse().unwrap(), 4000);
    }
    Conn::open(Arc::clone(&server.shared), opening)
}

fn balanced(server: &Server) -> Arc<Conn> {
    open(server, Through::Balancer(BALANCER.parse().unwrap()))
}

/// A browser's request, of the client that a proxy names.
fn request(authority: &str, client: &str) -> Request<()> {
    Request::get(format!("https://{authority}/"))
        .header("x-forwarded-for", client)
        .header("sec-fetch-mode", "navigate")
        .body(())
        .unwrap()
}

/// The `Alt-Svc` of the response to a request.
fn answered(conn: &Conn, request: &Request<()>) -> Option<String> {
    conn.meet(request.headers());
    let value = conn.alt_svc(&conn.asked(request))?;
    Some(value.to_str().unwrap().to_owned())
}

/// The samples that are known of a client.
fn samples(server: &Server, client: &str) -> f32 {
    let explanation = server.shared.clients.explain(client.parse().unwrap());
    explanation.path.samples
}

fn learn(conn: &Conn) {
    conn.observe(std::iter::once((sample(), clock::now()..clock::now())));
}

#[tokio::test(start_paused = true)]
async fn the_path_to_a_balancer_is_not_learnt_but_udp_to_its_client_is() {
    let server = server();
    let mut watch = server.watch();
    let conn = balanced(&server);
    let client = CLIENT.parse::<SocketAddr>().unwrap().ip().to_string();
    assert_eq!(conn.via(), Some(BALANCER.parse().unwrap()));
    learn(&conn);
    drop(crate::fakes::request(&conn));
    answered(&conn, &request("a.example", ""));
    assert_eq!(watch.udp(), ["back_on_tcp", "advertised"]);
    let known = [client.as_str(), BALANCER].map(|of| samples(&server, of));
    assert_eq!(known, [0.0; 2]);
    let explanation = server.shared.clients.explain(client.parse().unwrap());
    assert!(explanation.tcp_is_hidden);

    let direct = open(&server, Through::Nothing);
    learn(&direct);
    assert!(samples(&server, &client) > 0.0);
    let explanation = server.shared.clients.explain(client.parse().unwrap());
    assert!(!explanation.tcp_is_hidden);
}

#[tokio::test(start_paused = true)]
async fn a_balancers_client_gets_what_it_is_known_by_over_quic() {
    let server = server();
    let conn = balanced(&server);
    assert!(answered(&conn, &request("a.example", "")).is_some());
    for event in [UdpEvent::Arrived, UdpEvent::Broke, UdpEvent::Broke] {
        let seen = Observation::Udp(event);
        server.shared.clients.observe(conn.client(), &seen);
    }
    server.shared.clients.changed(conn.client());
    let said = answered(&conn, &request("a.example", ""));
    assert_eq!(said.as_deref(), Some("clear"));
    let kept = conn.chosen().congestion;
    assert_eq!(kept, Congestion::Cubic, "of the path to the balancer");
}

#[tokio::test(start_paused = true)]
async fn requests_through_a_proxy_are_of_the_clients_that_it_names() {
    let server = server();
    let mut watch = server.watch();
    let conn = open(&server, Through::Proxy);
    let shared = &server.shared;
    for event in [UdpEvent::Arrived, UdpEvent::Broke, UdpEvent::Broke] {
        let broken = "198.51.100.66".parse().unwrap();
        shared.clients.observe(broken, &Observation::Udp(event));
    }
    let known = shared.clients.len();
    // The named client, whether HTTP/3 is advertised to it
    let cases = [("192.0.2.1", true), ("198.51.100.66", false), ("", true)];
    for (client, advertised) in cases {
        let request = request("a.example", client);
        let said = answered(&conn, &request).unwrap();
        assert_eq!(said.starts_with("h3="), advertised, "{client}: {said}");
        let asked = conn.asked(&request);
        let peer = conn.peer_of(&asked);
        let proxy = Via {
            address: BALANCER.parse().unwrap(),
            scheme: Scheme::Https,
        };
        assert_eq!(peer.via, Some(proxy));
        let want = match client {
            "" => SocketAddr::new(BALANCER.parse().unwrap(), 4000),
            client => SocketAddr::new(client.parse().unwrap(), 0),
        };
        assert_eq!(peer.remote, want);
    }
    learn(&conn);
    drop(conn);
    assert!(watch.udp().is_empty());
    assert_eq!(shared.clients.len(), known, "nothing is kept of anybody");
}

#[tokio::test(start_paused = true)]
async fn a_response_is_logged_with_its_client_and_what_it_came_through() {
    let server = server();
    let mut watch = server.watch();
    // connection, client and port, balancer or proxy
    let cases = [
        (open(&server, Through::Nothing), ("192.0.2.7", 50_000), None),
        (balanced(&server), ("192.0.2.7", 50_000), Some(BALANCER)),
        (
            open(&server, Through::Proxy),
            ("192.0.2.9", 0),
            Some(BALANCER),
        ),
    ];
    for (conn, (client, port), via) in cases {
        let request = request("a.example", "192.0.2.9");
        let mut exchange = Exchange::of(&request);
        exchange.client = conn.asked(&request).client;
        conn.ended(&exchange, clock::now(), &Snapshot::default());
        let response = watch.take("response").remove(0);
        assert_eq!(response["client"], client);
        assert_eq!(response["port"], port);
        assert_eq!(response["via"].as_str(), via);
    }
}

#[tokio::test(start_paused = true)]
async fn alt_svc_names_the_port_that_the_client_asked_for() {
    let advertise = |authority: &str| BehindConfig {
        advertise: (!authority.is_empty()).then(|| authority.parse().unwrap()),
        ..BehindConfig::default()
    };
    // behind.advertise, the authorities of requests in turn, and what their responses name
    type Case = (&'static str, &'static [(&'static str, &'static str)]);
    let cases: [Case; 3] = [
        (
            "",
            &[
                ("a.example:8443", ":8443"),
                ("a.example", ":443"),
                ("a.example:8444", ":8444"),
                ("[2001:db8::1]:8443", ":8443"),
                ("a.example:443", ":443"),
            ],
        ),
        (":8443", &[("a.example", ":8443"), ("a.example:1", ":8443")]),
        (
            "alt.example:443",
            &[
                ("a.example:8443", "alt.example:443"),
                ("a.example", "alt.example:443"),
            ],
        ),
    ];
    for (authority, requests) in cases {
        let server = Server::behind(advertise(authority));
        let conn = server.connection(Version::H2);
        for (asked, named) in requests {
            let said = answered(&conn, &request(asked, "")).unwrap();
            let want = format!("h3=\"{named}\"; ma=");
            assert!(said.starts_with(&want), "{authority}, {asked}: {said}");
        }
        let without = conn.alt_svc(&Asked::default()).unwrap();
        let own = if authority.is_empty() {
            ":443"
        } else {
            authority
        };
        let want = format!("h3=\"{own}\"; ma=");
        assert!(without.to_str().unwrap().starts_with(&want), "{authority}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_port_changes_nothing_where_http3_is_not_advertised() {
    let server = Server::with(
        &PolicyConfig {
            version: VersionPolicy::H2,
            ..policy()
        },
        Limits::default(),
        Timeouts::default(),
    );
    let asked = request("a.example:8443", "");
    assert_eq!(answered(&server.connection(Version::H2), &asked), None);
    let on_h3 = answered(&server.connection(Version::H3), &asked);
    assert_eq!(on_h3.as_deref(), Some("clear"));
}
