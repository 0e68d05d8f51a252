//! Settings of a site and its routes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hikyaku_units::ByteSize;
use serde::Deserialize;

use super::fields::HeadersConfig;
use crate::{
    AccessConfig, CacheConfig, Caches, CompressionConfig, Directories, FilesConfig, ProxyConfig,
    Upstreams, UpstreamsConfig,
};

/// The content of a site.
#[derive(Clone, Debug, Default)]
pub struct SiteConfig {
    /// Its hosts: names such as `www.example.org`, wildcards such as `*.example.org` for one label, and
    /// addresses. Without any, it is the site of all hosts that no other names.
    pub names: Vec<String>,
    /// Directory whose files are served, and `upstream` is none then.
    pub root: Option<PathBuf>,
    /// The server that requests are passed to, or those of a group.
    pub upstream: Option<UpstreamsConfig>,
    /// Upstreams that are known from before.
    pub upstreams: Upstreams,
    /// Root directories that are open from before.
    pub directories: Directories,
    /// Settings of its files.
    pub files: FilesConfig,
    /// Settings of its reverse proxy.
    pub proxy: ProxyConfig,
    /// The cache of its upstream's responses.
    pub cache: CacheConfig,
    /// Caches that are known from before.
    pub caches: Caches,
    /// Compression of its responses.
    pub compression: CompressionConfig,
    /// Changes of what the upstream gets.
    pub request_headers: HeadersConfig,
    /// Changes of all responses.
    pub response_headers: HeadersConfig,
    /// Size of a request's body. Default: the server's.
    pub body_size: Option<ByteSize>,
    /// Whether the access log has its requests. Default `true`.
    pub access_log: Option<bool>,
    /// Files in place of errors in words, by status (`404`) or class (`4xx`, `5xx`).
    pub error_pages: BTreeMap<String, PathBuf>,
    /// Who may use it.
    pub access: AccessConfig,
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
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub path: Vec<String>,
    /// Regular expression in place of `path`, such as `^/user/(?<name>[^/]+)$`. It sees the path in its
    /// normal form (RFC 3986 §6.2.2), in which a space is `%20`.
    pub regex: Option<String>,
    /// Directory whose files are served.
    pub root: Option<PathBuf>,
    /// URL of the server that requests are passed to, or a list of those of a group, each a URL or a table with
    /// `url`, `weight` and `backup`.
    pub upstream: Option<UpstreamsConfig>,
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
    /// Size of a request's body, such as `10MiB`. Default: the site's.
    pub body_size: Option<ByteSize>,
    /// Whether the access log has its requests. Default: as for the site.
    pub access_log: Option<bool>,
    /// Files in place of errors in words, by status (`404`) or class (`4xx`, `5xx`), besides the site's.
    pub error_pages: BTreeMap<String, PathBuf>,
    /// Who may use the route. It takes the place of the whole table of the site: `access = {}` is for
    /// everybody. Default: the site's.
    pub access: Option<AccessConfig>,
    /// Settings of files. Default: the site's.
    pub files: Option<FilesConfig>,
    /// Settings of the reverse proxy. Default: the site's.
    pub proxy: Option<ProxyConfig>,
    /// The cache of the upstream's responses. Default: the site's.
    pub cache: Option<CacheConfig>,
    /// Compression. Default: the site's.
    pub compression: Option<CompressionConfig>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Satisfy;

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
            body_size = "10MiB"
            access_log = false
            error_pages = { 404 = "/srv/404.html" }
            access = { satisfy = "any" }
            files = { listing = true }
            proxy = { insecure = true }
            cache = { enabled = true }
            compression = { encodings = ["br"] }
        "#;
        let fields = |text: &str| toml::from_str::<HeadersConfig>(text).unwrap();
        let want = RouteConfig {
            path: vec!["/api".to_owned(), "*.php".to_owned()],
            regex: Some("^/x$".to_owned()),
            root: Some(PathBuf::from("/srv")),
            upstream: Some("http://a".into()),
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
            body_size: Some(ByteSize::from_mib(10)),
            access_log: Some(false),
            error_pages: [("404".to_owned(), "/srv/404.html".into())].into(),
            access: Some(AccessConfig {
                satisfy: Satisfy::Any,
                ..AccessConfig::default()
            }),
            files: Some(FilesConfig {
                listing: true,
                ..FilesConfig::default()
            }),
            proxy: Some(ProxyConfig {
                insecure: true,
                ..ProxyConfig::default()
            }),
            cache: Some(CacheConfig {
                enabled: true,
                ..CacheConfig::default()
            }),
            compression: Some(CompressionConfig {
                encodings: vec![crate::files::Coding::Br],
                ..CompressionConfig::default()
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
            ("path = 1", "a text or a list of texts"),
            ("redirect = { to = \"/\", code = 301 }", "`status`"),
            ("answer = { body = \"x\" }", "`status`"),
        ] {
            let error = toml::from_str::<RouteConfig>(text).unwrap_err();
            assert!(error.to_string().contains(want), "{error}");
        }
    }
}
