//! State of one connection, whatever its transport.

mod asked;
mod choice;
mod entry;
mod follower;
mod gain;
mod page;
mod renewal;
mod route;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hikyaku_core::client::sample::UdpEvent;
use hikyaku_core::page::Connections;
use hikyaku_core::transport::Decision;
use hikyaku_units::Rate;
use hikyaku_units::arm::{Congestion, Transport, Version};
use http::{HeaderMap, HeaderValue, header};
use parking_lot::Mutex;

use crate::behind::Through;
use crate::budget::Account;
use crate::clients::Early;
use crate::clock;
use crate::egress::ConnRoute;
use crate::events::Event;
use crate::experiments::Experiments;
use crate::ledger::{Exchange, Ledger};
use crate::limits::Memory;
use crate::marked::Packets;
use crate::metrics::AltSvcAction;
use crate::mptcp::Mptcp;
use crate::pace::Pacer;
use crate::shared::Shared;
use crate::transport::{Snapshot, TransportChoice};
use crate::uploads::{FIRST_WINDOW, UploadWindow};
pub(crate) use asked::Asked;
use choice::{Choice, advertisement};
use hikyaku_content::{Peer, Scheme};

/// A connection whose handshake is complete.
pub(crate) struct Opening {
    pub(crate) peer: Peer,
    pub(crate) through: Through,
    /// The congestion control that it uses.
    pub(crate) congestion: Congestion,
    /// For connections that the kernel does not pace.
    pub(crate) pacer: Option<Arc<Pacer>>,
    pub(crate) mptcp: Mptcp,
    pub(crate) memory: Memory,
    /// Whether the client has shown that it receives at its address.
    pub(crate) validated: bool,
    /// From its first packet here to the end of the handshake.
    pub(crate) handshake: Duration,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) peer: Peer,
    /// The intermediary between it and its clients.
    through: Through,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) shared: Arc<Shared>,
    /// For requests' bodies.
    pub(crate) uploads: Arc<UploadWindow>,
    opened: Instant,
    /// The time of its handshake.
    handshake: Duration,
    choice: ArcSwap<Choice>,
    /// Something was learnt since the decision.
    learnt: AtomicBool,
    /// The congestion control in use, by its place in [`Congestion::ALL`].
    congestion: AtomicU8,
    /// Requests when HTTP/3 was first advertised, plus one; 0 before.
    advertised_after: AtomicU64,
    /// The client is known to be on TCP now.
    seen_on_tcp: AtomicBool,
    /// The client follows advertisements of HTTP/3, as far as its requests show.
    follows: AtomicBool,
    /// The client has shown that it receives at its address (RFC 9000 §8.1). Before, somebody else may
    /// have sent its packets, and nothing is learnt.
    validated: AtomicBool,
    /// Where the kernel does not hold it to `policy.max_pacing_rate`.
    pacer: Option<Arc<Pacer>>,
    /// Where there are egress routes.
    route: Option<Arc<ConnRoute>>,
    /// That take this route.
    packets: OnceLock<Weak<dyn Packets>>,
    /// Memory for its responses.
    account: Arc<Account>,
    /// Set when its congestion control changes, for pages whose browsers have yet to report.
    pages: Mutex<Option<Arc<AtomicBool>>>,
}

impl Conn {
    /// Opens the account of a connection, and decides. Unless the client's address is validated, nothing
    /// is learnt until [`Conn::validate`].
    pub(crate) fn open(shared: Arc<Shared>, opening: Opening) -> Arc<Self> {
        let remote = opening.peer.remote.ip();
        let epoch = shared.clients.epoch(remote);
        let server_name = opening.peer.server_name.as_deref();
        let decision = match opening.validated && opening.through != Through::Proxy {
            true => shared.clients.decide(remote, server_name),
            false => shared.clients.preview(remote, server_name),
        };
        Self::with(shared, opening, decision, epoch)
    }

    /// Opens the account of a client's connection that was decided about before its handshake.
    pub(crate) fn open_decided(shared: Arc<Shared>, opening: Opening, early: &Early) -> Arc<Self> {
        let remote = opening.peer.remote.ip();
        let epoch = shared.clients.epoch(remote);
        let server_name = opening.peer.server_name.as_deref();
        let decision = shared.clients.decide_after(remote, server_name, early);
        Self::with(shared, opening, decision, epoch)
    }

    fn with(shared: Arc<Shared>, opening: Opening, decision: Decision, epoch: u64) -> Arc<Self> {
        let version = opening.peer.version;
        let Memory { account, uploads } = opening.memory;
        let ledger = match shared.egress {
            Some(_) => Ledger::watched(),
            None => Ledger::default(),
        };
        let ledger = Arc::new(ledger.with_account(Arc::clone(&account)));
        let (peer, visit) = (&opening.peer, decision.visit());
        // Packets to a balancer have its path, which is not the client's.
        let route = match opening.through {
            Through::Nothing => route::open(&shared, peer, opening.mptcp, &ledger, visit),
            Through::Balancer(_) | Through::Proxy => None,
        };
        let choice = Choice::new(
            decision,
            peer,
            shared.terms().behind.advertise.as_ref(),
            epoch,
            Experiments::default(),
        );
        count(&shared, version, &decision, opening.congestion);
        let max_window = match version {
            // The kernel's window follows the path by itself.
            Version::H1 => FIRST_WINDOW,
            _ => shared.terms().upload_window,
        };
        let conn = Arc::new(Self {
            uploads: Arc::new(UploadWindow::new(uploads, max_window)),
            choice: ArcSwap::from_pointee(choice),
            learnt: AtomicBool::new(false),
            congestion: AtomicU8::new(opening.congestion as u8),
            peer: opening.peer,
            through: opening.through,
            ledger,
            shared,
            opened: clock::now(),
            handshake: opening.handshake,
            advertised_after: AtomicU64::new(0),
            seen_on_tcp: AtomicBool::new(false),
            follows: AtomicBool::new(false),
            validated: AtomicBool::new(opening.validated),
            pacer: opening.pacer,
            route,
            packets: OnceLock::new(),
            account,
            pages: Mutex::default(),
        });
        if version == Version::H3 {
            conn.udp(UdpEvent::Arrived);
        }
        conn
    }

    /// Takes note that the QUIC client receives at its address, as its handshake is complete.
    pub(crate) fn validate(&self) {
        if !self.validated.swap(true, Ordering::Relaxed) {
            self.decide();
            self.udp(UdpEvent::Arrived);
        }
    }

    fn is_validated(&self) -> bool {
        self.validated.load(Ordering::Relaxed)
    }

    /// Whether all of its requests are of one client, which receives at the address that is known of it.
    fn is_of_client(&self) -> bool {
        self.is_validated() && self.through != Through::Proxy
    }

    /// Takes note of what a request's fields show of the client.
    pub(crate) fn meet(&self, headers: &HeaderMap) {
        if !self.follows.load(Ordering::Relaxed) && follower::follows_alt_svc(headers) {
            self.follows.store(true, Ordering::Relaxed);
        }
    }

    /// The client's address.
    pub(crate) fn client(&self) -> IpAddr {
        self.peer.remote.ip().to_canonical()
    }

    /// The host that its handshake has named, whose site's policy it has.
    fn server_name(&self) -> Option<&str> {
        self.peer.server_name.as_deref()
    }

    /// The rate at which it sends at most.
    pub(crate) fn max_pacing_rate(&self) -> Option<Rate> {
        let clients = &self.shared.clients;
        clients.max_pacing_rate(self.server_name())
    }

    /// How long the connection has been open.
    pub(crate) fn age(&self) -> Duration {
        clock::since(self.opened)
    }

    /// The memory that its responses may use.
    pub(crate) const fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Pacer and rate that responses have to be held to; `None` if there is no limit.
    pub(crate) fn pacing(&self) -> Option<(Arc<Pacer>, Rate)> {
        let pacer = self.pacer.as_ref()?;
        let rate = self.max_pacing_rate()?;
        Some((Arc::clone(pacer), rate))
    }

    /// The decision in force.
    pub(crate) fn decision(&self) -> Decision {
        self.choice.load().decision
    }

    /// Over how many connections pages are spread for the client now.
    pub(crate) fn connections(&self) -> Connections {
        self.renew();
        let available = self.shared.available_connections();
        let decision = self.decision();
        let clients = &self.shared.clients;
        let chosen = clients.connections(self.client(), &decision, available);
        let Connections { n, reason, .. } = chosen;
        tracing::debug!(client = %self.client(), "a page over {n} connections: {reason}");
        chosen
    }

    /// Transport that carries the connection.
    pub(crate) const fn transport(&self) -> Transport {
        self.peer.version.transport()
    }

    /// The congestion control that it uses.
    pub(crate) fn congestion(&self) -> Congestion {
        Congestion::ALL[usize::from(self.congestion.load(Ordering::Relaxed))]
    }

    /// Settings that its sender should have by now.
    pub(crate) fn chosen(&self) -> TransportChoice {
        let choice = self.choice.load();
        let congestion = match self.through.measures_client() {
            true => choice.decision.congestion.get(self.transport()).congestion,
            // The choice is for the client's path, and this one leads elsewhere.
            false => self.congestion(),
        };
        let ordinary = TransportChoice::ordinary(congestion);
        if choice.decision.assignment.is_held_back() {
            return ordinary;
        }
        // It has seen more of its path than others have, and needs no former measurements.
        TransportChoice {
            min_cwnd: self.shared.clients.min_cwnd(),
            ..ordinary
        }
    }

    /// Takes note that its sender has switched to another congestion control.
    pub(crate) fn switched(&self, congestion: Congestion) {
        self.congestion.store(congestion as u8, Ordering::Relaxed);
        self.spoil_pages();
        let metrics = &self.shared.metrics;
        metrics.on_congestion(self.transport(), congestion);
    }

    /// Writes what the decision says of HTTP/3 into the headers of the response to a request.
    pub(crate) fn apply(&self, headers: &mut HeaderMap, asked: &Asked) {
        // An upstream speaks of its own address, which clients can't reach.
        headers.remove(header::ALT_SVC);
        if asked.scheme() == Scheme::Http {
            // Clients have to ignore it there, and servers must not send it (RFC 6797 §7.2).
            headers.remove(header::STRICT_TRANSPORT_SECURITY);
        }
        if let Some(value) = self.alt_svc(asked) {
            headers.insert(header::ALT_SVC, value);
        }
    }

    /// The `Alt-Svc` of the response to a request, by the decision.
    pub(crate) fn alt_svc(&self, asked: &Asked) -> Option<HeaderValue> {
        if !self.may_offer(asked) {
            self.renew();
            return None;
        }
        if let Some(client) = asked.client {
            return self.offer(&self.choice_of(client.ip()), asked);
        }
        self.renew();
        let choice = self.choice.load();
        self.on_alt_svc(choice.action);
        self.offer(&choice, asked)
    }

    /// The choice for a client that a proxy names, by its estimate if it has come itself. Nothing is kept
    /// of it, since a proxy's connection shows no session of the client.
    fn choice_of(&self, client: IpAddr) -> Choice {
        let decision = self.shared.clients.preview(client, self.server_name());
        let terms = self.shared.terms();
        let advertise = terms.behind.advertise.as_ref();
        Choice::new(decision, &self.peer, advertise, 0, Experiments::default())
    }

    fn offer(&self, choice: &Choice, asked: &Asked) -> Option<HeaderValue> {
        self.shared.metrics.on_alt_svc(choice.action);
        let port = choice.port(asked.port);
        if let Some(own) = choice.replaced(asked.port) {
            self.shared.warn_of_mapping(own, port);
        }
        let elsewhere = self.route.as_ref().and_then(|route| route.advertised());
        let elsewhere = elsewhere.filter(|_| choice.action == AltSvcAction::Advertise);
        let elsewhere = elsewhere.and_then(|address| self.advertise_at(address, port));
        elsewhere.or_else(|| choice.value(asked.port))
    }

    /// Takes note of what a response says of HTTP/3.
    fn on_alt_svc(&self, action: AltSvcAction) {
        // That a client which follows no advertisement stays on TCP says nothing of UDP.
        if self.peer.version == Version::H3 || !self.follows.load(Ordering::Relaxed) {
            return;
        }
        if !self.seen_on_tcp.swap(true, Ordering::Relaxed) {
            self.udp(UdpEvent::BackOnTcp);
        }
        if action == AltSvcAction::Advertise && self.advertised_after.load(Ordering::Relaxed) == 0 {
            let requests = self.ledger.requests();
            self.advertised_after.store(requests + 1, Ordering::Relaxed);
            self.udp(UdpEvent::Advertised);
        }
    }

    /// `Alt-Svc` that brings new HTTP/3 connections to an EPE address (RFC 7838 §2), for about one session:
    /// its path may go at any time.
    fn advertise_at(&self, address: IpAddr, port: u16) -> Option<HeaderValue> {
        let ma = Duration::from_secs(self.shared.terms().ma_min);
        advertisement(SocketAddr::new(address, port), ma)
    }

    /// Learns about UDP to this client.
    pub(crate) fn udp(&self, event: UdpEvent) {
        if self.is_of_client() {
            self.shared.udp(self.client(), event);
        }
    }

    /// Reports an exchange that ended at `end`: acknowledged, or given up.
    pub(crate) fn ended(&self, exchange: &Exchange, end: Instant, snapshot: &Snapshot) {
        let duration = end.saturating_duration_since(exchange.started);
        let shared = &self.shared;
        let version = self.peer.version;
        let metrics = &shared.metrics;
        let congestion = self.congestion();
        metrics.on_exchange(
            version,
            congestion,
            exchange.status,
            exchange.bytes,
            duration,
        );
        let client = exchange.client.unwrap_or(self.peer.remote);
        let (subject, site) = shared.clients.subject(client.ip(), self.server_name());
        metrics.on_response(subject.assignment, version, congestion, duration);
        if let Some(route) = &self.route {
            route.responded(exchange.bytes);
        }
        if let Some(response) = self.counted(exchange, duration, snapshot) {
            shared.gain.count(&subject, site, &response);
        }
        if let (Some(span), Some(tracer)) = (&exchange.span, shared.tracer.get()) {
            tracer.answered(span, || self.facts(exchange, duration));
        }
        let log = shared.access_log();
        let is_logged = exchange.is_logged && log.is_on();
        if !is_logged && !shared.events.is_watched() {
            return;
        }
        let decision = match exchange.client {
            Some(client) => shared.clients.preview(client.ip(), self.server_name()),
            None => self.decision(),
        };
        let entry = self.entry(exchange, duration, snapshot, &decision);
        if is_logged {
            log.write(&entry);
        }
        shared.events.send(|| Event::response(&entry));
    }
}

/// Counts a connection that opens.
fn count(shared: &Shared, version: Version, decision: &Decision, congestion: Congestion) {
    let metrics = &shared.metrics;
    metrics.on_open(version);
    metrics.on_decision(decision);
    metrics.on_congestion(version.transport(), congestion);
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.shared.metrics.on_close(self.peer.version);
        let advertised_after = self.advertised_after.load(Ordering::Relaxed);
        // A client that asked for nothing after the advertisement had no cause to come.
        if advertised_after > 0 && self.ledger.requests() >= advertised_after {
            self.udp(UdpEvent::SessionEnded);
        }
    }
}

#[cfg(test)]
mod tests;
