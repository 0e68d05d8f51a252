//! Settings of a site and its routes.

use std::path::PathBuf;

use hikyaku_units::ByteSize;
use serde::{Deserialize, Deserializer};

use super::fields::HeadersConfig;
use crate::{FilesConfig, ProxyConfig};

/// The content of a site.
#[derive(Clone, Debug, Default)]
pub struct SiteConfig {
    /// Its hosts: names such as `www.example.org`, wildcards such as `*.example.org` for one label, and
    /// addresses. Without any, it is the site of all hosts that no other names.
    pub names: Vec<String>,
    /// Directory whose files are served, and `upstream` is none then.
    pub root: Option<PathBuf>,
    /// URL of the server that requests are passed to.
    pub upstream: Option<String>,
    /// Settings of its files.
    pub files: FilesConfig,
    /// Settings of its reverse proxy.
    pub proxy: ProxyConfig,
    /// Changes of what the upstream gets.
    pub request_headers: HeadersConfig,
    /// Changes of all responses.
    pub response_headers: HeadersConfig,
    /// Parts of the site that are served in another way.
    pub routes: Vec<RouteConfig>,
    /// Size of the header section of an upstream's responses.
    pub header_size: ByteSize,
}

impl SiteConfig {
    /// The site in messages.
    pub(crate) fn place(&self) -> String {
        match self.names.first() {
            Some(name) => format!("the site `{name}`"),
            None => "the site".to_owned(),
        }
    }
}

/// A part of a site by its paths (`[[route]]` of the configuration). Several may be
/// for a path: the first one with a glob or a regular expression is taken, else the longest prefix.
///
/// It has at most one of `root`, `upstream`, `redirect` and `answer`; without any it serves what the
/// site does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RouteConfig {
    /// A path or a list of them: a prefix, such as `/api`, or a glob, such as `*.php` or `/img/**`. A
    /// prefix is for the path itself and all below it; `/api/` is for those below alone.
    #[serde(deserialize_with = "one_or_many")]
    pub path: Vec<String>,
    /// Regular expression in place of `path`, such as `^/user/(?<name>[^/]+)$`. It sees the path in its
    /// normal form (RFC 3986 §6.2.2), in which a space is `%20`.
    pub regex: Option<String>,
    /// Directory whose files are served.
    pub root: Option<PathBuf>,
    /// URL of the server that requests are passed to.
    pub upstream: Option<String>,
    /// Another address, to which the client is sent.
    pub redirect: Option<RedirectConfig>,
    /// The response itself.
    pub answer: Option<AnswerConfig>,
    /// Whether the files, or the upstream, see the path without the prefix. Default `false`.
    pub strip_prefix: bool,
    /// The path that the files, or the upstream, see in place of the client's. Default: none.
    pub rewrite: Option<String>,
    /// Changes of what the upstream gets, besides the site's.
    pub request_headers: HeadersConfig,
    /// Changes of the responses, besides the site's.
    pub response_headers: HeadersConfig,
    /// Settings of files. Default: the site's.
    pub files: Option<FilesConfig>,
    /// Settings of the reverse proxy. Default: the site's.
    pub proxy: Option<ProxyConfig>,
}

/// An address to which clients are sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedirectConfig {
    /// The address, with variables: `$host`, `$path`, `$query`, `$rest` and the groups of `regex`.
    pub to: String,
    /// 301, 302, 303, 307 or 308 (RFC 9110 §15.4). Default 302.
    #[serde(default = "found")]
    pub status: u16,
}

const fn found() -> u16 {
    302
}

/// A response without files or an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerConfig {
    /// 200 to 599.
    pub status: u16,
    /// The content. Default: the status in words.
    pub body: Option<String>,
    /// Media type of `body`. Default `text/plain; charset=utf-8`.
    #[serde(default = "plain_text")]
    pub media_type: String,
}

fn plain_text() -> String {
    "text/plain; charset=utf-8".to_owned()
}

/// Reads a string as a list of one.
fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a path or a list of paths")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(from)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_and_unknown_ones_are_refused() {
        let text = r#"
            path = ["/api", "*.php"]
            regex = "^/x$"
            root = "/srv"
            upstream = "http://a"
            redirect = { to = "https://b$path", status = 308 }
            answer = { status = 503, body = "{}", media_type = "application/json" }
            strip_prefix = true
            rewrite = "/new$rest"
            request_headers = { set = { a = "1" } }
            response_headers = { add = { b = "2" }, remove = ["c"] }
            files = { listing = true }
            proxy = { insecure = true }
        "#;
        let fields = |text: &str| toml::from_str::<HeadersConfig>(text).unwrap();
        let want = RouteConfig {
            path: vec!["/api".to_owned(), "*.php".to_owned()],
            regex: Some("^/x$".to_owned()),
            root: Some(PathBuf::from("/srv")),
            upstream: Some("http://a".to_owned()),
            redirect: Some(RedirectConfig {
                to: "https://b$path".to_owned(),
                status: 308,
            }),
            answer: Some(AnswerConfig {
                status: 503,
                body: Some("{}".to_owned()),
                media_type: "application/json".to_owned(),
            }),
            strip_prefix: true,
            rewrite: Some("/new$rest".to_owned()),
            request_headers: fields("set = { a = \"1\" }"),
            response_headers: fields("add = { b = \"2\" }\nremove = [\"c\"]"),
            files: Some(FilesConfig {
                listing: true,
                ..FilesConfig::default()
            }),
            proxy: Some(ProxyConfig {
                insecure: true,
                ..ProxyConfig::default()
            }),
        };
        assert_eq!(toml::from_str::<RouteConfig>(text).unwrap(), want);
        let short = r#"
            path = "/old"
            redirect = { to = "/new" }
            answer = { status = 200 }
        "#;
        let want = RouteConfig {
            path: vec!["/old".to_owned()],
            redirect: Some(RedirectConfig {
                to: "/new".to_owned(),
                status: 302,
            }),
            answer: Some(AnswerConfig {
                status: 200,
                body: None,
                media_type: "text/plain; charset=utf-8".to_owned(),
            }),
            ..RouteConfig::default()
        };
        assert_eq!(toml::from_str::<RouteConfig>(short).unwrap(), want);
        for (text, want) in [
            ("paths = []", "`path`"),
            ("path = 1", "a path or a list of paths"),
            ("redirect = { to = \"/\", code = 301 }", "`status`"),
            ("answer = { body = \"x\" }", "`status`"),
        ] {
            let error = toml::from_str::<RouteConfig>(text).unwrap_err();
            assert!(error.to_string().contains(want), "{error}");
        }
    }
}
