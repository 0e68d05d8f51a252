//! Congestion control of QUIC connections: one controller that can be what it has to be.
//!
//! The server and the simulation build their controllers here, so that what is simulated is
//! what is served. Controllers see time only as an argument.
//!
//! ```
//! use std::sync::Arc;
//!
//! use hikyaku_congestion::{Adaptive, Algorithm, Factory, Settings};
//! use quinn_proto::TransportConfig;
//!
//! let settings = Settings { algorithm: Algorithm::Floor, ..Settings::default() };
//! let mut transport = TransportConfig::default();
//! transport.congestion_controller_factory(Arc::new(Factory(settings)));
//! ```

#![forbid(unsafe_code)]

mod adaptive;
mod algorithm;
mod bbr;
mod cubic;
mod delivery;
mod floor;
mod hystart;
mod path;
mod state;
#[cfg(test)]
mod testing;

pub use adaptive::{Adaptive, Factory, Flight, Handle};
pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use state::State;

/// The rule of [`Algorithm::Floor`] without window, clock or packets, which TCP's floor follows, too.
pub mod rule {
    pub use crate::delivery::Sample;
    pub use crate::floor::rule::{Answer, Rule, Snapshot, Step};
    pub use crate::path::Path;
}

use hikyaku_units::SavedPath;

/// Bytes that a connection of the server may have sent and not acknowledged, which bounds
/// every window: the path's BDP up to 1 Gbit/s at 100 ms.
pub const SEND_WINDOW: u64 = 12 << 20;

/// How a connection is to be controlled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Default CUBIC.
    pub algorithm: Algorithm,
    /// Bytes below which the window never falls, whatever is lost (FLOOR §5). Default none.
    pub min_cwnd: Option<u64>,
    /// What the path has shown before, for [`Algorithm::Floor`]. Default nothing.
    pub known: Option<SavedPath>,
}

impl Settings {
    /// Whether they are the same but for what is known of the path.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm && self.min_cwnd == other.min_cwnd
    }

    /// Bytes that a connection begins with, with packets of `mss` bytes; a fixed floor aside.
    fn initial_window(&self, mss: f64) -> f64 {
        match (self.algorithm, self.known) {
            (Algorithm::Floor, Some(known)) => {
                (f64::from(known.initial_window()) * mss).max(initial_window(mss))
            }
            _ => initial_window(mss),
        }
    }
}

/// What a connection of an unknown path begins with, with packets of `mss` bytes (RFC 9002 §7.2).
fn initial_window(mss: f64) -> f64 {
    14_720.0_f64.clamp(2.0 * mss, 10.0 * mss)
}
