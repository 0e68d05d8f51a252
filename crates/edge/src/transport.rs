//! The settings of a connection's sender: where decisions meet transports.
//!
//! Both transports ask `Clients::transport` when they accept a connection, before its handshake, and
//! report to `Conn::open` which settings they could apply. While it lives, its meter compares
//! `Conn::chosen` with the settings in use, and reports a switch.

mod account;

use std::io;

use hikyaku_congestion::{Settings, Start};
use hikyaku_core::policy::{CongestionPolicy, PolicyConfig};
use hikyaku_units::SavedPath;
use hikyaku_units::arm::{ByTransport, Congestion, CongestionSet};

use crate::listen::probe_congestion;
use crate::tcp_cc::{Control, Controls};
pub(crate) use account::{Flight, Snapshot, Stall, Window};

/// Settings for a new connection's sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TransportChoice {
    /// Its congestion control.
    pub(crate) congestion: Congestion,
    /// Bytes below which its window never falls, whatever is lost.
    pub(crate) min_cwnd: Option<u64>,
    /// Rate and delay that the path has lately shown.
    pub(crate) known: Option<SavedPath>,
}

impl TransportChoice {
    /// That of an ordinary server: ten packets at first (RFC 6928, RFC 9002 §7.2), and nothing of former
    /// visits.
    pub(crate) const fn ordinary(congestion: Congestion) -> Self {
        Self {
            congestion,
            min_cwnd: None,
            known: None,
        }
    }

    /// Congestion control that a TCP socket is to use.
    pub(crate) fn tcp_control(&self) -> Control {
        match (self.min_cwnd, self.congestion) {
            (Some(bytes), over) => Control::Floor {
                over,
                bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            },
            (None, Congestion::Floor) => Control::Fair { known: self.known },
            (None, congestion) => Control::Plain(congestion),
        }
    }

    /// How a QUIC connection is to be controlled.
    pub(crate) fn quic_settings(&self) -> Settings {
        Settings {
            algorithm: self.congestion.into(),
            min_cwnd: self.min_cwnd,
            known: self.known,
            start: Start::default(),
        }
    }
}

/// The congestion controls that each transport has on this machine.
///
/// # Errors
/// When TCP lacks what `policy` pins, or all where it pins nothing: what the kernel said of it. One may
/// be there and refused: without capabilities, all that `tcp_allowed_congestion_control` does not list.
pub(crate) fn available(
    policy: &PolicyConfig,
    controls: &Controls,
) -> Result<ByTransport<CongestionSet>, (Congestion, io::Error)> {
    let needed = match policy.congestion {
        CongestionPolicy::Bbr => Some(Congestion::Bbr),
        CongestionPolicy::Cubic => Some(Congestion::Cubic),
        CongestionPolicy::Adaptive => None,
    };
    let mut tcp = Vec::new();
    let mut refused = None;
    for congestion in Congestion::ALL {
        let probed = match congestion {
            // `Controls` has logged the missing parts.
            Congestion::Floor if !controls.has_floors() => continue,
            Congestion::Floor => Ok(()),
            plain => probe_congestion(plain),
        };
        match probed {
            Ok(()) => tcp.push(congestion),
            Err(error) if needed == Some(congestion) => return Err((congestion, error)),
            Err(error) if policy.allowed().contains(congestion) => {
                tracing::info!(
                    "TCP has no {congestion} here, and connections get another congestion control: {error}"
                );
                refused.get_or_insert((congestion, error));
            }
            Err(_) => {}
        }
    }
    if let (true, Some(refused)) = (tcp.is_empty(), refused) {
        return Err(refused);
    }
    Ok(ByTransport {
        tcp: CongestionSet::of(&tcp),
        quic: CongestionSet::ALL,
    })
}
