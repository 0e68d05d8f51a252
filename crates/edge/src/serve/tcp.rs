//! HTTP/1.1 and HTTP/2 over TCP, with TLS or in the clear.

mod begin;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::poll_fn;
use hikyaku_units::arm::Version;
use rustls::ServerConfig;
use socket2::{Protocol, SockRef};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;

use super::http1::Http1;
use super::http2::Http2;
use super::idle::IdleTimer;
use super::tls_io::TlsIo;
use super::{Answerer, Service, Site, cleartext};
use crate::accept::AcceptFailures;
use crate::behind::Through;
use crate::budget::RESERVE;
use crate::conn::{Conn, Opening};
use crate::limits::{Admission, Entered};
use crate::live::{LiveConnection, Place};
use crate::measure::{MeteredIo, TcpMeter};
use crate::metrics::{Refusal, add};
use crate::part::Part;
use begin::{Begun, begin};
use hikyaku_content::BoxError;

/// Content that a connection of HTTP/2 holds at most: the kernel keeps the bytes on their way,
/// and some unsent. HTTP/1.1 has one response at a time, of which a chunk is enough.
const H2_HELD: u64 = 128 * 1024;

/// Accepts connections of one listening socket.
pub(crate) struct TcpAcceptor {
    pub(crate) listener: TcpListener,
    /// Its clients have asked for MPTCP, and get TCP.
    pub(crate) refused: bool,
    /// `None` where HTTP is in the clear.
    pub(crate) tls: Option<Part<ServerConfig>>,
    pub(crate) site: Arc<Site>,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when it accepts no more.
    pub(crate) closing: CancellationToken,
}

impl TcpAcceptor {
    /// Accepts until it is closed.
    pub(crate) async fn run(self) {
        let failures = AcceptFailures::of(match self.tls {
            Some(_) => "TCP",
            None => "cleartext",
        });
        let protocol = SockRef::from(&self.listener).protocol().ok().flatten();
        // A connection that might be of MPTCP is asked.
        let listens = protocol.unwrap_or(Protocol::MPTCP);
        while let Some(accepted) = self
            .closing
            .run_until_cancelled(self.listener.accept())
            .await
        {
            match accepted {
                Ok((stream, remote)) => self.accept(stream, remote, listens),
                Err(error) => failures.pause(&error, &self.site.shared.metrics).await,
            }
        }
    }

    fn accept(&self, stream: TcpStream, remote: SocketAddr, listens: Protocol) {
        let site = Arc::clone(&self.site);
        if self.tls.is_none() && !site.service().cleartext.serves_content() {
            return cleartext::accept(site, stream, remote, &self.tasks);
        }
        let Some(entry) = self.enter(remote.ip()) else {
            return;
        };
        if self.tls.is_none() {
            add(&site.shared.metrics.cleartext_connections, 1);
        }
        let accepted = Accepted {
            stream,
            remote,
            listens,
            refused: self.refused,
            tls: self.tls.as_ref().map(Part::load_full),
        };
        // In a box, since the task would keep room for the handshake as long as the connection lasts.
        let begun = Box::pin(begin(accepted, site, entry));
        self.tasks.spawn(async move {
            if let Err(error) = serve(begun).await {
                tracing::debug!(client = %remote, "TCP connection: {error}");
            }
        });
    }

    /// Takes a place for a connection from `remote`. A balancer has those of many clients.
    fn enter(&self, remote: IpAddr) -> Option<Entry> {
        let is_balancer = self.site.shared.terms().behind.has_balancer(remote);
        match is_balancer {
            true => self.site.enter(remote).map(Entry::Balancer),
            false => self.site.admit(remote).map(Entry::Client),
        }
    }
}

/// A place of a connection.
enum Entry {
    /// Of its client.
    Client(Admission),
    /// Of a balancer, which has yet to name the client.
    Balancer(Entered),
}

/// A connection before its handshake.
struct Accepted {
    stream: TcpStream,
    /// The socket's other end: the client, or a balancer.
    remote: SocketAddr,
    /// The protocol of the listening socket.
    listens: Protocol,
    /// As of [`TcpAcceptor`].
    refused: bool,
    tls: Option<Arc<ServerConfig>>,
}

async fn serve(begun: impl Future<Output = io::Result<Box<Connection>>>) -> io::Result<()> {
    let mut connection = begun.await?;
    let result = poll_fn(|cx| connection.poll(cx)).await;
    // In a box, too.
    Box::pin(connection.close()).await;
    result
}

pub(super) type Driving = Pin<Box<dyn DriveHttp + Send>>;

/// HTTP of whichever version over one connection.
pub(super) trait DriveHttp {
    /// Serves until the connection is over.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>>;
    /// Finishes the requests under way and takes no more.
    fn stop(self: Pin<&mut Self>);
}

/// Begins HTTP over `stream`.
fn drive(stream: TlsIo<MeteredIo>, conn: Arc<Conn>, site: Arc<Site>, service: &Service) -> Driving {
    let answerer = Arc::new(Answerer { conn, site });
    match answerer.conn.peer.version {
        Version::H2 => Box::pin(Http2::new(stream, &answerer, service)),
        _ => Box::pin(Http1::new(stream, &answerer, service)),
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
    fn open(begun: Begun, site: Arc<Site>, admission: Admission) -> io::Result<Self> {
        let Begun {
            socket,
            stream,
            peer,
            through,
            congestion,
            mptcp,
            early,
            handshake,
        } = begun;
        let held = match peer.version {
            Version::H2 => {
                socket.hold_few_unsent();
                H2_HELD
            }
            _ => RESERVE,
        };
        let service = site.service_full();
        let memory = admission.memory(held, &service.limits);
        let account = Arc::clone(&memory.account);
        let opening = Opening {
            peer,
            through,
            congestion,
            pacer: (!socket.is_paced()).then(Arc::default),
            mptcp,
            memory,
            validated: true,
            handshake,
        };
        let shared = Arc::clone(&site.shared);
        let conn = match through {
            Through::Nothing => Conn::open_decided(shared, opening, &early),
            // The early decision is for the path to the balancer, or is the proxy's own.
            Through::Balancer(_) | Through::Proxy => Conn::open(shared, opening),
        };
        let live = LiveConnection::tcp(&conn, &socket);
        let place = Arc::new(site.live.list(admission, live));
        let stream = TlsIo::new(stream, account, Arc::clone(&place));
        let meter = TcpMeter::new(Arc::clone(&conn), socket, service.terms());
        let stop = site.stop();
        let http = drive(stream, Arc::clone(&conn), site, &service);
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
