//! Clients of extended CONNECT.

use std::net::SocketAddr;

use bytes::Bytes;
use hikyaku_h3_quic::{Code, Protocol, Receiving, RequestHead, Sending, StreamError};
use http::{HeaderMap, Request, response};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::client::{H2, H3};
use super::fetch::Http;

/// The versions that have extended CONNECT.
pub const VERSIONS: [Http; 2] = [Http::H2, Http::H3];

/// The answer to an extended CONNECT, and the stream after it.
pub struct Tunnel {
    pub status: u16,
    pub headers: HeaderMap,
    pub sender: Sender,
    pub receiver: Receiver,
    pub connection: Connection,
}

/// The connection, with which the tunnel ends.
pub enum Connection {
    H2(H2),
    H3(H3),
}

pub enum Sender {
    H2(h2::SendStream<Bytes>),
    H3(Box<Sending<RequestHead>>),
}

pub enum Receiver {
    H2(h2::RecvStream),
    H3(Box<Receiving<response::Parts>>),
}

/// The events of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    Data(Bytes),
    End,
    /// The code, as a name.
    Reset(String),
}

/// The reset of a stream that stands for a reset connection (RFC 8441 §5, RFC 9220 §3).
pub fn cancelled(http: Http) -> Came {
    Came::Reset(match http {
        Http::H2 => format!("{:?}", h2::Reason::CANCEL),
        _ => format!("{:#x}", Code::RequestCancelled.value()),
    })
}

/// Requests `path` with an extended CONNECT of `protocol`, and with `fields`.
pub async fn open(
    http: Http,
    address: SocketAddr,
    path: &str,
    protocol: &'static str,
    fields: &[(&'static str, &'static str)],
) -> Result<Tunnel, String> {
    let mut request = Request::connect(format!("https://localhost:{}{path}", address.port()));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let request = request.body(()).unwrap();
    match http {
        Http::H2 => over_http2(address, request, protocol).await,
        _ => over_http3(address, request, protocol).await,
    }
}

async fn over_http2(
    address: SocketAddr,
    mut request: Request<()>,
    protocol: &'static str,
) -> Result<Tunnel, String> {
    let mut connection = H2::connect(address).await.unwrap();
    // The answer comes after the server's SETTINGS.
    connection.get("/plain").await.unwrap();
    let protocol = h2::ext::Protocol::from_static(protocol);
    request.extensions_mut().insert(protocol);
    let sent = connection.requests.send_request(request, false);
    let (response, sending) = sent.map_err(|error| error.to_string())?;
    let response = response
        .await
        .map_err(|error| format!("{:?}", error.reason()))?;
    let (head, receiving) = response.into_parts();
    Ok(Tunnel {
        status: head.status.as_u16(),
        headers: head.headers,
        sender: Sender::H2(sending),
        receiver: Receiver::H2(receiving),
        connection: Connection::H2(connection),
    })
}

async fn over_http3(
    address: SocketAddr,
    request: Request<()>,
    protocol: &'static str,
) -> Result<Tunnel, String> {
    let connection = H3::connect(address).await.unwrap();
    let mut head = RequestHead::from(request.into_parts().0);
    head.protocol = Protocol::new(Bytes::from_static(protocol.as_bytes()));
    let (mut sending, mut receiving) = connection.client.request(&head).await.unwrap();
    sending.flush().await.map_err(|error| code(&error))?;
    let head = receiving.head().await.map_err(|error| code(&error))?;
    Ok(Tunnel {
        status: head.status.as_u16(),
        headers: head.headers,
        sender: Sender::H3(Box::new(sending)),
        receiver: Receiver::H3(Box::new(receiving)),
        connection: Connection::H3(connection),
    })
}

fn code(error: &StreamError) -> String {
    error
        .code()
        .map_or(error.to_string(), |code| format!("{code:#x}"))
}

impl Connection {
    /// Closes the connection at once.
    pub fn close(self) {
        match self {
            Self::H2(connection) => connection.driver.abort(),
            Self::H3(connection) => connection.quic.close(0_u32.into(), b""),
        }
    }
}

impl Sender {
    pub async fn send(&mut self, data: impl Into<Bytes>) {
        match self {
            Self::H2(stream) => {
                let mut data: Bytes = data.into();
                while !data.is_empty() {
                    stream.reserve_capacity(data.len());
                    let room = std::future::poll_fn(|cx| stream.poll_capacity(cx));
                    let room = room.await.unwrap().unwrap();
                    let piece = data.split_to(room.min(data.len()));
                    stream.send_data(piece, false).unwrap();
                }
            }
            Self::H3(stream) => stream.data(data.into()).await.unwrap(),
        }
    }

    pub async fn finish(self) {
        match self {
            Self::H2(mut stream) => stream.send_data(Bytes::new(), true).unwrap(),
            Self::H3(stream) => drop(stream.finish().await.unwrap()),
        }
    }

    /// Resets the stream.
    pub fn cancel(self) {
        match self {
            Self::H2(mut stream) => stream.send_reset(h2::Reason::CANCEL),
            Self::H3(stream) => stream.reset(Code::RequestCancelled),
        }
    }
}

impl Receiver {
    /// Waits for the next event.
    pub async fn next(&mut self) -> Came {
        match self {
            Self::H2(stream) => match stream.data().await {
                Some(Ok(data)) => {
                    stream.flow_control().release_capacity(data.len()).unwrap();
                    Came::Data(data)
                }
                None => Came::End,
                Some(Err(error)) => match error.reason() {
                    Some(reason) => Came::Reset(format!("{reason:?}")),
                    None => Came::Reset(error.to_string()),
                },
            },
            Self::H3(stream) => match stream.frame().await {
                Some(Ok(frame)) => Came::Data(frame.into_data().unwrap()),
                None => Came::End,
                Some(Err(error)) => Came::Reset(code(&error)),
            },
        }
    }

    /// Reads the remaining data, and returns it with the end.
    pub async fn rest(&mut self) -> (Vec<u8>, Came) {
        let mut all = Vec::new();
        loop {
            match self.next().await {
                Came::Data(data) => all.extend_from_slice(&data),
                end => return (all, end),
            }
        }
    }
}

impl Tunnel {
    /// Begins WebSocket on the tunnel.
    pub async fn websocket(self) -> WebSocketStream<DuplexStream> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (mut from, mut to) = tokio::io::split(theirs);
        let (mut sender, mut receiver) = (self.sender, self.receiver);
        tokio::spawn(async move {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = from.read(&mut buffer).await {
                sender.send(Bytes::copy_from_slice(&buffer[..length])).await;
            }
            sender.finish().await;
        });
        let connection = self.connection;
        tokio::spawn(async move {
            while let Came::Data(data) = receiver.next().await {
                if to.write_all(&data).await.is_err() {
                    break;
                }
            }
            let _ = to.shutdown().await;
            drop(connection);
        });
        WebSocketStream::from_raw_socket(ours, Role::Client, None).await
    }
}
