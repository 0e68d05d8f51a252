//! The content served, its limits, and the admission of connections.

use std::net::IpAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::turns::Turns;
use crate::clock;
use crate::limits::{Admission, Connections, OnceASecond};
use crate::live::LiveConnections;
use crate::marked::Marks;
use crate::measure::Terms;
use crate::metrics::Refusal;
use crate::part::{Look, Part};
use crate::qlog::Traces;
use crate::sections::{Limits, Timeouts};
use crate::shards::Shards;
use crate::shared::Shared;
use crate::tcp_cc::Controls;
use hikyaku_content::Content;

/// State that all listeners serve, and share.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) shared: Arc<Shared>,
    /// Counts connections against their limits.
    pub(crate) connections: Arc<Connections>,
    /// Those that are served.
    pub(crate) live: Arc<LiveConnections>,
    refusals: OnceASecond,
    /// Setter of the congestion control of TCP connections.
    pub(crate) controls: Arc<Controls>,
    /// Chooser of the path of QUIC packets, for all sockets.
    pub(crate) marks: Arc<Marks>,
    /// Who may go on with a handshake.
    pub(crate) turns: Arc<Turns>,
    pub(crate) traces: Arc<Traces>,
    /// Cancelled when the server stops.
    pub(crate) stop: CancellationToken,
    service: Part<Service>,
}

/// Part of the site that a reload replaces.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) content: Content,
    /// `None` where there are none.
    pub(crate) shards: Option<Arc<Shards>>,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    /// Requests are taken before the end of a QUIC handshake.
    pub(crate) early_data: bool,
}

impl Service {
    /// How slowly a client may take content.
    pub(super) fn terms(&self) -> Terms {
        Terms::new(&self.limits, &self.timeouts)
    }
}

impl Site {
    pub(crate) fn new(
        shared: Arc<Shared>,
        controls: Arc<Controls>,
        service: Part<Service>,
    ) -> Self {
        Self {
            shared,
            connections: Arc::new(Connections::new(&service.load().limits)),
            live: Arc::default(),
            refusals: OnceASecond::default(),
            controls,
            marks: Arc::default(),
            turns: Turns::new(std::thread::available_parallelism().map_or(1, usize::from)),
            traces: Arc::default(),
            stop: CancellationToken::new(),
            service,
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
    pub(super) fn admit(&self, client: IpAddr) -> Option<Admission> {
        let admitted = self.connections.admit(client);
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
