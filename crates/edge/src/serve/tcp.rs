//! HTTP/1.1 and HTTP/2 over TLS and TCP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::poll_fn;
use hikyaku_units::arm::{Congestion, Transport, Version};
use rustls::{ServerConfig, ServerConnection};
use socket2::{Protocol, SockRef};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tokio_util::task::TaskTracker;

use super::handshake::{Beginning, Handshake};
use super::http1::Http1;
use super::http2::Http2;
use super::idle::IdleTimer;
use super::plain;
use super::tls_io::TlsIo;
use super::{Answerer, Service, Site};
use crate::accept::AcceptFailures;
use crate::budget::RESERVE;
use crate::clients::Early;
use crate::conn::{Conn, Opening};
use crate::limits::Admission;
use crate::live::{LiveConnection, Place};
use crate::measure::{MeteredIo, Socket, TcpMeter, TcpTransport};
use crate::metrics::{Refusal, add};
use crate::mptcp::Mptcp;
use crate::part::Part;
use hikyaku_content::{BoxError, Peer};

/// Content that a connection of HTTP/2 holds at most: the kernel keeps the bytes on their way,
/// and some unsent. HTTP/1.1 has one response at a time, of which a chunk is enough.
const H2_HELD: u64 = 128 * 1024;

/// Accepts connections of one listening socket.
pub(crate) struct TcpAcceptor {
    pub(crate) listener: TcpListener,
    /// Its clients have asked for MPTCP, and get TCP.
    pub(crate) refused: bool,
    pub(crate) tls: Part<rustls::ServerConfig>,
    pub(crate) site: Arc<Site>,
    pub(crate) tasks: TaskTracker,
}

impl TcpAcceptor {
    /// Accepts until the server stops.
    pub(crate) async fn run(self) {
        let stop = self.site.stop.clone();
        let failures = AcceptFailures::of("TCP");
        let protocol = SockRef::from(&self.listener).protocol().ok().flatten();
        // A connection that might be of MPTCP is asked.
        let listens = protocol.unwrap_or(Protocol::MPTCP);
        while let Some(accepted) = stop.run_until_cancelled(self.listener.accept()).await {
            match accepted {
                Ok((stream, remote)) => self.accept(stream, remote, listens),
                Err(error) => failures.pause(&error, &self.site.shared.metrics).await,
            }
        }
    }

    fn accept(&self, stream: TcpStream, remote: SocketAddr, listens: Protocol) {
        let Some(admission) = self.site.admit(remote.ip()) else {
            return;
        };
        let site = Arc::clone(&self.site);
        let accepted = Accepted {
            stream,
            remote,
            listens,
            refused: self.refused,
            tls: self.tls.load_full(),
        };
        // In a box, since the task would keep room for the handshake as long as the connection lasts.
        let begun = Box::pin(begin(accepted, site, admission));
        self.tasks.spawn(async move {
            if let Err(error) = serve(begun).await {
                tracing::debug!(client = %remote, "TCP connection: {error}");
            }
        });
    }
}

/// A connection before its handshake.
struct Accepted {
    stream: TcpStream,
    remote: SocketAddr,
    /// The protocol of the listening socket.
    listens: Protocol,
    /// As of [`TcpAcceptor`].
    refused: bool,
    tls: Arc<ServerConfig>,
}

async fn serve(begun: impl Future<Output = io::Result<Box<Connection>>>) -> io::Result<()> {
    let mut connection = begun.await?;
    let result = poll_fn(|cx| connection.poll(cx)).await;
    // In a box, too.
    Box::pin(connection.close()).await;
    result
}

async fn begin(
    accepted: Accepted,
    site: Arc<Site>,
    admission: Admission,
) -> io::Result<Box<Connection>> {
    let secured = handshake(accepted, &site).await?;
    Connection::open(secured, site, admission).map(Box::new)
}

/// A connection after its handshake.
struct Secured {
    socket: Arc<Socket>,
    tls: (MeteredIo, ServerConnection),
    peer: Peer,
    congestion: Congestion,
    mptcp: Mptcp,
    early: Early,
}

async fn handshake(accepted: Accepted, site: &Site) -> io::Result<Secured> {
    let Accepted { stream, remote, .. } = accepted;
    let local = stream.local_addr()?;
    let shared = &site.shared;
    let early = shared.clients.early(remote.ip(), Transport::Tcp);
    let controls = Arc::clone(&site.controls);
    let socket = Socket::new(stream, remote.ip(), controls, accepted.listens)?;
    let congestion = socket.set_congestion(early.choice.tcp_control());
    socket.set_pacing(shared.clients.max_pacing_rate());
    let io = MeteredIo(Arc::clone(&socket));
    let tls = secure(io, accepted.tls, site, remote.ip()).await?;
    let mptcp = match shared.egress {
        Some(_) if accepted.refused => Mptcp::Refused,
        Some(_) => socket.mptcp_token().map_or(Mptcp::None, Mptcp::Token),
        None => Mptcp::None,
    };
    Ok(Secured {
        peer: peer(&tls.1, remote, local),
        socket,
        tls,
        congestion: congestion.unwrap_or(Congestion::Cubic),
        mptcp,
        early,
    })
}

/// Completes the TLS handshake of a client within its time, a step at a turn. One that speaks HTTP in the
/// clear is refused.
async fn secure<T: AsyncRead + AsyncWrite + Unpin>(
    io: T,
    config: Arc<ServerConfig>,
    site: &Site,
    client: IpAddr,
) -> io::Result<(T, ServerConnection)> {
    let timeout = site.service().timeouts.handshake;
    let handshake = async {
        let mut handshake = Handshake::new(io, config)?;
        if let Beginning::Http(head) = poll_fn(|cx| handshake.poll_begin(cx)).await? {
            return Err(plain::refuse(handshake.into_socket(), &head).await);
        }
        let completed = poll_fn(|cx| handshake.poll(cx));
        site.turns.run(client, completed).await?;
        Ok(handshake.into_parts())
    };
    let tls = tokio::time::timeout(timeout, handshake).await;
    tls.unwrap_or_else(|late| Err(late.into()))
        .inspect_err(|_| add(&site.shared.metrics.handshakes_failed_tcp, 1))
}

fn peer(session: &ServerConnection, remote: SocketAddr, local: SocketAddr) -> Peer {
    let version = match session.alpn_protocol() {
        Some(b"h2") => Version::H2,
        _ => Version::H1,
    };
    Peer {
        remote,
        local,
        version,
        server_name: session.server_name().map(Arc::from),
    }
}

pub(super) type Driving = Pin<Box<dyn DriveHttp + Send>>;

/// HTTP of whichever version over one connection.
pub(super) trait DriveHttp {
    /// Serves until the connection is over.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>>;
    /// Finishes the requests under way and takes no more.
    fn stop(self: Pin<&mut Self>);
}

/// Begins HTTP over `tls`.
fn drive(tls: TlsIo<MeteredIo>, conn: Arc<Conn>, site: Arc<Site>, service: &Service) -> Driving {
    let answerer = Arc::new(Answerer { conn, site });
    match answerer.conn.peer.version {
        Version::H2 => Box::pin(Http2::new(tls, &answerer, service)),
        _ => Box::pin(Http1::new(tls, &answerer, service)),
    }
}

/// A connection, its meter, and the timers that end it.
struct Connection {
    http: Driving,
    meter: TcpMeter,
    idle: IdleTimer,
    linger: Duration,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    stopping: bool,
    conn: Arc<Conn>,
    /// Its place, for as long as the socket is open.
    _place: Arc<Place>,
}

impl Connection {
    fn open(secured: Secured, site: Arc<Site>, admission: Admission) -> io::Result<Self> {
        let Secured {
            socket,
            tls,
            peer,
            congestion,
            mptcp,
            early,
        } = secured;
        let held = match peer.version {
            Version::H2 => H2_HELD,
            _ => RESERVE,
        };
        let service = site.service_full();
        let memory = admission.memory(held, &service.limits);
        let account = Arc::clone(&memory.account);
        let opening = Opening {
            peer,
            congestion,
            pacer: (!socket.is_paced()).then(Arc::default),
            mptcp,
            memory,
            validated: true,
        };
        let conn = Conn::open_decided(Arc::clone(&site.shared), opening, &early);
        let live = LiveConnection::tcp(&conn, &socket);
        let place = Arc::new(site.live.list(admission, live));
        let tls = TlsIo::new(tls, account, Arc::clone(&place));
        let meter = TcpMeter::new(Arc::clone(&conn), socket, service.terms());
        let stop = site.stop.clone();
        let http = drive(tls, Arc::clone(&conn), site, &service);
        Ok(Self {
            http,
            meter,
            idle: IdleTimer::new(service.timeouts.idle),
            linger: service.timeouts.linger,
            stop: Box::pin(stop.cancelled_owned()),
            stopping: false,
            conn,
            _place: place,
        })
    }

    async fn close(self: Box<Self>) {
        // HTTP goes first: it closes the exchanges that are still open.
        drop(self.http);
        let (stalled, srtt) = (self.meter.is_stalled(), self.meter.srtt());
        let (socket, meter) = (Arc::clone(self.meter.socket()), self.meter.close());
        let linger = async {
            match stalled {
                true => socket.discard_unsent(),
                false => socket.linger(self.linger, srtt).await,
            }
        };
        tokio::join!(meter, linger);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.stopping
            && (self.stop.as_mut().poll(cx).is_ready() || self.idle.poll(cx, &self.conn).is_ready())
        {
            self.stopping = true;
            self.http.as_mut().stop();
        }
        if let Poll::Ready(result) = self.http.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(io::Error::other));
        }
        self.meter.poll(cx);
        if self.meter.is_stalled() {
            self.conn.shared.metrics.on_refusal(Refusal::Stalled);
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client took too little (timeouts.send, limits.min_send_rate)",
            )));
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
