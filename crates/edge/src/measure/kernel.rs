//! Questions that the meter of a TCP connection asks of the kernel, and the settings it makes there.

use std::io;
use std::sync::Once;

use hikyaku_units::Rate;
use hikyaku_units::arm::Congestion;

use super::{Socket, SubflowFlight};
use crate::marked::Packets;
use crate::tcp_cc::Control;
use crate::transport::{Flight, Snapshot};

/// A TCP or MPTCP connection, as its meter knows it.
pub(crate) trait TcpTransport: Packets {
    /// The connection's state; `acked` counts from the first byte written.
    ///
    /// # Errors
    /// When the connection can't be asked.
    fn look(&self) -> io::Result<Snapshot>;

    /// Bytes written so far, and whether no more was taken at the last write.
    fn written(&self) -> (u64, bool);

    /// Whether all of it takes one path at a time; MPTCP may have several.
    fn has_one_path(&self) -> bool;

    /// The packets under way on the path of TCP; `None` before there is a round-trip time.
    fn flight(&self) -> Option<Flight>;

    /// The packets under way on each subflow of MPTCP.
    fn subflows(&self) -> Vec<SubflowFlight>;

    /// Gives it another congestion control. Returns what it has now, if that has changed.
    fn set_congestion(&self, control: Control) -> Option<Congestion>;

    /// Holds it to a rate, if there is one.
    fn set_pacing(&self, rate: Option<Rate>);

    /// Makes it send at once over another path. Returns whether it does.
    fn failover(&self) -> bool;
}

impl TcpTransport for Socket {
    fn look(&self) -> io::Result<Snapshot> {
        Self::look(self)
    }

    fn written(&self) -> (u64, bool) {
        Self::written(self)
    }

    fn has_one_path(&self) -> bool {
        Self::has_one_path(self)
    }

    fn flight(&self) -> Option<Flight> {
        Self::flight(self)
    }

    fn subflows(&self) -> Vec<SubflowFlight> {
        Self::subflows(self)
    }

    fn set_congestion(&self, control: Control) -> Option<Congestion> {
        match self.try_set_congestion(control) {
            Ok(changed) => changed.then(|| control.congestion()),
            Err(error) => {
                self.controls().warn_once(control, &error);
                None
            }
        }
    }

    fn set_pacing(&self, rate: Option<Rate>) {
        if let Err(error) = self.try_set_max_pacing_rate(rate) {
            static WARNED: Once = Once::new();
            WARNED.call_once(|| {
                tracing::warn!(
                    "setting policy.max_pacing_rate on a TCP connection: {error}; such \
                     connections are held to no rate"
                );
            });
        }
    }

    fn failover(&self) -> bool {
        let made = self.try_failover();
        if let Err(error) = &made {
            tracing::debug!("sending at once over another path: {error}");
        }
        made.is_ok()
    }
}

impl Packets for Socket {
    fn set_mark(&self, mark: u32) {
        let moved = self.try_set_mark(mark);
        if matches!(moved, Ok(true))
            && let Err(error) = self.begin_anew()
        {
            tracing::debug!("beginning congestion control anew on another path: {error}");
        }
        if let Err(error) = moved {
            static WARNED: Once = Once::new();
            WARNED.call_once(|| {
                tracing::warn!(
                    "setting the mark {mark:#x} of a path on a TCP connection: {error}; such \
                     connections keep the path that they have (CAP_NET_ADMIN is needed)"
                );
            });
        }
    }
}
