#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod adaptive;
mod algorithm;
mod bbr;
mod cubic;
mod delivery;
mod floor;
mod hystart;
mod path;
mod rapid;
mod start;
mod state;
#[cfg(test)]
mod testing;

pub use adaptive::{Adaptive, Factory, Flight, Handle, OfConnection};
pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use start::Start;
pub use state::State;

/// The rule of [`Algorithm::Floor`] without window, clock or packets, which TCP's floor follows, too.
pub mod rule {
    pub use crate::delivery::Sample;
    pub use crate::floor::rule::{Answer, Rule, Snapshot, Step};
    pub use crate::path::Path;
}

use hikyaku_units::SavedPath;

/// Bytes that a connection of the server may have sent without an acknowledgement. It bounds every
/// window: the BDP of a path of 1 Gbit/s at 100 ms.
pub const SEND_WINDOW: u64 = 12 << 20;

/// The algorithm of a connection, its floor, and its known path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The algorithm. Default CUBIC.
    pub algorithm: Algorithm,
    /// Bytes below which the window never falls, whatever is lost (FLOOR §5). Default none.
    pub min_cwnd: Option<u64>,
    /// Measurements of the path by former connections, for [`Algorithm::Floor`]. Default none.
    pub known: Option<SavedPath>,
    /// The begin on an unknown path.
    pub start: Start,
}

impl Settings {
    /// Whether two settings differ at most in what only a new connection needs.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm && self.min_cwnd == other.min_cwnd
    }

    /// The initial window in bytes, with packets of `mss` bytes. A fixed floor does not count.
    fn initial_window(&self, mss: f64) -> f64 {
        match (self.algorithm, self.known) {
            (Algorithm::Floor, Some(known)) => {
                (f64::from(known.initial_window()) * mss).max(initial_window(mss))
            }
            _ => self.start.window(mss),
        }
    }
}

/// The initial window on an unknown path in bytes, with packets of `mss` bytes (RFC 9002 §7.2).
fn initial_window(mss: f64) -> f64 {
    14_720.0_f64.clamp(2.0 * mss, 10.0 * mss)
}
