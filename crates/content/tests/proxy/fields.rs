//! Fields, trailers and statuses that pass, and those that do not.

use std::sync::Arc;

use crate::support::{
    Kind, Upstream, connections_become_idle, counted, echo, full, get, no_body, post, read, reason,
};
use bytes::Bytes;
use futures_util::stream;
use hikyaku_content::{BoxError, ProxyConfig};
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, Limited, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

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
