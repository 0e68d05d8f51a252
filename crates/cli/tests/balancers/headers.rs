//! Connections with a PROXY header that should have none, and without one that should have it.

use std::io::{Read, Write};
use std::net::TcpStream;

use hikyaku_testkit::client;
use hikyaku_testkit::{PATIENCE, Server, Site};
use tokio::net::TcpSocket;

fn start(network: &str) -> (Server, Site) {
    let site = Site::new(&[("index.html", b"start")]);
    let behind = format!("behind.proxy_protocol={network}");
    (Server::start(&[site.path(), "--set", &behind]), site)
}

/// Sends `bytes` from 127.0.0.1, and waits until the server closes the connection. Returns its answer.
fn send(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // The server closes with unread bytes, which resets.
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn refused(server: &Server, fault: &str) -> f64 {
    server.metric(&format!(
        "hikyaku_proxy_headers_refused_total{{fault=\"{fault}\"}}"
    ))
}

#[test]
fn a_balancer_that_names_no_client_is_refused() {
    let (server, _site) = start("127.0.0.1");
    client::block_on(async {
        assert!(client::tls(server.address(), &["h2"]).await.is_err());
    });
    assert_eq!(refused(&server, "missing"), 1.0);
    let warning = "a connection from 127.0.0.1 is closed: no PROXY header comes first, and \
                   behind.proxy_protocol names its network";
    server.wait_log(warning);
    assert!(send(&server, b"PROXY TCP4 somewhere\r\n").is_empty());
    assert_eq!(refused(&server, "malformed"), 1.0);
    assert_eq!(
        server.log().matches("PROXY header").count(),
        1,
        "once a minute"
    );
    drop(TcpStream::connect(server.address()).unwrap());
    let incomplete = "hikyaku_proxy_headers_refused_total{fault=\"incomplete\"}";
    server.wait_metric(incomplete, 1.0);
}

#[test]
fn a_header_of_anybody_else_is_refused() {
    let (server, _site) = start("127.0.0.9");
    let header = b"PROXY TCP4 192.0.2.1 198.51.100.1 50000 443\r\n";
    assert!(send(&server, header).is_empty());
    let warning = "a connection from 127.0.0.1 is closed: it begins with a PROXY header, and \
                   behind.proxy_protocol does not name its network";
    server.wait_log(warning);
    client::block_on(async {
        let from = "127.0.0.9:0".parse().unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(from).unwrap();
        let mut tcp = socket.connect(server.address()).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut tcp, header)
            .await
            .unwrap();
        client::tls_over(tcp, &["h2"]).await.unwrap();
    });
}

#[test]
fn a_header_has_the_time_of_a_handshake() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[
        site.path(),
        "--set",
        "behind.proxy_protocol=127.0.0.1",
        "--set",
        "timeouts.handshake=300ms",
    ]);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"PROXY TCP4 192.0.2.1").unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    server.wait_metric(
        "hikyaku_proxy_headers_refused_total{fault=\"incomplete\"}",
        1.0,
    );
}
