//! Keys of experiments with a fleet of edges.

use serde::Deserialize;

/// An arm of [`Kind::Fleet`](super::Kind::Fleet): what its edges share, and which of them the client
/// visits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    /// The edges that the client of a session visits, one after the other. The last visit is
    /// measured.
    pub visits: Vec<Edge>,
    /// Whether the edges have a key file in common. Without one, each makes its own tickets.
    #[serde(default)]
    pub keys: bool,
    /// The stores of the edges.
    #[serde(default)]
    pub stores: Stores,
    /// The fault of the measured sessions.
    pub fault: Option<Fault>,
}

/// An edge of the topology `fleet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edge {
    /// The first one of `PoP` 1.
    A,
    /// The other one of `PoP` 1.
    B,
    /// That of `PoP` 2.
    C,
}

/// The stores that edges share their knowledge through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stores {
    /// No store: the edges share nothing by themselves.
    #[default]
    None,
    /// One in each `PoP`.
    Pop,
    /// One for all edges.
    Fleet,
}

/// A fault that begins after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// The first store answers 200 ms late.
    Slow,
    /// The first store takes connections and commands, and answers nothing.
    Hung,
    /// The first store has been killed.
    Killed,
    /// The first store has no memory left, and takes nothing new.
    Full,
    /// The first store has been killed, and started again with nothing in it.
    Emptied,
    /// Before each measured session, the edges have been restarted one after the other. They keep
    /// nothing on disk.
    Restart,
}

impl Edge {
    /// All edges.
    pub(crate) const ALL: [Self; 3] = [Self::A, Self::B, Self::C];

    /// Name of the edge in the fleet.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
        }
    }

    /// Number of its `PoP`, from 1.
    pub(crate) const fn pop(self) -> u8 {
        match self {
            Self::A | Self::B => 1,
            Self::C => 2,
        }
    }
}

impl Fault {
    /// Whether it is one of a store.
    pub(crate) const fn is_of_store(self) -> bool {
        !matches!(self, Self::Restart)
    }
}
