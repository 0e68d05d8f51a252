//! HTTP/1.1 and HTTP/2 over TLS and TCP.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::poll_fn;
use hikyaku_units::arm::{Congestion, Transport, Version};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tokio_util::task::TaskTracker;

use super::http2::Http2;
use super::idle::IdleTimer;
use super::interim::{Coming, InterimWriter, Next, WithInterim};
use super::plain;
use super::tls_io::TlsIo;
use super::{Answerer, Service, Site};
use crate::accept::AcceptFailures;
use crate::budget::RESERVE;
use crate::conn::{Conn, Opening};
use crate::limits::Admission;
use crate::live::{LiveConnection, Place};
use crate::measure::{MeteredIo, Socket, TcpMeter, TcpTransport, TrackedBody};
use crate::metrics::{Refusal, add};
use crate::mptcp::Mptcp;
use crate::part::Part;
use hikyaku_content::HeaderSize;
use hikyaku_content::{BoxError, Interim, Peer, RequestBody};

/// Bytes that the kernel holds unsent (`TCP_NOTSENT_LOWAT`). Beyond the bytes in flight they only
/// take memory, and go before any response of HTTP/2 that is more urgent. Send buffers never shrink when a
/// path becomes slow. Less means more wakes a byte.
const UNSENT: u32 = 512 * 1024;
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
        while let Some(accepted) = stop.run_until_cancelled(self.listener.accept()).await {
            match accepted {
                Ok((stream, remote)) => self.accept(stream, remote),
                Err(error) => failures.pause(&error, &self.site.shared.metrics).await,
            }
        }
    }

    fn accept(&self, stream: TcpStream, remote: SocketAddr) {
        let Some(admission) = self.site.admit(remote.ip()) else {
            return;
        };
        let acceptor = TlsAcceptor::from(self.tls.load_full());
        let site = Arc::clone(&self.site);
        let accepted = Accepted {
            stream,
            remote,
            refused: self.refused,
        };
        self.tasks.spawn(async move {
            if let Err(error) = serve(accepted, acceptor, site, admission).await {
                tracing::debug!(client = %remote, "TCP connection: {error}");
            }
        });
    }
}

/// A connection before its handshake.
struct Accepted {
    stream: TcpStream,
    remote: SocketAddr,
    /// As of [`TcpAcceptor`].
    refused: bool,
}

async fn serve(
    accepted: Accepted,
    acceptor: TlsAcceptor,
    site: Arc<Site>,
    admission: Admission,
) -> io::Result<()> {
    // In boxes, since they take several times the memory of a connection that is served.
    let connection = Box::pin(begin(accepted, acceptor, site, admission)).await?;
    connection.run().await
}

async fn begin(
    accepted: Accepted,
    acceptor: TlsAcceptor,
    site: Arc<Site>,
    admission: Admission,
) -> io::Result<Connection> {
    let secured = handshake(accepted, acceptor, &site).await?;
    Connection::open(secured, site, admission)
}

/// A connection after its handshake.
struct Secured {
    socket: Arc<Socket>,
    tls: TlsStream<MeteredIo>,
    peer: Peer,
    congestion: Congestion,
    mptcp: Mptcp,
}

async fn handshake(accepted: Accepted, acceptor: TlsAcceptor, site: &Site) -> io::Result<Secured> {
    let Accepted {
        stream,
        remote,
        refused,
    } = accepted;
    stream.set_nodelay(true)?;
    let local = stream.local_addr()?;
    let shared = &site.shared;
    let choice = shared.clients.transport(remote.ip(), Transport::Tcp);
    let socket = Socket::new(stream, remote.ip(), Arc::clone(&site.controls))?;
    let congestion = socket.set_congestion(choice.tcp_control());
    socket.set_pacing(shared.clients.max_pacing_rate());
    let io = MeteredIo(Arc::clone(&socket));
    let tls = secure(io, plain::is_http(&socket), &acceptor, site, remote.ip()).await?;
    let mptcp = match shared.egress {
        Some(_) if refused => Mptcp::Refused,
        Some(_) => socket.mptcp_token().map_or(Mptcp::None, Mptcp::Token),
        None => Mptcp::None,
    };
    Ok(Secured {
        peer: peer(&tls, remote, local),
        socket,
        tls,
        congestion: congestion.unwrap_or(Congestion::Cubic),
        mptcp,
    })
}

/// Completes the TLS handshake of a client within its time, a step at a turn. One that `is_http` in the
/// clear is refused.
async fn secure<T: AsyncRead + AsyncWrite + Unpin>(
    io: T,
    is_http: impl Future<Output = io::Result<bool>>,
    acceptor: &TlsAcceptor,
    site: &Site,
    client: IpAddr,
) -> io::Result<TlsStream<T>> {
    let timeout = site.service().timeouts.handshake;
    let handshake = async {
        match is_http.await? {
            true => Err(plain::refuse(io).await),
            false => site.turns.run(client, acceptor.accept(io)).await,
        }
    };
    let tls = tokio::time::timeout(timeout, handshake).await;
    tls.unwrap_or_else(|late| Err(late.into()))
        .inspect_err(|_| add(&site.shared.metrics.handshakes_failed_tcp, 1))
}

fn peer<T>(tls: &TlsStream<T>, remote: SocketAddr, local: SocketAddr) -> Peer {
    let (_, session) = tls.get_ref();
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

type H1Io = TokioIo<WithInterim<TlsIo<MeteredIo>>>;
type Driving = Pin<Box<dyn DriveHttp + Send>>;

/// HTTP of whichever version over one connection.
pub(super) trait DriveHttp {
    /// Serves until the connection is over.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>>;
    /// Finishes the requests under way and takes no more.
    fn stop(self: Pin<&mut Self>);
}

fn http1(tls: TlsIo<MeteredIo>, answerer: &Arc<Answerer>, service: &Service) -> Driving {
    let answerer = Arc::clone(answerer);
    let header_size = HeaderSize::from(service.limits.header_size);
    let (tls, writer) = WithInterim::new(tls);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(service.timeouts.header)
        .max_headers(header_size.fields())
        .max_header_size(header_size.head_size())
        .max_buf_size(header_size.buffer())
        .serve_connection(
            TokioIo::new(tls),
            service_fn(move |request| answer(Arc::clone(&answerer), request, Some(writer.clone()))),
        )
        .with_upgrades();
    Box::pin(connection)
}

impl<S, B> DriveHttp for http1::UpgradeableConnection<H1Io, S>
where
    Self: Future<Output = hyper::Result<()>>,
    S: hyper::service::HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: http_body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Future::poll(self, cx).map_err(Into::into)
    }

    fn stop(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

async fn answer(
    answerer: Arc<Answerer>,
    request: Request<Incoming>,
    writer: Option<InterimWriter>,
) -> Result<Response<TrackedBody>, Infallible> {
    let mut ticket = answerer.conn.ledger.open(&request);
    let mut request = request.map(|body| RequestBody::new(body.map_err(Into::into)));
    // HTTP/1.0 has none (RFC 9110 §15.2).
    let writer = writer.filter(|_| {
        request.version() == http::Version::HTTP_11
            && answerer.site.service().content.has_interim_responses()
    });
    let response = match writer {
        Some(writer) => {
            let (interim, heads) = Interim::channel();
            request.extensions_mut().insert(interim);
            let responding = pin!(answerer.respond(request, &mut ticket));
            let mut coming = Coming::new(Some(heads), responding);
            loop {
                match coming.next().await {
                    Next::Interim(head) => writer.send(head).await,
                    Next::Response(response) => break response,
                }
            }
        }
        None => answerer.respond(request, &mut ticket).await,
    };
    Ok(response.map(|body| TrackedBody::new(body, ticket)))
}

/// Begins HTTP over `tls`.
fn drive(tls: TlsIo<MeteredIo>, conn: Arc<Conn>, site: Arc<Site>, service: &Service) -> Driving {
    let answerer = Arc::new(Answerer { conn, site });
    match answerer.conn.peer.version {
        Version::H2 => Box::pin(Http2::new(tls, &answerer, service)),
        _ => http1(tls, &answerer, service),
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
        let conn = Conn::open(Arc::clone(&site.shared), opening);
        socket.set_notsent_lowat(UNSENT)?;
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

    async fn run(mut self) -> io::Result<()> {
        let result = poll_fn(|cx| self.poll(cx)).await;
        Box::pin(self.close()).await;
        result
    }

    async fn close(self) {
        // HTTP goes first: it closes the exchanges that are still open.
        drop(self.http);
        let stalled = self.meter.is_stalled();
        let (socket, meter) = (Arc::clone(self.meter.socket()), self.meter.close());
        let linger = async {
            match stalled {
                true => socket.discard_unsent(),
                false => socket.linger(self.linger).await,
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
