//! Measuring every connection and response, on TCP and QUIC alike (VERSION §3.1.1).
//!
//! A handler opens an [`Exchange`] in the connection's [`Ledger`] and closes it when the
//! last byte has gone to the transport. The connection's meter, which is polled by the
//! task that drives the connection, then waits for the peer's acknowledgement, reads the
//! transport's counters, and reports.

mod diag;
mod exchange;
mod info;
mod io;
mod patience;
mod quic;
mod report;
mod route;
mod stall;
mod subflows;
mod tcp;
mod watcher;

use std::time::Duration;

use hikyaku_core::units::Rate;

pub(crate) use exchange::{Exchange, Ledger, Load, Ticket, TrackedBody};
pub(crate) use io::{MeteredIo, Socket};
pub(crate) use patience::Patience;
pub(crate) use quic::{Acknowledged, QuicMeter};
pub(crate) use stall::{Flight, Signal, Stall};
pub(crate) use subflows::SubflowFlight;
pub(crate) use tcp::TcpMeter;

/// A transport's own account of a connection, since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    /// Packets sent; on TCP segments with data.
    pub(crate) packets_sent: u64,
    /// Packets lost, without losses that turned out to be spurious.
    pub(crate) packets_lost: u64,
    /// Smallest round-trip time; zero while unknown.
    pub(crate) min_rtt: Duration,
    /// Smoothed round-trip time; zero while unknown.
    pub(crate) srtt: Duration,
    /// Highest delivery rate since the last sample (see [`report::Reporter::keep_best_rate`]).
    pub(crate) delivery_rate: Option<Rate>,
    /// That rate may be less than what the path carries.
    pub(crate) app_limited: bool,
    /// Bytes that the peer has acknowledged.
    pub(crate) acked: u64,
    /// Time since an acknowledgement last arrived.
    pub(crate) since_ack: Duration,
    /// Nothing more will be acknowledged.
    pub(crate) closed: bool,
}

/// What a sender may have in flight, in the words of its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The congestion control.
    pub(crate) algorithm: String,
    /// The congestion window; of MPTCP those of all subflows together.
    pub(crate) bytes: u64,
    /// It still looks for the path's rate.
    pub(crate) slow_start: bool,
}

impl Snapshot {
    /// This account, or the `former` where it knows less: a subflow of MPTCP that is gone
    /// takes its counters along.
    fn or_former(self, former: &Self) -> Self {
        if self.packets_sent >= former.packets_sent {
            return self;
        }
        Self {
            acked: self.acked.max(former.acked),
            since_ack: self.since_ack,
            closed: self.closed,
            ..*former
        }
    }
}
