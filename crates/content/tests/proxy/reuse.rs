//! Connections to the upstream that are used again.

use std::time::Duration;

use crate::support::{
    Edge, Kind, Upstream, connections_become_idle, echo, full, no_body, post, raw_upstream, read,
};
use bytes::Bytes;
use futures_util::stream;
use hikyaku_content::ProxyConfig;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn connections_are_used_again() {
    for kind in Kind::ALL {
        let upstream = Upstream::start(kind, echo).await;
        let edge = upstream.edge(&ProxyConfig::default());
        for _ in 0..10 {
            assert_eq!(read(edge.get("/").await).await, "");
            connections_become_idle().await;
            let response = edge.send(post("/", full("x"))).await;
            assert_eq!(read(response).await, "x");
            connections_become_idle().await;
        }
        assert_eq!(upstream.connections(), 1, "{kind:?}");
        let together = (0..20).map(|_| edge.send(post("/", full("y"))));
        for response in futures_util::future::join_all(together).await {
            assert_eq!(response.status(), 200);
        }
        let is_shared = kind.version() == http::Version::HTTP_2;
        assert_eq!(upstream.connections() == 1, is_shared, "{kind:?}");
    }
}

#[tokio::test]
async fn idle_connections_are_few_and_do_not_stay() {
    let upstream = Upstream::start(Kind::Http1, echo).await;
    let edge = upstream.edge(&ProxyConfig {
        keep_connections: 2,
        keep_alive: Duration::from_millis(200),
        ..ProxyConfig::default()
    });
    let burst = async || {
        let together = (0..5).map(|_| edge.get("/"));
        for response in futures_util::future::join_all(together).await {
            read(response).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    burst().await;
    assert_eq!(upstream.connections(), 5);
    burst().await;
    assert_eq!(upstream.connections(), 8, "two of the first were kept");
    tokio::time::sleep(Duration::from_millis(300)).await;
    edge.get("/").await;
    assert_eq!(upstream.connections(), 9, "those had become too old");
}

#[tokio::test]
async fn a_connection_closed_while_idle_costs_no_request() {
    let closes = raw_upstream(|mut stream, _| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await;
    })
    .await;
    let edge = Edge::new(&format!("http://{closes}"), &ProxyConfig::default());
    for _ in 0..20 {
        assert_eq!(edge.send(post("/", no_body())).await.status(), 200);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_request_that_a_closing_connection_did_not_take_goes_over_another() {
    // The server has its own thread, so that it closes while the runtime's one sleeps.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            std::io::Write::write_all(&mut stream, answer).unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let edge = Edge::new(&format!("http://{address}"), &ProxyConfig::default());
    for _ in 0..3 {
        let response = edge.send(post("/", full("not to be repeated"))).await;
        assert_eq!(response.status(), 200);
        connections_become_idle().await;
        std::thread::sleep(Duration::from_millis(200));
        // The end of the connection arrives, but its task does not run before this one.
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_request_over_an_old_connection_goes_on() {
    for kind in [Kind::Http1, Kind::Http2] {
        let upstream = Upstream::start(kind, echo).await;
        let age = Duration::from_millis(100);
        let edge = upstream.edge(&ProxyConfig {
            connection_age: age,
            ..ProxyConfig::default()
        });
        let (send, receive) = tokio::sync::mpsc::channel::<&str>(1);
        let chunks = stream::unfold(receive, |mut receive| async {
            let chunk = receive.recv().await?;
            Some((Ok(Frame::data(Bytes::from(chunk))), receive))
        });
        send.send("one ").await.unwrap();
        let response = edge
            .send(post("/", StreamBody::new(chunks).boxed_unsync()))
            .await;
        assert_eq!(response.status(), 200);
        tokio::time::sleep(age).await;
        assert_eq!(read(edge.get("/").await).await, "");
        assert_eq!(upstream.connections(), 2, "{kind:?}");
        send.send("two").await.unwrap();
        drop(send);
        assert_eq!(read(response).await, "one two", "{kind:?}");
    }
}

#[tokio::test]
async fn connections_that_are_old_get_no_more_requests() {
    for kind in [Kind::Http1, Kind::Http2, Kind::TlsHttp2] {
        let upstream = Upstream::start(kind, echo).await;
        let age = Duration::from_millis(700);
        let edge = upstream.edge(&ProxyConfig {
            connection_age: age,
            ..ProxyConfig::default()
        });
        for connections in 1..=2 {
            for _ in 0..3 {
                assert_eq!(read(edge.send(post("/", full("x"))).await).await, "x");
                connections_become_idle().await;
            }
            assert_eq!(upstream.connections(), connections, "{kind:?}");
            tokio::time::sleep(age).await;
        }
    }
}
