//! The part of the DevTools protocol that loading a page needs.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// A connection to a browser.
#[derive(Debug)]
pub(super) struct DevTools {
    socket: WebSocketStream<TcpStream>,
    commands: u64,
    /// Session of the page.
    session: Option<String>,
    /// Events of the page that came during a wait for another message.
    events: Vec<String>,
}

impl DevTools {
    /// Connects as soon as the browser has written its port and path to the file `port`.
    pub(super) async fn connect(port: &Path) -> Result<Self, String> {
        let (port, path) = loop {
            let text = fs::read_to_string(port).unwrap_or_default();
            let mut lines = text.lines();
            let number = lines.next().and_then(|line| line.parse::<u16>().ok());
            if let (Some(number), Some(path)) = (number, lines.next()) {
                break (number, path.to_owned());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let address = (Ipv4Addr::LOCALHOST, port);
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| error.to_string())?;
        let url = format!("ws://127.0.0.1:{port}{path}");
        let connected = tokio_tungstenite::client_async(url, stream).await;
        let (socket, _) = connected.map_err(|error| error.to_string())?;
        Ok(Self {
            socket,
            commands: 0,
            session: None,
            events: Vec::new(),
        })
    }

    /// Opens a page, past the browser's cache of contents.
    pub(super) async fn open_page(&mut self) -> Result<(), String> {
        let page = self
            .command("Target.createTarget", &json!({ "url": "about:blank" }))
            .await?;
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = self.command("Target.attachToTarget", &attach).await?;
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        self.command("Page.enable", &json!({})).await?;
        self.command("Network.enable", &json!({})).await?;
        let off = json!({ "cacheDisabled": true });
        self.command("Network.setCacheDisabled", &off).await?;
        self.events.clear();
        Ok(())
    }

    /// Sends a command, to the page if one is open, and returns its result.
    pub(super) async fn command(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.commands += 1;
        let id = self.commands;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = self
            .session
            .as_ref()
            .filter(|_| !method.starts_with("Browser."))
        {
            command["sessionId"] = session.as_str().into();
        }
        let sent = self.socket.send(Message::text(command.to_string())).await;
        sent.map_err(|error| format!("{method}: {error}"))?;
        loop {
            let message = self
                .next()
                .await
                .map_err(|error| format!("{method}: {error}"))?;
            if message["id"] != id {
                self.keep(&message);
                continue;
            }
            let wrong = [
                &message["error"]["message"],
                &message["result"]["errorText"],
            ];
            if let Some(error) = wrong.into_iter().find_map(Value::as_str) {
                return Err(format!("{method}: {error}"));
            }
            return Ok(message["result"].clone());
        }
    }

    /// Returns the text of a JavaScript expression, or of its promise.
    pub(super) async fn evaluate(&mut self, expression: &str) -> Result<String, String> {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.command("Runtime.evaluate", &params).await?;
        let text = result["result"]["value"].as_str();
        text.map(str::to_owned)
            .ok_or_else(|| format!("{expression}: {result}"))
    }

    /// Waits for an event of the page.
    pub(super) async fn event(&mut self, name: &str) -> Result<(), String> {
        while !self.events.iter().any(|event| event == name) {
            let message = self.next().await?;
            self.keep(&message);
        }
        self.events.retain(|event| event != name);
        Ok(())
    }

    fn keep(&mut self, message: &Value) {
        let own = message["sessionId"].as_str() == self.session.as_deref();
        // The network's events are many, and no code waits for them.
        if let Some(name) = message["method"]
            .as_str()
            .filter(|name| own && name.starts_with("Page."))
        {
            self.events.push(name.to_owned());
        }
    }

    async fn next(&mut self) -> Result<Value, String> {
        loop {
            let message = self.socket.next().await.ok_or("it closed the connection")?;
            let message = message.map_err(|error| error.to_string())?;
            if let Ok(text) = message.to_text()
                && let Ok(value) = serde_json::from_str(text)
            {
                return Ok(value);
            }
        }
    }
}
