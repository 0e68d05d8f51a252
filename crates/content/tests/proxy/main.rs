//! The reverse proxy between real sockets.

#![allow(clippy::unwrap_used)]

mod connections;
mod support;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, stream};
use hikyaku_content::proxy::{BodyError, UpstreamHttp};
use hikyaku_content::{BoxError, Proxy, ProxyConfig};
use hikyaku_units::ByteSize;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::Incoming;
use support::{
    Edge, Kind, ServerBody, Upstream, counted, full, get, impatient, no_body, post, raw_upstream,
    read, reason,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

async fn echo(request: Request<Incoming>) -> Response<ServerBody> {
    let body = request.into_body().map_err(Into::into).boxed_unsync();
    Response::new(body)
}

#[tokio::test]
async fn every_kind_of_upstream_is_reached_with_the_clients_host() {
    for kind in Kind::ALL {
        let upstream = Upstream::start(kind, echo).await;
        for (preserve_host, host) in [
            (true, "site.example".to_owned()),
            (
                false,
                upstream.url().split_once("://").unwrap().1.to_owned(),
            ),
        ] {
            let edge = upstream.edge(&ProxyConfig {
                preserve_host,
                ..ProxyConfig::default()
            });
            let body = vec![b'a'; 3 << 20];
            let request = post("/a//b%2f?c=d&e", full(body.clone()));
            let response = edge.send(request).await;
            assert_eq!(response.status(), 200, "{kind:?}");
            assert_eq!(read(response).await, body, "{kind:?}");
            let seen = upstream.last_seen();
            assert_eq!(seen.method, Method::POST, "{kind:?}");
            assert_eq!(seen.version, kind.version(), "{kind:?}");
            assert_eq!(
                seen.uri.path_and_query().unwrap(),
                "/a//b%2f?c=d&e",
                "{kind:?}"
            );
            assert_eq!(seen.host(), host, "{kind:?}");
            assert_eq!(
                seen.header("x-forwarded-host"),
                Some("site.example"),
                "{kind:?}"
            );
            assert_eq!(
                seen.header("x-forwarded-for"),
                Some("192.0.2.1"),
                "{kind:?}"
            );
            assert_eq!(seen.header("x-forwarded-proto"), Some("https"), "{kind:?}");
            assert_eq!(seen.header("via"), Some("2 hikyaku"), "{kind:?}");
            let forwarded = "for=192.0.2.1;host=site.example;proto=https";
            assert_eq!(seen.header("forwarded"), Some(forwarded), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn the_http_version_can_be_pinned() {
    // The upstream offers both by ALPN or prior knowledge.
    let upstream = Upstream::start(Kind::Http2, echo).await;
    let url = format!("http://{}", upstream.address);
    let cases = [
        (UpstreamHttp::Auto, http::Version::HTTP_11),
        (UpstreamHttp::Http1, http::Version::HTTP_11),
        (UpstreamHttp::Http2, http::Version::HTTP_2),
    ];
    for (upstream_http, version) in cases {
        let edge = Edge::new(
            &url,
            &ProxyConfig {
                upstream_http,
                ..ProxyConfig::default()
            },
        );
        assert_eq!(edge.get("/").await.status(), 200, "{upstream_http:?}");
        assert_eq!(upstream.last_seen().version, version, "{upstream_http:?}");
    }
}

#[tokio::test]
async fn fields_of_one_connection_stay_on_it() {
    for kind in [Kind::Http1, Kind::Http2] {
        let upstream = Upstream::start(kind, move |_| async move {
            let mut response = Response::new(full("x"));
            let headers = response.headers_mut();
            headers.insert("x-end", HeaderValue::from_static("1"));
            headers.insert(header::ALT_SVC, HeaderValue::from_static("h3=\":443\""));
            if kind == Kind::Http1 {
                headers.insert(header::CONNECTION, HeaderValue::from_static("x-hop"));
                headers.insert("x-hop", HeaderValue::from_static("1"));
                headers.insert("keep-alive", HeaderValue::from_static("timeout=5"));
            }
            response
        })
        .await;
        let edge = upstream.edge(&ProxyConfig::default());
        let mut request = get("/");
        let headers = request.headers_mut();
        for (name, value) in [
            ("connection", "x-secret, close, x-forwarded-for"),
            ("x-secret", "1"),
            ("keep-alive", "timeout=1"),
            ("te", "gzip, trailers"),
            ("proxy-authorization", "x"),
            ("upgrade", "websocket"),
            ("x-forwarded-for", "1.2.3.4"),
            ("cookie", "a=1"),
            ("x-end", "1"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers.append(header::COOKIE, HeaderValue::from_static("b=2"));
        let response = edge.send(request).await;
        let want = [("x-end", "1"), ("content-length", "1")];
        for (name, value) in want {
            assert_eq!(response.headers()[name], value, "{kind:?}");
        }
        for name in [
            "x-hop",
            "connection",
            "keep-alive",
            "alt-svc",
            "transfer-encoding",
        ] {
            assert_eq!(response.headers().get(name), None, "{kind:?}: {name}");
        }
        let seen = upstream.last_seen();
        for name in ["x-secret", "keep-alive", "proxy-authorization", "upgrade"] {
            assert_eq!(seen.header(name), None, "{kind:?}: {name}");
        }
        assert_eq!(seen.header("te"), Some("trailers"), "{kind:?}");
        assert_eq!(seen.header("x-end"), Some("1"), "{kind:?}");
        assert_eq!(
            seen.header("x-forwarded-for"),
            Some("192.0.2.1"),
            "{kind:?}"
        );
        assert_eq!(seen.header("cookie"), Some("a=1; b=2"), "{kind:?}");
        let connection = (kind == Kind::Http1).then_some("te");
        assert_eq!(seen.header("connection"), connection, "{kind:?}");
    }
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    for kind in [Kind::Http1, Kind::Http2] {
        let upstream = Upstream::start(kind, |request| async move {
            let collected = request.into_body().collect().await.unwrap();
            let sum = collected.trailers().unwrap()["x-sum"].clone();
            let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), sum)]);
            let frames = [Frame::data(Bytes::from("data")), Frame::trailers(trailers)];
            let body = StreamBody::new(stream::iter(frames.map(Ok::<_, BoxError>)));
            let mut response = Response::new(body.boxed_unsync());
            let names = HeaderValue::from_static("x-sum");
            response.headers_mut().insert(header::TRAILER, names);
            response
        })
        .await;
        let edge = upstream.edge(&ProxyConfig::default());
        let trailers =
            HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from_static("42"))]);
        let frames = [Frame::data(Bytes::from("up")), Frame::trailers(trailers)];
        let body = StreamBody::new(stream::iter(frames.map(Ok::<_, BoxError>)));
        let mut request = post("/", body.boxed_unsync());
        for (name, value) in [(header::TRAILER, "x-sum"), (header::TE, "trailers")] {
            request
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        let response = edge.send(request).await;
        assert_eq!(response.headers()["trailer"], "x-sum", "{kind:?}");
        let collected = response.into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["x-sum"], "42", "{kind:?}");
        assert_eq!(collected.to_bytes(), "data", "{kind:?}");
    }
}

#[tokio::test]
async fn responses_without_content_and_parts_pass_as_they_are() {
    let upstream = Upstream::start(Kind::Http1, |request| async move {
        let has = |name| request.headers().contains_key(name);
        let (status, body) = match request.uri().path() {
            "/204" => (204, ""),
            _ if has("range") => (206, "he"),
            _ if has("if-none-match") => (304, ""),
            _ => (200, "hello"),
        };
        let response = Response::builder().status(status).header("etag", "\"x\"");
        response.body(full(body)).unwrap()
    })
    .await;
    let edge = upstream.edge(&ProxyConfig::default());
    type Case<'a> = (
        &'a str,
        Method,
        &'a str,
        Option<&'a str>,
        u16,
        Option<&'a str>,
        &'a str,
    );
    let cases: &[Case<'_>] = &[
        ("get", Method::GET, "/", None, 200, Some("5"), "hello"),
        ("head", Method::HEAD, "/", None, 200, Some("5"), ""),
        (
            "current",
            Method::GET,
            "/",
            Some("if-none-match"),
            304,
            None,
            "",
        ),
        (
            "part",
            Method::GET,
            "/",
            Some("range"),
            206,
            Some("2"),
            "he",
        ),
        ("nothing", Method::GET, "/204", None, 204, None, ""),
    ];
    for (name, method, path, field, status, len, body) in cases {
        let mut request = get(path);
        *request.method_mut() = method.clone();
        if let Some(field) = field {
            request
                .headers_mut()
                .insert(*field, HeaderValue::from_static("bytes=0-1"));
        }
        let response = edge.send(request).await;
        assert_eq!(response.status(), *status, "{name}");
        assert_eq!(response.headers()["etag"], "\"x\"", "{name}");
        let got = response
            .headers()
            .get("content-length")
            .map(|len| len.to_str().unwrap());
        assert_eq!(got, *len, "{name}");
        assert_eq!(read(response).await, *body, "{name}");
        connections_become_idle().await;
    }
    assert_eq!(upstream.connections(), 1, "one connection for all");
}

/// Lets the tasks run that keep connections whose response has been read.
async fn connections_become_idle() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

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
async fn an_upstream_that_fails_gives_502_or_504_with_the_reason() {
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let silent = raw_upstream(|stream, _| async move {
        let _open = stream;
        pending::<()>().await;
    })
    .await;
    let hangs_up = raw_upstream(|mut stream, _| async move {
        let _ = stream.read(&mut [0; 1024]).await;
    })
    .await;
    let garbage = raw_upstream(|mut stream, _| async move {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await;
        pending::<()>().await;
    })
    .await;
    let switches = raw_upstream(|mut stream, _| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let answer =
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
        let _ = stream.write_all(answer).await;
        pending::<()>().await;
    })
    .await;
    let cases = [
        (
            "refused",
            format!("http://{closed}"),
            502,
            "connecting: Connection refused",
        ),
        (
            "silent",
            format!("http://{silent}"),
            504,
            "waiting for the response: none within 300ms",
        ),
        (
            "silent with HTTP/2",
            format!("h2c://{silent}"),
            504,
            "waiting for the response",
        ),
        (
            "silent with TLS",
            format!("https://{silent}"),
            504,
            "no connection within 300ms",
        ),
        (
            "hangs up",
            format!("http://{hangs_up}"),
            502,
            "exchanging request and response: ",
        ),
        (
            "hangs up with TLS",
            format!("https://{hangs_up}"),
            502,
            "TLS handshake: ",
        ),
        (
            "garbage",
            format!("http://{garbage}"),
            502,
            "exchanging request and response: ",
        ),
        (
            "garbage with TLS",
            format!("https://{garbage}"),
            502,
            "TLS handshake: ",
        ),
        ("garbage with HTTP/2", format!("h2c://{garbage}"), 502, ": "),
        (
            "switches unasked",
            format!("http://{switches}"),
            502,
            "it was not asked to",
        ),
    ];
    for (name, url, status, why) in cases {
        let edge = Edge::new(
            &url,
            &ProxyConfig {
                insecure: true,
                ..impatient()
            },
        );
        let response = edge.get("/").await;
        assert_eq!(response.status(), status, "{name}: {}", reason(&response));
        let authority = url.split_once("://").unwrap().1;
        let reason = reason(&response);
        assert!(
            reason.starts_with(&format!("upstream {authority}: ")),
            "{name}: {reason}"
        );
        assert!(reason.contains(why), "{name}: {reason}");
        let body = read(response).await;
        let body = std::str::from_utf8(&body).unwrap();
        assert!(body.starts_with(&status.to_string()), "{name}: {body}");
        assert!(!body.contains("127.0.0.1"), "{name}: {body}");
    }
}

#[tokio::test]
async fn certificates_are_checked_unless_insecure() {
    let upstream = Upstream::start(Kind::TlsHttp1, echo).await;
    let other = Upstream::start(Kind::TlsHttp1, echo).await;
    let wrong_ca = Some(other.ca.path().to_owned());
    let edge = Edge::new(
        &upstream.url(),
        &ProxyConfig {
            ca: wrong_ca,
            ..ProxyConfig::default()
        },
    );
    let response = edge.get("/").await;
    assert_eq!(response.status(), 502);
    assert!(
        reason(&response).contains("TLS handshake: invalid peer certificate"),
        "{}",
        reason(&response)
    );

    let by_address = format!("https://{}", upstream.address);
    let ca = Some(upstream.ca.path().to_owned());
    let edge = Edge::new(
        &by_address,
        &ProxyConfig {
            ca,
            ..ProxyConfig::default()
        },
    );
    let response = edge.get("/").await;
    assert_eq!(response.status(), 502, "the certificate is for localhost");

    let edge = Edge::new(
        &by_address,
        &ProxyConfig {
            insecure: true,
            ..ProxyConfig::default()
        },
    );
    assert_eq!(edge.get("/").await.status(), 200);
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
async fn an_upstream_of_http_1_0_is_understood() {
    let old = raw_upstream(|mut stream, _| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nto the end").await;
    })
    .await;
    let edge = Edge::new(&format!("http://{old}"), &ProxyConfig::default());
    let response = edge.get("/").await;
    assert_eq!(response.version(), http::Version::HTTP_11);
    assert_eq!(response.headers()["via"], "1.0 hikyaku");
    assert_eq!(read(response).await, "to the end");
}

#[tokio::test]
async fn requests_that_cannot_be_passed_are_refused() {
    let upstream = Upstream::start(Kind::Http1, echo).await;
    let edge = upstream.edge(&ProxyConfig::default());
    let request = |method: &str, uri: &str, host: &'static str| {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("host", host);
        request.body(no_body()).unwrap()
    };
    let cases = [
        ("host with a path", request("GET", "/", "a/b"), 400),
        ("host with a space", request("GET", "/", "a b"), 400),
        ("CONNECT", request("CONNECT", "a:443", "a"), 405),
        ("no host", request("GET", "/", ""), 200),
    ];
    for (name, request, status) in cases {
        assert_eq!(edge.send(request).await.status(), status, "{name}");
    }
    assert_eq!(upstream.last_seen().host(), upstream.address.to_string());

    let limited = Limited::new(counted(100, 1 << 20, Arc::default()), 1 << 20);
    let response = edge.send(post("/", limited.boxed_unsync())).await;
    assert_eq!(response.status(), 413, "{}", reason(&response));
    let broken = stream::iter([Err::<Frame<Bytes>, BoxError>("reset by the client".into())]);
    let response = edge
        .send(post("/", StreamBody::new(broken).boxed_unsync()))
        .await;
    assert_eq!(response.status(), 400, "{}", reason(&response));
}

#[tokio::test]
async fn expect_100_continue_is_answered_before_the_body_is_sent() {
    let upstream = Upstream::start(Kind::Http1, echo).await;
    let edge = upstream.edge(&ProxyConfig::default());
    let mut stream = TcpStream::connect(edge.listen().await).await.unwrap();
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
        Expect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("hello"),
        "{answer}"
    );
    assert_eq!(upstream.last_seen().header("expect"), None);
}

/// An upstream that takes WebSocket connections and returns their messages.
async fn websocket_upstream() -> std::net::SocketAddr {
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

#[test]
fn unusable_settings_are_reported_with_the_reason() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let ca = |path: &std::path::Path| ProxyConfig {
        ca: Some(path.to_owned()),
        ..ProxyConfig::default()
    };
    let cases = [
        (
            "ftp://a",
            ProxyConfig::default(),
            "reading the upstream's URL `ftp://a`: its scheme",
        ),
        (
            "https://a",
            ca(empty.path()),
            "no usable certificate authority in `",
        ),
        (
            "https://a",
            ca("absent.pem".as_ref()),
            "reading certificate authorities from `absent.pem`",
        ),
        (
            "https://a_b..",
            ca(empty.path()),
            "setting up TLS towards `a_b..`",
        ),
    ];
    for (url, config, want) in cases {
        let error = Proxy::new(url, &config, ByteSize::from_kib(64))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(want), "{url}: {error}");
    }
}
