//! WebSocket connections through the proxy.

use std::time::Duration;

use crate::support::{Edge, Kind, Upstream, full, impatient, raw_upstream};
use futures_util::{SinkExt, StreamExt};
use hikyaku_content::ProxyConfig;
use http::{Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

/// An upstream that takes WebSocket connections and returns their messages.
pub(crate) async fn websocket_upstream() -> std::net::SocketAddr {
    raw_upstream(|stream, _| async move {
        let Ok(socket) = tokio_tungstenite::accept_async(stream).await else {
            return;
        };
        let (mut to, mut from) = socket.split();
        while let Some(Ok(message)) = from.next().await {
            if message.is_close() || to.send(message).await.is_err() {
                return;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_websocket_passes_both_ways() {
    let upstream = websocket_upstream().await;
    let edge = Edge::new(&format!("http://{upstream}"), &ProxyConfig::default());
    let stream = TcpStream::connect(edge.listen().await).await.unwrap();
    let connecting = tokio_tungstenite::client_async("ws://site.example/chat", stream);
    let (mut socket, response) = connecting.await.unwrap();
    assert_eq!(response.status(), 101);
    assert_eq!(response.headers()["upgrade"], "websocket");
    for size in [1, 100, 70_000, 1 << 20] {
        let message = Message::binary(vec![7; size]);
        socket.send(message.clone()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), message, "{size} B");
    }
    socket.close(None).await.unwrap();
    while let Some(Ok(_)) = socket.next().await {}
}

#[tokio::test]
async fn a_websocket_that_stands_still_is_closed() {
    let upstream = websocket_upstream().await;
    let edge = Edge::new(&format!("http://{upstream}"), &impatient());
    let stream = TcpStream::connect(edge.listen().await).await.unwrap();
    let connecting = tokio_tungstenite::client_async("ws://site.example/", stream);
    let (mut socket, _) = connecting.await.unwrap();
    for _ in 0..4 {
        // The pauses take longer than the limit in all, but none of them does.
        tokio::time::sleep(Duration::from_millis(150)).await;
        socket.send(Message::text("still here")).await.unwrap();
        socket.next().await.unwrap().unwrap();
    }
    let end = tokio::time::timeout(Duration::from_secs(10), socket.next()).await;
    assert!(matches!(end, Ok(None | Some(Err(_)))), "{end:?}");
}

#[tokio::test]
async fn an_upgrade_that_the_upstream_declines_is_a_plain_response() {
    for kind in Kind::ALL {
        let upstream = Upstream::start(kind, |request| async move {
            let asked = request.headers().contains_key("upgrade");
            let mut response = Response::new(full(if asked { "asked" } else { "not asked" }));
            *response.status_mut() = StatusCode::FORBIDDEN;
            response
        })
        .await;
        let edge = upstream.edge(&ProxyConfig::default());
        let mut stream = TcpStream::connect(edge.listen().await).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, upgrade\r\n\
            Upgrade: websocket\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        // Over TLS the proxy offers HTTP/1.1 alone for this, which not all upstreams take.
        if kind == Kind::TlsHttp2 {
            assert!(answer.starts_with("HTTP/1.1 502 "), "{kind:?}: {answer}");
            continue;
        }
        let want = if kind == Kind::Http2 {
            "not asked"
        } else {
            "asked"
        };
        assert!(answer.starts_with("HTTP/1.1 403 "), "{kind:?}: {answer}");
        assert!(answer.ends_with(want), "{kind:?}: {answer}");
    }
}
