//! HTTP/1.1 towards the upstream, byte by byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::support::{Edge, full, get, impatient, no_body, post, raw_upstream, read, reason};
use bytes::Bytes;
use futures_util::stream;
use hikyaku_content::{BoxError, Interim, ProxyConfig};
use http::{HeaderValue, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Reads a request without content; `false` at the connection's end.
async fn read_head(stream: &mut TcpStream) -> bool {
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n") {
        if !matches!(stream.read_buf(&mut got).await, Ok(1..)) {
            return false;
        }
    }
    true
}

/// Answers each request with `answer`, and counts connections.
async fn answers(answer: &'static [&'static str]) -> (Edge, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    let upstream = raw_upstream(move |mut stream, _| {
        counter.fetch_add(1, Relaxed);
        async move {
            while read_head(&mut stream).await {
                for piece in answer {
                    stream.write_all(piece.as_bytes()).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    })
    .await;
    let edge = Edge::new(&format!("http://{upstream}"), &ProxyConfig::default());
    (edge, connections)
}

#[tokio::test]
async fn a_connection_is_used_again_after_responses_that_have_an_end() {
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    // name, pieces of the answer, content, connections for three requests
    let cases: &[(&str, &[&str], &str, usize)] = &[
        (
            "by length",
            &["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"],
            "ok",
            1,
        ),
        (
            "in pieces",
            &["HTTP/1.1 20", "0 OK\r\ncontent-length: 2\r", "\n\r\no", "k"],
            "ok",
            1,
        ),
        ("no content", &["HTTP/1.1 204 No Content\r\n\r\n"], "", 1),
        ("a chunk", &[CHUNKED, "2\r\nok\r\n0\r\n\r\n"], "ok", 1),
        (
            "chunks",
            &[CHUNKED, "1\r\no\r", "\n1\r\nk", "\r\n0\r\n", "\r\n"],
            "ok",
            1,
        ),
        (
            "trailers",
            &[CHUNKED, "2\r\nok\r\n0\r\nx: ", "y\r\n\r\n"],
            "ok",
            1,
        ),
        (
            "interim",
            &[
                "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n",
                "content-length: 2\r\n\r\nok",
            ],
            "ok",
            1,
        ),
        (
            "a line before",
            &["\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"],
            "ok",
            1,
        ),
        (
            "1.0, kept",
            &["HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok"],
            "ok",
            1,
        ),
        (
            "1.0",
            &["HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"],
            "ok",
            3,
        ),
        (
            "closed",
            &["HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"],
            "ok",
            3,
        ),
        // "Regardless, the server MUST close the connection after responding to such a request"
        // (RFC 9112 §6.1): nor is a client to trust what follows.
        (
            "two framings",
            &[
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            ],
            "ok",
            3,
        ),
        // A response that nobody asked for would answer the next request (RFC 9112 §9.2).
        (
            "a response too many",
            &[
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad",
            ],
            "ok",
            3,
        ),
        (
            "a response too many, later",
            &[
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
                "HTTP/1.1 408 Late\r\ncontent-length: 0\r\n\r\n",
            ],
            "ok",
            3,
        ),
        (
            "bytes after chunks",
            &[CHUNKED, "2\r\nok\r\n0\r\n\r\nx"],
            "ok",
            3,
        ),
    ];
    for (name, answer, content, connections) in cases {
        let (edge, opened) = answers(answer).await;
        for round in 0..3 {
            let response = edge.get("/").await;
            assert!(response.status().is_success(), "{name}, {round}");
            assert_eq!(read(response).await, *content, "{name}, {round}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(opened.load(Relaxed), *connections, "{name}");
    }
}

#[tokio::test]
async fn responses_with_a_faulty_framing_are_refused_with_the_reason() {
    let cases: &[(&str, &[&str], &str)] = &[
        (
            "two lengths",
            &["HTTP/1.1 200 OK\r\ncontent-length: 2, 3\r\n\r\nok"],
            "Content-Length",
        ),
        (
            "no number",
            &["HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok"],
            "Content-Length",
        ),
        (
            "another coding",
            &["HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok"],
            "transfer coding",
        ),
        (
            "chunked twice",
            &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n"],
            "transfer coding",
        ),
        (
            "1.0 chunked",
            &["HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"],
            "transfer coding",
        ),
        (
            "a space before a colon",
            &["HTTP/1.1 200 OK\r\nx : y\r\n\r\n"],
            "malformed",
        ),
        (
            "a folded line",
            &["HTTP/1.1 200 OK\r\nx: y\r\n z\r\n\r\n"],
            "malformed",
        ),
    ];
    for (name, answer, why) in cases {
        let (edge, _) = answers(answer).await;
        let response = edge.get("/").await;
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY, "{name}");
        let reason = reason(&response);
        assert!(reason.contains(why), "{name}: {reason}");
    }
}

#[tokio::test]
async fn a_connection_that_the_upstream_closes_is_closed_at_once() {
    let (closed, mut notified) = tokio::sync::mpsc::channel(1);
    let upstream = raw_upstream(move |mut stream, _| {
        let closed = closed.clone();
        async move {
            read_head(&mut stream).await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            stream.shutdown().await.unwrap();
            assert!(!read_head(&mut stream).await);
            closed.send(()).await.unwrap();
        }
    })
    .await;
    let edge = Edge::new(&format!("http://{upstream}"), &ProxyConfig::default());
    assert_eq!(edge.get("/").await.status(), 200);
    // An idle connection is kept for 30 seconds.
    let closed = tokio::time::timeout(Duration::from_secs(20), notified.recv());
    closed.await.expect("the connection is still open");
}

/// Whoever took the next request for the rest of this one would be misled.
#[tokio::test]
async fn content_of_another_length_than_announced_ends_the_connection() {
    for (announced, sent) in [("5", "hell"), ("5", "hello!"), ("5", ""), ("five", "hello")] {
        let (seen, mut all) = tokio::sync::mpsc::channel(1);
        let upstream = raw_upstream(move |mut stream, _| {
            let seen = seen.clone();
            async move {
                let mut got = Vec::new();
                let _ = stream.read_to_end(&mut got).await;
                seen.send(String::from_utf8(got).unwrap()).await.unwrap();
            }
        })
        .await;
        let edge = Edge::new(&format!("http://{upstream}"), &ProxyConfig::default());
        // The body's length is not known to begin with.
        let frames = [Ok::<_, BoxError>(Frame::data(Bytes::from(sent)))];
        let frames = StreamBody::new(stream::iter(frames));
        let mut request = post("/", frames.boxed_unsync());
        let announced = HeaderValue::from_static(announced);
        request
            .headers_mut()
            .insert(header::CONTENT_LENGTH, announced);
        let response = edge.send(request).await;
        assert_eq!(response.status(), 400, "{sent}: {}", reason(&response));
        let got = tokio::time::timeout(Duration::from_secs(10), all.recv()).await;
        let got = got.expect("the connection is still open").unwrap();
        let content = got
            .split_once("\r\n\r\n")
            .map_or("", |(_, content)| content);
        assert!(content.len() < 5, "{sent}: {got}");
    }
}

#[tokio::test]
async fn interim_responses_pass_before_the_response() {
    let (edge, _) = answers(&[
        "HTTP/1.1 102 Processing\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ])
    .await;
    let (interim, heads) = Interim::channel();
    let mut request = get("/");
    request.extensions_mut().insert(interim);
    let response = edge.send(request).await;
    assert_eq!(read(response).await, "ok");
    assert_eq!(heads.pop().unwrap().status(), 102);
    let hints = heads.pop().unwrap();
    assert_eq!(
        (hints.status().as_u16(), &hints.headers()["link"]),
        (103, &"</a>".parse().unwrap())
    );
    assert!(heads.pop().is_none());
}

/// The upstream answers the head, and takes the content after that.
#[tokio::test]
async fn a_connection_is_used_again_after_an_early_response() {
    const LENGTH: usize = 4 << 20;
    let opened = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&opened);
    let upstream = raw_upstream(move |mut stream, _| {
        counter.fetch_add(1, Relaxed);
        async move {
            let mut got = Vec::new();
            loop {
                while !got.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                    if !matches!(stream.read_buf(&mut got).await, Ok(1..)) {
                        return;
                    }
                }
                let head = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n";
                stream.write_all(head).await.unwrap();
                while got.len() < LENGTH {
                    stream.read_buf(&mut got).await.unwrap();
                }
                // The rest of the request, whose head has less than a KiB.
                tokio::time::sleep(Duration::from_millis(50)).await;
                let _ = stream.try_read_buf(&mut got);
                got.clear();
                stream.write_all(b"done").await.unwrap();
            }
        }
    })
    .await;
    let edge = Edge::new(&format!("http://{upstream}"), &ProxyConfig::default());
    for _ in 0..2 {
        let response = edge.send(post("/", full(vec![b'x'; LENGTH]))).await;
        assert_eq!(read(response).await, "done");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(opened.load(Relaxed), 1);
}

#[tokio::test]
async fn content_that_fails_after_an_early_response_ends_that() {
    let upstream = raw_upstream(|mut stream, _| async move {
        read_head(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe";
        stream.write_all(head).await.unwrap();
        // It waits for the rest of the request.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let edge = Edge::new(&format!("http://{upstream}"), &ProxyConfig::default());
    let (fail, failed) = tokio::sync::oneshot::channel::<()>();
    let content = stream::once(async move {
        let _ = failed.await;
        Err::<Frame<Bytes>, BoxError>("the client is too slow".into())
    });
    let response = edge
        .send(post("/", StreamBody::new(content).boxed_unsync()))
        .await;
    assert_eq!(response.status(), StatusCode::OK);
    fail.send(()).unwrap();
    let content = tokio::time::timeout(Duration::from_secs(60), response.into_body().collect());
    let content = content.await.expect("it waits for ever");
    let causes = format!("{:?}", content.unwrap_err());
    assert!(causes.contains("the client is too slow"), "{causes}");
}

#[tokio::test]
async fn a_client_that_goes_ends_the_request_to_the_upstream() {
    for (name, answer) in [
        ("before the response", ""),
        (
            "within it",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe",
        ),
    ] {
        let (ended, mut notified) = tokio::sync::mpsc::channel(1);
        let upstream = raw_upstream(move |mut stream, _| {
            let ended = ended.clone();
            async move {
                read_head(&mut stream).await;
                stream.write_all(answer.as_bytes()).await.unwrap();
                assert!(!read_head(&mut stream).await);
                ended.send(()).await.unwrap();
            }
        })
        .await;
        let edge = Edge::new(&format!("http://{upstream}"), &ProxyConfig::default());
        let sending = edge.send(post("/", no_body()));
        let response = tokio::time::timeout(Duration::from_millis(200), sending).await;
        assert_eq!(response.is_ok(), !answer.is_empty(), "{name}");
        drop(response);
        let ended = tokio::time::timeout(Duration::from_secs(10), notified.recv());
        ended
            .await
            .unwrap_or_else(|_| panic!("{name}: the connection is still open"));
    }
}

#[tokio::test]
async fn interim_responses_without_end_are_given_up() {
    let upstream = raw_upstream(|mut stream, _| async move {
        read_head(&mut stream).await;
        while stream
            .write_all(b"HTTP/1.1 102 Processing\r\n\r\n")
            .await
            .is_ok()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let edge = Edge::new(&format!("http://{upstream}"), &impatient());
    let response = edge.get("/").await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
}
