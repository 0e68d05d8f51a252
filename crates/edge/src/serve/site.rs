//! The content served, its limits, and the admission of connections.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderValue, Response, header};
use tokio_util::sync::CancellationToken;

use super::cleartext::Cleartext;
use super::turns::Turns;
use crate::beacon::Beacons;
use crate::clock;
use crate::limits::{Admission, Connections, Entered, OnceASecond};
use crate::live::LiveConnections;
use crate::marked::Marks;
use crate::measure::Terms;
use crate::metrics::Refusal;
use crate::part::{Look, Part};
use crate::qlog::Traces;
use crate::secrets::Tickets;
use crate::sections::{Limits, Timeouts};
use crate::seldom::Seldom;
use crate::shards::Shards;
use crate::shared::Shared;
use crate::tcp_cc::Controls;
use hikyaku_content::{Body, Content, NoServer};

/// State that all listeners serve, and share.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) shared: Arc<Shared>,
    /// Counts connections against their limits.
    pub(crate) connections: Arc<Connections>,
    /// Those that are served.
    pub(crate) live: Arc<LiveConnections>,
    refusals: OnceASecond,
    /// Reports of connections that lack a PROXY header, or should have none.
    pub(super) headers: Seldom,
    /// Port of the server's first address, to which clients in the clear are sent.
    pub(super) served: u16,
    /// Setter of the congestion control of TCP connections.
    pub(crate) controls: Arc<Controls>,
    /// Chooser of the path of QUIC packets, for all sockets.
    pub(crate) marks: Arc<Marks>,
    /// Who may go on with a handshake.
    pub(crate) turns: Arc<Turns>,
    pub(crate) traces: Arc<Traces>,
    /// Cancelled when connections are to finish their requests; another one if the server goes on.
    stop: ArcSwap<CancellationToken>,
    /// Cancelled when tunnels are to end, which have no end of their own.
    pub(crate) end: CancellationToken,
    service: Part<Service>,
}

/// Part of the site that a reload replaces.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) content: Content,
    /// Its answers to clients in the clear.
    pub(crate) cleartext: Cleartext,
    /// `None` where there are none.
    pub(crate) shards: Option<Arc<Shards>>,
    /// Reports of browsers, by site.
    pub(crate) beacons: Beacons,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    /// `Server` of responses in which no site names another; `None` for none.
    pub(crate) server: Option<HeaderValue>,
    /// Requests are taken before the end of a QUIC handshake.
    pub(crate) early_data: bool,
    /// The keys of the tickets in which clients carry summaries; `None` where they carry nothing.
    pub(crate) carried_in: Option<Arc<Tickets>>,
}

impl Service {
    /// How slowly a client may take content.
    pub(super) fn terms(&self) -> Terms {
        Terms::new(&self.limits, &self.timeouts)
    }

    /// Names the server in a response that does not yet, unless it is to name none.
    pub(super) fn name_server(&self, response: &mut Response<Body>) {
        let is_named = response.headers().contains_key(header::SERVER);
        if is_named || response.extensions().get::<NoServer>().is_some() {
            return;
        }
        if let Some(server) = &self.server {
            response
                .headers_mut()
                .insert(header::SERVER, server.clone());
        }
    }
}

impl Site {
    pub(crate) fn new(
        shared: Arc<Shared>,
        controls: Arc<Controls>,
        service: Part<Service>,
        served: u16,
    ) -> Self {
        Self {
            shared,
            connections: Arc::new(Connections::new(&service.load().limits)),
            live: Arc::default(),
            refusals: OnceASecond::default(),
            headers: Seldom::default(),
            served,
            controls,
            marks: Arc::default(),
            turns: Turns::new(std::thread::available_parallelism().map_or(1, usize::from)),
            traces: Arc::default(),
            stop: ArcSwap::default(),
            end: CancellationToken::new(),
            service,
        }
    }

    /// Cancelled when connections that are open now are to finish their requests.
    pub(crate) fn stop(&self) -> CancellationToken {
        CancellationToken::clone(&self.stop.load())
    }

    /// Serves connections that open from now on, after a stop that was called off.
    pub(crate) fn go_on(&self) {
        // Those that are open would not hear of a later stop by another.
        if self.stop.load().is_cancelled() {
            self.stop.store(Arc::default());
        }
    }

    /// The content and limits in force.
    pub(crate) fn service(&self) -> Look<'_, Arc<Service>> {
        self.service.load()
    }

    /// The content and limits in force, to be kept over an `await`.
    pub(crate) fn service_full(&self) -> Arc<Service> {
        self.service.load_full()
    }

    /// Admits connections by limits that have come into force.
    pub(crate) fn reloaded(&self) {
        self.connections.set_limits(&self.service().limits);
    }

    /// Takes a place for a connection of `client`; `None`, and counted, where a limit is reached.
    pub(crate) fn admit(&self, client: IpAddr) -> Option<Admission> {
        let entered = self.enter(client)?;
        self.admit_entered(entered, client)
    }

    /// Takes a place for a connection from `remote` whose client is not known yet; `None`, and counted,
    /// where all are taken.
    pub(super) fn enter(&self, remote: IpAddr) -> Option<Entered> {
        let entered = self.connections.enter();
        entered
            .inspect_err(|refusal| self.refuse(remote, *refusal))
            .ok()
    }

    /// Counts such a connection for its client; `None`, and counted, where a limit is reached.
    pub(super) fn admit_entered(&self, entered: Entered, client: IpAddr) -> Option<Admission> {
        let is_proxy = self.shared.terms().behind.trusts(client);
        let admitted = entered.admit(client, is_proxy);
        admitted
            .inspect_err(|refusal| self.refuse(client, *refusal))
            .ok()
    }

    /// Counts a connection that was refused for a limit, and logs at most one a second.
    fn refuse(&self, client: IpAddr, refusal: Refusal) {
        self.shared.metrics.on_refusal(refusal);
        let Some(unsaid) = self.refusals.say(clock::now()) else {
            return;
        };
        let limits = &self.service.load().limits;
        let (key, limit) = match refusal {
            Refusal::PerAddress => ("connections_per_address", limits.connections_per_address),
            _ => ("connections", limits.connections),
        };
        let client = client.to_canonical();
        tracing::warn!(
            "a connection from {client} is refused: limits.{key} = {limit} are open ({unsaid} more \
             refused since the last such line)"
        );
    }
}
