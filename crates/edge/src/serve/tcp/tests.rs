//! Handshakes over pipes in memory, under a stopped clock.

use hikyaku_testkit::client::tls_config;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::TlsConnector;

use super::*;
use crate::clock;
use crate::fakes::{self, CLIENT, LOCAL, Server, policy};
use crate::sections::{Limits, Timeouts};

const FAILED: &str = "hikyaku_handshakes_failed_total{transport=\"tcp\"}";

fn pipe() -> (DuplexStream, DuplexStream) {
    tokio::io::duplex(64 * 1024)
}

fn remote() -> SocketAddr {
    CLIENT.parse().unwrap()
}

/// The server's side of a handshake with whoever is at the other end.
async fn accept(server: &Server, io: DuplexStream) -> io::Result<(DuplexStream, ServerConnection)> {
    secure(io, Arc::new(fakes::tls().0), &server.site, remote().ip()).await
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
