//! Interim responses to a request for which several clients wait.

use std::future::poll_fn;
use std::io::Write;
use std::sync::{Mutex, mpsc};

use http::Request;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use crate::raw::Upstream;
use hikyaku_testkit::client::{self, H3};
use hikyaku_testkit::{PATIENCE, Server};

const HINTS: &str =
    "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nset-cookie: own=1\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 2\r\n\r\nok";

async fn soon<T>(waiting: impl Future<Output = T>) -> T {
    let came = tokio::time::timeout(PATIENCE, waiting).await;
    came.expect("it does not come before the response")
}

/// Reads up to these bytes.
async fn read_to(stream: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut got = Vec::new();
    while !got.ends_with(end.as_bytes()) {
        got.push(soon(stream.read_u8()).await.unwrap());
    }
    String::from_utf8(got).unwrap()
}

/// The first client's request goes to the upstream. The others come after the interim response.
#[test]
fn all_who_wait_for_a_response_get_its_early_hints() {
    let (release, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let upstream = Upstream::start(move |_, stream| {
        stream.write_all(HINTS.as_bytes()).unwrap();
        held.lock().unwrap().recv().unwrap();
        stream.write_all(OK.as_bytes()).is_ok()
    });
    let server = Server::start(&["--upstream", &upstream.url(), "--set", "cache.enabled=true"]);
    let address = server.address();
    let request = || Request::get(server.url("/")).body(()).unwrap();
    client::block_on(async {
        let begin = async || {
            let mut stream = client::tls(address, &["http/1.1"]).await.unwrap();
            let head = format!("GET / HTTP/1.1\r\nhost: {address}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let hints = read_to(&mut stream, "\r\n\r\n").await;
            (stream, hints)
        };
        let (mut first, hints) = begin().await;
        assert_eq!(hints, HINTS);
        let (mut second, hints) = begin().await;
        let link = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
        assert_eq!(hints, link, "the links alone");

        let stream = client::tls(address, &["h2"]).await.unwrap();
        let (mut h2, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let (mut on_h2, _) = h2.send_request(request(), true).unwrap();
        let hints = soon(poll_fn(|cx| on_h2.poll_informational(cx))).await;
        let hints = hints.unwrap().unwrap();
        assert_eq!(hints.status(), 103);
        assert_eq!(hints.headers()["link"], "</a.css>; rel=preload");
        assert!(!hints.headers().contains_key("set-cookie"));

        let h3 = H3::connect(address).await.unwrap();
        let stream = h3.begin(request()).await.unwrap();
        let mut on_h3 = stream.finish().await.unwrap();
        assert_eq!(soon(on_h3.head()).await.unwrap().status, 103);

        release.send(()).unwrap();
        for stream in [&mut first, &mut second] {
            let got = read_to(stream, "\r\n\r\nok").await;
            assert!(got.starts_with("HTTP/1.1 200 OK\r\n"), "{got}");
        }
        assert_eq!(on_h2.await.unwrap().status(), 200);
        assert_eq!(on_h3.head().await.unwrap().status, 200);
        h3.close().await;
    });
    assert_eq!(upstream.requests(), 1);
}

/// Hints to somebody who has named himself may be for him alone.
#[test]
fn hints_for_one_client_go_to_no_other() {
    let (release, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let upstream = Upstream::start(move |_, stream| {
        let hints = HINTS.replace("set-cookie: own=1", "cache-control: private");
        stream.write_all(hints.as_bytes()).unwrap();
        held.lock().unwrap().recv().unwrap();
        stream.write_all(OK.as_bytes()).is_ok()
    });
    let server = Server::start(&["--upstream", &upstream.url(), "--set", "cache.enabled=true"]);
    let address = server.address();
    client::block_on(async {
        let begin = async || {
            let mut stream = client::tls(address, &["http/1.1"]).await.unwrap();
            let head = format!("GET / HTTP/1.1\r\nhost: {address}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            stream
        };
        let mut first = begin().await;
        assert!(read_to(&mut first, "\r\n\r\n").await.contains("103"));
        let mut second = begin().await;
        release.send(()).unwrap();
        // In case that the second one came too late to wait.
        let _ = release.send(());
        assert!(
            read_to(&mut second, "\r\n\r\nok")
                .await
                .starts_with("HTTP/1.1 200 OK\r\n")
        );
    });
}
