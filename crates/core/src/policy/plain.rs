//! The transport of an ordinary server: the hold-back group's side of the comparison.

use serde::{Deserialize, Serialize};

use super::Plain;
use hikyaku_units::arm::{Arm, Congestion};

/// The transport that the hold-back group gets, so that the gain of the others shows: a server without hikyaku.
///
/// Besides, that group has no floor, no window by former visits, the plain route and one connection for a
/// page. Its advertisements are for `ma_max`, even where UDP fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlainPolicy {
    /// `h3`: HTTP/3 is advertised to all; `h2`: to nobody. Default `h3`.
    pub version: Plain,
    /// `cubic` or `bbr`, where the transport has it. Default `cubic`.
    pub congestion: PlainCongestion,
}

impl PlainPolicy {
    /// The arm of a client of that server.
    #[must_use]
    pub const fn arm(self) -> Arm {
        Arm::new(self.version.version(), self.congestion.congestion())
    }
}

impl Default for PlainPolicy {
    fn default() -> Self {
        Self {
            version: Plain::H3,
            congestion: PlainCongestion::Cubic,
        }
    }
}

/// The settings that a site may have in place of the server's [`PlainPolicy`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SitePlain {
    /// `h3` or `h2`. Default: the server's.
    pub version: Option<Plain>,
    /// `cubic` or `bbr`. Default: the server's.
    pub congestion: Option<PlainCongestion>,
}

impl SitePlain {
    /// The site's settings, on a server with those of `server`.
    #[must_use]
    pub fn over(self, server: PlainPolicy) -> PlainPolicy {
        PlainPolicy {
            version: self.version.unwrap_or(server.version),
            congestion: self.congestion.unwrap_or(server.congestion),
        }
    }
}

/// The congestion control of an ordinary server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlainCongestion {
    /// CUBIC without a floor.
    Cubic,
    /// BBR.
    Bbr,
}

impl PlainCongestion {
    /// The congestion control.
    #[must_use]
    pub const fn congestion(self) -> Congestion {
        match self {
            Self::Cubic => Congestion::Cubic,
            Self::Bbr => Congestion::Bbr,
        }
    }
}
