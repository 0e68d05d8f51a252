//! Endpoints for tests.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hikyaku_quic::proto::crypto::rustls::QuicClientConfig;
use hikyaku_quic::proto::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use hikyaku_quic::{Connection, Endpoint, RecvStream, SendStream, Socket, TlsServer};

/// Settings of a server and of clients that trust it.
pub(crate) struct Settings {
    pub(crate) server: ServerConfig,
    pub(crate) client: ClientConfig,
}

/// Settings with which connections idle for 10 s end.
pub(crate) fn settings() -> Settings {
    let (mut tls, mut client_tls) = hikyaku_testkit::tls::pair();
    tls.max_early_data_size = u32::MAX;
    let mut server = ServerConfig::with_crypto(Arc::new(TlsServer::new(tls).unwrap()));
    server.transport_config(transport());
    client_tls.enable_early_data = true;
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(client_tls).unwrap()));
    client.transport_config(transport());
    Settings { server, client }
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(VarInt::from_u32(10_000).into()));
    Arc::new(transport)
}

/// An address of this host with a port to be chosen.
pub(crate) fn loopback(v6: bool) -> SocketAddr {
    if v6 {
        (Ipv6Addr::LOCALHOST, 0).into()
    } else {
        (Ipv4Addr::LOCALHOST, 0).into()
    }
}

/// An endpoint on a socket, driven by a task.
pub(crate) fn endpoint(server: Option<ServerConfig>, socket: impl Socket) -> Endpoint {
    Endpoint::spawn(EndpointConfig::default(), server, Arc::new(socket)).unwrap()
}

/// An endpoint on a socket of the system.
pub(crate) fn udp(server: Option<ServerConfig>, address: SocketAddr) -> Endpoint {
    Endpoint::bind(address, server).unwrap()
}

/// A server that sends back what each stream brings, and a client of it.
pub(crate) fn echoing(v6: bool) -> (Endpoint, Endpoint, Settings) {
    let settings = settings();
    let server = udp(Some(settings.server.clone()), loopback(v6));
    let client = udp(None, loopback(v6));
    tokio::spawn(echo(server.clone()));
    (server, client, settings)
}

/// Sends back what each stream of each connection brings.
pub(crate) async fn echo(server: Endpoint) {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.accept().unwrap().await else {
                return;
            };
            while let Ok((send, recv)) = connection.accept_bi().await {
                tokio::spawn(return_all(send, recv));
            }
        });
    }
}

async fn return_all(mut send: SendStream, mut recv: RecvStream) {
    while let Ok(Some(chunk)) = recv.read_chunk(usize::MAX, true).await {
        if send.write_all_chunks(&mut [chunk.bytes]).await.is_err() {
            return;
        }
    }
    let _ = send.finish();
    let _ = send.stopped().await;
}

/// Connects to `server`.
pub(crate) async fn connect(
    client: &Endpoint,
    server: &Endpoint,
    settings: &Settings,
) -> Connection {
    let connecting = client.connect(settings.client.clone(), server.local_addr(), "localhost");
    patiently(connecting.unwrap()).await.unwrap()
}

/// Sends `bytes`, and checks that they come back.
pub(crate) async fn exchange(connection: &Connection, bytes: &[u8]) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let sending = async {
        send.write_all(bytes).await.unwrap();
        send.finish().unwrap();
    };
    let (received, ()) = tokio::join!(recv.read_to_end(usize::MAX), sending);
    assert!(received.unwrap() == bytes, "{} bytes", bytes.len());
}

/// The result of `future`, unless it hangs.
pub(crate) async fn patiently<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, future)
        .await
        .expect("nothing for a minute")
}
