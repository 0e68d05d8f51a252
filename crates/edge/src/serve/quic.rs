//! QUIC: accepting connections, and their settings.

mod config;
mod handshakes;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hikyaku_congestion::{Handle, SEND_WINDOW};
use hikyaku_core::client::sample::UdpEvent;
use hikyaku_quic::proto::crypto::rustls::HandshakeData;
use hikyaku_quic::proto::{ConnectionError, VarInt};
use hikyaku_quic::{Connecting, Connection, Endpoint, Incoming, ZeroRttAccepted};
use hikyaku_units::arm::{Congestion, Transport, Version};
use tokio_util::task::TaskTracker;

pub(crate) use self::config::QuicConfig;
pub use self::config::QuicError;
pub(super) use self::config::max_idle;
pub(crate) use self::handshakes::Handshakes;
use self::handshakes::UnderWay;
use super::carrier::Carrier;
use super::{Answerer, Service, Site, h3};
use crate::clock;
use crate::conn::{Conn, Opening};
use crate::limits::Admission;
use crate::live::{LiveConnection, Place};
use crate::metrics::add;
use crate::mptcp::Mptcp;
use crate::part::Part;
use crate::qlog::Trace;
use crate::unvalidated::{Handshaking, Unvalidated};
use hikyaku_content::{Peer, Scheme, TlsVersion};

/// For how long the last packets of a failed handshake may be on their way to the client.
const LAST_PACKETS: Duration = Duration::from_secs(1);

/// Connections of one address before the end of their handshake from which on it has to be proven.
const RETRY_ABOVE_OF_ADDRESS: usize = 32;

/// Accepts QUIC connections on one socket.
pub(crate) struct QuicListener {
    pub(crate) endpoint: Endpoint,
    pub(crate) local: SocketAddr,
    pub(crate) config: Part<QuicConfig>,
    pub(crate) site: Arc<Site>,
    pub(crate) tasks: TaskTracker,
    pub(crate) handshakes: Arc<Handshakes>,
    pub(crate) unvalidated: Arc<Unvalidated>,
}

impl QuicListener {
    /// Accepts until the server ends. While its connections finish their requests, clients that have begun
    /// with it still come.
    pub(crate) async fn run(self) {
        let this = Arc::new(self);
        let end = &this.site.end;
        while let Some(Some(incoming)) = end.run_until_cancelled(this.endpoint.accept()).await {
            this.meet(incoming);
        }
    }

    /// Finds a place for a client that comes, or asks for proof of its address.
    fn meet(self: &Arc<Self>, incoming: Incoming) {
        let remote = incoming.remote_address();
        let retry_above = self.site.service().limits.quic_retry_above;
        if incoming.may_retry() && self.asks_for_proof(remote, retry_above) {
            add(&self.site.shared.metrics.quic_retries, 1);
            // Fails only where `may_retry` would have been false.
            let _ = incoming.retry();
            return;
        }
        let Some(admission) = self.site.admit(remote.ip()) else {
            // A refusal would make browsers avoid HTTP/3 for days; silence makes them
            // use TCP.
            incoming.ignore();
            return;
        };
        let validated = incoming.remote_address_validated();
        let unvalidated = (!validated).then(|| self.unvalidated.begin(remote));
        let under_way = self.handshakes.begin(incoming.orig_dst_cid(), unvalidated);
        // In a box, since the task would keep room for the handshake as long as the connection lasts.
        let opening = Box::pin(Arc::clone(self).open(incoming, under_way, admission));
        self.tasks.spawn(async move {
            let Some(opened) = opening.await else {
                return;
            };
            let (client, _place) = (opened.client, opened.place);
            if let Err(error) = h3::serve(opened.answerer, opened.quic, opened.complete).await {
                tracing::debug!(%client, "HTTP/3 connection: {error}");
            }
        });
    }

    /// Completes the handshake, or as much of it as early data needs.
    async fn open(
        self: Arc<Self>,
        incoming: Incoming,
        mut under_way: UnderWay,
        admission: Admission,
    ) -> Option<Opened> {
        let came = clock::now();
        let begun = self.begin(incoming).await?;
        let established = match establish(begun.connecting, &self.site.service_full()).await {
            Ok(established) => established,
            Err(error) => {
                failed(&self.site, begun.remote, begun.validated, &error);
                let unvalidated = under_way.take_unvalidated();
                drop((admission, under_way));
                self.linger(unvalidated).await;
                return None;
            }
        };
        let validated = begun.validated || established.early.is_none();
        if let Some(trace) = begun.trace {
            trace.follow(&established.quic);
        }
        let resumed = begun.carrier.filter(|carrier| carrier.deliver());
        let congestion = match resumed {
            Some(_) => self.begin_with(begun.remote.ip(), &established.quic),
            None => begun.congestion,
        };
        // Before, somebody else may have named its address.
        if validated && !begun.validated {
            self.look_up_late(begun.remote, &established.quic, congestion);
        }
        let opening = Opening {
            peer: Peer {
                remote: begun.remote,
                local: begun.local,
                version: Version::H3,
                tls: Some(TlsVersion::Tls13),
                server_name: established.server_name,
                scheme: Scheme::Https,
                via: None,
            },
            through: self.site.shared.terms().behind.through(begun.remote.ip()),
            congestion,
            pacer: Some(Arc::default()),
            mptcp: Mptcp::None,
            memory: admission.memory(SEND_WINDOW, &self.site.service().limits),
            validated,
            handshake: clock::since(came),
        };
        let conn = Conn::open(Arc::clone(&self.site.shared), opening);
        let quic = established.quic;
        let live = LiveConnection::quic(&conn, quic.clone());
        let place = self.site.live.list(admission, live);
        let answerer = Answerer {
            conn,
            site: Arc::clone(&self.site),
        };
        Some(Opened {
            complete: completion(&answerer, &quic, established.early, under_way),
            answerer,
            quic,
            client: begun.remote,
            place,
        })
    }

    /// The carrier of a client. With early data, sessions stay with the process, and nothing is carried.
    fn carrier(&self, client: IpAddr) -> Option<Arc<Carrier>> {
        let (service, shared) = (self.site.service(), &self.site.shared);
        let through = shared.terms().behind.through(client);
        let carries = !service.early_data;
        carries.then(|| Carrier::of(&service, shared, client, through))?
    }

    /// Has a connection whose handshake is complete begin with the present knowledge of its path. Returns its
    /// congestion control.
    fn begin_with(&self, client: IpAddr, quic: &Connection) -> Congestion {
        let choice = self.site.shared.clients.transport(client, Transport::Quic);
        if let Some(controller) = Handle::of(quic.congestion_state()) {
            controller.begin(choice.quic_settings());
        }
        choice.congestion
    }

    /// Keeps `unvalidated`, which bounds the packets to an address, until the last of them are on their way.
    async fn linger(&self, unvalidated: Option<Handshaking>) {
        if unvalidated.is_some() {
            let last = tokio::time::sleep(LAST_PACKETS);
            self.site.end.run_until_cancelled(last).await;
        }
    }

    /// Begins the handshake when it is its turn; `None` if it can't be.
    async fn begin(&self, incoming: Incoming) -> Option<Begun> {
        let remote = incoming.remote_address();
        let timeout = self.site.service().timeouts.handshake;
        let turn = self.site.turns.turn(remote.ip());
        let Ok(_turn) = tokio::time::timeout(timeout, turn).await else {
            add(&self.site.shared.metrics.handshakes_failed_quic, 1);
            tracing::debug!(client = %remote, "QUIC connection: too many handshakes before it");
            incoming.ignore();
            return None;
        };
        tokio::task::yield_now().await;
        let local_ip = incoming.local_ip().unwrap_or(self.local.ip());
        let local = SocketAddr::new(local_ip, self.local.port());
        let choice = self
            .site
            .shared
            .clients
            .transport(remote.ip(), Transport::Quic);
        tracing::debug!(client = %remote, ?choice, "QUIC connection begins");
        let group = || incoming.orig_dst_cid().to_string();
        let trace = self.site.traces.of_connection(remote, local, group);
        let carrier = self.carrier(remote.ip());
        let config = self.config.load();
        let config = config.of_connection(&choice, trace.as_ref(), carrier.as_ref());
        let validated = incoming.remote_address_validated();
        match incoming.accept_with(config) {
            Ok(connecting) => {
                if validated {
                    self.look_up(remote, || {});
                }
                Some(Begun {
                    connecting,
                    remote,
                    local,
                    validated,
                    congestion: choice.congestion,
                    carrier,
                    trace,
                })
            }
            Err(error) => {
                add(&self.site.shared.metrics.handshakes_failed_quic, 1);
                tracing::debug!(client = %remote, "QUIC connection: {error}");
                None
            }
        }
    }

    /// Has the fleet's knowledge of a client read beside its handshake.
    fn look_up(&self, remote: SocketAddr, then: impl FnOnce() + Send + 'static) {
        let shared = &self.site.shared;
        let through = shared.terms().behind.through(remote.ip());
        if through.measures_client() {
            shared.fleet.look_up(remote.ip(), then);
        }
    }

    /// Has the fleet's knowledge of a client read after its handshake. The store answers while the first
    /// packets are on their way, and the connection then goes on as one that began with a known path.
    fn look_up_late(
        self: &Arc<Self>,
        remote: SocketAddr,
        quic: &Connection,
        congestion: Congestion,
    ) {
        let Some(controller) = Handle::of(quic.congestion_state()) else {
            return;
        };
        let (site, acked) = (Arc::clone(&self.site), controller.acked_bytes());
        let quic = quic.clone();
        self.look_up(remote, move || {
            let choice = site.shared.clients.transport(remote.ip(), Transport::Quic);
            // A round trip later the connection has measured the path itself.
            let is_early = controller.acked_bytes() == acked;
            if is_early && choice.known.is_some() && choice.congestion == congestion {
                controller.begin(choice.quic_settings());
                // Its first window may be full.
                quic.wake();
            }
        });
    }

    /// Whether a client has to prove its address before anything is kept of its connection. It has to
    /// with so many handshakes under way in all, or with some of its address. Forged packets must not
    /// take the admissions of the client that has the address.
    fn asks_for_proof(&self, remote: SocketAddr, retry_above: usize) -> bool {
        let connections = &self.site.connections;
        self.handshakes.count() >= retry_above
            || connections.beginning(remote.ip()) >= RETRY_ABOVE_OF_ADDRESS
    }
}

/// A connection that can be served.
struct Opened {
    answerer: Answerer,
    quic: Connection,
    /// Set once the handshake is complete.
    complete: Arc<AtomicBool>,
    client: SocketAddr,
    place: Place,
}

/// A connection whose handshake has begun.
struct Begun {
    connecting: Connecting,
    remote: SocketAddr,
    local: SocketAddr,
    /// The client has proven its address by a token (RFC 9000 §8.1.2).
    validated: bool,
    congestion: Congestion,
    /// `None` where clients carry nothing.
    carrier: Option<Arc<Carrier>>,
    trace: Option<Trace>,
}

/// Takes note of a handshake that failed. Without a proof of the address, somebody else may have begun it.
fn failed(site: &Site, remote: SocketAddr, validated: bool, error: &io::Error) {
    add(&site.shared.metrics.handshakes_failed_quic, 1);
    if validated && error.kind() == io::ErrorKind::TimedOut {
        site.shared.udp(remote.ip(), UdpEvent::Broke);
    }
    tracing::debug!(client = %remote, "QUIC handshake: {error}");
}

/// Reports when the handshake is complete: before, requests may have been replayed (RFC 8470), from any
/// address. One that takes too long ends the connection.
fn completion(
    answerer: &Answerer,
    quic: &Connection,
    early: Option<ZeroRttAccepted>,
    under_way: UnderWay,
) -> Arc<AtomicBool> {
    let complete = Arc::new(AtomicBool::new(early.is_none()));
    let Some(early) = early else {
        return complete;
    };
    let (conn, site) = (Arc::clone(&answerer.conn), Arc::clone(&answerer.site));
    let (quic, reported) = (quic.clone(), Arc::clone(&complete));
    tokio::spawn(async move {
        let timeout = site.service().timeouts.handshake;
        match tokio::time::timeout(timeout, early).await {
            Ok(true) => {
                conn.validate();
                reported.store(true, Ordering::Relaxed);
            }
            Ok(false) => {}
            Err(_) => {
                add(&conn.shared.metrics.handshakes_failed_quic, 1);
                quic.close(VarInt::from_u32(0), b"the handshake took too long");
            }
        }
        drop(under_way);
    });
    complete
}

/// A connection that may be used.
struct Established {
    quic: Connection,
    server_name: Option<Arc<str>>,
    /// Completes with the handshake; `None` when it is complete already.
    early: Option<ZeroRttAccepted>,
}

async fn establish(mut connecting: Connecting, service: &Service) -> io::Result<Established> {
    let handshake = async {
        let data = connecting.handshake_data().await?;
        let data = data.downcast::<HandshakeData>().ok();
        let server_name = data.and_then(|data| data.server_name).map(Arc::from);
        if !service.early_data {
            return Ok((connecting.await?, server_name, None));
        }
        Ok(match connecting.into_0rtt() {
            Ok((quic, opening)) => (quic, server_name, Some(opening)),
            Err(connecting) => (connecting.await?, server_name, None),
        })
    };
    let timeout = service.timeouts.handshake;
    let established: Result<_, ConnectionError> = tokio::time::timeout(timeout, handshake).await?;
    let (quic, server_name, early) = established.map_err(io::Error::from)?;
    Ok(Established {
        quic,
        server_name,
        early,
    })
}

#[cfg(test)]
mod tests;
