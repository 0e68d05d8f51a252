//! Memory of advertised alternatives: the fresh and the broken ones.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::parse::{AltSvc, Alternative};

/// The host and port of an origin's HTTP/3 service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Authority {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Alternatives over HTTP/3 by origin. Times are of the wall clock, since the cache may outlive the
/// process.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cache {
    alternatives: BTreeMap<String, Vec<Fresh>>,
    broken: Vec<Broken>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fresh {
    authority: Authority,
    /// Expiry in seconds since 1970.
    expires: u64,
}

/// An alternative that failed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Broken {
    authority: Authority,
    /// End of the ban in seconds since 1970.
    until: u64,
    /// Failures in a row.
    failures: u32,
}

/// First ban, as in Chromium: 300 s after the first failure, then doubling up to two days.
const FIRST_BROKEN: u64 = 300;
const LONGEST_BROKEN: u64 = 2 * 24 * 3600;

impl Cache {
    /// Stores the alternatives that `origin`, whose host is `host`, advertised. They replace those
    /// of an earlier advertisement (RFC 7838 §3.1). Alternatives that are not HTTP/3 are ignored.
    pub(crate) fn store(&mut self, now: SystemTime, origin: &str, host: &str, value: &AltSvc) {
        let alternatives = match value {
            AltSvc::Clear => &[][..],
            AltSvc::Alternatives(all) => all,
        };
        let fresh: Vec<Fresh> = alternatives
            .iter()
            .filter(|alternative| is_http3(alternative) && !alternative.ma.is_zero())
            .map(|alternative| Fresh {
                authority: authority(alternative, host),
                expires: seconds(now) + alternative.ma.as_secs(),
            })
            .collect();
        if fresh.is_empty() {
            self.alternatives.remove(origin);
        } else {
            self.alternatives.insert(origin.to_owned(), fresh);
        }
    }

    /// Returns the alternative to use for `origin`, if a fresh one is not broken.
    pub(crate) fn lookup(&self, now: SystemTime, origin: &str) -> Option<&Authority> {
        let now = seconds(now);
        self.alternatives
            .get(origin)?
            .iter()
            .filter(|fresh| fresh.expires > now)
            .map(|fresh| &fresh.authority)
            .find(|authority| {
                let broken = self.broken.iter().find(|b| b.authority == **authority);
                broken.is_none_or(|broken| broken.until <= now)
            })
    }

    /// Counts a failure: a connection to `authority` failed or died.
    pub(crate) fn failed(&mut self, now: SystemTime, authority: &Authority) {
        let known = self.broken.iter().position(|b| b.authority == *authority);
        let index = known.unwrap_or_else(|| {
            self.broken.push(Broken {
                authority: authority.clone(),
                until: 0,
                failures: 0,
            });
            self.broken.len() - 1
        });
        let broken = &mut self.broken[index];
        let doublings = broken.failures.min(16);
        broken.failures = broken.failures.saturating_add(1);
        broken.until = seconds(now) + (FIRST_BROKEN << doublings).min(LONGEST_BROKEN);
    }

    /// Forgets earlier failures of `authority`, since a connection to it works.
    pub(crate) fn works(&mut self, authority: &Authority) {
        self.broken.retain(|broken| broken.authority != *authority);
    }
}

pub(crate) fn is_http3(alternative: &Alternative) -> bool {
    alternative.protocol == b"h3"
}

fn authority(alternative: &Alternative, host: &str) -> Authority {
    let host = if alternative.host.is_empty() {
        host
    } else {
        &alternative.host
    };
    Authority {
        host: host.to_owned(),
        port: alternative.port,
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}

impl Cache {
    /// Reads a cache; a missing file is an empty cache.
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(json) => Ok(serde_json::from_slice(&json)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes the cache atomically.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".new");
        fs::write(&temporary, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&temporary, path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    const ORIGIN: &str = "https://a.test:443";

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    fn advertise(cache: &mut Cache, now: u64, value: &str) {
        cache.store(at(now), ORIGIN, "a.test", &parse(value).unwrap());
    }

    fn lookup(cache: &Cache, now: u64) -> Option<String> {
        let found = cache.lookup(at(now), ORIGIN)?;
        Some(format!("{}:{}", found.host, found.port))
    }

    #[test]
    fn the_last_advertisement_counts_while_it_is_fresh() {
        // name, [(advertised at, value)], asked at, alternative
        type Case = (
            &'static str,
            &'static [(u64, &'static str)],
            u64,
            Option<&'static str>,
        );
        let cases: &[Case] = &[
            ("nothing", &[], 0, None),
            (
                "same host",
                &[(0, r#"h3=":443"; ma=60"#)],
                59,
                Some("a.test:443"),
            ),
            ("expired", &[(0, r#"h3=":443"; ma=60"#)], 60, None),
            (
                "other host",
                &[(0, r#"h3="b.test:99""#)],
                1,
                Some("b.test:99"),
            ),
            (
                "renewed",
                &[(0, r#"h3=":443"; ma=60"#), (50, r#"h3=":443"; ma=60"#)],
                100,
                Some("a.test:443"),
            ),
            ("cleared", &[(0, r#"h3=":443""#), (1, "clear")], 2, None),
            (
                "replaced",
                &[(0, r#"h3=":443""#), (1, r#"h3=":444""#)],
                2,
                Some("a.test:444"),
            ),
            (
                "no lifetime",
                &[(0, r#"h3=":443""#), (1, r#"h3=":443"; ma=0"#)],
                2,
                None,
            ),
            ("not HTTP/3", &[(0, r#"h2=":443", h3-29=":443""#)], 1, None),
            (
                "the first of two",
                &[(0, r#"h2=":1", h3=":2", h3=":3""#)],
                1,
                Some("a.test:2"),
            ),
            (
                "second while first expired",
                &[(0, r#"h3=":2"; ma=5, h3=":3"; ma=9"#)],
                7,
                Some("a.test:3"),
            ),
        ];
        for (name, advertised, now, want) in cases {
            let mut cache = Cache::default();
            for (at, value) in *advertised {
                advertise(&mut cache, *at, value);
            }
            assert_eq!(lookup(&cache, *now).as_deref(), *want, "{name}");
        }
    }

    #[test]
    fn a_broken_alternative_is_left_alone_for_longer_and_longer() {
        let mut cache = Cache::default();
        advertise(&mut cache, 0, r#"h3=":443""#);
        let broken = Authority {
            host: "a.test".to_owned(),
            port: 443,
        };
        let mut now = 0;
        for want in [300, 600, 1200, 2400] {
            cache.failed(at(now), &broken);
            assert_eq!(lookup(&cache, now + want - 1), None, "{want}");
            assert!(lookup(&cache, now + want).is_some(), "{want}");
            now += want;
        }
        for _ in 0..40 {
            cache.failed(at(0), &broken);
        }
        assert_eq!(cache.broken[0].until, seconds(at(LONGEST_BROKEN)));
        cache.works(&broken);
        assert!(lookup(&cache, 1).is_some());
        cache.failed(at(0), &broken);
        assert_eq!(cache.broken[0].until, seconds(at(FIRST_BROKEN)));
    }

    #[test]
    fn a_broken_first_choice_gives_way_to_the_second() {
        let mut cache = Cache::default();
        advertise(&mut cache, 0, r#"h3=":1", h3=":2""#);
        let first = cache.lookup(at(1), ORIGIN).unwrap().clone();
        cache.failed(at(1), &first);
        assert_eq!(lookup(&cache, 2).as_deref(), Some("a.test:2"));
    }

    #[test]
    fn survives_in_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("alt-svc.json");
        assert_eq!(Cache::load(&path).unwrap(), Cache::default());
        let mut cache = Cache::default();
        advertise(&mut cache, 0, r#"h3=":1"; ma=60, h3="b.test:2"; ma=60"#);
        let first = cache.lookup(at(1), ORIGIN).unwrap().clone();
        cache.failed(at(1), &first);
        cache.save(&path).unwrap();
        assert_eq!(Cache::load(&path).unwrap(), cache);
        fs::write(&path, "{\"alternatives\": [").unwrap();
        assert!(Cache::load(&path).is_err());
    }
}
