//! Connections over QUIC: HTTP/3.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use hikyaku_h3_quic::{Client, Config};
use hikyaku_quic::proto::crypto::rustls::QuicClientConfig;
use hikyaku_quic::proto::{ClientConfig, EndpointConfig, TransportConfig, VarInt, congestion};
use hikyaku_quic::{Endpoint, UdpSocket};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};

use super::connection::{Connection, HttpVersion, Probe, Sender, Transport};
use super::dial;
use super::error::{FetchError, GetError};
use super::settings::Settings;
use super::target::Origin;
use super::tcp::{MAX_HEADER_BYTES, socket_error};
use super::timeline::Opening;

/// Returns the QUIC configuration for `tls`, and sets its ALPN protocol.
pub(super) fn config(
    settings: &Settings,
    mut tls: rustls::ClientConfig,
) -> Result<ClientConfig, GetError> {
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let crypto =
        QuicClientConfig::try_from(tls).map_err(|error| GetError::Tls(error.to_string()))?;
    let mut transport = TransportConfig::default();
    let window = VarInt::from_u32(settings.receive_window);
    transport
        .stream_receive_window(window)
        .receive_window(window)
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    match settings.congestion.as_deref() {
        None | Some("cubic") => {}
        Some("newreno") => {
            let newreno = Arc::new(congestion::NewRenoConfig::default());
            transport.congestion_controller_factory(newreno);
        }
        Some("bbr") => {
            let bbr = Arc::new(congestion::BbrConfig::default());
            transport.congestion_controller_factory(bbr);
        }
        // With other versions the name may be meant for TCP.
        Some(name) if settings.http == super::args::HttpChoice::Http3 => {
            return Err(GetError::Usage(format!(
                "QUIC has no congestion control `{name}` here; use cubic, newreno or bbr"
            )));
        }
        Some(_) => {}
    }
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Opens a connection to the service of `origin` that listens at `host`:`port`.
///
/// The certificate has to be the origin's, wherever the service is (RFC 7838 §2.1).
pub(super) async fn open(
    settings: &Settings,
    config: &ClientConfig,
    origin: &Origin,
    (host, port): (&str, u16),
    id: u64,
) -> Result<Connection, FetchError> {
    let begun = Instant::now();
    let (addresses, resolve) = dial::resolve(settings, host, port).await?;
    let connected = dial::first_to_connect(addresses, |address| async move {
        let start = Instant::now();
        let (quic, endpoint) = connect(settings, config, origin, address).await?;
        Ok((quic, endpoint, start.elapsed()))
    });
    let (quic, endpoint, connect) = connected.await?;
    let (sender, closed) = http3(quic.clone());
    let opening = Opening {
        resolve,
        connect,
        tls: None,
    };
    Ok(Connection {
        id,
        version: HttpVersion::Http3,
        transport: Transport::Quic,
        local: local_address(&quic, &endpoint),
        remote: quic.remote_address(),
        tls: Some("1.3"),
        opening,
        begun,
        sender,
        probe: Probe::Quic(quic, endpoint),
        closed,
        requests: AtomicU64::new(0),
        blamed: AtomicBool::new(false),
    })
}

fn http3(quic: hikyaku_quic::Connection) -> (Sender, Arc<AtomicBool>) {
    let config = Config {
        max_field_section_size: MAX_HEADER_BYTES.into(),
        ..Config::default()
    };
    let (client, driver) = Client::new(quic, config);
    let closed = Arc::new(AtomicBool::new(false));
    let ended = closed.clone();
    // Requests get the error themselves.
    tokio::spawn(async move {
        driver.await;
        ended.store(true, Ordering::Release);
    });
    (Sender::Http3(client), closed)
}

async fn connect(
    settings: &Settings,
    config: &ClientConfig,
    origin: &Origin,
    remote: SocketAddr,
) -> Result<(hikyaku_quic::Connection, Endpoint), FetchError> {
    let local = settings.local.unwrap_or(match remote {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    });
    let endpoint =
        endpoint(SocketAddr::new(local, 0)).map_err(|source| socket_error("UDP socket", source))?;
    let failed = |source| FetchError::Quic { remote, source };
    let quic = endpoint
        .connect(config.clone(), remote, &origin.host)
        .map_err(|error| failed(Arc::new(error)))?
        .await
        .map_err(|error| failed(Arc::new(error)))?;
    Ok((quic, endpoint))
}

fn local_address(quic: &hikyaku_quic::Connection, endpoint: &Endpoint) -> SocketAddr {
    let bound = endpoint.local_addr();
    SocketAddr::new(quic.local_ip().unwrap_or(bound.ip()), bound.port())
}

/// Opens a socket for one connection. Connections do not share ports, so that they may take
/// different network paths.
fn endpoint(local: SocketAddr) -> io::Result<Endpoint> {
    let domain = Domain::for_address(local);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.bind(&local.into())?;
    // Sizes beyond net.core.rmem_max need CAP_NET_ADMIN; less is no failure.
    if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER);
    }
    let socket = UdpSocket::new(socket.into())?;
    Endpoint::spawn(EndpointConfig::default(), None, Arc::new(socket))
}

/// Receive buffer: 40 ms at 1.6 Gbit/s may pile up while another process has the CPU.
const RECEIVE_BUFFER: usize = 8 << 20;
