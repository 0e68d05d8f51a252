//! Messages through a tunnel.

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::upstream::Upstream;
use hikyaku_testkit::browser::{Browser, has_chromium};
use hikyaku_testkit::tunnel::{VERSIONS, open};
use hikyaku_testkit::{PATIENCE, Server, noise};

#[tokio::test(flavor = "multi_thread")]
async fn messages_pass_both_ways() {
    let upstream = Upstream::start().await;
    let server = Server::start(&["--upstream", &upstream.url()]);
    for http in VERSIONS {
        let tunnel = open(http, server.address(), "/chat", "websocket", &[])
            .await
            .unwrap();
        assert_eq!(tunnel.status, 200, "{http:?}");
        let mut socket = tunnel.websocket().await;
        for message in [
            Message::text("hello"),
            Message::binary(noise(3_000_000)),
            Message::text(""),
            Message::text("and again"),
        ] {
            socket.send(message.clone()).await.unwrap();
            let echoed = tokio::time::timeout(PATIENCE, socket.next()).await;
            assert_eq!(echoed.unwrap().unwrap().unwrap(), message, "{http:?}");
        }
        socket
            .send(Message::Ping("are you there".into()))
            .await
            .unwrap();
        let pong = socket.next().await.unwrap().unwrap();
        assert_eq!(pong, Message::Pong("are you there".into()), "{http:?}");

        let close = CloseFrame {
            code: CloseCode::Library(4001),
            reason: "enough".into(),
        };
        socket.close(Some(close.clone())).await.unwrap();
        let answer = socket.next().await.unwrap().unwrap();
        assert_eq!(answer, Message::Close(Some(close)), "{http:?}");
        assert!(socket.next().await.is_none(), "{http:?}");

        let line = server.wait_access(http.name(), |line| {
            line["version"] == http.name() && line["path"] == "/chat"
        });
        assert_eq!(line["method"], "CONNECT", "{line}");
        assert_eq!(line["status"], 200, "{line}");
        assert_eq!(line["complete"], true, "{line}");
        assert!(line["bytes"].as_u64().unwrap() > 3_000_000, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upstream_gets_a_handshake_of_its_own() {
    let upstream = Upstream::start().await;
    let server = Server::start(&["--upstream", &upstream.url()]);
    let fields = [
        ("origin", "https://page.example"),
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("sec-websocket-protocol", "other, echo.v1"),
        ("sec-websocket-extensions", "permessage-deflate"),
        ("sec-websocket-key", "bm90IHRvIGJlIHVzZWQhIQ=="),
        ("authorization", "Bearer token"),
    ];
    for http in VERSIONS {
        let path = "/chat?room=1";
        let tunnel = open(http, server.address(), path, "websocket", &fields)
            .await
            .unwrap();
        assert_eq!(tunnel.status, 200, "{http:?}");
        assert_eq!(
            tunnel.headers["sec-websocket-protocol"], "echo.v1",
            "{http:?}"
        );
        for name in [
            "connection",
            "upgrade",
            "sec-websocket-accept",
            "content-length",
        ] {
            assert_eq!(tunnel.headers.get(name), None, "{http:?}: {name}");
        }
        let head = upstream.last_head();
        assert!(head.starts_with("get /chat?room=1 http/1.1\r\n"), "{head}");
        let has = |line: &str| head.lines().filter(|other| *other == line).count() == 1;
        for line in [
            "connection: upgrade",
            "upgrade: websocket",
            "sec-websocket-version: 13",
            "sec-websocket-protocol: other, echo.v1",
            "sec-websocket-extensions: permessage-deflate",
            "origin: https://page.example",
            "cookie: a=1; b=2",
            "authorization: bearer token",
            &format!("host: localhost:{}", server.port()),
        ] {
            assert!(has(line), "{http:?}: {line} in {head}");
        }
        assert_eq!(head.matches("sec-websocket-key: ").count(), 1, "{head}");
        assert!(!head.contains("bm90ihrvigjlihvzzwqhiq"), "{head}");
        for name in ["transfer-encoding", "content-length", ":protocol"] {
            assert!(!head.contains(name), "{http:?}: {name} in {head}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_opens_one_over_http2() {
    if !has_chromium("a_browser_opens_one_over_http2") {
        return;
    }
    let upstream = Upstream::start().await;
    let server = Server::start(&["--upstream", &upstream.url(), "--set", "policy.version=h2"]);
    let mut browser = Browser::start(&server).await;
    let url = json!({ "url": format!("{}/", browser.origin) });
    browser.command("Page.navigate", url).await;
    let reported = "new Promise(resolve => { const look = () => window.report ? \
        resolve(JSON.stringify(window.report)) : setTimeout(look, 20); look(); })";
    let report = tokio::time::timeout(PATIENCE, browser.evaluate(reported)).await;
    let want = r#"["echo.v1","hello",true,4001,"enough",true]"#;
    assert_eq!(report.unwrap(), json!(want));
    let line = server.wait_access("the socket", |line| line["path"] == "/chat");
    assert_eq!(
        (&line["method"], &line["version"]),
        (&json!("CONNECT"), &json!("h2")),
        "{line}"
    );
}
