//! The report, as `GET /v1/gain` and `hikyaku gain` show it.

use std::fmt;
use std::str::FromStr;

use hikyaku_units::Timestamp;
use serde::{Deserialize, Serialize};

use crate::choice::Assignment;

/// The question that a report answers.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The beginning of the time that it covers.
    pub since: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// Groups of clients to compare, besides all of them.
    pub by: Option<By>,
    /// The largest share of hold-back in force.
    pub holdback: f64,
    /// Edges whose clients are in the sample.
    pub edges: usize,
}

/// The kinds of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The /24 of IPv4 and the /48 of IPv6.
    Network,
    /// By a database of countries.
    Country,
    /// The site that the connection's handshake names.
    Site,
    /// The response's size.
    Size,
    /// The HTTP version, which is no comparison: hikyaku chooses it.
    Version,
}

impl By {
    /// All.
    pub const ALL: [Self; 5] = [
        Self::Network,
        Self::Country,
        Self::Site,
        Self::Size,
        Self::Version,
    ];

    /// Its name in queries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Country => "country",
            Self::Site => "site",
            Self::Size => "size",
            Self::Version => "version",
        }
    }
}

/// A text that names no kind of group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no kind of group: expected network, country, site, size or version")]
pub struct ParseByError(String);

impl FromStr for By {
    type Err = ParseByError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|by| by.name() == text);
        named.ok_or_else(|| ParseByError(text.to_owned()))
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value of each group of the draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByAssignment<T> {
    /// Of clients that get what hikyaku chooses.
    pub hikyaku: T,
    /// Of the others.
    pub hold_back: T,
}

impl<T> ByAssignment<T> {
    pub(super) fn from_fn(mut of: impl FnMut(Assignment) -> T) -> Self {
        Self {
            hikyaku: of(Assignment::Hikyaku),
            hold_back: of(Assignment::HoldBack),
        }
    }
}

/// Load times with hikyaku over those without, with an interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The estimate: below 1 responses arrive sooner.
    pub mean: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

impl Ratio {
    /// The finding from it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.high < 1.0, self.low > 1.0) {
            (true, _) => Verdict::Sooner,
            (_, true) => Verdict::Later,
            _ => Verdict::Undecided,
        }
    }
}

/// The finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Responses arrive sooner with hikyaku.
    Sooner,
    /// Responses arrive later with hikyaku.
    Later,
    /// The interval has both in it.
    Undecided,
    /// A group has too few clients.
    TooFew,
    /// No client is held back.
    NoHoldBack,
    /// The group is no comparison.
    NotCompared,
}

/// Quantiles over clients of their geometric mean load times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadTimes {
    /// The median.
    pub p50: Quantile,
    /// The upper quartile.
    pub p75: Quantile,
    /// The 95th percentile.
    pub p95: Quantile,
}

/// A quantile of both groups.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// In seconds.
    pub hikyaku: Option<f64>,
    /// In seconds.
    pub hold_back: Option<f64>,
    /// Their ratio; `None` where there are too few clients.
    pub ratio: Option<Ratio>,
}

/// Clients and time that are missing until a change of 5 % shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Until {
    /// More clients, of both groups.
    pub clients: u64,
    /// The time in which so many come.
    pub seconds: u64,
}

/// Shares of responses by HTTP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VersionShares {
    /// HTTP/1.1.
    pub h1: f64,
    /// HTTP/2.
    pub h2: f64,
    /// HTTP/3.
    pub h3: f64,
}

/// A group of clients or responses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Clients in the sample.
    pub clients: ByAssignment<u64>,
    /// Their geometric mean load time in seconds.
    pub load_time_s: ByAssignment<Option<f64>>,
    /// Part of the responses of each group of the draw; of versions alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ByAssignment<f64>>,
    /// `None` where there are too few clients, and for versions.
    pub ratio: Option<Ratio>,
    /// The finding.
    pub verdict: Verdict,
}

/// The gain over some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// RFC 3339.
    pub since: String,
    /// RFC 3339.
    pub until: String,
    /// The largest share of hold-back in force.
    pub holdback: f64,
    /// Clients, estimated where not all are in the sample.
    pub clients: ByAssignment<u64>,
    /// Clients in the sample.
    pub sampled: ByAssignment<u64>,
    /// Whole responses of all clients.
    pub responses: ByAssignment<u64>,
    /// Share of responses that did not end whole.
    pub incomplete: ByAssignment<f64>,
    /// The finding.
    pub verdict: Verdict,
    /// It in words.
    pub sentence: String,
    /// `None` where there are too few clients.
    pub ratio: Option<Ratio>,
    /// Load times.
    pub load_time_s: LoadTimes,
    /// `None` if 5 % would show already, or no end can be foreseen.
    pub until_5_percent: Option<Until>,
    /// HTTP versions of the sampled clients' responses.
    pub versions: ByAssignment<VersionShares>,
    /// The network with the surest gain.
    pub best: Option<Group>,
    /// The network with the surest loss, or the least sure gain.
    pub worst: Option<Group>,
    /// The kind of `groups`.
    pub by: Option<By>,
    /// The groups with most clients first; of each kind 200 at most.
    pub groups: Vec<Group>,
    /// Edges whose clients are in it.
    pub edges: usize,
}
