//! An application on Express, with WebSocket and Server-Sent Events: `app.toml`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::{HERE, node_modules, port};
use hikyaku_testkit::browser::{Browser, has_chromium};
use hikyaku_testkit::client::{H3, block_on, tls};
use hikyaku_testkit::daemon::Daemon;
use hikyaku_testkit::fetch::{Http, fetch, send};
use hikyaku_testkit::machine::Machine;
use hikyaku_testkit::{PATIENCE, Server, eventually, has, noise, this_test, tunnel};

const UPSTREAM: &str = "http://127.0.0.1:3000";

/// The application behind hikyaku.
struct App {
    server: Server,
    _node: Daemon,
    _machine: Machine,
}

impl App {
    /// Reports a skip, and returns nothing, where a program is missing.
    fn start() -> Option<Self> {
        let test = this_test();
        if !has(&test, "node") || !has(&test, "curl") {
            return None;
        }
        let modules = node_modules()?;
        let (node, [address]) = Daemon::on_ports(|[port]| {
            let mut command = Command::new("node");
            command.env("NODE_PATH", &modules);
            command.args([format!("{HERE}/node/app.js"), port.to_string()]);
            command
        });
        let machine = Machine::new(&[("srv/app/static/a.js", b"js")]);
        let upstream = port(UPSTREAM, address.port());
        let server = machine.start("app.toml", &[(UPSTREAM, &upstream)]);
        Some(Self {
            server,
            _node: node,
            _machine: machine,
        })
    }
}

#[test]
fn an_application_sees_its_clients_and_their_requests() {
    let Some(app) = App::start() else { return };
    let server = &app.server;
    let host = format!("localhost:{}", server.port());
    let origin = format!("https://{host}");
    let from = format!("host: {host}");
    for http in Http::ALL {
        let seen = fetch(http, server, "/api/seen?a=1&a=%2F", &[&from]);
        let want = json!({
            "ip": "127.0.0.1", "protocol": "https", "secure": true, "host": host,
            "query": { "a": ["1", "/"] },
        });
        let got: Value = serde_json::from_slice(&seen.body).unwrap();
        assert_eq!(got, want, "{http:?}");
        let cookie = seen.header("set-cookie");
        assert_eq!(cookie, Some("seen=1; Path=/; HttpOnly; Secure"));

        let moved = fetch(http, server, "/go", &[&from]);
        assert_eq!(moved.status, 302, "{http:?}");
        assert_eq!(moved.header("location"), Some(&*format!("{origin}/")));

        let note = br#"{"note":"\u98db\u811a"}"#;
        let json = ["content-type: application/json"];
        let made = send(http, server, "POST", "/api/notes", &json, note);
        assert_eq!((made.status, made.text()), (201, r#"{"note":"飛脚"}"#));
        let form = ["content-type: application/x-www-form-urlencoded"];
        let sent = send(http, server, "POST", "/api/form", &form, b"a=1&b=x+y");
        assert_eq!(sent.text(), r#"{"a":"1","b":"x y"}"#, "{http:?}");

        let tag = seen.header("etag").unwrap();
        let asks = [&*from, &format!("if-none-match: {tag}")];
        let again = fetch(http, server, "/api/seen?a=1&a=%2F", &asks);
        assert_eq!(again.status, 304, "{http:?}");

        let words = fetch(http, server, "/api/words", &["accept-encoding: zstd"]);
        assert_eq!(words.header("content-encoding"), Some("zstd"), "{http:?}");
        assert!(words.body.len() < 1000, "{}", words.body.len());

        let file = fetch(http, server, "/static/a.js", &[]);
        assert_eq!((file.status, file.text()), (200, "js"), "{http:?}");
        assert_eq!(file.header("x-powered-by"), None, "not the application's");

        let too_large = noise((10 << 20) + 1);
        let refused = send(http, server, "POST", "/api/notes", &json, &too_large);
        assert_eq!(refused.status, 413, "{http:?}");
    }
}

/// A client that reads events over HTTP/1.1 or 2.
struct Reader {
    curl: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Reader {
    fn start(server: &Server, version: &str) -> Self {
        let mut curl = Command::new("curl")
            .args(["-q", "-sSNk", "--noproxy", "*", version])
            .arg(server.url("/api/events"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(curl.stdout.take().unwrap()).lines();
        Self { curl, lines }
    }

    /// The next line that is not empty.
    fn next(&mut self) -> String {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        lines.find(|line| !line.is_empty()).unwrap()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.curl.kill();
        let _ = self.curl.wait();
    }
}

fn publish(server: &Server, text: &str) {
    let sent = send(
        Http::H2,
        server,
        "POST",
        "/api/publish",
        &["content-type: text/plain"],
        text.as_bytes(),
    );
    assert_eq!(sent.status, 204);
}

fn readers(server: &Server) -> String {
    let answer = fetch(Http::H1, server, "/api/readers", &[]);
    answer.text().to_owned()
}

#[test]
fn events_arrive_when_they_are_sent() {
    let Some(app) = App::start() else { return };
    let server = &app.server;
    for version in ["--http1.1", "--http2"] {
        let mut reader = Reader::start(server, version);
        assert_eq!(reader.next(), ": open", "{version}");
        // Each is read before the next one is sent, so none waits for more.
        for text in ["one", "two", "three"] {
            publish(server, text);
            assert_eq!(reader.next(), format!("data: {text}"), "{version}");
        }
        drop(reader);
        // The application notices that its reader has gone.
        eventually("no reader", || (readers(server) == "0").then_some(()));
    }
    block_on(async {
        let h3 = H3::connect(server.address()).await.unwrap();
        let request = Request::get("https://localhost/api/events");
        let stream = h3.begin(request.body(()).unwrap()).await.unwrap();
        let mut receiving = stream.finish().await.unwrap();
        assert_eq!(receiving.head().await.unwrap().status, 200);
        let mut next = async || -> Bytes {
            let frame = tokio::time::timeout(PATIENCE, receiving.frame()).await;
            frame.unwrap().unwrap().unwrap().into_data().unwrap()
        };
        assert_eq!(next().await, ": open\n\n");
        for text in ["one", "two", "three"] {
            publish(server, text);
            assert_eq!(next().await, format!("data: {text}\n\n"));
        }
        h3.close().await;
    });
    eventually("no reader", || (readers(server) == "0").then_some(()));
}

/// Exchanges messages with the application.
async fn chat<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>, what: &str) {
    for message in [
        Message::text("hello"),
        Message::binary(noise(300_000)),
        Message::text("and again"),
    ] {
        socket.send(message.clone()).await.unwrap();
        let echoed = tokio::time::timeout(PATIENCE, socket.next()).await;
        assert_eq!(echoed.unwrap().unwrap().unwrap(), message, "{what}");
    }
    socket.close(None).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, socket.next()).await;
    let answer = answer.unwrap().unwrap().unwrap();
    assert!(answer.is_close(), "{what}: {answer}");
}

#[test]
fn websockets_reach_the_application_over_all_versions() {
    let Some(app) = App::start() else { return };
    let address = app.server.address();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let stream = tls(address, &["http/1.1"]).await.unwrap();
        let url = format!("wss://localhost:{}/api/chat", address.port());
        let (socket, response) = tokio_tungstenite::client_async(url, stream).await.unwrap();
        assert_eq!(response.status(), 101);
        chat(socket, "HTTP/1.1").await;
        for http in tunnel::VERSIONS {
            let opened = tunnel::open(http, address, "/api/chat", "websocket", &[]);
            let opened = opened.await.unwrap();
            assert_eq!(opened.status, 200, "{http:?}");
            chat(opened.websocket().await, http.name()).await;
        }
    });
}

#[test]
fn a_browser_gets_events_and_messages() {
    if !has_chromium(&this_test()) {
        return;
    }
    let Some(app) = App::start() else { return };
    block_on(async {
        let mut browser = Browser::start(&app.server).await;
        browser.open("/").await;
        let come = async {
            while browser.evaluate("document.title").await != json!("published echoed") {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, come).await.unwrap();
    });
    let tunnel = |line: &Value| line["method"] == "CONNECT" && line["path"] == "/api/chat";
    let events = |line: &Value| line["path"] == "/api/events";
    let lines = [
        app.server.wait_access("a WebSocket over HTTP/2", tunnel),
        app.server.wait_access("events", events),
    ];
    assert_eq!(lines[0]["version"], "h2", "{}", lines[0]);
    assert_eq!(lines[1]["status"], 200, "{}", lines[1]);
}

#[test]
fn static_files_do_not_need_the_application() {
    let Some(App {
        server,
        _node: node,
        _machine: machine,
    }) = App::start()
    else {
        return;
    };
    drop(node);
    assert_eq!(fetch(Http::H2, &server, "/static/a.js", &[]).status, 200);
    assert_eq!(fetch(Http::H2, &server, "/api/words", &[]).status, 502);
    let failed = server.wait_access("a failed request", |line| line["status"] == 502);
    assert!(failed["error"].is_string(), "{failed}");
    drop(machine);
}
