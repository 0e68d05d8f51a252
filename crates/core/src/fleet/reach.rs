//! With whom knowledge is shared.

use serde::{Deserialize, Serialize};

/// The edges that a statistic is shared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Those of the same PoP: the same site, and the same way out to clients.
    Pop,
    /// All of the operator.
    Fleet,
}
