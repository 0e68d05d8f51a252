//! An upstream that speaks WebSocket over HTTP/1.1. The request's path selects its behaviour.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// A page that opens a WebSocket and reports its messages.
const PAGE: &str = r#"<!doctype html><title>socket</title><script>
const got = [];
const socket = new WebSocket(`wss://${location.host}/chat`, ["other", "echo.v1"]);
socket.binaryType = "arraybuffer";
const large = Uint8Array.from({ length: 1 << 20 }, (_, i) => (i * 31) >> 3);
const same = data => data.length === large.length && data.every((byte, i) => byte === large[i]);
socket.onopen = () => { got.push(socket.protocol); socket.send("hello"); };
socket.onmessage = ({ data }) => {
  if (typeof data === "string") { got.push(data); socket.send(large); }
  else { got.push(same(new Uint8Array(data))); socket.close(4001, "enough"); }
};
socket.onclose = ({ code, reason, wasClean }) => { window.report = [...got, code, reason, wasClean]; };
</script>"#;

/// An upstream, until the test's runtime ends.
pub(crate) struct Upstream {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    /// Connections of `/raw`, after the handshake.
    pub(crate) raw: mpsc::UnboundedReceiver<TcpStream>,
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (send, raw) = mpsc::unbounded_channel();
        let seen = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&seen), send.clone()));
            }
        });
        Self {
            address,
            heads,
            raw,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The head of the last request, in lower case.
    pub(crate) fn last_head(&self) -> String {
        self.heads.lock().unwrap().last().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    heads: Arc<Mutex<Vec<String>>>,
    raw: mpsc::UnboundedSender<TcpStream>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else {
            return;
        };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    heads.lock().unwrap().push(head.to_ascii_lowercase());
    let key = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("sec-websocket-key")
            .then_some(value)
    });
    let accept = key
        .map(|key| derive_accept_key(key.as_bytes()))
        .unwrap_or_default();
    let path = head.split_whitespace().nth(1).unwrap().to_owned();
    let response = match &*path {
        "/declined" => {
            "HTTP/1.1 403 Forbidden\r\nx-why: closed\r\ncontent-length: 6\r\n\r\nno way".to_owned()
        }
        "/plain" => "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npage".to_owned(),
        "/wrong" => switching(&head, &derive_accept_key(b"another key"), "websocket"),
        "/other" => switching(&head, &accept, "chat"),
        "/" => format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{PAGE}",
            PAGE.len()
        ),
        _ => switching(&head, &accept, "websocket"),
    };
    stream.write_all(response.as_bytes()).await.unwrap();
    match &*path {
        "/raw" => raw.send(stream).unwrap(),
        path if path.starts_with("/chat") => echo(stream).await,
        _ => {}
    }
}

fn switching(head: &str, accept: &str, protocol: &str) -> String {
    let asked = head
        .to_ascii_lowercase()
        .contains("sec-websocket-protocol:");
    let chosen = match asked {
        true => "Sec-WebSocket-Protocol: echo.v1\r\n",
        false => "",
    };
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
         Sec-WebSocket-Accept: {accept}\r\n{chosen}\r\n"
    )
}

/// Echoes messages until the client closes.
async fn echo(stream: TcpStream) {
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    while let Some(Ok(message)) = socket.next().await {
        let is_data = message.is_text() || message.is_binary();
        if is_data && socket.send(message).await.is_err() {
            break;
        }
    }
}
