use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use hikyaku_units::Rate;

/// The rate at which each connection sends at most.
///
/// As text `off`, or a rate such as `5Mbps`, of at least [`MaxPacingRate::MIN`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaxPacingRate(Option<Rate>);

/// A text that is no bound of a connection's rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no largest pacing rate; expected {EXPECTED}")]
pub struct ParseMaxPacingRateError(String);

impl MaxPacingRate {
    /// Below it a packet of 1500 bytes takes longer than 0.2 s. The shortest timers of TCP run out
    /// after that time, and everything would be sent twice.
    pub const MIN: Rate = Rate::from_bits_per_sec(64_000);

    /// The rate; `None` where there is no bound.
    #[must_use]
    pub const fn rate(self) -> Option<Rate> {
        self.0
    }
}

impl fmt::Display for MaxPacingRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str(OFF),
            Some(rate) => rate.fmt(f),
        }
    }
}

impl FromStr for MaxPacingRate {
    type Err = ParseMaxPacingRateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == OFF {
            return Ok(Self(None));
        }
        let rate = text.parse().ok().filter(|rate| *rate >= Self::MIN);
        match rate {
            Some(rate) => Ok(Self(Some(rate))),
            None => Err(ParseMaxPacingRateError(text.to_owned())),
        }
    }
}

impl Serialize for MaxPacingRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MaxPacingRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

const OFF: &str = "off";
const EXPECTED: &str = "`off`, or a rate of at least 64kbps such as `5Mbps`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let cases = [
            ("off", Some(None)),
            ("5Mbps", Some(Some(5_000_000))),
            ("64kbps", Some(Some(64_000))),
            ("63kbps", None),
            ("0bps", None),
            ("5", None),
            ("5MB", None),
            ("on", None),
            ("", None),
        ];
        for (text, want) in cases {
            let parsed = text.parse::<MaxPacingRate>();
            let bits = |max: &MaxPacingRate| max.rate().map(Rate::bits_per_sec);
            assert_eq!(parsed.as_ref().ok().map(bits), want, "{text}");
            match parsed {
                Ok(max) => assert_eq!(max.to_string(), text),
                Err(error) => assert!(error.to_string().contains("at least 64kbps"), "{error}"),
            }
        }
    }
}
