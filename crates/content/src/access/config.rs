//! Settings of access.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hikyaku_units::{Network, serde_as_text};
use http::HeaderName;
use serde::Deserialize;

/// Who may use a site or a route (`access` of the configuration). Without any key, everybody may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessConfig {
    /// Networks, such as `192.0.2.0/24`, and addresses whose clients may; others may not. Default: all.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub allow: Vec<Network>,
    /// Networks and addresses whose clients may not. Where `allow` has the address too, the longer prefix
    /// counts, and `deny` among equal ones. Default: none.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub deny: Vec<Network>,
    /// Name and password (RFC 7617). Default: none are asked for.
    pub basic_auth: Option<BasicAuthConfig>,
    /// Another server that decides. Default: none is asked.
    pub forward_auth: Option<ForwardAuthConfig>,
    /// Whether the address and the authentication are both needed. Default `all`.
    pub satisfy: Satisfy,
    /// Requests that a client may make. Default: any number.
    pub rate_limit: Option<RateLimitConfig>,
}

impl AccessConfig {
    /// Whether it keeps anybody out for more than a time.
    pub(crate) const fn restricts(&self) -> bool {
        let addresses = !self.allow.is_empty() || !self.deny.is_empty();
        addresses || self.basic_auth.is_some() || self.forward_auth.is_some()
    }
}

/// Conditions that a client has to meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Satisfy {
    /// Its address may, and it is authenticated.
    #[default]
    All,
    /// One of both is enough.
    Any,
}

/// Names with passwords (`access.basic_auth` of the configuration).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BasicAuthConfig {
    /// File with a line `NAME:HASH` for each user. The hash is bcrypt (`htpasswd -B`) or SHA-crypt
    /// (`openssl passwd -6`).
    pub users: PathBuf,
    /// Name of the protected part, which browsers show. Default `restricted`.
    #[serde(default = "restricted")]
    pub realm: String,
}

fn restricted() -> String {
    "restricted".to_owned()
}

/// A server that is asked about each request (`access.forward_auth` of the configuration).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardAuthConfig {
    /// URL that is asked with GET. It gets the fields of the request, `X-Forwarded-Method` and
    /// `X-Forwarded-Uri`. Status 200 to 299 lets the request pass; any other response goes to the client.
    pub url: String,
    /// Fields of that response that the upstream gets with the request. A client's own fields of these
    /// names are dropped. Default: none.
    #[serde(default)]
    pub copy_headers: Vec<String>,
    /// Time to the head of that response. Default `5s`.
    #[serde(default = "five_seconds", with = "hikyaku_units::duration")]
    pub timeout: Duration,
}

const fn five_seconds() -> Duration {
    Duration::from_secs(5)
}

/// Requests that a client may make in a time (`access.rate_limit` of the configuration).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimitConfig {
    /// Requests in `per`, at least 1.
    pub requests: NonZeroU32,
    /// The time. Default `1s`.
    #[serde(default = "one_second", with = "hikyaku_units::duration")]
    pub per: Duration,
    /// Requests that may come at once after a pause, at least 1. Default: as `requests`.
    pub burst: Option<NonZeroU32>,
    /// The mark of a client: `address`, or `header:NAME`. Default `address`.
    #[serde(default)]
    pub by: RateKey,
}

const fn one_second() -> Duration {
    Duration::from_secs(1)
}

/// The mark by which requests are of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RateKey {
    /// Its IPv4 address, or the /64 of its IPv6 address.
    #[default]
    Address,
    /// The value of a field, such as an API key. A request without the field goes by its address.
    Header(HeaderName),
}

/// A text that is no [`RateKey`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}`: expected `address`, or `header:NAME` such as `header:X-Api-Key`")]
pub struct ParseRateKeyError(String);

impl FromStr for RateKey {
    type Err = ParseRateKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseRateKeyError(text.to_owned());
        match text.strip_prefix("header:") {
            Some(name) => name.parse().map(Self::Header).map_err(|_| wrong()),
            None if text == "address" => Ok(Self::Address),
            None => Err(wrong()),
        }
    }
}

impl std::fmt::Display for RateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address => f.write_str("address"),
            Self::Header(name) => write!(f, "header:{name}"),
        }
    }
}

serde_as_text!(RateKey);

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn every_key_is_read_and_unknown_ones_are_refused() {
        let text = r#"
            allow = ["192.0.2.0/24", "2001:db8::1"]
            deny = ["192.0.2.9"]
            basic_auth = { users = "/etc/users", realm = "Staging" }
            forward_auth = { url = "http://a/check", copy_headers = ["Remote-User"], timeout = "2s" }
            satisfy = "any"
            rate_limit = { requests = 10, per = "1m", burst = 20, by = "header:X-Api-Key" }
        "#;
        let want = AccessConfig {
            allow: networks(&["192.0.2.0/24", "2001:db8::1"]),
            deny: networks(&["192.0.2.9"]),
            basic_auth: Some(BasicAuthConfig {
                users: "/etc/users".into(),
                realm: "Staging".to_owned(),
            }),
            forward_auth: Some(ForwardAuthConfig {
                url: "http://a/check".to_owned(),
                copy_headers: vec!["Remote-User".to_owned()],
                timeout: Duration::from_secs(2),
            }),
            satisfy: Satisfy::Any,
            rate_limit: Some(RateLimitConfig {
                requests: NonZeroU32::new(10).unwrap(),
                per: Duration::from_secs(60),
                burst: NonZeroU32::new(20),
                by: RateKey::Header(HeaderName::from_static("x-api-key")),
            }),
        };
        assert_eq!(toml::from_str::<AccessConfig>(text).unwrap(), want);
        let short = r#"
            basic_auth = { users = "u" }
            forward_auth = { url = "http://a" }
            rate_limit = { requests = 1 }
        "#;
        let short = toml::from_str::<AccessConfig>(short).unwrap();
        assert_eq!(short.basic_auth.unwrap().realm, "restricted");
        assert_eq!(short.forward_auth.unwrap().timeout, Duration::from_secs(5));
        let rate = short.rate_limit.unwrap();
        assert_eq!(
            (rate.per, rate.burst, rate.by),
            (one_second(), None, RateKey::Address)
        );
        for (text, want) in [
            ("allowed = []", "`allow`"),
            ("allow = [\"10.0.0.1/8\"]", "write 10.0.0.0/8"),
            ("basic_auth = {}", "`users`"),
            (
                "forward_auth = { url = \"http://a\", header = [] }",
                "`copy_headers`",
            ),
            ("satisfy = \"one\"", "`any`"),
            ("rate_limit = { requests = 0 }", "nonzero"),
            (
                "rate_limit = { requests = 1, by = \"cookie:a\" }",
                "`header:NAME`",
            ),
            (
                "rate_limit = { requests = 1, by = \"header:a b\" }",
                "`header:NAME`",
            ),
        ] {
            let error = toml::from_str::<AccessConfig>(text).unwrap_err();
            assert!(error.to_string().contains(want), "{error}");
        }
    }
}
