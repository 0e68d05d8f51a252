//! A server with small limits, and clients that use it meanwhile.

use std::net::SocketAddr;

use hikyaku_testkit::client;
use hikyaku_testkit::fetch::Http;
use hikyaku_testkit::{PATIENCE, Server, Site, get};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) fn site() -> Site {
    Site::new(&[("index.html", b"start")])
}

/// Starts a server with these keys set.
#[track_caller]
pub(crate) fn start(content: &[&str], keys: &[&str]) -> Server {
    let keys = keys.iter().flat_map(|key| ["--set", key]);
    let args: Vec<&str> = content.iter().copied().chain(keys).collect();
    Server::start(&args)
}

/// Reads until the server ends the connection, in any manner.
pub(crate) async fn read_to_end(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut all)).await;
    let _ = read.expect("the connection is never closed");
    all
}

/// Checks that a fresh client of every version is served.
#[track_caller]
pub(crate) fn expect_service(server: &Server) {
    for http in Http::ALL {
        let records = get(&[
            "--http",
            http.option(),
            "--timeout",
            "20s",
            &server.url("/"),
        ]);
        assert_eq!(records[0]["status"], 200, "{http:?}: {records:?}");
    }
}

/// Begins HTTP/2 with raw frames: preface and SETTINGS are sent.
pub(crate) async fn raw_h2(address: SocketAddr) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut tls = client::tls(address, &["h2"]).await.unwrap();
    tls.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    tls.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    tls
}

/// A frame (RFC 9113 §4.1).
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// `GET https://a/` in HPACK, by the static table and one literal.
pub(crate) const GET: [u8; 6] = [0x82, 0x87, 0x84, 0x41, 0x01, b'a'];
