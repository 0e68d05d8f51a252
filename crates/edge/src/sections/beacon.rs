//! The configuration of the beacon.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// Reports of browsers on pages and failures, and the decision in their devtools (`docs/beacon.md`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BeaconConfig {
    /// HTML pages get a script that reports their times once. Default `false`.
    pub pages: bool,
    /// Share of pages that get it; 0 to 1. Default 1.
    pub share: Share,
    /// Path of the reports, on each site. The script as a file is there with `.js`, and reports of failures
    /// go to `/nel` below it. The site's own content there is out of reach. Default
    /// `"/.well-known/hikyaku/page"`.
    pub path: BeaconPath,
    /// Times of pages count as outcomes in the choice of the version. Default `false`.
    pub learn: bool,
    /// Responses have `Server-Timing` with version, congestion control and decision. Default `false`.
    pub server_timing: bool,
    /// Pages ask browsers to report connections that failed (Network Error Logging). Default `false`.
    pub nel: bool,
}

/// A share from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Share(f64);

impl Share {
    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Default for Share {
    fn default() -> Self {
        Self(1.0)
    }
}

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(share: f64) -> Result<Self, String> {
        match (0.0..=1.0).contains(&share) {
            true => Ok(Self(share)),
            false => Err(format!("{share} is no share; expected 0 to 1")),
        }
    }
}

/// A path that stands in a page's script as it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct BeaconPath(String);

impl BeaconPath {
    /// The path.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BeaconPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Default for BeaconPath {
    fn default() -> Self {
        Self("/.well-known/hikyaku/page".to_owned())
    }
}

impl TryFrom<String> for BeaconPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for BeaconPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let is_segment = |segment: &str| {
            !segment.is_empty() && !matches!(segment, "." | "..") && segment.bytes().all(is_plain)
        };
        let segments = text.strip_prefix('/').map(|rest| rest.split('/'));
        let is_path = segments.is_some_and(|mut all| all.all(is_segment));
        match is_path && text.len() <= MAX_PATH {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "`{text}` is no path such as /.well-known/hikyaku/page: expected segments of ASCII letters, \
                 digits, `-`, `.`, `_` and `~`, at most {MAX_PATH} bytes"
            )),
        }
    }
}

/// The script has to stay below 1 kB with it.
const MAX_PATH: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_strictly() {
        // text, part of the error
        let cases = [
            ("pages = true\nshare = 0.25\npath = '/a/b.c-d_e~1'", None),
            (
                "share = 0\nlearn = true\nserver_timing = true\nnel = true",
                None,
            ),
            ("share = 1.5", Some("1.5 is no share; expected 0 to 1")),
            ("share = -0.1", Some("expected 0 to 1")),
            ("share = nan", Some("expected 0 to 1")),
            (
                "path = ''",
                Some("is no path such as /.well-known/hikyaku/page"),
            ),
            ("path = 'a'", Some("is no path")),
            ("path = '/'", Some("is no path")),
            ("path = '/a/'", Some("is no path")),
            ("path = '/a//b'", Some("is no path")),
            ("path = '/../a'", Some("is no path")),
            ("path = '/a?b'", Some("is no path")),
            ("path = '/a\"b'", Some("is no path")),
            ("path = '/a<b'", Some("is no path")),
            ("path = '/é'", Some("is no path")),
            ("page = true", Some("unknown field `page`")),
        ];
        for (text, want) in cases {
            let read = toml::from_str::<BeaconConfig>(text);
            match (read, want) {
                (Ok(_), None) => {}
                (Err(error), Some(want)) => {
                    assert!(error.to_string().contains(want), "{text}: {error}");
                }
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
        let long = format!("/{}", "a".repeat(32));
        assert!(long.parse::<BeaconPath>().is_err());
    }
}
