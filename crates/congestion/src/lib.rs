//! Congestion control of QUIC connections: which controller a connection gets.
//!
//! The server and the simulation build their controllers here, so that what is simulated is
//! what is served. Controllers see time only as an argument.
//!
//! ```
//! use hikyaku_congestion::{Algorithm, Settings, factory};
//! use quinn_proto::TransportConfig;
//!
//! let settings = Settings { min_cwnd: Some(256 * 1460), ..Settings::default() };
//! let mut transport = TransportConfig::default();
//! transport.congestion_controller_factory(factory(Algorithm::Cubic, &settings));
//! ```

#![forbid(unsafe_code)]

mod adaptive;
mod algorithm;
mod bbr;
mod cubic;
mod delivery;
mod floor;
mod hystart;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use quinn_proto::congestion::{ControllerFactory, NewRenoConfig};

pub use adaptive::{Adaptive, AdaptiveFactory, Known};
pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use bbr::{Bbr, BbrFactory};
pub use cubic::{Cubic, CubicFactory};
pub use floor::{Floor, FloorFactory};

/// Bytes that a connection of the server may have sent and not acknowledged, which bounds
/// every window: the path's BDP up to 1 Gbit/s at 100 ms.
pub const SEND_WINDOW: u64 = 12 << 20;

/// What is set besides the algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Bytes below which the window never falls ([`Floor`]). Default none.
    pub min_cwnd: Option<u64>,
    /// What the path has shown before, for [`Algorithm::Adaptive`]. Default nothing.
    pub known: Option<Known>,
}

/// Makes the controllers of `algorithm` under `settings`.
#[must_use]
pub fn factory(
    algorithm: Algorithm,
    settings: &Settings,
) -> Arc<dyn ControllerFactory + Send + Sync> {
    let inner: Arc<dyn ControllerFactory + Send + Sync> = match algorithm {
        Algorithm::Cubic => Arc::new(CubicFactory),
        Algorithm::NewReno => Arc::new(NewRenoConfig::default()),
        Algorithm::Bbr => Arc::new(BbrFactory),
        Algorithm::Adaptive => Arc::new(AdaptiveFactory { known: settings.known }),
    };
    match settings.min_cwnd {
        None => inner,
        Some(min_cwnd) => Arc::new(FloorFactory { inner, min_cwnd }),
    }
}

/// What a connection begins with, with packets of `mss` bytes (RFC 9002 §7.2).
fn initial_window(mss: f64) -> f64 {
    14_720.0_f64.clamp(2.0 * mss, 10.0 * mss)
}
