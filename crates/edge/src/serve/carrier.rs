//! The summary of a client's path, which it carries from server to server in its session tickets.
//!
//! TLS makes tickets at the end of a handshake, and rustls can make none later. So a ticket has the knowledge
//! of that time: of former connections, of those beside this one, and of other servers.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use rustls::ServerConfig;
use rustls::server::ProducesTickets;

use super::Service;
use crate::behind::Through;
use crate::metrics::Summary;
use crate::secrets::{Opened, Tickets};
use crate::shared::Shared;

/// Makes and opens the tickets of one connection.
pub(super) struct Carrier {
    tickets: Arc<Tickets>,
    shared: Arc<Shared>,
    client: IpAddr,
    /// The summary that came, if it is of the client's prefix.
    received: OnceLock<Vec<u8>>,
}

impl Carrier {
    /// The carrier of a `client`; `None` where clients carry nothing. A proxy's connection is of many clients.
    pub(super) fn of(
        service: &Service,
        shared: &Arc<Shared>,
        client: IpAddr,
        through: Through,
    ) -> Option<Arc<Self>> {
        let tickets = service.carried_in.as_ref()?;
        (through != Through::Proxy).then(|| {
            Arc::new(Self {
                tickets: Arc::clone(tickets),
                shared: Arc::clone(shared),
                client,
                received: OnceLock::new(),
            })
        })
    }

    /// TLS of a server whose tickets are this one's.
    pub(super) fn within(self: &Arc<Self>, tls: &ServerConfig) -> Arc<ServerConfig> {
        let mut tls = tls.clone();
        tls.ticketer = Arc::clone(self) as _;
        Arc::new(tls)
    }

    /// Takes note of the summary that came. To be called once the client has shown that it receives at its
    /// address. Returns whether it says more than is known here.
    pub(super) fn deliver(&self) -> bool {
        let Some(carried) = self.received.get() else {
            return false;
        };
        let summary = self.shared.clients.carry(self.client, carried);
        self.shared.metrics.on_summary(summary);
        summary == Summary::Used
    }
}

impl ProducesTickets for Carrier {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime()
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        // With TLS 1.2 and on QUIC, tickets are made before a summary that came is delivered.
        let brought = self.received.get().map(Vec::as_slice);
        let carried = self.shared.clients.to_carry(self.client, brought);
        let carried = carried.as_ref().map(|carried| (self.client, &carried[..]));
        self.tickets.seal(session, carried)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let Opened { session, carried } = self.tickets.open(ticket, self.client)?;
        if let Some(carried) = carried {
            // The first is the one that the client would rather use.
            let _ = self.received.set(carried);
        }
        Some(session)
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
