//! Summaries that clients carry from one server to another.

use super::*;
use crate::secrets::Tickets;

const CLIENT: &str = "192.0.2.7:50000";

/// A client's way of TLS, which keeps its sessions.
fn returning() -> ClientConfig {
    let crypto = QuicClientConfig::try_from(tls_config(&["h3"])).unwrap();
    ClientConfig::new(Arc::new(crypto))
}

/// Edges with the keys of their tickets in common.
fn edges<const N: usize>() -> [Edge; N] {
    let (_, _, secrets) = fakes::tls();
    let edge = |tickets: &Arc<Tickets>| {
        let edge = Edge::start(Limits::default());
        edge.server.carry_in(tickets);
        edge
    };
    [(); N].map(|()| edge(&secrets.tickets))
}

/// Visits an edge until the client has its ticket.
async fn visit(edge: &Edge, address: &str, config: &ClientConfig) {
    let socket = edge.network.bind(address.parse().unwrap());
    let endpoint = Endpoint::spawn(EndpointConfig::default(), None, socket).unwrap();
    let to = LOCAL.parse().unwrap();
    let connecting = endpoint.connect(config.clone(), to, "a.example").unwrap();
    let quic = connecting.await.unwrap();
    until("it is listed", || edge.live(ip(address).as_str()) == 1).await;
    // Tickets come before the first stream.
    quic.accept_uni().await.unwrap();
    quic.close(VarInt::from_u32(0x100), b"");
    until("it has left", || edge.live(ip(address).as_str()) == 0).await;
}

/// How many summaries an edge used, knew already, and could not read.
fn summaries(edge: &Edge) -> [u64; 3] {
    ["used", "known", "unreadable"].map(|outcome| {
        edge.server.metric(&format!(
            "hikyaku_session_summaries_total{{outcome=\"{outcome}\"}}"
        ))
    })
}

fn ip(address: &str) -> String {
    address.parse::<SocketAddr>().unwrap().ip().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_first_visit_begins_as_a_return_to_another_edge() {
    let [a, b] = edges();
    let config = returning();
    a.server.teach(ip(CLIENT).parse().unwrap(), 12);
    visit(&a, CLIENT, &config).await;
    let first = b.choice(CLIENT);
    assert_eq!(first.known, None, "a client that nobody has seen");
    visit(&b, CLIENT, &config).await;
    let (there, here) = (a.choice(CLIENT), b.choice(CLIENT));
    assert_eq!(here.congestion, there.congestion);
    let (there, here) = (there.known.unwrap(), here.known.unwrap());
    assert_eq!(here.initial_window(), there.initial_window());
    assert_eq!(here.min_rtt, there.min_rtt);
    let explained = b.server.shared.clients.explain(ip(CLIENT).parse().unwrap());
    assert!(explained.levels.iter().any(|level| level.carried));
    assert_eq!(summaries(&b), [1, 0, 0]);
    assert!(explained.to_string().contains("the client's ticket"));
}

#[tokio::test(start_paused = true)]
async fn a_ticket_counts_in_its_own_network_alone() {
    let cases = [
        ("its neighbour", "192.0.2.9:50000", true),
        ("another network", "198.51.100.7:50000", false),
    ];
    for (name, moved, counts) in cases {
        let [a, b] = edges();
        let config = returning();
        a.server.teach(ip(CLIENT).parse().unwrap(), 12);
        visit(&a, CLIENT, &config).await;
        visit(&b, moved, &config).await;
        assert_eq!(b.choice(moved).known.is_some(), counts, "{name}");
        assert_eq!(b.choice(CLIENT).known, None, "{name}: only of who shows it");
        assert_eq!(summaries(&b), [u64::from(counts), 0, 0], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_more_goes_by_itself() {
    let [a, b] = edges();
    let config = returning();
    let client = ip(CLIENT).parse().unwrap();
    a.server.teach(client, 12);
    visit(&a, CLIENT, &config).await;
    b.server.teach(client, 40);
    let before = b.choice(CLIENT);
    visit(&b, CLIENT, &config).await;
    assert_eq!(b.choice(CLIENT).known, before.known);
    assert_eq!(summaries(&b), [0, 1, 0]);
    let explained = b.server.shared.clients.explain(client);
    assert!(!explained.levels.iter().any(|level| level.carried));
}
