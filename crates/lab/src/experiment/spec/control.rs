//! Measurements of the egress control plane.

use serde::Deserialize;

/// What a run of [`Kind::Control`](super::Kind::Control) measures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// What is measured.
    pub measure: Measure,
    /// Of [`Measure::Scale`]: routes of each of the four transits.
    #[serde(default)]
    pub routes: u32,
    /// Of [`Measure::Scale`]: changes a second, of all transits together.
    #[serde(default)]
    pub updates: u32,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// A route is taken away and brought back, once in each session.
    Change,
    /// Full tables are loaded, a peer is lost and comes back, many routes change.
    Scale,
    /// Overlapping prefixes come and go at random for the session's duration, under packets.
    Withdraw,
}

/// Whose route reflector, and where there are such, whose transits and client's provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Routers {
    /// `GoBGP`'s.
    #[default]
    Gobgp,
    /// FRR's.
    Frr,
}
