//! Settings of the cache.

use std::path::PathBuf;
use std::time::Duration;

use hikyaku_units::ByteSize;
use serde::Deserialize;

/// Settings of the cache of upstreams' responses (`[cache]` of the configuration).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheConfig {
    /// Whether responses of upstreams are stored and reused (RFC 9111). Default `false`.
    pub enabled: bool,
    /// Memory for the responses of one site, which its routes share. Default `256MiB`.
    pub memory: ByteSize,
    /// Directory for responses, which are found there after a restart. Each site has its own below it. Only
    /// one process may have it. Default: none, they are kept in memory alone.
    pub dir: Option<PathBuf>,
    /// Bytes of the files of one site there. Default `10GiB`.
    pub disk: ByteSize,
    /// Content of a response that is stored; larger ones pass. At most `memory`, and the same for all
    /// routes of a site. Default `8MiB`.
    pub object_size: ByteSize,
    /// Time for which a response that does not say so is fresh. 0 leaves that to `heuristic`.
    /// Default `0s`.
    #[serde(with = "hikyaku_units::duration")]
    pub default_ttl: Duration,
    /// Whether other responses without such a time are fresh for a tenth of their age by `Last-Modified`,
    /// and for a day at most (RFC 9111 §4.2.2). Default `true`.
    pub heuristic: bool,
    /// Time for which a stale response is served while the upstream is asked in the background
    /// (RFC 5861 §3), where the response does not say. Default `0s`.
    #[serde(with = "hikyaku_units::duration")]
    pub stale_while_revalidate: Duration,
    /// Time for which a stale response is served in place of an upstream's error (RFC 5861 §4), where
    /// the response does not say. Default `0s`.
    #[serde(with = "hikyaku_units::duration")]
    pub stale_if_error: Duration,
    /// Parameters of the query that make no other response, such as `fbclid` or `utm_*`. All routes of
    /// a site share them. Default `[]`.
    pub ignore_query: Vec<String>,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            memory: ByteSize::from_mib(256),
            dir: None,
            disk: ByteSize::from_mib(10 << 10),
            object_size: ByteSize::from_mib(8),
            default_ttl: Duration::ZERO,
            heuristic: true,
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            ignore_query: Vec::new(),
        }
    }
}

impl CacheConfig {
    /// Whether these settings are for the same stored responses.
    pub(super) fn has_store_of(&self, other: &Self) -> bool {
        let sizes = |of: &Self| (of.memory, of.disk, of.object_size);
        sizes(self) == sizes(other)
            && self.dir == other.dir
            && self.ignore_query == other.ignore_query
    }

    /// Returns the fault as a sentence. `site` are the settings of the route's site.
    pub(crate) fn fault(&self, site: &Self) -> Option<&'static str> {
        if !self.has_store_of(site) {
            return Some(
                "`cache.memory`, `cache.dir`, `cache.disk`, `cache.object_size` and \
                 `cache.ignore_query` are the site's, whose routes share one cache: set them there",
            );
        }
        if self.object_size > self.memory {
            return Some("`cache.object_size` is more than `cache.memory`");
        }
        let mut names = self.ignore_query.iter();
        if names.any(|name| name.trim_end_matches('*').contains(['*', '&', '=']) || name.is_empty())
        {
            return Some(
                "`cache.ignore_query` has a name that is no parameter's: expected one such as \
                 `fbclid`, or a beginning such as `utm_*`",
            );
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_and_unknown_ones_are_refused() {
        let text = r#"
            enabled = true
            memory = "1GiB"
            dir = "/var/cache/hikyaku"
            disk = "1TiB"
            object_size = "64MiB"
            default_ttl = "1m"
            heuristic = false
            stale_while_revalidate = "10s"
            stale_if_error = "1h"
            ignore_query = ["fbclid", "utm_*"]
        "#;
        let want = CacheConfig {
            enabled: true,
            memory: ByteSize::from_mib(1024),
            dir: Some(PathBuf::from("/var/cache/hikyaku")),
            disk: ByteSize::from_mib(1 << 20),
            object_size: ByteSize::from_mib(64),
            default_ttl: Duration::from_secs(60),
            heuristic: false,
            stale_while_revalidate: Duration::from_secs(10),
            stale_if_error: Duration::from_secs(3600),
            ignore_query: vec!["fbclid".to_owned(), "utm_*".to_owned()],
        };
        assert_eq!(toml::from_str::<CacheConfig>(text).unwrap(), want);
        assert_eq!(
            toml::from_str::<CacheConfig>("").unwrap(),
            CacheConfig::default()
        );
        let error = toml::from_str::<CacheConfig>("ttl = \"1s\"").unwrap_err();
        assert!(error.to_string().contains("`default_ttl`"), "{error}");
    }

    #[test]
    fn settings_that_do_not_fit_are_named() {
        let cases = [
            ("", None),
            ("ignore_query = [\"utm_*\"]", Some("are the site's")),
            ("memory = \"1MiB\"", Some("are the site's")),
            ("object_size = \"1KiB\"", Some("are the site's")),
            ("default_ttl = \"1s\"", None),
        ];
        let site = CacheConfig::default();
        for (text, want) in cases {
            let config: CacheConfig = toml::from_str(text).unwrap();
            let got = config.fault(&site);
            assert_eq!(got.is_some(), want.is_some(), "{text}: {got:?}");
            assert!(
                got.unwrap_or_default().contains(want.unwrap_or_default()),
                "{text}"
            );
        }
        let large = CacheConfig {
            object_size: ByteSize::from_mib(257),
            ..CacheConfig::default()
        };
        let why = large.fault(&large).unwrap();
        assert!(why.contains("more than `cache.memory`"), "{why}");
        for name in ["", "a*b", "a=b", "a&b"] {
            let config = CacheConfig {
                ignore_query: vec![name.to_owned()],
                ..CacheConfig::default()
            };
            let why = config.fault(&config).unwrap();
            assert!(why.contains("`cache.ignore_query`"), "{name}");
        }
    }
}
