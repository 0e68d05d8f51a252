//! Connections over TCP: HTTP/1.1 and HTTP/2, with TLS or in the clear.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ProtocolVersion};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use super::args::HttpChoice;
use super::connection::{Connection, Http1Sender, HttpVersion, Probe, Sender, Transport};
use super::error::FetchError;
use super::settings::Settings;
use super::target::Origin;
use super::timeline::Opening;
use super::{dial, sys, units};

/// Opens a connection to `origin` with the version that ALPN picks from those in `tls`.
pub(super) async fn open(
    settings: &Settings,
    tls: Arc<ClientConfig>,
    origin: &Origin,
    id: u64,
) -> Result<Connection, FetchError> {
    let (mut parts, stream) = dial(settings, origin, id).await?;
    if !origin.secure {
        let version = match settings.http {
            HttpChoice::Http2 => HttpVersion::Http2,
            _ => HttpVersion::Http1,
        };
        return parts.speak(settings, stream, version).await;
    }
    let remote = parts.remote;
    let start = Instant::now();
    let stream = handshake(stream, tls, origin, remote).await?;
    parts.opening.tls = Some(start.elapsed());
    let (_, session) = stream.get_ref();
    parts.tls = session.protocol_version().map(version_name);
    let version = match (settings.http, session.alpn_protocol()) {
        (_, Some(b"h2")) => HttpVersion::Http2,
        (HttpChoice::Http2, _) => {
            let wanted = "HTTP/2";
            return Err(FetchError::Alpn { remote, wanted });
        }
        _ => HttpVersion::Http1,
    };
    parts.speak(settings, stream, version).await
}

/// Connects to the first address of `origin` that answers.
async fn dial(
    settings: &Settings,
    origin: &Origin,
    id: u64,
) -> Result<(Parts, TcpStream), FetchError> {
    let begun = Instant::now();
    let (addresses, resolve) = dial::resolve(settings, &origin.host, origin.port).await?;
    let connected = dial::first_to_connect(addresses, |address| async move {
        let start = Instant::now();
        let stream = connect(settings, address).await?;
        Ok((stream, address, start.elapsed()))
    });
    let (stream, remote, connect) = connected.await?;
    let describe = |source| socket_error("TCP socket", source);
    let probe = stream.as_fd().try_clone_to_owned().map_err(describe)?;
    let local = stream.local_addr().map_err(describe)?;
    let transport = if settings.mptcp && sys::is_multipath(&probe) {
        Transport::Mptcp
    } else {
        Transport::Tcp
    };
    let opening = Opening {
        resolve,
        connect,
        tls: None,
    };
    let parts = Parts {
        id,
        begun,
        local,
        remote,
        transport,
        tls: None,
        opening,
        probe,
    };
    Ok((parts, stream))
}

async fn handshake(
    stream: TcpStream,
    tls: Arc<ClientConfig>,
    origin: &Origin,
    remote: SocketAddr,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, FetchError> {
    let failed = |source: io::Error| FetchError::Tls {
        remote,
        source: Arc::new(source),
    };
    let name = ServerName::try_from(origin.host.clone())
        .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let connecting = TlsConnector::from(tls).connect(name, stream);
    connecting.await.map_err(|error| {
        // rustls answers a server that knows none of our ALPN protocols with this alert.
        let no_protocol = error.get_ref().is_some_and(|cause| {
            matches!(
                cause.downcast_ref(),
                Some(rustls::Error::AlertReceived(
                    rustls::AlertDescription::NoApplicationProtocol
                ))
            )
        });
        if no_protocol {
            let wanted = "the HTTP version asked for";
            FetchError::Alpn { remote, wanted }
        } else {
            failed(error)
        }
    })
}

fn version_name(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_2 => "1.2",
        _ => "1.3",
    }
}

async fn connect(settings: &Settings, remote: SocketAddr) -> Result<TcpStream, FetchError> {
    let socket = socket(settings, remote)?;
    let connecting = TcpSocket::from_std_stream(socket.into()).connect(remote);
    connecting.await.map_err(|source| FetchError::Connect {
        remote,
        source: Arc::new(source),
    })
}

fn socket(settings: &Settings, remote: SocketAddr) -> Result<Socket, FetchError> {
    let (what, protocol) = if settings.mptcp {
        ("MPTCP socket", Protocol::MPTCP)
    } else {
        ("TCP socket", Protocol::TCP)
    };
    let socket = Socket::new(Domain::for_address(remote), Type::STREAM, Some(protocol))
        .map_err(|source| socket_error(what, source))?;
    let configure = || {
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        match settings.local {
            Some(local) => socket.bind(&SocketAddr::new(local, 0).into()),
            None => Ok(()),
        }
    };
    configure().map_err(|source| socket_error(what, source))?;
    if let Some(name) = &settings.congestion {
        SockRef::from(&socket)
            .set_tcp_congestion(name.as_bytes())
            .map_err(|source| {
                socket_error(
                    &format!("TCP socket with congestion control `{name}`"),
                    source,
                )
            })?;
    }
    Ok(socket)
}

pub(super) fn socket_error(what: &str, source: io::Error) -> FetchError {
    FetchError::Socket {
        what: what.to_owned(),
        source: Arc::new(source),
    }
}

/// An established transport on which HTTP is about to begin.
struct Parts {
    id: u64,
    begun: Instant,
    local: SocketAddr,
    remote: SocketAddr,
    transport: Transport,
    tls: Option<&'static str>,
    opening: Opening,
    probe: OwnedFd,
}

impl Parts {
    async fn speak(
        self,
        settings: &Settings,
        stream: impl Stream,
        version: HttpVersion,
    ) -> Result<Connection, FetchError> {
        let stream: BoxedStream = Box::new(stream);
        let closed = Arc::new(AtomicBool::new(false));
        let sender = match version {
            HttpVersion::Http2 => http2(settings, stream, closed.clone()).await?,
            _ => http1(stream, closed.clone()).await?,
        };
        Ok(Connection {
            id: self.id,
            version,
            transport: self.transport,
            local: self.local,
            remote: self.remote,
            tls: self.tls,
            opening: self.opening,
            begun: self.begun,
            sender,
            probe: Probe::Tcp(self.probe),
            closed,
            requests: AtomicU64::new(0),
            blamed: AtomicBool::new(false),
        })
    }
}

/// A connection, in the clear or over TLS. There is one type, since each takes code of every HTTP library.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

type BoxedStream = Box<dyn Stream>;

async fn http1(stream: BoxedStream, closed: Arc<AtomicBool>) -> Result<Sender, FetchError> {
    let clock = Arc::new(WriteClock::new());
    let stream = Clocked {
        stream,
        clock: clock.clone(),
    };
    let (sender, driver) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| FetchError::exchange("starting HTTP/1.1", error))?;
    let ended = closed.clone();
    tokio::spawn(async move {
        // Requests get the error themselves.
        let _ = driver.await;
        ended.store(true, Ordering::Release);
    });
    Ok(Sender::Http1(Http1Sender {
        sender: Arc::new(Mutex::new(sender)),
        clock,
        closed,
    }))
}

async fn http2(
    settings: &Settings,
    stream: BoxedStream,
    closed: Arc<AtomicBool>,
) -> Result<Sender, FetchError> {
    let handshake = h2::client::Builder::new()
        .initial_window_size(settings.receive_window)
        .initial_connection_window_size(settings.receive_window)
        .max_header_list_size(MAX_HEADER_BYTES)
        .enable_push(false)
        .handshake(stream);
    let (sender, driver) = handshake
        .await
        .map_err(|error| FetchError::exchange("starting HTTP/2", error))?;
    tokio::spawn(async move {
        // Requests get the error themselves.
        let _ = driver.await;
        closed.store(true, Ordering::Release);
    });
    Ok(Sender::Http2(sender))
}

/// Largest header section of a response: twice the usual limit of servers.
pub(super) const MAX_HEADER_BYTES: u32 = 64 * 1024;

/// The time at which bytes were last written to a connection.
///
/// HTTP/1.1 has one request in flight at a time, so this is the time at which it was sent.
pub(super) struct WriteClock {
    epoch: Instant,
    last_us: AtomicU64,
}

impl WriteClock {
    fn new() -> Self {
        Self {
            epoch: Instant::now(),
            last_us: AtomicU64::new(0),
        }
    }

    fn wrote(&self) {
        let now = units::us(self.epoch.elapsed());
        self.last_us.store(now, Ordering::Relaxed);
    }

    pub(super) fn last_write(&self) -> Instant {
        self.epoch + Duration::from_micros(self.last_us.load(Ordering::Relaxed))
    }
}

/// A stream that updates its [`WriteClock`].
struct Clocked {
    stream: BoxedStream,
    clock: Arc<WriteClock>,
}

impl AsyncRead for Clocked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Clocked {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.clock.wrote();
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bufs))?;
        self.clock.wrote();
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
