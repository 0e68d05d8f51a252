use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// Most connections that a page is spread over: beyond it a page would take more than its share of a
/// bottleneck.
pub const MAX_CONNECTIONS: u8 = 8;

/// Over how many connections pages are spread: as text `adaptive` or `1` to `8`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionsPolicy {
    /// As many as pay, per client.
    #[default]
    Adaptive,
    /// So many, the page's own included.
    Pinned(u8),
}

impl Serialize for ConnectionsPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Adaptive => serializer.serialize_str("adaptive"),
            Self::Pinned(n) => serializer.serialize_u8(*n),
        }
    }
}

impl<'de> Deserialize<'de> for ConnectionsPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber)
    }
}

struct TextOrNumber;

impl Visitor<'_> for TextOrNumber {
    type Value = ConnectionsPolicy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`adaptive` or 1 to {MAX_CONNECTIONS}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ConnectionsPolicy, E> {
        if text == "adaptive" {
            return Ok(ConnectionsPolicy::Adaptive);
        }
        let n = text.parse().ok();
        let n = n.filter(|n| (1..=MAX_CONNECTIONS).contains(n));
        n.map(ConnectionsPolicy::Pinned).ok_or_else(|| {
            E::custom(format_args!(
                "connections are `{text}`; expected `adaptive` or 1 to {MAX_CONNECTIONS}"
            ))
        })
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<ConnectionsPolicy, E> {
        self.visit_str(&n.to_string())
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<ConnectionsPolicy, E> {
        self.visit_str(&n.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::ConnectionsPolicy::{self, Adaptive, Pinned};

    #[test]
    fn it_is_a_number_or_adaptive() {
        let cases = [
            (r#""adaptive""#, Some(Adaptive)),
            ("1", Some(Pinned(1))),
            ("8", Some(Pinned(8))),
            (r#""4""#, Some(Pinned(4))),
            ("0", None),
            ("9", None),
            ("-1", None),
            ("2.5", None),
            (r#""many""#, None),
        ];
        for (text, want) in cases {
            let got = serde_json::from_str::<ConnectionsPolicy>(text);
            assert_eq!(got.as_ref().ok(), want.as_ref(), "{text}: {got:?}");
            if let Ok(got) = got {
                let again = serde_json::to_string(&got).unwrap();
                assert_eq!(
                    serde_json::from_str::<ConnectionsPolicy>(&again).unwrap(),
                    got
                );
            }
        }
    }
}
