//! Measurements of the egress control plane.

use serde::Deserialize;

/// The measurement of a run of [`Kind::Control`](super::Kind::Control).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// Kind of the measurement.
    pub measure: Measure,
    /// Of [`Measure::Scale`]: routes of each of the four transits.
    #[serde(default)]
    pub routes: u32,
    /// Of [`Measure::Scale`]: changes a second, of all transits together.
    #[serde(default)]
    pub updates: u32,
}

/// A kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// A route is taken away and brought back, once in each session.
    Change,
    /// Full tables are loaded, a peer is lost and comes back, many routes change.
    Scale,
    /// Overlapping prefixes come and go at random for the session's duration, while packets are
    /// sent.
    Withdraw,
}

/// The maker of the route reflector, and of transits and the client's provider if the network has
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Routers {
    /// Routers by `GoBGP`.
    #[default]
    Gobgp,
    /// Routers by FRR.
    Frr,
}
