//! Settings of the upstreams of a group.

use std::fmt;

use hikyaku_units::one_or_many;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// One upstream or several, which answer the same requests: a URL, a table with a URL, or a list of both.
///
/// At least one of them is no backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamsConfig(Vec<UpstreamConfig>);

/// An upstream of a group: its URL, or a table such as `{ url = "http://10.0.0.1:3000", weight = 3 }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Its URL.
    pub url: String,
    /// Its part of the requests, compared with the other upstreams; 1 to 1000. Default 1.
    pub weight: u16,
    /// Whether it is asked only when no other upstream that is no backup can be used. Default `false`.
    pub backup: bool,
}

impl UpstreamsConfig {
    /// The upstreams in their order, as they were given.
    pub fn as_slice(&self) -> &[UpstreamConfig] {
        &self.0
    }

    /// Their URLs.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|upstream| &*upstream.url)
    }
}

impl From<&str> for UpstreamConfig {
    fn from(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            weight: 1,
            backup: false,
        }
    }
}

impl From<Vec<String>> for UpstreamsConfig {
    fn from(urls: Vec<String>) -> Self {
        Self(urls.iter().map(|url| url.as_str().into()).collect())
    }
}

impl From<&str> for UpstreamsConfig {
    fn from(url: &str) -> Self {
        Self(vec![url.into()])
    }
}

impl fmt::Display for UpstreamsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<_> = self.urls().collect();
        f.write_str(&urls.join(", "))
    }
}

impl<'de> Deserialize<'de> for UpstreamsConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let upstreams: Vec<UpstreamConfig> = one_or_many(from)?;
        if upstreams.is_empty() {
            return Err(D::Error::custom("the list of upstreams is empty"));
        }
        if upstreams.iter().all(|upstream| upstream.backup) {
            return Err(D::Error::custom(
                "all upstreams are backups: at least one has to be without `backup = true`",
            ));
        }
        Ok(Self(upstreams))
    }
}

impl<'de> Deserialize<'de> for UpstreamConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UrlOrTable)
    }
}

/// The keys of an upstream.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    url: String,
    #[serde(default = "usual_weight", deserialize_with = "weight")]
    weight: u16,
    #[serde(default)]
    backup: bool,
}

const fn usual_weight() -> u16 {
    1
}

fn weight<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    let weight = i64::deserialize(from)?;
    let fitting = u16::try_from(weight)
        .ok()
        .filter(|weight| (1..=1000).contains(weight));
    fitting.ok_or_else(|| D::Error::custom(format!("`weight` is {weight}: choose 1 to 1000")))
}

struct UrlOrTable;

impl<'de> Visitor<'de> for UrlOrTable {
    type Value = UpstreamConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a URL, or a table with `url`, `weight` and `backup`")
    }

    fn visit_str<E: Error>(self, url: &str) -> Result<UpstreamConfig, E> {
        Ok(url.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<UpstreamConfig, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(table))?;
        Ok(UpstreamConfig {
            url: table.url,
            weight: table.weight,
            backup: table.backup,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Keys {
        upstream: UpstreamsConfig,
    }

    fn read(text: &str) -> Result<UpstreamsConfig, toml::de::Error> {
        toml::from_str::<Keys>(text).map(|keys| keys.upstream)
    }

    #[test]
    fn urls_tables_and_lists_are_read() {
        let upstream = |url: &str, weight, backup| UpstreamConfig {
            url: url.to_owned(),
            weight,
            backup,
        };
        let [a, b] = ["http://a", "http://b"];
        let cases = [
            ("\"http://a\"", vec![upstream(a, 1, false)]),
            (
                "[\"http://a\", \"http://b\"]",
                vec![upstream(a, 1, false), upstream(b, 1, false)],
            ),
            (
                "{ url = \"http://a\", weight = 3 }",
                vec![upstream(a, 3, false)],
            ),
            (
                "[{ url = \"http://a\", weight = 1000 }, { url = \"http://b\", backup = true }]",
                vec![upstream(a, 1000, false), upstream(b, 1, true)],
            ),
            (
                "[\"http://a\", { url = \"http://b\", weight = 2, backup = true }]",
                vec![upstream(a, 1, false), upstream(b, 2, true)],
            ),
        ];
        for (text, want) in cases {
            let got = read(&format!("upstream = {text}")).unwrap();
            assert_eq!(got.as_slice(), want, "{text}");
        }
        let two = read("upstream = [\"http://a\", { url = \"http://b\" }]").unwrap();
        assert_eq!(two.to_string(), "http://a, http://b");
    }

    #[test]
    fn unusable_groups_are_refused() {
        let cases = [
            ("[]", "the list of upstreams is empty"),
            ("80", "a text or a list of texts"),
            ("[80]", "a URL, or a table"),
            ("[{ weight = 2 }]", "missing field `url`"),
            (
                "[{ url = \"http://a\", wight = 2 }]",
                "unknown field `wight`",
            ),
            (
                "[{ url = \"http://a\", weight = 0 }]",
                "`weight` is 0: choose 1 to 1000",
            ),
            (
                "[{ url = \"http://a\", weight = 1001 }]",
                "`weight` is 1001: choose 1 to 1000",
            ),
            (
                "[{ url = \"http://a\", weight = -1 }]",
                "`weight` is -1: choose 1 to 1000",
            ),
            (
                "{ url = \"http://a\", backup = true }",
                "all upstreams are backups",
            ),
        ];
        for (text, want) in cases {
            let error = read(&format!("upstream = {text}")).unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
