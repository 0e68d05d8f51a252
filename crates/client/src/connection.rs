//! A connection to a server over any version of HTTP.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hikyaku_h3_quic::{Client, Code};
use hikyaku_quic::Endpoint;
use hikyaku_quic::proto::VarInt;
use http_body_util::Full;
use hyper::client::conn::http1;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::sys;
use super::tcp::WriteClock;
use super::timeline::Opening;

/// A version of HTTP in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum HttpVersion {
    Http1,
    Http2,
    Http3,
}

impl HttpVersion {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http1 => "1.1",
            Self::Http2 => "2",
            Self::Http3 => "3",
        }
    }
}

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    /// Multipath TCP, spoken by both sides.
    Mptcp,
    Quic,
}

impl Transport {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Mptcp => "mptcp",
            Self::Quic => "quic",
        }
    }
}

/// An open connection.
pub(super) struct Connection {
    /// Number of the connection, from 1 in the order of opening, over the whole process.
    pub(super) id: u64,
    pub(super) version: HttpVersion,
    pub(super) transport: Transport,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// `1.2` or `1.3`; `None` on cleartext.
    pub(super) tls: Option<&'static str>,
    pub(super) opening: Opening,
    /// Time at which its opening began.
    pub(super) begun: Instant,
    pub(super) sender: Sender,
    pub(super) probe: Probe,
    pub(super) closed: Arc<AtomicBool>,
    pub(super) requests: AtomicU64,
    /// Whether its failure was counted against its destination.
    pub(super) blamed: AtomicBool,
}

/// The handle that sends requests.
#[derive(Clone)]
pub(super) enum Sender {
    Http1(Http1Sender),
    Http2(h2::client::SendRequest<Bytes>),
    Http3(Client),
}

/// The handle that sends requests on HTTP/1.1, where they take turns.
#[derive(Clone)]
pub(super) struct Http1Sender {
    pub(super) sender: Arc<Mutex<http1::SendRequest<Full<Bytes>>>>,
    pub(super) clock: Arc<WriteClock>,
    pub(super) closed: Arc<AtomicBool>,
}

/// A request's turn on an HTTP/1.1 connection. A turn that ends before its response, as after a
/// timeout, makes the connection useless to others.
pub(super) struct Http1Turn {
    pub(super) sender: OwnedMutexGuard<http1::SendRequest<Full<Bytes>>>,
    pub(super) complete: bool,
    closed: Arc<AtomicBool>,
}

impl Http1Sender {
    /// Waits for the connection to be idle.
    pub(super) async fn turn(&self) -> Http1Turn {
        Http1Turn {
            sender: self.sender.clone().lock_owned().await,
            complete: false,
            closed: self.closed.clone(),
        }
    }
}

impl Drop for Http1Turn {
    fn drop(&mut self) {
        if !self.complete {
            self.closed.store(true, Ordering::Release);
        }
    }
}

/// The source of a connection's path statistics.
pub(super) enum Probe {
    Tcp(OwnedFd),
    Quic(hikyaku_quic::Connection, Endpoint),
}

/// The client's transport statistics of the client path. They count packets that the client sent:
/// in a download mostly acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PathStats {
    /// Smoothed round trip time.
    pub(super) rtt: Duration,
    pub(super) min_rtt: Duration,
    /// Packets (TCP: segments) sent.
    pub(super) sent: u64,
    /// QUIC: packets lost; TCP: segments retransmitted.
    pub(super) lost: u64,
    pub(super) received: u64,
}

impl Connection {
    /// Whether the connection takes new requests.
    pub(super) fn is_usable(&self) -> bool {
        let quic_closed = match &self.probe {
            Probe::Quic(connection, _) => connection.close_reason().is_some(),
            Probe::Tcp(_) => false,
        };
        let going_away = matches!(&self.sender, Sender::Http3(client) if client.is_going_away());
        !quic_closed && !going_away && !self.closed.load(Ordering::Acquire)
    }

    /// Stops taking requests.
    pub(super) fn retire(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Marks the connection's failure as counted, and returns whether it was not yet. Many requests
    /// may die with one connection, which is one failure.
    pub(super) fn blame(&self) -> bool {
        !self.blamed.swap(true, Ordering::Relaxed)
    }

    /// Returns the transport's present statistics; `None` if the kernel does not report them.
    pub(super) fn path(&self) -> Option<PathStats> {
        match &self.probe {
            Probe::Tcp(socket) => sys::tcp_info(socket).ok().map(|info| PathStats {
                rtt: Duration::from_micros(info.rtt_us.into()),
                min_rtt: Duration::from_micros(info.min_rtt_us.into()),
                sent: info.segs_out.into(),
                lost: info.total_retrans.into(),
                received: info.segs_in.into(),
            }),
            Probe::Quic(connection, _) => {
                let stats = connection.stats();
                Some(PathStats {
                    rtt: stats.path.rtt,
                    min_rtt: stats.path.min_rtt,
                    sent: stats.path.sent_packets,
                    lost: stats.path.lost_packets,
                    received: stats.udp_rx.datagrams,
                })
            }
        }
    }

    /// Number of requests that were sent on it.
    pub(super) fn request_count(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(super) fn is_quic(&self) -> bool {
        self.transport == Transport::Quic
    }

    /// Whether the connection ended by silence or by a violation of QUIC, rather than at the
    /// server's wish.
    pub(super) fn path_died(&self) -> bool {
        use hikyaku_quic::proto::ConnectionError::{Reset, TimedOut, TransportError};
        match &self.probe {
            Probe::Quic(connection, _) => matches!(
                connection.close_reason(),
                Some(TimedOut | Reset | TransportError(_))
            ),
            Probe::Tcp(_) => false,
        }
    }

    /// Closes the connection. On TCP dropping the last request does. Returns the endpoint that is
    /// to answer the packets that still come, if one is there.
    pub(super) fn close(&self) -> Option<Endpoint> {
        self.retire();
        let Probe::Quic(connection, endpoint) = &self.probe else {
            return None;
        };
        let no_error = Code::NoError.value();
        connection.close(VarInt::from_u64(no_error).unwrap_or_default(), b"");
        Some(endpoint.clone())
    }
}
