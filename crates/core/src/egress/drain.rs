//! Drains of egress routes, as explanations show them.

use std::fmt;
use std::time::Duration;

use hikyaku_units::human;

/// Why an egress route takes no new connections: somebody drains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressDrain {
    /// Where the drain was begun.
    pub at: DrainedAt,
    /// Time since its begin, as far as that is known.
    pub age: Option<Duration>,
    /// The reason that was given; empty without one.
    pub reason: String,
}

/// Where a drain was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrainedAt {
    /// At this host's egress agent.
    Here,
    /// At the agent of another edge of the PoP.
    Edge(String),
    /// At the border, as this host's agent reports.
    Border,
}

/// The text for people, after a subject: `drained at fra-2 for 2 h: fibre work`.
impl fmt::Display for EgressDrain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            DrainedAt::Here => f.write_str("drained at this host's agent")?,
            DrainedAt::Edge(edge) => write!(f, "drained at {edge}")?,
            DrainedAt::Border => f.write_str("draining")?,
        }
        if let Some(age) = self.age {
            write!(f, " for {}", human::time(age))?;
        }
        match self.reason.as_str() {
            "" => Ok(()),
            reason => write!(f, ": {reason}"),
        }
    }
}
