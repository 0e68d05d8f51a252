use std::fmt;
use std::str::FromStr;

use hikyaku_units::arm::Congestion;

/// A congestion control algorithm of QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// CUBIC with HyStart++ (RFC 9438, RFC 9406).
    #[default]
    Cubic,
    /// NewReno as in RFC 9002 §7.
    NewReno,
    /// BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00). It limits the bytes in
    /// flight instead of pacing at a rate.
    Bbr,
    /// CUBIC with an adaptive floor: at losses without a queue, the window does not fall below the
    /// path's bandwidth-delay product (`docs/congestion.md`).
    Floor,
}

/// A name that is no algorithm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no congestion control of QUIC; use cubic, newreno, bbr or floor")]
pub struct UnknownAlgorithm(String);

impl Algorithm {
    /// The name in the configuration: `cubic`, `newreno`, `bbr` or `floor`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "newreno",
            Self::Bbr => "bbr",
            Self::Floor => "floor",
        }
    }
}

impl Algorithm {
    /// The congestion control that stands for this algorithm in a decision. NewReno counts as
    /// CUBIC.
    #[must_use]
    pub const fn congestion(self) -> Congestion {
        match self {
            Self::Cubic | Self::NewReno => Congestion::Cubic,
            Self::Floor => Congestion::Floor,
            Self::Bbr => Congestion::Bbr,
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
        [Self::Cubic, Self::NewReno, Self::Bbr, Self::Floor]
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}

impl From<Congestion> for Algorithm {
    fn from(congestion: Congestion) -> Self {
        match congestion {
            Congestion::Cubic => Self::Cubic,
            Congestion::Floor => Self::Floor,
            Congestion::Bbr => Self::Bbr,
        }
    }
}
