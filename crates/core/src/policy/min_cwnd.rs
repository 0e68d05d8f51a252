use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

use hikyaku_units::ByteSize;

/// A floor under CUBIC's congestion window.
///
/// As text `adaptive`, `off`, a size such as `373760` or `365KiB`, or `256xMSS` with FLOOR's segment size
/// of 1460 B (§5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinCwnd {
    /// The algorithm's own: two packets (RFC 9002 §7.2).
    Off,
    /// The path's bandwidth-delay product, as far as losses come without a standing queue.
    #[default]
    Adaptive,
    /// So many bytes.
    Bytes(ByteSize),
    /// So many segments of [`MinCwnd::MSS`] bytes.
    Segments(u32),
}

/// A text that is no floor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no minimum congestion window; expected {EXPECTED}")]
pub struct ParseMinCwndError(String);

impl MinCwnd {
    /// Bytes of a segment: `kDefaultTCPMSS` in FLOOR §5.
    pub const MSS: u32 = 1460;

    /// The fixed floor in bytes; `None` where there is none.
    #[must_use]
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Off | Self::Adaptive => None,
            Self::Bytes(size) => Some(size.bytes()),
            Self::Segments(n) => Some(u64::from(n) * u64::from(Self::MSS)),
        }
    }
}

impl fmt::Display for MinCwnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Adaptive => f.write_str("adaptive"),
            Self::Bytes(size) => size.fmt(f),
            Self::Segments(n) => write!(f, "{n}{SEGMENTS}"),
        }
    }
}

impl FromStr for MinCwnd {
    type Err = ParseMinCwndError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => return Ok(Self::Off),
            "adaptive" => return Ok(Self::Adaptive),
            _ => {}
        }
        let parsed = match text.strip_suffix(SEGMENTS) {
            Some(n) => n.parse().map(Self::Segments).ok(),
            None => text.parse().map(Self::Bytes).ok(),
        };
        parsed
            .filter(|floor| floor.bytes() != Some(0))
            .ok_or_else(|| ParseMinCwndError(text.to_owned()))
    }
}

impl Serialize for MinCwnd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MinCwnd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber)
    }
}

struct TextOrNumber;

impl Visitor<'_> for TextOrNumber {
    type Value = MinCwnd;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<MinCwnd, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<MinCwnd, E> {
        self.visit_str(&bytes.to_string())
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<MinCwnd, E> {
        self.visit_str(&bytes.to_string())
    }
}

const SEGMENTS: &str = "xMSS";
const EXPECTED: &str =
    "`adaptive`, `off`, a number of bytes such as `365KiB`, or `NxMSS` such as `256xMSS`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let cases = [
            ("off", Some(None), "off"),
            ("adaptive", Some(None), "adaptive"),
            ("373760", Some(Some(373_760)), "365KiB"),
            ("300000", Some(Some(300_000)), "300kB"),
            ("256xMSS", Some(Some(373_760)), "256xMSS"),
            ("2xMSS", Some(Some(2_920)), "2xMSS"),
            ("0", None, ""),
            ("0xMSS", None, ""),
            ("-1", None, ""),
            ("xMSS", None, ""),
            ("many", None, ""),
            ("", None, ""),
        ];
        for (text, bytes, shown) in cases {
            let parsed = text.parse::<MinCwnd>();
            assert_eq!(
                parsed.as_ref().ok().map(|floor| floor.bytes()),
                bytes,
                "{text}"
            );
            if let Ok(floor) = parsed {
                assert_eq!(floor.to_string().parse(), Ok(floor), "{text}");
                assert_eq!(floor.to_string(), shown, "{text}");
            }
        }
    }

    #[test]
    fn numbers_are_bytes() {
        let parse = serde_json::from_str::<MinCwnd>;
        assert_eq!(
            parse("373760").unwrap(),
            MinCwnd::Bytes(ByteSize::from_bytes(373_760))
        );
        for (text, message) in [
            ("-5", "`-5` is no minimum congestion window"),
            ("true", "expected `adaptive`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
