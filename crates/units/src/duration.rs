//! [`Duration`] as text with a unit: `15s`, `500ms`, `1h`, `1d`.
//!
//! For configuration fields: `#[serde(with = "hikyaku_units::duration")]`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

use super::decimal::{Notation, ParseUnitError};

/// Reads a duration of at most 584 years, to the nanosecond.
///
/// # Errors
/// When the text is not a decimal number followed by `ns`, `us`, `ms`, `s`, `m`, `h` or `d`.
pub fn parse(text: &str) -> Result<Duration, ParseUnitError> {
    NOTATION.parse(text).map(Duration::from_nanos)
}

/// Prints the duration in the largest unit that needs no decimals; [`parse`] reads it back.
#[must_use]
pub fn display(duration: Duration) -> impl fmt::Display {
    fmt::from_fn(move |f| NOTATION.write(duration.as_nanos(), f))
}

/// Writes a duration as text, for `#[serde(with)]`.
///
/// # Errors
/// Only those of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&display(*duration))
}

/// Reads a duration from text, for `#[serde(with)]`.
///
/// # Errors
/// When [`parse`] refuses the text.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse(&Cow::<'de, str>::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Optional durations as text or null, for `#[serde(with)]`.
pub mod option {
    use super::{Cow, Deserialize, Deserializer, Duration, Serializer, display, parse};
    use serde::de::Error as _;

    /// Writes an optional duration as text or null, for `#[serde(with)]`.
    ///
    /// # Errors
    /// Only those of the serializer.
    pub fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.collect_str(&display(*duration)),
            None => serializer.serialize_none(),
        }
    }

    /// Reads an optional duration from text or null, for `#[serde(with)]`.
    ///
    /// # Errors
    /// When [`parse`] refuses the text.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
        text.map(|text| parse(&text))
            .transpose()
            .map_err(D::Error::custom)
    }
}

const NOTATION: Notation = Notation {
    what: "a duration",
    expected: "a number and one of ns, us, ms, s, m, h, d, such as `15s`",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ],
    bare: false,
    max: u64::MAX,
};
