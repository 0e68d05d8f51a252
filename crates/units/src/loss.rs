use std::fmt;
use std::str::FromStr;

use super::decimal::{Notation, ParseUnitError};
use crate::serde_as_text;

/// The share of packets that is lost, in parts per million, from 0 to 1,000,000.
///
/// As text `0.5%` or `300ppm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LossRate {
    ppm: u32,
}

impl LossRate {
    /// No loss.
    pub const ZERO: Self = Self { ppm: 0 };

    /// A loss of so many parts per million; `None` above 1,000,000.
    #[must_use]
    pub const fn from_ppm(ppm: u32) -> Option<Self> {
        if ppm <= MAX_PPM {
            Some(Self { ppm })
        } else {
            None
        }
    }

    /// The loss nearest to `fraction`, which is from 0 to 1. Values outside give the nearer end,
    /// and NaN gives 0.
    #[must_use]
    pub fn from_fraction(fraction: f64) -> Self {
        // A cast of a float saturates and takes NaN to 0.
        let ppm = (fraction * f64::from(MAX_PPM)).round() as u32;
        Self {
            ppm: ppm.min(MAX_PPM),
        }
    }

    /// Parts per million.
    #[must_use]
    pub const fn ppm(self) -> u32 {
        self.ppm
    }

    /// The share as a fraction from 0 to 1.
    #[must_use]
    pub fn fraction(self) -> f64 {
        f64::from(self.ppm) / f64::from(MAX_PPM)
    }
}

impl fmt::Display for LossRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.ppm) / 10_000.0)
    }
}

impl FromStr for LossRate {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ppm = NOTATION.parse(text)?;
        // The notation's maximum fits in 32 bits.
        Ok(Self { ppm: ppm as u32 })
    }
}

serde_as_text!(LossRate);

const MAX_PPM: u32 = 1_000_000;

const NOTATION: Notation = Notation {
    what: "a loss rate",
    expected: "a number from 0% to 100%, or in ppm, such as `0.5%`",
    units: &[("ppm", 1), ("%", 10_000)],
    bare: false,
    max: MAX_PPM as u64,
};
