//! Clients that take too long.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hikyaku_h3_quic::Code;
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::fetch::Http;
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{PATIENCE, Site};
use http::Request;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::*;

#[test]
fn handshakes_that_never_end_are_ended() {
    let site = site();
    let server = start(&[site.path()], &["timeouts.handshake=1s"]);
    client::block_on(async {
        let mut silent = TcpStream::connect(server.address()).await.unwrap();
        let mut begun = TcpStream::connect(server.address()).await.unwrap();
        // The first bytes of a ClientHello.
        begun.write_all(&[22, 3, 1, 2, 0, 1, 0]).await.unwrap();
        assert!(read_to_end(&mut silent).await.is_empty());
        read_to_end(&mut begun).await;
    });
    server.wait_metric("hikyaku_handshakes_failed_total{transport=\"tcp\"}", 2.0);
    expect_service(&server);
}

#[test]
fn dribbled_headers_are_cut_off() {
    let site = site();
    let server = start(&[site.path()], &["timeouts.header=1s"]);
    client::block_on(async {
        let tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let (mut read, mut write) = tokio::io::split(tls);
        let dribble = async {
            let mut lines =
                std::iter::once("GET / HTTP/1.1\r\n").chain(std::iter::repeat("a: b\r\n"));
            // A client that sends a line now and then has the same time in all.
            while write
                .write_all(lines.next().unwrap().as_bytes())
                .await
                .is_ok()
            {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let answer = tokio::select! {
            answer = read_to_end(&mut read) => answer,
            () = dribble => Vec::new(),
        };
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");

        // HTTP/3: only the beginning of a HEADERS frame arrives.
        let h3 = H3::connect(server.address()).await.unwrap();
        let (mut send, mut receive) = h3.quic.open_bi().await.unwrap();
        send.write_all(&[1, 40, 0, 0]).await.unwrap();
        let end = timeout(PATIENCE, receive.read_to_end(1000)).await;
        let end = end.expect("the stream is never ended");
        // A HEADERS frame: 408.
        assert!(end.is_ok_and(|answer| answer.starts_with(&[1])));
        assert_eq!(h3.get("/").await.unwrap().status, 200);
    });
    expect_service(&server);
}

#[test]
fn idle_connections_are_closed() {
    let site = site();
    let server = start(&[site.path()], &["timeouts.idle=1s", "timeouts.header=1s"]);
    client::block_on(async {
        let mut never_asked = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let mut asked = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        asked
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        assert!(read_to_end(&mut asked).await.starts_with(b"HTTP/1.1 200"));
        read_to_end(&mut never_asked).await;

        let never_asked = H2::connect(server.address()).await.unwrap();
        let mut asked = H2::connect(server.address()).await.unwrap();
        assert_eq!(asked.get("/").await.unwrap().status, 200);
        for h2 in [never_asked, asked] {
            let end = timeout(PATIENCE, h2.driver).await.expect("never closed");
            // The client's answer to GOAWAY may meet a closed socket.
            let end = end.unwrap();
            assert!(end.as_ref().err().is_none_or(h2::Error::is_io), "{end:?}");
        }

        let h3 = H3::connect(server.address()).await.unwrap();
        let end = timeout(PATIENCE, h3.quic.closed()).await;
        let end = end.expect("never closed");
        let quinn::ConnectionError::ApplicationClosed(close) = end else {
            panic!("{end}");
        };
        assert_eq!(close.error_code.into_inner(), Code::NoError.value());
    });
}

#[test]
fn slow_bodies_are_given_up() {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let server = start(&["--upstream", &upstream], &["timeouts.body=1s"]);
    client::block_on(async {
        let mut tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let request = b"POST /hang HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nslow";
        tls.write_all(request).await.unwrap();
        let answer = read_to_end(&mut tls).await;
        assert!(answer.starts_with(b"HTTP/1.1 408 "), "{answer:?}");

        let request = || Request::post("https://localhost/hang").body(()).unwrap();
        let mut h2 = H2::connect(server.address()).await.unwrap();
        let (response, mut stream) = h2.requests.send_request(request(), false).unwrap();
        stream.send_data(Bytes::from("slow"), false).unwrap();
        let answer = timeout(PATIENCE, response).await.unwrap().unwrap();
        assert_eq!(answer.status(), 408, "HTTP/2");

        let h3 = H3::connect(server.address()).await.unwrap();
        let mut stream = h3.begin(request()).await.unwrap();
        stream.sending.data(Bytes::from("slow")).await.unwrap();
        let answer = timeout(PATIENCE, stream.receiving.head()).await.unwrap();
        assert_eq!(answer.unwrap().status, 408, "HTTP/3");
        stream.sending.reset(Code::RequestCancelled);
        h3.close().await;
    });
    for http in Http::ALL {
        let line = server.wait_access(http.name(), |line| line["version"] == http.name());
        assert_eq!(line["status"], 408, "{line}");
        let error = line["error"].as_str().unwrap();
        assert!(error.contains("timeouts.body"), "{error}");
    }
}

#[test]
fn clients_that_stop_reading_are_closed() {
    let site = Site::with_big_file(50_000_000);
    let keys = ["timeouts.send=1s", "timeouts.send_max=1s"];
    let server = start(&[site.path()], &keys);
    let stalled = "hikyaku_connections_refused_total{limit=\"stalled\"}";
    client::block_on(async {
        let mut h1 = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let request = b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n";
        h1.write_all(request).await.unwrap();

        let mut h2 = H2::connect(server.address()).await.unwrap();
        let request = Request::get("https://localhost/big.bin").body(()).unwrap();
        let (response, _) = h2.requests.send_request(request, true).unwrap();
        let _h2_body = response.await.unwrap().into_body();

        let window = Some(100_000);
        let h3 = H3::connect_with(server.address(), window).await.unwrap();
        let request = Request::get("https://localhost/big.bin").body(()).unwrap();
        let stream = h3.begin(request).await.unwrap();
        let mut receiving = stream.finish().await.unwrap();
        assert_eq!(receiving.head().await.unwrap().status, 200);

        let end = timeout(PATIENCE, h3.quic.closed()).await;
        assert!(end.is_ok(), "HTTP/3 is never closed");
        let end = timeout(PATIENCE, h2.driver).await;
        assert!(end.is_ok(), "HTTP/2 is never closed");
        let begun = Instant::now();
        while server.metric(stalled) < 3.0 {
            assert!(begun.elapsed() < PATIENCE, "HTTP/1.1 is never closed");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    for http in Http::ALL {
        let line = server.wait_access(http.name(), |line| line["version"] == http.name());
        assert_eq!(line["complete"], false, "{line}");
    }
    expect_service(&server);
}
