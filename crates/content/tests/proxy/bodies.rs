//! Bodies that stream, break off or stand still.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::support::{
    Edge, Kind, Upstream, counted, echo, full, impatient, post, raw_upstream, read,
};
use bytes::Bytes;
use futures_util::stream;
use hikyaku_content::proxy::BodyError;
use hikyaku_content::{BoxError, ProxyConfig};
use http::{Method, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn bodies_stream_no_faster_than_they_are_read() {
    const CHUNK: usize = 64 << 10;
    const CHUNKS: usize = (1 << 30) / CHUNK;
    for kind in Kind::ALL {
        let made = Arc::new(AtomicUsize::new(0));
        let making = Arc::clone(&made);
        let upstream = Upstream::start(kind, move |request| {
            let making = Arc::clone(&making);
            async move {
                if request.method() == Method::POST {
                    // The client reads nothing of the body.
                    pending::<()>().await;
                }
                Response::new(counted(CHUNKS, CHUNK, making))
            }
        })
        .await;
        let edge = upstream.edge(&ProxyConfig::default());
        let mut body = edge.get("/").await.into_body();
        body.frame().await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let ahead = made.load(Relaxed);
        assert!(
            ahead < 32 << 20,
            "{kind:?}: {} MiB ahead of the client",
            ahead >> 20
        );
        let mut more = 0;
        while more < 64 << 20 {
            more += body
                .frame()
                .await
                .unwrap()
                .unwrap()
                .into_data()
                .unwrap()
                .len();
        }
        drop(body);

        let sent = Arc::new(AtomicUsize::new(0));
        let request = post("/", counted(CHUNKS, CHUNK, Arc::clone(&sent)));
        let upload = edge.send(request);
        let timeout = tokio::time::timeout(Duration::from_millis(300), upload).await;
        assert!(timeout.is_err(), "{kind:?}: the upstream does not answer");
        let ahead = sent.load(Relaxed);
        assert!(
            ahead < 32 << 20,
            "{kind:?}: {} MiB ahead of the upstream",
            ahead >> 20
        );
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_ends_in_an_error() {
    for (name, head) in [
        ("by length", "content-length: 100"),
        ("chunked", "transfer-encoding: chunked"),
    ] {
        let dying = raw_upstream(move |mut stream, _| async move {
            let _ = stream.read(&mut [0; 1024]).await;
            let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nhello\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
        })
        .await;
        let edge = Edge::new(&format!("http://{dying}"), &ProxyConfig::default());
        let response = edge.get("/").await;
        assert_eq!(response.status(), 200, "{name}");
        let error = response.into_body().collect().await.unwrap_err();
        let error = error.downcast::<BodyError>().unwrap();
        assert!(matches!(*error, BodyError::Upstream(_)), "{name}: {error}");

        // The client must be able to notice: the body has no proper end.
        let mut stream = TcpStream::connect(edge.listen().await).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n"),
            "{name}: {answer}"
        );
        assert!(!answer.contains("\r\n0\r\n"), "{name}: {answer}");
    }
}

#[tokio::test]
async fn a_response_that_stands_still_is_given_up() {
    let stalls = raw_upstream(|mut stream, _| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n";
        let _ = stream.write_all(head).await;
        for _ in 0..5 {
            // The response takes longer than one limit in all, but never pauses for so long.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let _ = stream.write_all(b"x").await;
        }
        pending::<()>().await;
    })
    .await;
    let edge = Edge::new(&format!("http://{stalls}"), &impatient());
    let mut body = edge.get("/").await.into_body();
    let mut received = 0;
    let error = loop {
        match body.frame().await.unwrap() {
            Ok(frame) => received += frame.into_data().unwrap().len(),
            Err(error) => break error,
        }
    };
    assert_eq!(received, 5);
    let error = error.downcast::<BodyError>().unwrap();
    assert!(matches!(*error, BodyError::Idle { .. }), "{error}");
}

#[tokio::test]
async fn a_slow_client_is_not_the_upstreams_fault() {
    let upstream = Upstream::start(Kind::Http1, echo).await;
    let edge = upstream.edge(&impatient());
    let frames = stream::unfold(0, |sent| async move {
        if sent == 3 {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
        Some((Ok::<_, BoxError>(Frame::data(Bytes::from("x"))), sent + 1))
    });
    let response = edge
        .send(post("/", StreamBody::new(frames).boxed_unsync()))
        .await;
    assert_eq!(response.status(), 200);
    assert_eq!(read(response).await, "xxx");

    let mut body = edge
        .send(post("/", full(vec![b'x'; 8 << 20])))
        .await
        .into_body();
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        if received == 0 {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        received += frame.unwrap().into_data().unwrap().len();
    }
    assert_eq!(received, 8 << 20);
}
