//! The reverse proxy.

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::fetch::{Http, Response, fetch, send};
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{PATIENCE, Server, Site, get, has, noise};
use http::{HeaderMap, HeaderValue, Request};
use tokio_tungstenite::tungstenite::Message;

#[test]
fn the_proxy_streams_bodies_and_trailers_both_ways() {
    let body = noise(3_000_000);
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let scheme = if speaks == Speaks::Http1 {
            "http"
        } else {
            "h2c"
        };
        let upstream = format!("{scheme}://{}", upstream::start(speaks));
        let server = Server::start(&["--upstream", &upstream]);
        let name = |http| format!("{http:?} to {scheme}");
        if has("the_proxy_streams_bodies_and_trailers_both_ways", "curl") {
            let te = ["te: trailers", "connection: TE"];
            let got = send(Http::H1, &server, "POST", "/echo", &te, &body);
            let length = got.trailers.get("x-length").unwrap();
            assert_eq!(got.body, body, "{}", name(Http::H1));
            assert_eq!(length, "3000000", "{}", name(Http::H1));
        }
        let (h2, h3) = client::block_on(async {
            let request = Request::post(server.url("/echo")).header("te", "trailers");
            let request = request.header("trailer", "x-from-client");
            let request = request.body(Bytes::from(body.clone())).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-from-client", HeaderValue::from_static("yes"));
            let mut h2 = H2::connect(server.address()).await.unwrap();
            let got = h2.send(request.clone(), Some(trailers.clone()));
            let got = got.await.unwrap();
            let h3 = H3::connect(server.address()).await.unwrap();
            (got, echo_over_h3(h3, request, trailers).await)
        });
        for (http, got) in [(Http::H2, h2), (Http::H3, h3)] {
            assert_eq!(got.body, body, "{}", name(http));
            assert_eq!(got.trailers["x-length"], "3000000", "{}", name(http));
            assert_eq!(got.trailers["x-from-client"], "yes", "{}", name(http));
        }
        for http in Http::ALL {
            let line = server.wait_access(http.name(), |line| line["version"] == http.name());
            assert_eq!(line["bytes"], 3_000_000, "{line}");
            assert_eq!(line["complete"], true, "{line}");
        }
    }
}

/// Reads the body while sending, since the upstream returns it at once.
async fn echo_over_h3(h3: H3, request: Request<Bytes>, trailers: HeaderMap) -> Response {
    let (head, body) = request.into_parts();
    let request = Request::from_parts(head, ());
    let stream = h3.begin(request).await.unwrap();
    let mut sending = stream.sending;
    let sent = async {
        for chunk in body.chunks(100_000) {
            sending.data(Bytes::copy_from_slice(chunk)).await.unwrap();
        }
        sending.trailers(&trailers).await.unwrap();
        drop(sending.finish().await.unwrap());
    };
    let received = async { client::receive(stream.receiving).await.unwrap() };
    let ((), response) = futures_util::future::join(sent, received).await;
    h3.close().await;
    response
}

#[test]
fn the_upstream_sees_whom_it_answers() {
    if !has("the_upstream_sees_whom_it_answers", "curl") {
        return;
    }
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let server = Server::start(&["--upstream", &upstream]);
    for http in Http::ALL {
        let headers = ["x-forwarded-for: 192.0.2.1", "x-own: kept"];
        let got = fetch(http, &server, "/head?q=1", &headers);
        let text = got.text();
        assert!(text.starts_with("GET /head?q=1\n"), "{http:?}: {text}");
        assert!(text.contains("x-own: kept\n"), "{http:?}: {text}");
        assert!(
            text.contains("x-forwarded-for: 127.0.0.1\n"),
            "{http:?}: {text}"
        );
        assert!(
            text.contains("x-forwarded-proto: https\n"),
            "{http:?}: {text}"
        );
        assert!(
            text.contains("forwarded: for=127.0.0.1"),
            "{http:?}: {text}"
        );
        assert!(!text.contains("192.0.2.1"), "{http:?}: {text}");
    }
}

#[test]
fn upstream_failures_are_reported_and_logged() {
    if !has("upstream_failures_are_reported_and_logged", "curl") {
        return;
    }
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let slow = format!("http://{}", upstream::start(Speaks::Http1));
    let cases = [
        ("nobody listens", &closed, "/", 502, "refused"),
        ("no answer", &slow, "/hang", 504, "none within 300ms"),
    ];
    for (name, upstream, path, status, reason) in cases {
        let timeout = "proxy.response_timeout=300ms";
        let server = Server::start(&["--upstream", upstream, "--set", timeout]);
        for http in Http::ALL {
            let got = fetch(http, &server, path, &[]);
            assert_eq!(got.status, status, "{name}, {http:?}");
            let line = server.wait_access(http.name(), |line| line["version"] == http.name());
            assert_eq!(line["status"], status, "{name}, {http:?}");
            let error = line["error"].as_str().unwrap().to_ascii_lowercase();
            assert!(error.contains(reason), "{name}, {http:?}: {error}");
        }
    }
}

#[test]
fn a_response_that_breaks_off_is_never_taken_for_whole() {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let server = Server::start(&["--upstream", &upstream]);
    for http in Http::ALL {
        let records = get(&["--http", http.option(), &server.url("/half")]);
        assert_ne!(records[0]["error"], serde_json::Value::Null, "{records:?}");
        let line = server.wait_access(http.name(), |line| line["version"] == http.name());
        assert_eq!(line["complete"], false, "{line}");
        assert!(line["error"].is_string(), "{line}");
    }
}

#[test]
fn websockets_pass_through_http1() {
    let upstream = format!("http://{}", upstream::start(Speaks::WebSocket));
    let server = Server::start(&["--upstream", &upstream]);
    client::block_on(async {
        let tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let url = format!("wss://localhost:{}/chat", server.port());
        let (mut socket, response) = tokio_tungstenite::client_async(url, tls).await.unwrap();
        assert_eq!(response.status(), 101);
        for message in [
            Message::text("hello"),
            Message::binary(noise(200_000)),
            Message::text("and again"),
        ] {
            socket.send(message.clone()).await.unwrap();
            let echoed = tokio::time::timeout(PATIENCE, socket.next()).await;
            assert_eq!(echoed.unwrap().unwrap().unwrap(), message);
        }
        socket.close(None).await.unwrap();
    });
}

/// The upstream answers with the first bytes, and takes the others only while its answer is read.
#[test]
fn an_early_answer_is_read_while_the_rest_is_sent() {
    const SIZE: usize = 6_000_000;
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let server = Server::start(&["--upstream", &upstream]);
    let site = Site::new(&[]);
    site.write("upload", &hikyaku_testkit::noise(SIZE));
    let data = format!("@{}/upload", site.path());
    for http in [Http::H2, Http::H3] {
        let url = server.url("/echo");
        let records = get(&["--http", http.option(), "--data", &data, &url]);
        assert_eq!(records[0]["status"], 200, "{http:?}: {records:?}");
        assert_eq!(records[0]["body_bytes"], SIZE, "{http:?}: {records:?}");
    }
}
