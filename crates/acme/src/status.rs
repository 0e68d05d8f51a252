//! The status of a certificate, for people.

use serde::{Deserialize, Serialize};

/// How a certificate fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There is none yet, and a self-signed one takes its place.
    Waiting,
    /// An order is under way.
    Ordering,
    /// There is one, and its next order is in time.
    Valid,
    /// The last order failed. Where there is a certificate, it stays in use.
    Failing,
}

/// A certificate that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its names.
    pub names: Vec<String>,
    /// How it fares.
    pub state: State,
    /// URL of the directory that the certificate in use is from.
    pub directory: Option<String>,
    /// When the next order is, in seconds since the Unix epoch.
    pub next_order: i64,
    /// Failures since the last success.
    pub failures: u32,
    /// The last of them.
    pub error: Option<String>,
}
