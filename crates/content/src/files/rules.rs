//! Headers that follow from a file's name: media type and `Cache-Control`.

use std::collections::BTreeMap;
use std::path::Path;

use globset::{GlobSet, GlobSetBuilder};
use http::HeaderValue;

use super::FilesError;
use super::config::{CacheRule, FilesConfig};
use super::media_type;
use crate::globs::path_glob;

/// Media types by extension: those of the configuration, and then the built-in ones.
#[derive(Debug)]
pub(crate) struct MediaTypes(BTreeMap<String, HeaderValue>);

impl MediaTypes {
    /// Reads the types of a configuration (`files.types`).
    ///
    /// # Errors
    /// If a type can't be a field's value.
    pub(crate) fn new(types: &BTreeMap<String, String>) -> Result<Self, FilesError> {
        let types = types.iter().map(|(extension, value)| {
            let extension = extension.trim_start_matches('.').to_ascii_lowercase();
            Ok((extension, header_value("types", value)?))
        });
        Ok(Self(types.collect::<Result<_, FilesError>>()?))
    }

    /// The `Content-Type` of a file by its name. Of the built-in types, text that cannot name its own encoding
    /// counts as UTF-8.
    pub(crate) fn of_path(&self, path: &Path) -> HeaderValue {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let extension = extension.unwrap_or_default().to_ascii_lowercase();
        match self.0.get(&extension) {
            Some(value) => value.clone(),
            None => media_type::content_type(&extension),
        }
    }
}

/// The settings that shape the headers of files.
#[derive(Debug)]
pub(super) struct Rules {
    types: MediaTypes,
    cache_patterns: GlobSet,
    cache_values: Vec<HeaderValue>,
    /// Files up to this many bytes are kept in memory.
    pub(super) small_body: u64,
}

impl Rules {
    pub(super) fn new(config: &FilesConfig) -> Result<Self, FilesError> {
        let small_body = config.small_body.bytes();
        if small_body > MAX_SMALL_BODY {
            return Err(FilesError::SmallBody);
        }
        Ok(Self {
            types: MediaTypes::new(&config.types)?,
            cache_patterns: patterns(&config.cache_control)?,
            cache_values: config
                .cache_control
                .iter()
                .map(|rule| header_value("cache_control", &rule.value))
                .collect::<Result<_, _>>()?,
            small_body,
        })
    }

    /// The media type by the name's extension.
    pub(super) fn content_type(&self, path: &Path) -> HeaderValue {
        self.types.of_path(path)
    }

    /// `Cache-Control` of the first rule that matches.
    pub(super) fn cache_control(&self, path: &Path) -> Option<HeaderValue> {
        let first = self.cache_patterns.matches(path).into_iter().min()?;
        self.cache_values.get(first).cloned()
    }
}

fn patterns(rules: &[CacheRule]) -> Result<GlobSet, FilesError> {
    let mut set = GlobSetBuilder::new();
    for CacheRule { pattern, .. } in rules {
        let glob = path_glob(pattern, false);
        set.add(glob.map_err(|source| FilesError::pattern(pattern, source))?);
    }
    set.build()
        .map_err(|source| FilesError::pattern("*", source))
}

fn header_value(key: &'static str, value: &str) -> Result<HeaderValue, FilesError> {
    HeaderValue::from_str(value).map_err(|source| FilesError::HeaderValue {
        key,
        value: value.to_owned(),
        source,
    })
}

const MAX_SMALL_BODY: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(config: &FilesConfig) -> Result<Rules, FilesError> {
        Rules::new(config)
    }

    #[test]
    fn types_follow_the_extension() {
        let types = BTreeMap::from([
            ("geojson".to_owned(), "application/geo+json".to_owned()),
            (
                ".HTML".to_owned(),
                "text/html; charset=shift_jis".to_owned(),
            ),
        ]);
        let rules = rules(&FilesConfig {
            types,
            ..FilesConfig::default()
        })
        .unwrap();
        let cases = [
            ("a.css", "text/css"),
            ("a.CSS", "text/css"),
            ("a.htm", "text/html"),
            ("a.ts", "video/mp2t"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.wasm", "application/wasm"),
            ("a.svg", "image/svg+xml"),
            ("a.avif", "image/avif"),
            ("a.woff2", "font/woff2"),
            ("a.mp4", "video/mp4"),
            ("d/a.geojson", "application/geo+json"),
            ("a.html", "text/html; charset=shift_jis"),
            ("a.unknown", "application/octet-stream"),
            ("css", "application/octet-stream"),
            ("a.tar.gz", "application/gzip"),
        ];
        for (name, want) in cases {
            assert_eq!(rules.content_type(Path::new(name)), want, "{name}");
        }
    }

    #[test]
    fn the_first_matching_cache_rule_holds() {
        let rule = |pattern: &str, value: &str| CacheRule {
            pattern: pattern.to_owned(),
            value: value.to_owned(),
        };
        let cache_control = vec![
            rule("assets/**", "immutable"),
            rule("*.css", "max-age=60"),
            rule("/top.html", "no-cache"),
            rule("img/*.png", "max-age=5"),
        ];
        let rules = rules(&FilesConfig {
            cache_control,
            ..FilesConfig::default()
        })
        .unwrap();
        let cases = [
            ("a.css", Some("max-age=60")),
            ("deep/er/a.css", Some("max-age=60")),
            ("assets/a.css", Some("immutable")),
            ("assets/deep/x", Some("immutable")),
            ("top.html", Some("no-cache")),
            ("deep/top.html", None),
            ("img/a.png", Some("max-age=5")),
            ("img/deep/a.png", None),
            ("other", None),
        ];
        for (path, want) in cases {
            let got = rules.cache_control(Path::new(path));
            assert_eq!(
                got.as_ref().map(|value| value.to_str().unwrap()),
                want,
                "{path}"
            );
        }
    }

    #[test]
    fn bad_rules_are_refused_by_name() {
        let bad_pattern = CacheRule {
            pattern: "a[".to_owned(),
            value: "x".to_owned(),
        };
        let bad_value = CacheRule {
            pattern: "a".to_owned(),
            value: "x\n".to_owned(),
        };
        for (rule, want) in [(bad_pattern, "`a[`"), (bad_value, "`cache_control`")] {
            let config = FilesConfig {
                cache_control: vec![rule],
                ..FilesConfig::default()
            };
            let error = rules(&config).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
