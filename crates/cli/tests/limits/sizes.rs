//! Requests that are too large.

use bytes::Bytes;
use hikyaku_h3_quic::Code;
use hikyaku_testkit::client::{self, H2, H3};
use hikyaku_testkit::fetch::Http;
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{PATIENCE, get, noise};
use http::Request;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::support::*;

#[test]
fn header_sections_are_limited() {
    let site = site();
    let server = start(&[site.path()], &["limits.header_size=16KiB"]);
    client::block_on(async {
        for (size, served) in [(8_000, true), (40_000, false)] {
            let value = "x".repeat(size);

            let mut tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
            let request =
                format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\na: {value}\r\n\r\n");
            // The rest may meet a closed connection.
            let _ = tls.write_all(request.as_bytes()).await;
            let answer = read_to_end(&mut tls).await;
            let status = String::from_utf8_lossy(&answer)
                .split(' ')
                .nth(1)
                .map(str::to_owned);
            let refused = status.as_deref().is_none_or(|status| status == "431");
            assert_eq!(
                status.as_deref() == Some("200"),
                served,
                "{size}: {status:?}"
            );
            assert_eq!(refused, !served, "{size}: {status:?}");

            let request = || {
                let request = Request::get("https://localhost/").header("a", &value);
                request.body(Bytes::new()).unwrap()
            };
            let mut h2 = H2::connect(server.address()).await.unwrap();
            match h2.send(request(), None).await {
                Ok(response) => assert_eq!(response.status == 200, served, "{size}, HTTP/2"),
                Err(error) => assert!(!served, "{size}, HTTP/2: {error}"),
            }
            let h3 = H3::connect(server.address()).await.unwrap();
            match h3.send(request()).await {
                Ok(response) => assert_eq!(response.status == 200, served, "{size}, HTTP/3"),
                Err(error) => assert!(!served, "{size}, HTTP/3: {error}"),
            }
        }
        // The client's own check is circumvented: HEADERS that announce 1 GiB - 1.
        let h3 = H3::connect(server.address()).await.unwrap();
        let (mut send, mut receive) = h3.quic.open_bi().await.unwrap();
        send.write_all(&[1, 0xbf, 0xff, 0xff, 0xff]).await.unwrap();
        let stopped = timeout(PATIENCE, send.stopped()).await.unwrap().unwrap();
        let code = stopped.map(quinn::VarInt::into_inner);
        assert_eq!(code, Some(Code::NoError.value()));
        let answer = receive.read_to_end(1000).await.unwrap();
        assert!(!answer.is_empty(), "431");
        assert_eq!(h3.get("/").await.unwrap().status, 200);
    });
    expect_service(&server);
}

#[test]
fn bodies_are_limited_in_size() {
    let upstream = format!("http://{}", upstream::start(Speaks::Http1));
    let server = start(
        &["--upstream", &upstream],
        &["limits.body_size=100KiB", "timeouts.linger=1s"],
    );
    for http in [Http::H2, Http::H3] {
        for (size, want) in [(100_000, 200), (200_000, 413)] {
            let body = server.dir().join(format!("{size}"));
            std::fs::write(&body, noise(size)).unwrap();
            let data = format!("@{}", body.display());
            let length = format!("content-length: {size}");
            let url = server.url("/echo");
            let args = [
                "--http",
                http.option(),
                "--data",
                &data,
                "-H",
                &length,
                &url,
            ];
            let records = get(&args);
            assert_eq!(records[0]["status"], want, "{http:?}, {size}: {records:?}");
        }
    }
    // A client of HTTP/1.1 that sends on may lose the answer to the closing of the connection.
    let status = client::block_on(async {
        let mut tls = client::tls(server.address(), &["http/1.1"]).await.unwrap();
        let head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
        tls.write_all(head).await.unwrap();
        read_to_end(&mut tls).await
    });
    assert!(status.starts_with(b"HTTP/1.1 413 "), "{status:?}");
    // Without an announced length, the size shows only while the body arrives.
    let error = client::block_on(async {
        let mut h2 = H2::connect(server.address()).await.unwrap();
        let request = Request::post("https://localhost/echo").body(()).unwrap();
        let (response, mut stream) = h2.requests.send_request(request, false).unwrap();
        stream.send_data(noise(200_000).into(), true).unwrap();
        match timeout(PATIENCE, response).await.unwrap() {
            Ok(response) if response.status() == 413 => None,
            // The upstream had begun to answer.
            Ok(response) => {
                let mut body = response.into_body();
                while let Some(data) = body.data().await {
                    match data {
                        Ok(data) => body.flow_control().release_capacity(data.len()).unwrap(),
                        Err(error) => return Some(error),
                    }
                }
                panic!("an oversized body went through");
            }
            Err(error) => Some(error),
        }
    });
    assert!(error.is_none_or(|error| error.is_reset()));
}
