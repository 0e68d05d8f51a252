//! Texts with variables, such as the target of a redirect.

use regex::Captures;

use super::path::is_plain;
use super::pattern::Matched;
use super::pieces::{Piece, pieces};
use crate::Scheme;

/// A part of a URL with variables: `$scheme`, `$host`, `$path`, `$query`, `$rest`, and the groups of a
/// regular expression, `$1` or `$name`. `${name}` sets a name off from letters after it, and `$$` is a dollar sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Scheme,
    Host,
    Path,
    Query,
    Rest,
    /// The text that the group of this name or number has captured.
    Group(String),
}

/// The values of variables.
pub(super) struct Values<'a> {
    /// The scheme that was asked for.
    pub(super) scheme: Scheme,
    /// The host that was asked for, with its port if it has one.
    pub(super) host: &'a str,
    /// The path in its normal form.
    pub(super) path: &'a str,
    /// The query without its question mark.
    pub(super) query: Option<&'a str>,
    /// The rest after the prefix of the route, without its first slash.
    pub(super) rest: &'a str,
    pub(super) groups: Option<&'a Captures<'a>>,
}

impl<'a> Values<'a> {
    /// The values that a path and its pattern alone give.
    pub(super) fn of_path(path: &'a str, matched: Option<&'a Matched<'a>>) -> Self {
        let (rest, groups) = match matched {
            Some(Matched::Rest(rest)) => (*rest, None),
            Some(Matched::Groups(groups)) => ("", Some(groups)),
            None => ("", None),
        };
        Self {
            scheme: Scheme::default(),
            host: "",
            path,
            query: None,
            rest,
            groups,
        }
    }
}

impl Template {
    /// Whether it has variables whose values the path does not give.
    pub(super) fn needs_request(&self) -> bool {
        let is_of_request = |part: &Part| matches!(part, Part::Scheme | Part::Host | Part::Query);
        self.0.iter().any(is_of_request)
    }

    /// Reads a text in which the groups of `regex` may be variables.
    ///
    /// # Errors
    /// If the text names a variable that is not there; the error is a sentence.
    pub(super) fn parse(text: &str, regex: Option<&regex::Regex>) -> Result<Self, String> {
        let mut parts = Vec::new();
        for piece in pieces(text)? {
            match piece {
                Piece::Text(text) => push_text(&mut parts, text),
                Piece::Variable(name) => {
                    let part = Part::of(name, regex).ok_or_else(|| unknown(text, name))?;
                    parts.push(part);
                }
            }
        }
        match parts.iter().find_map(Part::foreign_to_urls) {
            Some(char) => Err(format!(
                "`{text}` has `{char}`, which no URL has: write it percent-encoded"
            )),
            None => Ok(Self(parts)),
        }
    }

    /// The text with the values in place of the variables.
    pub(super) fn expand(&self, values: &Values<'_>) -> String {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Scheme => text.push_str(values.scheme.name()),
                Part::Host => text.push_str(values.host),
                Part::Path => text.push_str(values.path),
                Part::Query => {
                    if let Some(query) = values.query {
                        text.extend(["?", query]);
                    }
                }
                Part::Rest => text.extend(["/", values.rest]),
                Part::Group(name) => {
                    let group = values.groups.and_then(|groups| match name.parse() {
                        Ok(number) => groups.get(number),
                        Err(_) => groups.name(name),
                    });
                    text.push_str(group.map_or("", |group| group.as_str()));
                }
            }
        }
        text
    }
}

impl Part {
    fn of(name: &str, regex: Option<&regex::Regex>) -> Option<Self> {
        Some(match name {
            "scheme" => Self::Scheme,
            "host" => Self::Host,
            "path" => Self::Path,
            "query" => Self::Query,
            "rest" if regex.is_none() => Self::Rest,
            name => {
                let regex = regex?;
                let is_group = match name.parse::<usize>() {
                    Ok(number) => number < regex.captures_len(),
                    Err(_) => regex.capture_names().flatten().any(|known| known == name),
                };
                is_group.then(|| Self::Group(name.to_owned()))?
            }
        })
    }
}

impl Part {
    /// The first character of a text that a URL can't have (RFC 3986 §2).
    fn foreign_to_urls(&self) -> Option<char> {
        let Self::Text(text) = self else {
            return None;
        };
        let is_of_urls = |char: char| {
            let byte = u8::try_from(char);
            byte.is_ok_and(|byte| is_plain(byte) || b"/?#[]%".contains(&byte))
        };
        text.chars().find(|&char| !is_of_urls(char))
    }
}

fn push_text(parts: &mut Vec<Part>, more: &str) {
    match parts.last_mut() {
        Some(Part::Text(text)) => text.push_str(more),
        _ => parts.push(Part::Text(more.to_owned())),
    }
}

fn unknown(text: &str, name: &str) -> String {
    format!(
        "`{text}` names the variable `{name}`: there are $scheme, $host, $path, $query and, with `path`, \
         $rest, or with `regex` its groups"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_get_their_values() {
        let regex = regex::Regex::new("^/old/([^/]*)/(?<name>.*)$").unwrap();
        let path = "/old/2026/a%20b";
        let groups = regex.captures(path).unwrap();
        let values = Values {
            scheme: Scheme::Http,
            host: "example.org:8443",
            path,
            query: Some("q=1"),
            rest: "2026/a%20b",
            groups: Some(&groups),
        };
        let cases = [
            (
                "https://$host$path$query",
                "https://example.org:8443/old/2026/a%20b?q=1",
            ),
            ("$scheme://b", "http://b"),
            ("/$1-$name", "/2026-a%20b"),
            ("/$1x${name}y", "/2026xa%20by"),
            ("/$2", "/a%20b"),
            ("/$$1", "/$1"),
            ("$0", path),
            ("", ""),
        ];
        for (text, want) in cases {
            let template = Template::parse(text, Some(&regex)).unwrap();
            assert_eq!(template.expand(&values), want, "{text}");
        }
        let without = Values {
            query: None,
            ..values
        };
        for (text, want) in [("$path$query", path), ("/new$rest", "/new/2026/a%20b")] {
            let template = Template::parse(text, None).unwrap();
            assert_eq!(template.expand(&without), want, "{text}");
        }
    }

    #[test]
    fn a_variable_that_is_not_there_is_refused() {
        let regex = regex::Regex::new("^/(a)").unwrap();
        let texts = [
            "/$2", "/$name", "/$rest", "/$", "/a b", "/straße", "/a\r\nb", "/\"",
        ];
        for text in texts {
            let error = Template::parse(text, Some(&regex)).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        assert!(Template::parse("/$1", None).is_err());
    }
}
