//! Headers over pipes in memory, under a stopped clock.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::*;
use crate::behind::BehindConfig;
use crate::fakes::{LOCAL, Server};

const BALANCER: &str = "::ffff:10.0.0.1";

/// A server behind the proxies of 10.1.0.0/16.
fn server() -> Server {
    Server::behind(BehindConfig {
        trusted: vec!["10.1.0.0/16".parse().unwrap()],
        ..BehindConfig::default()
    })
}

fn own() -> SocketAddr {
    SocketAddr::new(BALANCER.parse().unwrap(), 4000)
}

/// The ends that the server reads of `sent`, and the bytes that it leaves.
async fn named(server: &Server, sent: &[u8]) -> (io::Result<Ends>, Vec<u8>) {
    let (mut balancer, mut io) = tokio::io::duplex(64 * 1024);
    balancer.write_all(sent).await.unwrap();
    drop(balancer);
    let local = LOCAL.parse().unwrap();
    let ends = server.site.named(&mut io, own(), local).await;
    let mut left = Vec::new();
    io.read_to_end(&mut left).await.unwrap();
    (ends, left)
}

fn refused(server: &Server) -> [u64; 3] {
    ["missing", "malformed", "incomplete"].map(|fault| {
        server.metric(&format!(
            "hikyaku_proxy_headers_refused_total{{fault=\"{fault}\"}}"
        ))
    })
}

#[tokio::test(start_paused = true)]
async fn the_ends_are_those_of_the_header_and_what_follows_is_left() {
    let server = server();
    let balancer = Through::Balancer("10.0.0.1".parse().unwrap());
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    let cases: [(&str, &[u8], &str, &str, Through); 4] = [
        (
            "a client",
            b"PROXY TCP4 192.0.2.1 203.0.113.5 50000 8443\r\n",
            "192.0.2.1:50000",
            "203.0.113.5:8443",
            balancer,
        ),
        (
            "a trusted proxy",
            b"PROXY TCP4 10.1.2.3 203.0.113.5 50000 443\r\n",
            "10.1.2.3:50000",
            "203.0.113.5:443",
            Through::Proxy,
        ),
        (
            "nobody",
            b"PROXY UNKNOWN\r\n",
            "[::ffff:10.0.0.1]:4000",
            LOCAL,
            balancer,
        ),
        (
            "the balancer itself",
            local,
            "[::ffff:10.0.0.1]:4000",
            LOCAL,
            balancer,
        ),
    ];
    for (name, header, remote, local, through) in cases {
        let (ends, left) = named(&server, &[header, b"\x16\x03\x01"].concat()).await;
        let want = Ends {
            remote: remote.parse().unwrap(),
            local: local.parse().unwrap(),
            through,
        };
        assert_eq!(ends.unwrap(), want, "{name}");
        assert_eq!(left, b"\x16\x03\x01", "{name}");
    }
    assert_eq!(refused(&server), [0; 3]);
}

#[tokio::test(start_paused = true)]
async fn connections_without_a_header_are_refused_and_counted() {
    let server = server();
    let cases: [(&str, &[u8], [u64; 3]); 4] = [
        ("TLS", &[0x16; 64], [1, 0, 0]),
        (
            "an unknown version",
            b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0",
            [1, 1, 0],
        ),
        ("an early end", b"PROXY TCP4 192.", [1, 1, 1]),
        ("nothing at all", b"", [1, 1, 2]),
    ];
    for (name, sent, want) in cases {
        let (ends, _) = named(&server, sent).await;
        assert!(ends.is_err(), "{name}");
        assert_eq!(refused(&server), want, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_header_has_the_time_of_a_handshake() {
    let server = server();
    let (mut balancer, mut io) = tokio::io::duplex(64);
    balancer.write_all(b"PROXY TCP4 192.0.2.1 ").await.unwrap();
    let begun = clock::now();
    let local = LOCAL.parse().unwrap();
    let error = server.site.named(&mut io, own(), local).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(clock::since(begun), Duration::from_secs(10));
    assert_eq!(refused(&server), [0, 0, 1]);
}
