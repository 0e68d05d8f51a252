//! Which paths a route is for.

use globset::GlobMatcher;
use regex::{Captures, Regex};

use super::path::{self, ENCODED_SLASH};
use crate::globs::path_glob;

/// A pattern for paths in their normal form.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// This path and all below it; with a slash at its end those below alone.
    Prefix(String),
    Glob(GlobMatcher),
    Regex(Regex),
}

/// The part of a path that a pattern leaves open.
#[derive(Debug)]
pub(super) enum Matched<'a> {
    /// The rest after the prefix, without its first slash.
    Rest(&'a str),
    Groups(Captures<'a>),
}

impl Pattern {
    /// Reads a prefix, such as `/api`, or a glob, such as `*.php` or `/img/**`.
    ///
    /// # Errors
    /// If the text is neither; the error is a sentence.
    pub(super) fn of_path(text: &str) -> Result<Self, String> {
        if text.contains(['*', '?', '[', '{']) {
            let glob = path_glob(text, false).map_err(|error| format!("`{text}`: {error}"))?;
            return Ok(Self::Glob(glob.compile_matcher()));
        }
        if !text.starts_with('/') {
            return Err(format!(
                "`{text}` is neither a path that begins with a slash nor a glob such as `*.{text}`"
            ));
        }
        match path::normal(text) {
            Ok(prefix) => Ok(Self::Prefix(prefix.into_owned())),
            Err(_) => Err(format!("`{text}` has a segment `.` or `..`")),
        }
    }

    /// Reads a regular expression.
    ///
    /// # Errors
    /// If it is malformed or too large.
    pub(super) fn of_regex(text: &str) -> Result<Self, String> {
        let regex = Regex::new(text).map_err(|error| error.to_string())?;
        Ok(Self::Regex(regex))
    }

    pub(super) const fn regex(&self) -> Option<&Regex> {
        match self {
            Self::Regex(regex) => Some(regex),
            _ => None,
        }
    }

    /// The length of a prefix, by which the longest one is found.
    pub(super) fn prefix_len(&self) -> Option<usize> {
        match self {
            Self::Prefix(prefix) => Some(prefix.len()),
            _ => None,
        }
    }

    pub(super) fn matches<'a>(&self, path: &'a str) -> Option<Matched<'a>> {
        match self {
            Self::Prefix(prefix) => rest(path, prefix).map(Matched::Rest),
            Self::Glob(glob) => {
                let path = path.strip_prefix('/')?;
                glob.is_match(path).then_some(Matched::Rest(path))
            }
            Self::Regex(regex) => regex.captures(path).map(Matched::Groups),
        }
    }
}

/// Returns the rest after a prefix that ends with a whole segment of the path. An upstream may take an encoded
/// slash for the end of a segment, so that a route must hold there, too.
fn rest<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(prefix)?;
    if let Some(rest) = rest.strip_prefix('/') {
        return Some(rest);
    }
    let is_whole = prefix.ends_with('/') || rest.is_empty() || rest.starts_with(ENCODED_SLASH);
    is_whole.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest_of(pattern: &str, path: &str) -> Option<String> {
        match Pattern::of_path(pattern).unwrap().matches(path)? {
            Matched::Rest(rest) => Some(rest.to_owned()),
            Matched::Groups(_) => None,
        }
    }

    #[test]
    fn prefixes_match_whole_segments() {
        let cases = [
            ("/", "/", Some("")),
            ("/", "/a/b", Some("a/b")),
            ("/api", "/api", Some("")),
            ("/api", "/api/", Some("")),
            ("/api", "/api/v1/x", Some("v1/x")),
            ("/api", "/apix", None),
            ("/api", "/api%2Fx", Some("%2Fx")),
            ("/api", "/Api", None),
            ("/api/", "/api", None),
            ("/api/", "/api/x", Some("x")),
            ("/a b", "/a%20b/c", Some("c")),
            ("//a", "/a", Some("")),
            ("/api", "*", None),
            ("/api", "", None),
        ];
        for (pattern, path, want) in cases {
            assert_eq!(rest_of(pattern, path).as_deref(), want, "{pattern} {path}");
        }
    }

    #[test]
    fn globs_match_names_or_whole_paths() {
        let cases = [
            ("*.php", "/a/b/c.php", true),
            ("*.php", "/c.php/d", false),
            ("/img/*", "/img/a.png", true),
            ("/img/*", "/img/a/b.png", false),
            ("/img/**", "/img/a/b.png", true),
            ("*.{css,js}", "/x/a.js", true),
            ("*.php", "*", false),
        ];
        for (pattern, path, want) in cases {
            assert_eq!(rest_of(pattern, path).is_some(), want, "{pattern} {path}");
        }
    }

    #[test]
    fn expressions_may_ignore_case() {
        let pattern = Pattern::of_regex(r"(?i)\.(css|png)$").unwrap();
        for (path, want) in [("/A.CSS", true), ("/a.Png", true), ("/a.js", false)] {
            assert_eq!(pattern.matches(path).is_some(), want, "{path}");
        }
    }

    #[test]
    fn wrong_patterns_are_refused() {
        for text in ["api", "", "a[", "/a/../b"] {
            let error = Pattern::of_path(text).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        assert!(Pattern::of_regex("(").is_err());
    }
}
