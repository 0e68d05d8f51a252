//! HTTP versions towards the upstream.

use crate::support::{Edge, Kind, Upstream, echo, full, impatient, post, raw_upstream, read};
use hikyaku_content::ProxyConfig;
use hikyaku_content::proxy::UpstreamHttp;
use http::{Method, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
async fn a_switch_of_protocols_over_http2_is_refused() {
    let upstream = raw_upstream(|stream, _| async move {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut reply))) = connection.accept().await {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            reply.send_response(response, true).unwrap();
        }
    })
    .await;
    let edge = Edge::new(&format!("h2c://{upstream}"), &impatient());
    let status = edge.get("/").await.status();
    assert!(status.is_server_error(), "{status}");
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
