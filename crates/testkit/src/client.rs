//! Clients near the wire, for behaviour that well-behaved clients do not have.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use hikyaku_h3_quic::{Client, Config, Receiving, RequestHead, Sending, StreamError};
use hikyaku_quic::proto::crypto::rustls::QuicClientConfig;
use hikyaku_quic::proto::{self, ConnectionError, TransportConfig, VarInt};
use hikyaku_quic::{Connection, Endpoint};
use hikyaku_tls::AcceptAny;
use http::{HeaderMap, Request, response};
use http_body_util::BodyExt;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::fetch::Response;

/// Runs a future to its end, on a thread that runs no other.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// TLS settings that accept any certificate.
pub fn tls_config(alpn: &[&str]) -> ClientConfig {
    AcceptAny::new().config(alpn).unwrap()
}

/// The same, of one version of TLS.
pub fn tls_config_of(
    alpn: &[&str],
    version: &'static rustls::SupportedProtocolVersion,
) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(AcceptAny::new())
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// Opens a TLS connection over TCP with this ALPN.
pub async fn tls(address: SocketAddr, alpn: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    tls_over(tcp, alpn).await
}

/// Begins TLS over an existing TCP connection.
pub async fn tls_over(tcp: TcpStream, alpn: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(tls_config(alpn)))
        .connect(name, tcp)
        .await
}

/// Opens a QUIC connection that offers `alpn`.
pub async fn quic(
    address: SocketAddr,
    alpn: &str,
    receive_window: Option<u32>,
) -> Result<(Endpoint, Connection), ConnectionError> {
    let crypto = QuicClientConfig::try_from(tls_config(&[alpn])).unwrap();
    let mut config = proto::ClientConfig::new(Arc::new(crypto));
    if let Some(window) = receive_window {
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(VarInt::from_u32(window))
            .receive_window(VarInt::from_u32(window));
        config.transport_config(Arc::new(transport));
    }
    let local: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let endpoint = Endpoint::bind(local, None).unwrap();
    let connecting = endpoint.connect(config, address, "localhost").unwrap();
    let connection = connecting.await?;
    Ok((endpoint, connection))
}

/// A stream with a request of HTTP/3: its sending and its receiving side.
pub struct H3Stream {
    pub sending: Sending<RequestHead>,
    pub receiving: Receiving<response::Parts>,
}

impl H3Stream {
    /// Ends the request, and returns the receiving side of the response.
    pub async fn finish(self) -> Result<Receiving<response::Parts>, StreamError> {
        drop(self.sending.finish().await?);
        Ok(self.receiving)
    }
}

/// An HTTP/3 connection.
pub struct H3 {
    pub client: Client,
    pub quic: Connection,
    endpoint: Endpoint,
}

impl H3 {
    pub async fn connect(address: SocketAddr) -> Result<Self, ConnectionError> {
        Self::connect_with(address, None).await
    }

    /// Connects with flow control windows of this size.
    pub async fn connect_with(
        address: SocketAddr,
        receive_window: Option<u32>,
    ) -> Result<Self, ConnectionError> {
        let (endpoint, quic) = quic(address, "h3", receive_window).await?;
        Ok(Self::over(endpoint, quic))
    }

    /// Begins HTTP/3 over an existing QUIC connection.
    pub fn over(endpoint: Endpoint, quic: Connection) -> Self {
        let config = Config {
            max_field_section_size: 1 << 20,
            ..Config::default()
        };
        let (client, driver) = Client::new(quic.clone(), config);
        tokio::spawn(driver);
        Self {
            client,
            quic,
            endpoint,
        }
    }

    /// Ends the connection as a client does that needs nothing more.
    pub async fn close(self) {
        self.quic.close(VarInt::from_u32(0x100), b"");
        self.endpoint.wait_idle().await;
    }

    /// Begins a request.
    pub async fn begin(&self, request: Request<()>) -> Result<H3Stream, StreamError> {
        let head = request.into_parts().0.into();
        let (mut sending, receiving) = self.client.request(&head).await?;
        sending.flush().await?;
        Ok(H3Stream { sending, receiving })
    }

    /// Sends a whole request and reads its whole response. A request without content ends with its
    /// head.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response, StreamError> {
        let (parts, body) = request.into_parts();
        let (mut sending, receiving) = self.client.request(&parts.into()).await?;
        if !body.is_empty() {
            sending.data(body).await?;
        }
        drop(sending.finish().await?);
        receive(receiving).await
    }

    pub async fn get(&self, path: &str) -> Result<Response, StreamError> {
        let request = Request::get(format!("https://localhost{path}"));
        self.send(request.body(Bytes::new()).unwrap()).await
    }
}

/// Reads a whole response of HTTP/3, after its interim ones.
pub async fn receive(mut receiving: Receiving<response::Parts>) -> Result<Response, StreamError> {
    let mut head = receiving.head().await?;
    while head.status.is_informational() {
        head = receiving.head().await?;
    }
    let body = receiving.collect().await?;
    Ok(Response {
        status: head.status.as_u16(),
        headers: head.headers,
        trailers: body.trailers().cloned().unwrap_or_default(),
        body: body.to_bytes().to_vec(),
    })
}

/// An HTTP/2 connection.
pub struct H2 {
    pub requests: h2::client::SendRequest<Bytes>,
    /// Resolves to the reason for the connection's end.
    pub driver: tokio::task::JoinHandle<Result<(), h2::Error>>,
}

impl H2 {
    pub async fn connect(address: SocketAddr) -> std::io::Result<Self> {
        Self::connect_with(
            address,
            h2::client::Builder::new().initial_window_size(1 << 20),
        )
        .await
    }

    pub async fn connect_with(
        address: SocketAddr,
        settings: &h2::client::Builder,
    ) -> std::io::Result<Self> {
        let tls = tls(address, &["h2"]).await?;
        let (requests, connection) = settings
            .handshake(tls)
            .await
            .map_err(std::io::Error::other)?;
        Ok(Self {
            requests,
            driver: tokio::spawn(connection),
        })
    }

    /// Sends a whole request, with trailers if there are any, and reads its whole response.
    pub async fn send(
        &mut self,
        request: Request<Bytes>,
        trailers: Option<HeaderMap>,
    ) -> Result<Response, h2::Error> {
        let (parts, body) = request.into_parts();
        let alone = body.is_empty() && trailers.is_none();
        self.requests = self.requests.clone().ready().await?;
        let (response, mut stream) = self
            .requests
            .send_request(Request::from_parts(parts, ()), alone)?;
        if !alone {
            stream.send_data(body, trailers.is_none())?;
            if let Some(trailers) = trailers {
                stream.send_trailers(trailers)?;
            }
        }
        let (head, mut incoming) = response.await?.into_parts();
        let mut body = Vec::new();
        while let Some(data) = incoming.data().await {
            let data = data?;
            incoming.flow_control().release_capacity(data.len())?;
            body.extend_from_slice(&data);
        }
        Ok(Response {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            trailers: incoming.trailers().await?.unwrap_or_default(),
        })
    }

    pub async fn get(&mut self, path: &str) -> Result<Response, h2::Error> {
        let request = Request::get(format!("https://localhost{path}"));
        self.send(request.body(Bytes::new()).unwrap(), None).await
    }
}
