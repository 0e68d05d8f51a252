//! Which side of the comparison a client is on.

use serde::{Deserialize, Serialize};

use crate::policy::PolicyConfig;

/// The side of the comparison that shows the gain. It is drawn by client and seed, whatever the
/// estimate of the client, and holds for all of its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    /// The client gets the arms that are chosen for it.
    Hikyaku,
    /// The client gets the transport of an ordinary server: [`PolicyConfig::plain`].
    HoldBack,
}

impl Assignment {
    /// Both, in the order of their indices.
    pub const ALL: [Self; 2] = [Self::Hikyaku, Self::HoldBack];

    pub(crate) const fn drawn(is_held_back: bool) -> Self {
        if is_held_back {
            Self::HoldBack
        } else {
            Self::Hikyaku
        }
    }

    /// Whether the client is in the hold-back group.
    #[must_use]
    pub const fn is_held_back(self) -> bool {
        matches!(self, Self::HoldBack)
    }

    /// Its name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hikyaku => "hikyaku",
            Self::HoldBack => "hold_back",
        }
    }

    /// The position in an array that has an element for each.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The share of clients that are on this side.
    #[must_use]
    pub fn share(self, policy: &PolicyConfig) -> f64 {
        let held_back = policy.holdback.clamp(0.0, 1.0);
        match self {
            Self::Hikyaku => 1.0 - held_back,
            Self::HoldBack => held_back,
        }
    }
}
