//! Measuring every connection and response, on TCP and QUIC alike (VERSION §3.1.1).
//!
//! A handler opens an [`Exchange`] in the connection's [`Ledger`] and closes it when the
//! last byte has gone to the transport. The connection's meter, which is polled by the
//! task that drives the connection, then waits for the peer's acknowledgement, reads the
//! transport's counters, and reports.

mod acknowledged;
mod diag;
mod held;
mod info;
mod io;
mod keep_alive;
mod kernel;
mod next_look;
mod patience;
mod quic;
mod quic_connection;
mod report;
mod route;
mod stall;
mod subflows;
mod taken;
mod tcp;
mod tracked;
mod unsent;
mod watcher;

pub(crate) use self::quic_connection::QuicConnection;
#[cfg(test)]
pub(crate) use self::quic_connection::QuicTransport;
use crate::ledger::{Exchange, Exchanges, Ledger, Load, Ticket};
use crate::transport::{Flight, Snapshot};
pub(crate) use acknowledged::Acknowledged;
pub(crate) use io::{MeteredIo, Socket};
pub(crate) use kernel::TcpTransport;
pub(crate) use patience::{Patience, Terms};
pub(crate) use quic::QuicMeter;
use stall::Signal;
use subflows::SubflowFlight;
pub(crate) use tcp::TcpMeter;
pub(crate) use tracked::TrackedBody;

/// Counts of MPTCP subflows that are gone: the kernel counts those that are there.
#[derive(Clone, Copy, Debug, Default)]
struct Departed {
    packets_sent: u64,
    packets_lost: u64,
}

impl Departed {
    /// The connection's account since its beginning. `now` counts the subflows that are present, and
    /// `former` was the last account.
    fn complete(&mut self, mut now: Snapshot, former: &Snapshot) -> Snapshot {
        now.packets_sent += self.packets_sent;
        now.packets_lost += self.packets_lost;
        // The number of lost packets may fall by itself, as losses turn out to be spurious.
        if let Some(sent) = former.packets_sent.checked_sub(now.packets_sent)
            && sent > 0
        {
            let lost = former.packets_lost.saturating_sub(now.packets_lost);
            self.packets_sent += sent;
            self.packets_lost += lost;
            now.packets_sent += sent;
            now.packets_lost += lost;
        }
        if now.srtt.is_zero() {
            (now.srtt, now.min_rtt) = (former.srtt, former.min_rtt);
            now.delivery_rate = former.delivery_rate;
            now.app_limited = former.app_limited;
        }
        now.acked = now.acked.max(former.acked);
        now
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn counted(packets_sent: u64, packets_lost: u64) -> Snapshot {
        Snapshot {
            packets_sent,
            packets_lost,
            srtt: Duration::from_millis(20),
            ..Snapshot::default()
        }
    }

    #[test]
    fn counts_of_gone_subflows_stay() {
        // Counts of the kernel by subflow, and the connection's packets sent and lost.
        let looks = [
            ("two subflows", (1000, 20), (1000, 20)),
            ("one of them is gone", (400, 5), (1000, 20)),
            ("the other goes on", (450, 6), (1050, 21)),
            ("a loss was spurious", (460, 5), (1060, 20)),
            ("another comes", (700, 5), (1300, 20)),
            ("all are gone", (0, 0), (1300, 20)),
        ];
        let (mut departed, mut whole) = (Departed::default(), Snapshot::default());
        for (name, (sent, lost), expected) in looks {
            whole = departed.complete(counted(sent, lost), &whole);
            assert_eq!((whole.packets_sent, whole.packets_lost), expected, "{name}");
        }
    }

    #[test]
    fn round_trips_are_kept_when_all_subflows_are_gone() {
        let former = counted(10, 1);
        let whole = Departed::default().complete(Snapshot::default(), &former);
        assert_eq!(whole, former);
    }
}
