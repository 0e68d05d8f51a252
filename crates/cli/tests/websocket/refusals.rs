//! Responses that open no tunnel.

use bytes::Bytes;
use http::Request;

use super::upstream::Upstream;
use hikyaku_testkit::client::{H2, H3};
use hikyaku_testkit::fetch::Http;
use hikyaku_testkit::tunnel::{VERSIONS, open};
use hikyaku_testkit::{Server, Site, upstream as plain};

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_does_not_switch_opens_none() {
    let upstream = Upstream::start().await;
    let server = Server::start(&["--upstream", &upstream.url()]);
    // path, status, content, reason in the log
    let cases = [
        ("/declined", 403, "no way", ""),
        (
            "/plain",
            502,
            "502 Bad Gateway\n",
            "not that of a websocket server",
        ),
        (
            "/wrong",
            502,
            "502 Bad Gateway\n",
            "not that of a websocket server",
        ),
        (
            "/other",
            502,
            "502 Bad Gateway\n",
            "not that of a websocket server",
        ),
    ];
    for http in VERSIONS {
        for (path, status, content, reason) in cases {
            let name = format!("{http:?} {path}");
            let opened = open(http, server.address(), path, "websocket", &[]).await;
            let mut tunnel = opened.unwrap();
            assert_eq!(tunnel.status, status, "{name}");
            let (body, _) = tunnel.receiver.rest().await;
            assert_eq!(String::from_utf8(body).unwrap(), content, "{name}");
            let line = server.wait_access(&name, |line| {
                line["version"] == http.name()
                    && line["path"] == path
                    && line["method"] == "CONNECT"
            });
            let error = line["error"]
                .as_str()
                .unwrap_or_default()
                .to_ascii_lowercase();
            assert!(error.contains(reason), "{name}: {line}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_protocol_is_offered() {
    let upstream = Upstream::start().await;
    let server = Server::start(&["--upstream", &upstream.url()]);
    for http in VERSIONS {
        for protocol in ["connect-udp", "webtransport"] {
            let opened = open(http, server.address(), "/chat", protocol, &[]).await;
            let mut tunnel = opened.unwrap();
            assert_eq!(tunnel.status, 501, "{http:?} {protocol}");
            let (body, _) = tunnel.receiver.rest().await;
            let body = String::from_utf8(body).unwrap();
            assert!(
                body.contains("no protocol but websocket"),
                "{http:?}: {body}"
            );
        }
    }
    let connect = || {
        Request::connect("localhost:443")
            .body(Bytes::new())
            .unwrap()
    };
    let mut http2 = H2::connect(server.address()).await.unwrap();
    assert_eq!(http2.send(connect(), None).await.unwrap().status, 405);
    let http3 = H3::connect(server.address()).await.unwrap();
    assert_eq!(http3.send(connect()).await.unwrap().status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_offered_only_where_an_upstream_may_speak_it() {
    let site = Site::new(&[("index.html", b"page"), ("plain", b"page")]);
    let http1 = format!("http://{}", plain::start(plain::Speaks::Http1));
    let http2 = format!("h2c://{}", plain::start(plain::Speaks::Http2));
    let cases: [(&str, &[&str], bool); 3] = [
        ("files", &[site.path()], false),
        ("HTTP/1.1", &["--upstream", &http1], true),
        ("HTTP/2", &["--upstream", &http2], false),
    ];
    for (name, args, want) in cases {
        let server = Server::start(args);
        let mut connection = H2::connect(server.address()).await.unwrap();
        connection.get("/plain").await.unwrap();
        let offered = connection.requests.is_extended_connect_protocol_enabled();
        assert_eq!(offered, want, "{name}");
        for http in VERSIONS {
            let opened = open(http, server.address(), "/", "websocket", &[]).await;
            match (want, http) {
                (true, _) => assert_eq!(opened.unwrap().status, 404, "{name} {http:?}"),
                // h2 does not send the request.
                (false, Http::H2) => assert!(opened.is_err(), "{name}"),
                // H3_MESSAGE_ERROR (RFC 9220 §3).
                (false, _) => assert_eq!(opened.err().as_deref(), Some("0x10e"), "{name}"),
            }
        }
    }
}
