//! A listener of QUIC on a network in memory, under a stopped clock.

mod carried;
mod udp;

use std::net::IpAddr;

use hikyaku_quic::Steering;
use hikyaku_quic::proto::crypto::rustls::QuicClientConfig;
use hikyaku_quic::proto::{ClientConfig, EndpointConfig};
use hikyaku_testkit::client::tls_config;

use super::config::check_min_cwnd;
use super::*;
use crate::clock;
use crate::connection_ids::QuicKeys;
use crate::fakes::{self, InForce, LOCAL, Server, in_force, part, policy};
use crate::measure::{QuicConnection, QuicTransport};
use crate::sections::{Limits, Timeouts};
use crate::transport::TransportChoice;
use udp::Network;

const FAILED: &str = "hikyaku_handshakes_failed_total{transport=\"quic\"}";
const REFUSED: &str = "hikyaku_connections_refused_total{limit=\"connections_per_address\"}";

/// A listener's endpoint and its network.
struct Edge {
    server: Server,
    network: Arc<Network>,
    handshakes: Arc<Handshakes>,
    endpoint: Endpoint,
    in_force: InForce<QuicConfig>,
}

impl Edge {
    fn start(limits: Limits) -> Self {
        let edge = Self::new(limits);
        let listener = QuicListener {
            endpoint: edge.endpoint.clone(),
            local: LOCAL.parse().unwrap(),
            config: part(&edge.in_force),
            site: Arc::clone(&edge.server.site),
            tasks: TaskTracker::new(),
            handshakes: Arc::clone(&edge.handshakes),
            unvalidated: Arc::default(),
        };
        tokio::spawn(listener.run());
        edge
    }

    /// One that accepts nobody by itself.
    fn new(limits: Limits) -> Self {
        let server = Server::with(&policy(), limits, Timeouts::default());
        let network = Arc::<Network>::default();
        let local: SocketAddr = LOCAL.parse().unwrap();
        let (_, tls, secrets) = fakes::tls();
        let keys = QuicKeys::new(&secrets, Steering::new(1, 0), 0).unwrap();
        let service = server.site.service_full();
        let config = QuicConfig::new(tls, &keys, None, &service.limits, &service.timeouts);
        let in_force = in_force(config.unwrap());
        let server_config = Some(part(&in_force).load().endpoint());
        let endpoint = Endpoint::spawn(keys.endpoint(0), server_config, network.bind(local));
        Self {
            server,
            network,
            handshakes: Arc::default(),
            endpoint: endpoint.unwrap(),
            in_force,
        }
    }

    fn choice(&self, address: &str) -> TransportChoice {
        let ip = address.parse::<SocketAddr>().unwrap().ip();
        self.server.shared.clients.transport(ip, Transport::Quic)
    }

    /// A client at `address` that offers `alpn`, and begins a handshake.
    fn connect(&self, address: &str, alpn: &str) -> (Endpoint, Connecting) {
        let socket = self.network.bind(address.parse().unwrap());
        let endpoint = Endpoint::spawn(EndpointConfig::default(), None, socket).unwrap();
        let crypto = QuicClientConfig::try_from(tls_config(&[alpn])).unwrap();
        let config = ClientConfig::new(Arc::new(crypto));
        let to = LOCAL.parse().unwrap();
        let connecting = endpoint.connect(config, to, "a.example").unwrap();
        (endpoint, connecting)
    }

    async fn client(&self, address: &str) -> (Endpoint, Connection) {
        let (endpoint, connecting) = self.connect(address, "h3");
        (endpoint, connecting.await.unwrap())
    }

    fn live(&self, address: &str) -> usize {
        self.server.site.live.of(address.parse().unwrap()).len()
    }
}

/// Waits until it is so, and reports how long that took.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = clock::now();
    while !is_so() {
        assert!(
            clock::since(begun) < Duration::from_secs(100),
            "never: {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    clock::since(begun)
}

#[tokio::test(start_paused = true)]
async fn a_client_of_http3_is_served_and_listed_until_it_leaves() {
    let edge = Edge::start(Limits::default());
    let (_endpoint, client) = edge.client("192.0.2.7:50000").await;
    until("it is listed", || edge.live("192.0.2.7") == 1).await;
    let open = edge.server.site.live.of("192.0.2.7".parse().unwrap());
    let open = open[0].look().unwrap();
    assert_eq!((open.version, open.port), (Version::H3, 50_000));
    assert_eq!(edge.server.shared.metrics.open(Version::H3), 1);
    assert_eq!(
        edge.server
            .metric("hikyaku_udp_events_total{event=\"arrived\"}"),
        1
    );
    client.close(VarInt::from_u32(0x100), b"");
    until("it is gone", || edge.live("192.0.2.7") == 0).await;
    assert_eq!(edge.server.shared.metrics.open(Version::H3), 0);
    assert_eq!(edge.server.site.connections.count(), 0);
    assert_eq!(edge.server.metric(FAILED), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_without_http3_is_refused_and_counted() {
    let edge = Edge::start(Limits::default());
    let (_endpoint, connecting) = edge.connect("192.0.2.7:50000", "h2");
    let error = connecting.await.unwrap_err().to_string();
    assert!(
        error.contains("no application protocol") || error.contains("120"),
        "{error}"
    );
    until("its place is free", || {
        edge.server.site.connections.count() == 0
    })
    .await;
    assert_eq!(edge.server.metric(FAILED), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stops_is_given_up_in_its_time() {
    let edge = Edge::start(Limits::default());
    edge.network.cut("192.0.2.7:50000");
    let (_endpoint, _connecting) = edge.connect("192.0.2.7:50000", "h3");
    let handshakes = || edge.handshakes.count();
    until("it has begun", || handshakes() == 1).await;
    assert_eq!(edge.handshakes.ids().len(), 1);
    assert_eq!(
        edge.server
            .site
            .connections
            .beginning("192.0.2.7".parse().unwrap()),
        1
    );
    let took = until("it is given up", || handshakes() == 0).await;
    assert!(edge.handshakes.ids().is_empty());
    let want = edge.server.site.service().timeouts.handshake;
    assert!(took.abs_diff(want) < Duration::from_millis(100), "{took:?}");
    assert_eq!(edge.server.metric(FAILED), 1);
    assert_eq!(edge.server.site.connections.count(), 0);
    let broke = "hikyaku_udp_events_total{event=\"broke\"}";
    assert_eq!(
        edge.server.metric(broke),
        0,
        "somebody else may have begun it"
    );
}

#[tokio::test(start_paused = true)]
async fn clients_beyond_a_limit_hear_nothing() {
    let edge = Edge::start(Limits {
        connections_per_address: 1,
        ..Limits::default()
    });
    let (_first, connection) = edge.client("192.0.2.7:50000").await;
    let (_second, connecting) = edge.connect("192.0.2.7:50001", "h3");
    until("it is refused", || edge.server.metric(REFUSED) == 1).await;
    assert_eq!(
        edge.network.received("192.0.2.7:50001"),
        0,
        "a refusal is remembered for days"
    );
    let other = edge.client("192.0.2.8:50000").await;
    connection.close(VarInt::from_u32(0x100), b"");
    let established = connecting.await;
    assert!(
        established.is_ok(),
        "it asks again, and there is room: {established:?}"
    );
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn addresses_have_to_be_proven_where_many_handshakes_go_on() {
    let cases = [("none is too many", 0, 1), ("hundreds are fine", 500, 0)];
    for (name, quic_retry_above, retries) in cases {
        let edge = Edge::start(Limits {
            quic_retry_above,
            ..Limits::default()
        });
        let _client = edge.client("192.0.2.7:50000").await;
        assert_eq!(
            edge.server.metric("hikyaku_quic_retries_total"),
            retries,
            "{name}"
        );
    }
}

#[test]
fn idle_connections_end_before_nats_forget_them() {
    // timeouts.idle, time without a packet
    for (idle, want) in [(5, 6), (28, 29), (29, 30), (75, 30), (u64::MAX, 30)] {
        let timeouts = Timeouts {
            idle: Duration::from_secs(idle),
            ..Timeouts::default()
        };
        assert_eq!(max_idle(&timeouts), Duration::from_secs(want), "{idle} s");
    }
}

#[test]
fn a_floor_that_no_connection_can_reach_is_refused() {
    for (floor, fits) in [
        (None, true),
        (Some(SEND_WINDOW), true),
        (Some(SEND_WINDOW + 1), false),
    ] {
        assert_eq!(check_min_cwnd(floor).is_ok(), fits, "{floor:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn forged_packets_of_an_address_have_it_prove_itself() {
    let edge = Edge::start(Limits::default());
    let address: IpAddr = [192, 0, 2, 7].into();
    let admit = || edge.server.site.admit(address).unwrap();
    let _forged: Vec<_> = std::iter::repeat_with(admit)
        .take(RETRY_ABOVE_OF_ADDRESS)
        .collect();
    let _client = edge.client("192.0.2.7:50000").await;
    let _other = edge.client("192.0.2.8:50000").await;
    assert_eq!(
        edge.server.metric("hikyaku_quic_retries_total"),
        1,
        "of that address alone"
    );
}

/// A client that moves gets another congestion controller, unless only its port changes, on IPv4
/// (RFC 9000 §9.4). The meter has to see acknowledgements all the same. Otherwise it would end the
/// connection, as if the client took nothing.
#[tokio::test(start_paused = true)]
async fn a_client_that_moves_is_measured_further() {
    const LEN: u64 = 100_000;
    let address = "192.0.2.7:50000";
    let cases = [
        ("another port", "192.0.2.7:50001"),
        ("another host", "192.0.2.8:50000"),
    ];
    for (name, other) in cases {
        let edge = Edge::new(Limits::default());
        let connecting = edge.connect(address, "h3");
        let choice = edge.choice(address);
        let config = part(&edge.in_force)
            .load()
            .of_connection(&choice, None, None);
        let incoming = edge.endpoint.accept().await.unwrap();
        let (served, client) = tokio::join!(incoming.accept_with(config).unwrap(), connecting.1);
        let (served, client) = (served.unwrap(), client.unwrap());
        let measured = QuicConnection::from(served.clone());
        let serve = async |total: u64| {
            let mut stream = served.open_uni().await.unwrap();
            stream.write_all(&vec![0; LEN as usize]).await.unwrap();
            drop(stream);
            let mut stream = client.accept_uni().await.unwrap();
            stream.read_to_end(LEN as usize).await.unwrap();
            until(name, || measured.acked() >= total).await;
        };
        serve(LEN).await;
        edge.network.moved(address, other);
        client
            .open_uni()
            .await
            .unwrap()
            .write_all(b"here")
            .await
            .unwrap();
        until(name, || measured.remote_address() == other.parse().unwrap()).await;
        serve(2 * LEN).await;
    }
}
