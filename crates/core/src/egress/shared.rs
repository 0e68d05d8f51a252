//! The knowledge of routes that the edges of a PoP share: that of prefixes, by the routes' names.
//!
//! A prefix's record has differences between carriers, which add once they have one zero
//! ([`differences`]). Losses and stalls are counts. Avoided routes are not shared: they are over in
//! seconds, and stalls show at each edge.

mod contribution;
mod differences;
mod hold;
mod parts;
mod total;

pub use contribution::RouteContribution;
pub(super) use hold::RouteFleet;
pub use hold::RoutesElsewhere;
pub use total::{RemoteRoutes, RouteContributions};

#[cfg(test)]
mod tests;
