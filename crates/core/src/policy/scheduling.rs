use serde::{Deserialize, Serialize};

/// The scheduling of MPTCP connections over several egress routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulingPolicy {
    /// By the class of content.
    #[default]
    Class,
    /// Over all subflows, whatever the class.
    Capacity,
    /// Over the subflow with the lowest round-trip time, whatever the class.
    LowestRtt,
}
