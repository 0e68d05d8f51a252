//! The part of an exchange that the gain counts.

use std::time::Duration;

use hikyaku_core::gain::Response;
use hikyaku_units::arm::Transport;

use super::Conn;
use crate::behind::Through;
use crate::gain::Counted;
use crate::ledger::Exchange;
use crate::transport::Snapshot;

impl Conn {
    /// The part of an exchange that took `duration`; `None` of one that does not count.
    pub(super) fn counted(
        &self,
        exchange: &Exchange,
        duration: Duration,
        snapshot: &Snapshot,
    ) -> Option<Response> {
        let counted = Counted {
            version: self.peer.version,
            method: &exchange.method,
            status: exchange.status,
            bytes: exchange.bytes,
            complete: exchange.complete,
            duration,
            handshake: match exchange.is_first {
                true => self.beginning(snapshot),
                false => Duration::ZERO,
            },
        };
        counted.response()
    }

    /// The time that the client has waited for the connection. The server sees nothing of TCP's own handshake,
    /// which takes a round trip (RFC 9293 §3.5). That of a proxy's connection is not the client's.
    fn beginning(&self, snapshot: &Snapshot) -> Duration {
        match (self.through, self.transport()) {
            (Through::Proxy, _) => Duration::ZERO,
            (Through::Nothing, Transport::Tcp) => self.handshake + snapshot.min_rtt,
            (Through::Nothing | Through::Balancer(_), _) => self.handshake,
        }
    }
}
