//! The gain: how much sooner responses arrive with hikyaku than without, measured by assignment.
//!
//! The unit is a client. A stable draw puts it into the hold-back group or not, and all its responses count
//! from the first on ([`Subject`]). A [`Sample`] keeps a uniform random part of the clients of a day in
//! bounded memory, and [`report`] compares the two groups. The mathematics: `docs/gain.md`.

mod calendar;
mod codec;
mod covariate;
mod edges;
mod effect;
mod groups;
mod interval;
mod moments;
mod quantile;
mod report;
mod response;
mod sample;
mod sentence;
mod subject;
mod summary;
mod units;

pub use calendar::{Day, date, rfc3339};
pub use edges::Edges;
pub use report::{
    By, ByAssignment, Group, LoadTimes, ParseByError, Quantile, Question, Ratio, Report, Until,
    Verdict, VersionShares,
};
pub use response::Response;
pub use sample::{Sample, Site};
pub use subject::{Network, Subject};
pub use summary::report;

/// Clients of a day and a group whose sums are kept, unless the operator sets another number.
pub const CLIENTS: usize = 8192;
/// Clients of a group that a report looks at.
pub const REPORTED: usize = 65_536;
/// Clients that each group needs for a comparison.
pub const MIN_CLIENTS: usize = 20;

#[cfg(test)]
mod tests;
