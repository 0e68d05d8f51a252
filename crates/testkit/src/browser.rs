//! Headless Chromium, driven by its DevTools protocol.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::{PATIENCE, Server, eventually, has, plain_http};

/// Rules by which the browser resolves names: `s1.test` to `s7.test` have addresses of their own.
fn resolver_rules() -> String {
    let shards: String = (1..=7)
        .map(|n| format!("MAP s{n}.test 127.0.0.{},", n + 1))
        .collect();
    format!("{shards}MAP *.test 127.0.0.1,MAP * ~NOTFOUND,EXCLUDE 127.0.0.1")
}

/// Whether Chromium is installed; prints a skip if it is not.
pub fn has_chromium(test: &str) -> bool {
    has(test, "chromium")
}

/// A browser with a profile of its own, on one page.
pub struct Browser {
    _chromium: Chromium,
    socket: WebSocketStream<TcpStream>,
    pub messages: u64,
    pub origin: String,
    /// The protocol and the group of the key exchange of each response, once `Network.enable` was sent.
    pub key_exchanges: BTreeSet<[String; 2]>,
    /// Errors on the console, once [`Browser::watch_problems`] was called.
    pub problems: Vec<String>,
}

impl Browser {
    pub async fn start(server: &Server) -> Self {
        Self::start_with(server, server.port(), &resolver_rules()).await
    }

    /// Starts a browser with its own rules for names, of which `a.test` is the server's, on this
    /// port.
    pub async fn start_with(server: &Server, port: u16, resolver_rules: &str) -> Self {
        let chromium = launch(&server.spki, resolver_rules);
        let socket = connect(&chromium.profile).await;
        Self {
            _chromium: chromium,
            socket,
            messages: 0,
            origin: format!("https://a.test:{port}"),
            key_exchanges: BTreeSet::new(),
            problems: Vec::new(),
        }
    }

    /// Sends a command and returns its result.
    pub async fn command(&mut self, method: &str, params: Value) -> Value {
        self.messages += 1;
        let id = self.messages;
        let command = json!({ "id": id, "method": method, "params": params });
        let command = Message::text(command.to_string());
        self.socket.send(command).await.unwrap();
        loop {
            let message = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            let message = message.unwrap().unwrap().unwrap();
            let Ok(text) = message.to_text() else {
                continue;
            };
            let answer: Value = serde_json::from_str(text).unwrap_or_default();
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.problems.extend(problem(&answer));
            if answer["method"] == "Network.responseReceived" {
                let response = &answer["params"]["response"];
                let group = &response["securityDetails"]["keyExchangeGroup"];
                let seen = [&response["protocol"], group]
                    .map(|text| text.as_str().unwrap_or_default().to_owned());
                self.key_exchanges.insert(seen);
            }
        }
    }

    /// Has errors on the console of the page be noted from now on.
    pub async fn watch_problems(&mut self) {
        for domain in ["Runtime.enable", "Log.enable"] {
            self.command(domain, json!({})).await;
        }
    }

    /// Opens a page of the server.
    pub async fn open(&mut self, path: &str) {
        let url = format!("{}{path}", self.origin);
        let answer = self.command("Page.navigate", json!({ "url": url })).await;
        assert!(answer["errorText"].is_null(), "{answer}");
    }

    /// Evaluates a JavaScript expression. Awaits a promise.
    pub async fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression,
            "awaitPromise": true,
            "returnByValue": true,
        });
        let result = self.command("Runtime.evaluate", params).await;
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result}"
        );
        result["result"]["value"].clone()
    }
}

/// An error on the console: an exception, a message of a script, or one of the browser.
fn problem(event: &Value) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
        "Runtime.consoleAPICalled" if params["type"] == "error" => Some(params["args"].to_string()),
        "Log.entryAdded" if params["entry"]["level"] == "error" => {
            Some(params["entry"].to_string())
        }
        _ => None,
    }
}

/// A running Chromium; killed, and its profile removed, when dropped.
struct Chromium {
    child: Child,
    profile: TempDir,
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its helpers notice its end a moment later, and write to the profile until then.
        let gone = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir_all(self.profile.path()).is_err() && Instant::now() < gone {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Starts Chromium so that it accepts our self-signed certificate, on QUIC too.
fn launch(spki: &str, resolver_rules: &str) -> Chromium {
    let profile = tempfile::tempdir().unwrap();
    let child = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--no-proxy-server",
            "--remote-debugging-port=0",
        ])
        .arg(format!("--host-resolver-rules={resolver_rules}"))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--ignore-certificate-errors-spki-list={spki}"))
        // The forced origin has another port. Without one, QUIC does not take the certificate.
        .arg("--origin-to-force-quic-on=a.test:1")
        .arg("about:blank")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Chromium { child, profile }
}

/// Connects to the page of a browser that has just been started.
async fn connect(profile: &TempDir) -> WebSocketStream<TcpStream> {
    let file = profile.path().join("DevToolsActivePort");
    let port: u16 = eventually("the port of DevTools", || {
        let text = fs::read_to_string(&file).ok()?;
        text.lines().next()?.parse().ok()
    });
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let url = eventually("a page", || {
        let (_, pages) = plain_http(address, "GET", "/json/list", "", "");
        let pages: Value = serde_json::from_str(&pages).ok()?;
        let mut pages = pages.as_array()?.iter();
        let page = pages.find(|page| page["type"] == "page")?;
        Some(page["webSocketDebuggerUrl"].as_str()?.to_owned())
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let (socket, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
    socket
}
