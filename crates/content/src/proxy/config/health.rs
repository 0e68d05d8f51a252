//! Settings of active checks.

use std::str::FromStr;
use std::time::Duration;

use http::StatusCode;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Active checks of upstreams (`health` of `[proxy]`).
///
/// Each upstream gets a GET over a connection of its own at an interval, whether clients ask for
/// something or not.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HealthConfig {
    /// Path of the request, below that of the upstream's URL. Default `/`.
    pub path: String,
    /// Host of the request. Default: that of the upstream's URL.
    pub host: Option<String>,
    /// Time from one check to the next; at least 100 ms. Default `5s`.
    #[serde(with = "hikyaku_units::duration")]
    pub interval: Duration,
    /// Time to connect and to get the head of the response. Default `2s`.
    #[serde(with = "hikyaku_units::duration")]
    pub timeout: Duration,
    /// Checks in a row that must succeed before an upstream that is off is on again; at least 1.
    /// Default 2.
    pub rise: u32,
    /// Checks in a row that must fail before an upstream that is on is off; at least 1. Default 3.
    pub fall: u32,
    /// Statuses of a success: one, such as `204`, or a range, such as `200-399`. Default `200-399`.
    pub status: Statuses,
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self {
            path: "/".to_owned(),
            host: None,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            rise: 2,
            fall: 3,
            status: Statuses {
                first: 200,
                last: 399,
            },
        }
    }
}

impl HealthConfig {
    /// Returns the key that is wrong, and why.
    pub(in crate::proxy) fn fault(&self) -> Option<(&'static str, &'static str)> {
        if self.interval < MIN_INTERVAL {
            return Some(("health.interval", "it is below 100ms"));
        }
        if self.timeout.is_zero() {
            return Some(("health.timeout", "it leaves no time"));
        }
        match (self.rise, self.fall) {
            (0, _) => Some(("health.rise", "it is 0: at least one check decides")),
            (_, 0) => Some(("health.fall", "it is 0: at least one check decides")),
            _ => None,
        }
    }
}

const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// A range of status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statuses {
    first: u16,
    last: u16,
}

impl Statuses {
    pub(in crate::proxy) fn has(self, status: StatusCode) -> bool {
        (self.first..=self.last).contains(&status.as_u16())
    }
}

impl FromStr for Statuses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.trim().parse().ok();
        match (number(first), number(last)) {
            (Some(first @ 200..=599), Some(last @ 200..=599)) if first <= last => {
                Ok(Self { first, last })
            }
            _ => Err(format!(
                "`{text}` is no status from 200 to 599 and no range of them: write one such as 204, or \
                 200-399"
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_one_or_a_range() {
        let cases = [
            ("200-399", Some((200, 399))),
            ("204", Some((204, 204))),
            ("200 - 204", Some((200, 204))),
            ("399-200", None),
            ("100", None),
            ("200-", None),
            ("ok", None),
            ("", None),
        ];
        for (text, want) in cases {
            let got = text.parse::<Statuses>();
            let got = got.map(|it| (it.first, it.last));
            assert_eq!(got.ok(), want, "{text}");
        }
        let error = "ok".parse::<Statuses>().unwrap_err();
        assert!(error.contains("`ok`") && error.contains("200-399"));
        let range = "200-204".parse::<Statuses>().unwrap();
        assert!(range.has(StatusCode::OK) && range.has(StatusCode::NO_CONTENT));
        assert!(!range.has(StatusCode::FOUND));
    }

    #[test]
    fn keys_have_defaults_and_wrong_ones_are_named() {
        let read = |text: &str| toml::from_str::<HealthConfig>(text);
        assert_eq!(read("").unwrap(), HealthConfig::default());
        let cases = [
            ("interval = \"50ms\"", "health.interval"),
            ("timeout = \"0s\"", "health.timeout"),
            ("rise = 0", "health.rise"),
            ("fall = 0", "health.fall"),
        ];
        for (text, want) in cases {
            let (key, _) = read(text).unwrap().fault().unwrap();
            assert_eq!(key, want, "{text}");
        }
        assert_eq!(read("path = \"/x\"").unwrap().fault(), None);
        let error = read("pathh = \"/x\"").unwrap_err().to_string();
        assert!(error.contains("`path`"), "{error}");
    }
}
