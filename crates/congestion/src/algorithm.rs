use std::fmt;
use std::str::FromStr;

use hikyaku_core::arm::Congestion;

/// A congestion control algorithm of QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// CUBIC (RFC 9438, without HyStart).
    #[default]
    Cubic,
    /// NewReno as in RFC 9002 §7.
    NewReno,
    /// BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), as far as quinn has it:
    /// paced from its window instead of its bandwidth estimate.
    Bbr,
}

/// A name that is no algorithm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no congestion control of QUIC; use cubic, newreno or bbr")]
pub struct UnknownAlgorithm(String);

impl Algorithm {
    /// Its name, as in configuration: `cubic`, `newreno` or `bbr`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "newreno",
            Self::Bbr => "bbr",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [Self::Cubic, Self::NewReno, Self::Bbr]
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}

impl From<Congestion> for Algorithm {
    fn from(congestion: Congestion) -> Self {
        match congestion {
            // The floor is a part of CUBIC's: without one of its own it is plain.
            Congestion::Cubic | Congestion::Floor => Self::Cubic,
            Congestion::Bbr => Self::Bbr,
        }
    }
}
