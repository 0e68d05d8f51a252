//! Handshakes over pipes in memory, under a stopped clock.

use hikyaku_testkit::client::tls_config;
use hikyaku_units::arm::Transport;
use rustls::ServerConnection;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::TlsConnector;

use super::begin::{peer, secure};
use super::*;
use crate::clock;
use crate::fakes::{self, CLIENT, LOCAL, Server, policy};
use crate::sections::{Limits, Timeouts};
use crate::serve::carrier::Carrier;

const FAILED: &str = "hikyaku_handshakes_failed_total{transport=\"tcp\"}";

fn pipe() -> (DuplexStream, DuplexStream) {
    tokio::io::duplex(64 * 1024)
}

fn remote() -> SocketAddr {
    CLIENT.parse().unwrap()
}

/// The server's side of a handshake with whoever is at the other end.
async fn accept(server: &Server, io: DuplexStream) -> io::Result<(DuplexStream, ServerConnection)> {
    let tls = Arc::new(fakes::tls().0);
    secure(io, tls, &server.site, remote().ip(), clock::now(), || ()).await
}

/// A handshake of a client that offers `alpn`.
async fn handshake(server: &Server, alpn: &[&str]) -> io::Result<(DuplexStream, ServerConnection)> {
    let (client, io) = pipe();
    let connector = TlsConnector::from(Arc::new(tls_config(alpn)));
    let name = ServerName::try_from("a.example").unwrap();
    let (connected, accepted) = tokio::join!(connector.connect(name, client), accept(server, io));
    assert_eq!(connected.is_ok(), accepted.is_ok(), "both or none");
    accepted
}

#[tokio::test(start_paused = true)]
async fn alpn_chooses_the_version() {
    let server = Server::start();
    let cases: [(&[&str], Version); 4] = [
        (&["h2", "http/1.1"], Version::H2),
        (&["http/1.1", "h2"], Version::H2),
        (&["http/1.1"], Version::H1),
        (&[], Version::H1),
    ];
    for (alpn, version) in cases {
        let tls = handshake(&server, alpn).await.unwrap();
        let peer = peer(&tls.1, remote(), LOCAL.parse().unwrap());
        assert_eq!(peer.version, version, "{alpn:?}");
        assert_eq!(peer.server_name.as_deref(), Some("a.example"));
    }
    assert_eq!(server.metric(FAILED), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_common_protocol_is_refused_and_counted() {
    let server = Server::start();
    assert!(handshake(&server, &["spdy/3"]).await.is_err());
    assert_eq!(server.metric(FAILED), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stops_is_given_up_in_its_time() {
    let timeouts = Timeouts {
        handshake: Duration::from_secs(7),
        ..Timeouts::default()
    };
    let server = Server::with(&policy(), Limits::default(), timeouts);
    for (name, sent) in [("nothing", b"".as_slice()), ("a part", b"\x16\x03\x01")] {
        let failed = server.metric(FAILED);
        let begun = clock::now();
        let (mut client, io) = pipe();
        client.write_all(sent).await.unwrap();
        let error = accept(&server, io).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{name}");
        assert_eq!(clock::since(begun), Duration::from_secs(7), "{name}");
        assert_eq!(server.metric(FAILED), failed + 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn http_in_the_clear_gets_an_answer_and_counts_as_failed() {
    let server = Server::start();
    let (mut client, io) = pipe();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    client.shutdown().await.unwrap();
    let error = accept(&server, io).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(server.metric(FAILED), 1);
}

#[tokio::test(start_paused = true)]
async fn a_header_of_no_balancer_is_refused_and_counts_as_failed() {
    let server = Server::start();
    let headers: [&[u8]; 2] = [
        b"PROXY TCP4 192.0.2.1 198.51.100.1 1 443\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c123456789012",
    ];
    for (count, header) in (1..).zip(headers) {
        let (mut client, io) = pipe();
        client.write_all(header).await.unwrap();
        let error = accept(&server, io).await.unwrap_err();
        assert_eq!(error.to_string(), "it begins with a PROXY header");
        assert_eq!(server.metric(FAILED), count);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert!(answer.is_empty(), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_ends_with_the_time_that_a_header_has_left() {
    let server = Server::start();
    let begun = clock::now();
    tokio::time::advance(Duration::from_secs(4)).await;
    let (_client, io) = pipe();
    let tls = Arc::new(fakes::tls().0);
    let secured = secure(io, tls, &server.site, remote().ip(), begun, || ()).await;
    assert_eq!(secured.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(clock::since(begun), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_reload_changes_the_time_of_later_handshakes() {
    let server = Server::start();
    let timeouts = Timeouts {
        handshake: Duration::from_secs(1),
        ..Timeouts::default()
    };
    server.set_limits(Limits::default(), timeouts);
    let (_client, io) = pipe();
    let begun = clock::now();
    assert!(accept(&server, io).await.is_err());
    assert_eq!(clock::since(begun), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn admission_is_refused_at_either_limit_and_comes_back() {
    let limits = Limits {
        connections: 3,
        connections_per_address: 2,
        ..Limits::default()
    };
    let server = Server::with(&policy(), limits, Timeouts::default());
    let admit = |last| server.site.admit(IpAddr::from([192, 0, 2, last]));
    let refused = || {
        ["connections_per_address", "connections"].map(|limit| {
            server.metric(&format!(
                "hikyaku_connections_refused_total{{limit=\"{limit}\"}}"
            ))
        })
    };
    let places = [admit(1), admit(1)];
    assert!(places.iter().all(Option::is_some));
    assert!(admit(1).is_none());
    assert_eq!(refused(), [1, 0]);
    let _third = admit(2).unwrap();
    assert!(admit(3).is_none());
    assert_eq!(refused(), [1, 1]);
    drop(places);
    assert!(admit(1).is_some());
    assert_eq!(refused(), [1, 1]);
}

/// A handshake of a client with a server whose clients carry summaries. Returns whether the server
/// heard more than it knew, before it sent anything.
async fn carry(server: &Server, client: &Arc<rustls::ClientConfig>) -> bool {
    let (theirs, io) = pipe();
    let shared = &server.shared;
    let service = server.site.service_full();
    let carrier = Carrier::of(&service, shared, remote().ip(), Through::Nothing).unwrap();
    let tls = carrier.within(&fakes::tls().0);
    let mut says_more = false;
    let connect = async {
        let name = ServerName::try_from("a.example").unwrap();
        let connector = TlsConnector::from(Arc::clone(client));
        let mut tls = connector.connect(name, theirs).await.unwrap();
        // The tickets come with what the server says.
        tls.read_to_end(&mut Vec::new()).await.unwrap();
    };
    let accept = async {
        let meet = || says_more = carrier.deliver();
        let secured = secure(io, tls, &server.site, remote().ip(), clock::now(), meet);
        let (mut io, mut tls) = secured.await.unwrap();
        tls.send_close_notify();
        let mut sealed = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut sealed).unwrap();
        }
        io.write_all(&sealed).await.unwrap();
    };
    tokio::join!(connect, accept);
    says_more
}

#[tokio::test(start_paused = true)]
async fn a_first_visit_begins_as_a_return_to_another_server() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let (_, _, secrets) = fakes::tls();
        let [a, b] = [(); 2].map(|()| Server::start());
        for server in [&a, &b] {
            server.carry_in(&secrets.tickets);
        }
        let client = Arc::new(hikyaku_testkit::client::tls_config_of(&["h2"], version));
        let known = |server: &Server| {
            let choice = server
                .shared
                .clients
                .transport(remote().ip(), Transport::Tcp);
            choice
                .known
                .map(|known| (known.initial_window(), known.min_rtt))
        };
        a.teach(remote().ip(), 12);
        assert!(!carry(&a, &client).await, "{version:?}: it has no ticket");
        assert!(
            !carry(&a, &client).await,
            "{version:?}: it says nothing new"
        );
        assert_eq!(known(&b), None, "{version:?}");
        assert!(carry(&b, &client).await, "{version:?}");
        assert_eq!(known(&b), known(&a), "{version:?}");
        assert!(known(&b).is_some(), "{version:?}");
        assert!(!carry(&b, &client).await, "{version:?}: it is known by now");
        // It takes on to a third what it got there.
        let c = Server::start();
        c.carry_in(&secrets.tickets);
        assert!(carry(&c, &client).await, "{version:?}");
        assert_eq!(known(&c), known(&a), "{version:?}");
    }
}
