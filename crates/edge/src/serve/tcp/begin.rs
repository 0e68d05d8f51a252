//! The begin of a connection, until its first request can come.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::poll_fn;
use hikyaku_acme::ACME_TLS;
use hikyaku_h2::connection::PREFACE;
use hikyaku_units::arm::{Congestion, Transport, Version};
use rustls::{ProtocolVersion, ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::Site;
use super::super::balancer::Ends;
use super::super::carrier::Carrier;
use super::super::handshake::{Beginning, FIRST, Handshake};
use super::super::plain;
use super::super::session::{Clear, Session};
use super::{Accepted, Connection, Entry};
use crate::behind::{Through, proxy_protocol};
use crate::clients::Early;
use crate::clock;
use crate::limits::Admission;
use crate::measure::{MeteredIo, Socket, TcpTransport};
use crate::metrics::add;
use crate::mptcp::Mptcp;
use hikyaku_content::{Peer, Scheme, TlsVersion};

/// For a client that has come shortly before a stop, and has yet to begin its first request.
const LATE: Duration = Duration::from_secs(1);

/// Finds out who the client is, completes TLS where there is any, and opens the connection.
pub(super) async fn begin(
    mut accepted: Accepted,
    site: Arc<Site>,
    entry: Entry,
) -> io::Result<Box<Connection>> {
    let begun = clock::now();
    let (ends, admission) = meet(&mut accepted, &site, entry).await?;
    if ends.through.measures_client() {
        site.shared.fleet.look_up(ends.remote.ip(), || {});
    }
    let begun = meet_socket(accepted, ends, &site, begun).await?;
    Connection::open(begun, site, admission).map(Box::new)
}

/// Finds out who the client is, and counts the connection for it.
async fn meet(accepted: &mut Accepted, site: &Site, entry: Entry) -> io::Result<(Ends, Admission)> {
    let (remote, local) = (accepted.remote, accepted.stream.local_addr()?);
    let entered = match entry {
        Entry::Client(admission) => {
            let through = site.shared.terms().behind.through(remote.ip());
            let ends = Ends {
                remote,
                local,
                through,
            };
            return Ok((ends, admission));
        }
        Entry::Balancer(entered) => entered,
    };
    let ends = site.named(&mut accepted.stream, remote, local).await?;
    let admission = site.admit_entered(entered, ends.remote.ip());
    let admission = admission.ok_or_else(|| io::Error::other("refused for a limit"))?;
    Ok((ends, admission))
}

/// A connection after its handshake.
pub(super) struct Begun {
    pub(super) socket: Arc<Socket>,
    pub(super) stream: (MeteredIo, Session),
    pub(super) peer: Peer,
    pub(super) through: Through,
    pub(super) congestion: Congestion,
    pub(super) mptcp: Mptcp,
    /// For the client of [`Accepted::remote`].
    pub(super) early: Early,
    /// The time of its handshake; none in the clear.
    pub(super) handshake: Duration,
}

/// Prepares the socket, and lets the client begin.
async fn meet_socket(
    accepted: Accepted,
    ends: Ends,
    site: &Site,
    begun: Instant,
) -> io::Result<Begun> {
    let Accepted { stream, remote, .. } = accepted;
    let shared = &site.shared;
    let mut early = shared.clients.early(remote.ip(), Transport::Tcp);
    let controls = Arc::clone(&site.controls);
    let socket = Socket::new(stream, remote.ip(), controls, accepted.listens)?;
    let mut congestion = socket.set_congestion(early.choice.tcp_control());
    let io = MeteredIo(Arc::clone(&socket));
    let is_tls = accepted.tls.is_some();
    let (stream, peer) = match accepted.tls {
        Some(tls) => {
            let client = ends.remote.ip();
            let carrier = Carrier::of(&site.service(), shared, client, ends.through);
            let tls = match &carrier {
                Some(carrier) => carrier.within(&tls),
                None => tls,
            };
            // TCP has shown that the client receives at its address.
            let meet = || {
                let says_more = carrier.as_ref().is_some_and(|carrier| carrier.deliver());
                if says_more && ends.through == Through::Nothing {
                    early = shared.clients.early(client, Transport::Tcp);
                    congestion = socket.begin_with(early.choice.tcp_control()).or(congestion);
                }
            };
            let (io, tls) = secure(io, tls, site, client, begun, meet).await?;
            // The fleet's store answers beside the handshake.
            if ends.through == Through::Nothing
                && let Some(learnt) = shared.clients.learnt_since(client, &early)
            {
                congestion = socket
                    .begin_with(learnt.choice.tcp_control())
                    .or(congestion);
                early = learnt;
            }
            if tls.alpn_protocol() == Some(ACME_TLS) {
                // Nothing follows the certificate (RFC 8737 §3).
                return Err(io::Error::other("an authority has looked at a name"));
            }
            let peer = peer(&tls, ends.remote, ends.local);
            ((io, Session::Tls(tls)), peer)
        }
        None => clear(io, site, ends).await?,
    };
    socket.set_pacing(shared.clients.max_pacing_rate(peer.server_name.as_deref()));
    let mptcp = match shared.egress {
        Some(_) if accepted.refused => Mptcp::Refused,
        Some(_) => socket.mptcp_token().map_or(Mptcp::None, Mptcp::Token),
        None => Mptcp::None,
    };
    Ok(Begun {
        peer,
        through: ends.through,
        socket,
        stream,
        congestion: congestion.unwrap_or(Congestion::Cubic),
        mptcp,
        early,
        handshake: match is_tls {
            true => clock::since(begun),
            // A client without TLS begins when it wants to.
            false => Duration::ZERO,
        },
    })
}

/// Completes the TLS handshake of a client within its time since `begun`, a step at a turn. One that speaks
/// HTTP in the clear is refused. `meet` is called once its first message is known.
pub(super) async fn secure<T: AsyncRead + AsyncWrite + Unpin>(
    io: T,
    config: Arc<ServerConfig>,
    site: &Site,
    client: IpAddr,
    begun: Instant,
    mut meet: impl FnMut(),
) -> io::Result<(T, ServerConnection)> {
    let end = begun + site.service().timeouts.handshake;
    let handshake = async {
        let mut handshake = Handshake::new(io, config)?;
        match poll_fn(|cx| handshake.poll_begin(cx)).await? {
            Beginning::Tls => {}
            Beginning::Http(head) => {
                return Err(plain::refuse(handshake.into_socket(), &head).await);
            }
            Beginning::Header => return Err(site.refuse_stray_header(client)),
        }
        let completed = poll_fn(|cx| handshake.poll(cx, &mut meet));
        site.turns.run(client, completed).await?;
        Ok(handshake.into_parts())
    };
    let tls = tokio::time::timeout_at(end.into(), handshake).await;
    tls.unwrap_or_else(|late| Err(late.into()))
        .inspect_err(|_| add(&site.shared.metrics.handshakes_failed_tcp, 1))
}

pub(super) fn peer(session: &ServerConnection, remote: SocketAddr, local: SocketAddr) -> Peer {
    let version = match session.alpn_protocol() {
        Some(b"h2") => Version::H2,
        _ => Version::H1,
    };
    let tls = match session.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
        _ => TlsVersion::Tls13,
    };
    Peer {
        remote,
        local,
        version,
        tls: Some(tls),
        server_name: session.server_name().map(Arc::from),
        scheme: Scheme::Https,
        via: None,
    }
}

/// Lets a client begin in the clear, with HTTP/1.1, or with HTTP/2 by prior knowledge (RFC 9113 §3.3).
async fn clear<T: AsyncRead + Unpin>(
    mut io: T,
    site: &Site,
    ends: Ends,
) -> io::Result<((T, Session), Peer)> {
    let mut first = Vec::new();
    tokio::select! {
        begun = poll_fn(|cx| poll_first(&mut io, &mut first, cx)) => begun?,
        () = patience(site) => return Err(io::ErrorKind::TimedOut.into()),
    }
    if proxy_protocol::begins(&first) {
        return Err(site.refuse_stray_header(ends.remote.ip()));
    }
    let is_h2 = first.starts_with(PREFACE) && site.service().cleartext.has_http2();
    let peer = Peer {
        remote: ends.remote,
        local: ends.local,
        version: if is_h2 { Version::H2 } else { Version::H1 },
        tls: None,
        server_name: None,
        scheme: Scheme::Http,
        via: None,
    };
    Ok(((io, Session::Clear(Clear::beginning(first))), peer))
}

/// Reads until it shows whether the client begins with the preface of HTTP/2.
fn poll_first(
    io: &mut (impl AsyncRead + Unpin),
    first: &mut Vec<u8>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    loop {
        let mut buffer = [0; FIRST];
        let mut buffer = ReadBuf::new(&mut buffer);
        ready!(Pin::new(&mut *io).poll_read(cx, &mut buffer))?;
        if buffer.filled().is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        first.extend_from_slice(buffer.filled());
        if first.len() >= PREFACE.len() || !PREFACE.starts_with(first) {
            return Poll::Ready(Ok(()));
        }
    }
}

/// Waits for as long as a client may be silent: the time for a request's head, or less after a stop.
async fn patience(site: &Site) {
    let stop = site.stop();
    let header = tokio::time::sleep(site.service().timeouts.header);
    if stop.run_until_cancelled(header).await.is_none() {
        tokio::time::sleep(LATE).await;
    }
}
