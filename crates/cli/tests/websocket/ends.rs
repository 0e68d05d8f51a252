//! Ends of tunnels: the end of a connection or stream on one side shows on the other.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::upstream::Upstream;
use hikyaku_testkit::client;
use hikyaku_testkit::fetch::Http;
use hikyaku_testkit::tunnel::{Came, Tunnel, VERSIONS, cancelled, open};
use hikyaku_testkit::{PATIENCE, Server};

/// Opens a tunnel. Returns it with the upstream's end.
async fn raw(http: Http, server: &Server, upstream: &mut Upstream) -> (Tunnel, TcpStream) {
    let tunnel = open(http, server.address(), "/raw", "websocket", &[])
        .await
        .unwrap();
    assert_eq!(tunnel.status, 200, "{http:?}");
    (tunnel, upstream.raw.recv().await.unwrap())
}

/// Reads to the end. The error is the reason why there is none.
async fn rest(stream: &mut TcpStream) -> Result<Vec<u8>, io::ErrorKind> {
    let mut all = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut all)).await;
    read.unwrap().map(|_| all).map_err(|error| error.kind())
}

fn reset(stream: TcpStream) {
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_end_is_one_on_the_other_side() {
    let mut upstream = Upstream::start().await;
    let server = Server::start(&["--upstream", &upstream.url()]);
    for http in VERSIONS {
        let (mut tunnel, mut stream) = raw(http, &server, &mut upstream).await;
        stream.write_all(b"last words").await.unwrap();
        stream.shutdown().await.unwrap();
        let (words, end) = tunnel.receiver.rest().await;
        assert_eq!((&*words, end), (&b"last words"[..], Came::End), "{http:?}");
        // Only one direction has ended.
        tunnel.sender.send("and mine").await;
        tunnel.sender.finish().await;
        assert_eq!(rest(&mut stream).await.unwrap(), b"and mine", "{http:?}");

        let (mut tunnel, mut stream) = raw(http, &server, &mut upstream).await;
        tunnel.sender.send("first words").await;
        tunnel.sender.finish().await;
        assert_eq!(rest(&mut stream).await.unwrap(), b"first words", "{http:?}");
        stream.write_all(b"an answer").await.unwrap();
        drop(stream);
        let (words, end) = tunnel.receiver.rest().await;
        assert_eq!((&*words, end), (&b"an answer"[..], Came::End), "{http:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_is_one_on_the_other_side() {
    let mut upstream = Upstream::start().await;
    let server = Server::start(&["--upstream", &upstream.url()]);
    for http in VERSIONS {
        let (mut tunnel, mut stream) = raw(http, &server, &mut upstream).await;
        stream.write_all(b"words").await.unwrap();
        assert_eq!(tunnel.receiver.next().await, Came::Data("words".into()));
        reset(stream);
        assert_eq!(
            tunnel.receiver.next().await,
            cancelled(http),
            "by the upstream"
        );

        let (tunnel, mut stream) = raw(http, &server, &mut upstream).await;
        tunnel.sender.cancel();
        let end = rest(&mut stream).await;
        assert_eq!(
            end,
            Err(io::ErrorKind::ConnectionReset),
            "{http:?}: by the client"
        );

        let (tunnel, mut stream) = raw(http, &server, &mut upstream).await;
        tunnel.connection.close();
        let end = rest(&mut stream).await;
        assert_eq!(
            end,
            Err(io::ErrorKind::ConnectionReset),
            "{http:?}: with its connection"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http1_a_reset_is_one_and_an_end_is_one() {
    let mut upstream = Upstream::start().await;
    let server = Server::start(&["--upstream", &upstream.url()]);
    let url = format!("wss://localhost:{}/raw", server.port());
    for (name, is_reset) in [("reset", true), ("closed without close_notify", false)] {
        let tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let (socket, response) = tokio_tungstenite::client_async(&*url, tls).await.unwrap();
        assert_eq!(response.status(), 101, "{name}");
        let mut stream = upstream.raw.recv().await.unwrap();
        let mut tls = socket.into_inner();
        tls.write_all(b"words").await.unwrap();
        tls.flush().await.unwrap();
        let mut words = [0; 5];
        stream.read_exact(&mut words).await.unwrap();
        let tcp = tls.into_inner().0;
        match is_reset {
            true => reset(tcp),
            false => drop(tcp),
        }
        let want = match is_reset {
            true => Err(io::ErrorKind::ConnectionReset),
            false => Ok(Vec::new()),
        };
        assert_eq!(rest(&mut stream).await, want, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http1_a_tunnel_keeps_its_place_among_connections() {
    let mut upstream = Upstream::start().await;
    let limit = ["--set", "limits.connections_per_address=2"];
    let server = Server::start(&[&["--upstream", &upstream.url()], &limit[..]].concat());
    let url = format!("wss://localhost:{}/raw", server.port());
    let connect = async || client::tls(server.address(), &["http/1.1"]).await;
    let (socket, _) = tokio_tungstenite::client_async(&*url, connect().await.unwrap())
        .await
        .unwrap();
    let stream = upstream.raw.recv().await.unwrap();
    let second = connect().await.unwrap();
    assert!(connect().await.is_err(), "a third");
    drop((socket, stream));
    let begun = Instant::now();
    while connect().await.is_err() {
        assert!(begun.elapsed() < PATIENCE, "its place is never free");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(second);
}

/// HTTP/2 has no frame for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_over_http3_resets_the_upstream() {
    let mut upstream = Upstream::start().await;
    let server = Server::start(&["--upstream", &upstream.url()]);
    let (tunnel, mut stream) = raw(Http::H3, &server, &mut upstream).await;
    drop(tunnel.receiver);
    assert_eq!(rest(&mut stream).await, Err(io::ErrorKind::ConnectionReset));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_stands_still_is_reset() {
    let mut upstream = Upstream::start().await;
    let idle = ["--set", "proxy.idle_timeout=500ms"];
    let server = Server::start(&[&["--upstream", &upstream.url()], &idle[..]].concat());
    for http in VERSIONS {
        let (mut tunnel, mut stream) = raw(http, &server, &mut upstream).await;
        for _ in 0..4 {
            // Longer than the limit in all, but never without data for it.
            tokio::time::sleep(Duration::from_millis(200)).await;
            tunnel.sender.send("x").await;
            stream.read_u8().await.unwrap();
        }
        assert_eq!(tunnel.receiver.next().await, cancelled(http));
        let end = rest(&mut stream).await;
        assert_eq!(end, Err(io::ErrorKind::ConnectionReset), "{http:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_bodies_and_idle_connections_are_not_those_of_tunnels() {
    let mut upstream = Upstream::start().await;
    let server = Server::start(&[
        "--upstream",
        &upstream.url(),
        "--set",
        "limits.body_size=1kB",
        "--set",
        "timeouts.body=300ms",
        "--set",
        "timeouts.idle=300ms",
    ]);
    for http in VERSIONS {
        let (mut tunnel, mut stream) = raw(http, &server, &mut upstream).await;
        tokio::time::sleep(Duration::from_millis(900)).await;
        tunnel.sender.send(vec![7; 5000]).await;
        let mut got = vec![0; 5000];
        stream.read_exact(&mut got).await.unwrap();
        stream.write_all(&got).await.unwrap();
        stream.shutdown().await.unwrap();
        let (back, end) = tunnel.receiver.rest().await;
        assert_eq!((back, end), (vec![7; 5000], Came::End), "{http:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_holds_the_upstream_back() {
    const ALL: usize = 64 << 20;
    let mut upstream = Upstream::start().await;
    let server = Server::start(&["--upstream", &upstream.url()]);
    for http in VERSIONS {
        let (mut tunnel, mut stream) = raw(http, &server, &mut upstream).await;
        let chunk = vec![7; 1 << 16];
        let mut sent = 0;
        // Windows and the kernel's buffers take their data in no time.
        while let Ok(wrote) =
            tokio::time::timeout(Duration::from_secs(1), stream.write(&chunk)).await
        {
            sent += wrote.unwrap();
            assert!(sent < ALL, "{http:?}: nothing holds it back");
        }
        stream.shutdown().await.unwrap();
        let (all, end) = tunnel.receiver.rest().await;
        assert_eq!((all.len(), end), (sent, Came::End), "{http:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_none() {
    for http in VERSIONS {
        let mut upstream = Upstream::start().await;
        let drain = ["--set", "timeouts.drain=1h"];
        let mut server = Server::start(&[&["--upstream", &upstream.url()], &drain[..]].concat());
        let (mut tunnel, mut stream) = raw(http, &server, &mut upstream).await;
        server.signal(Signal::TERM);
        let (nothing, end) = tunnel.receiver.rest().await;
        assert_eq!((&*nothing, end), (&b""[..], Came::End), "{http:?}");
        assert_eq!(rest(&mut stream).await.unwrap(), b"", "{http:?}");
        drop(tunnel);
        assert!(server.wait_exit().success(), "{http:?}");
    }
}
