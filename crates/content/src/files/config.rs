//! Settings of the file server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hikyaku_units::ByteSize;
use serde::Deserialize;

use super::negotiate::Coding;

/// Settings of the files below a root (`[files]` of the configuration).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilesConfig {
    /// Names tried in order for a path that ends in a slash.
    /// Default `["index.html"]`.
    pub index: Vec<String>,
    /// Extensions that are tried, in order, for a path that names no file and does not end in a slash: with
    /// `.html`, `/about` is the file `about.html`. They go before a directory of the same name. Default:
    /// none.
    pub extensions: Vec<String>,
    /// Whether a directory without an index file is listed; otherwise it is not
    /// found. Default `false`.
    pub listing: bool,
    /// Whether names that start with a dot are served. `/.well-known/` (RFC 8615)
    /// is served in any case. Default `false`.
    pub hidden: bool,
    /// Which symbolic links are followed: `beneath`, those that stay below the
    /// root (a link with an absolute target does not), `never`, or `follow`, all of them.
    /// Default `beneath`.
    pub symlinks: Symlinks,
    /// Directories that links may lead to besides the root, with `symlinks = "beneath"`. Default: none.
    pub trusted_roots: Vec<PathBuf>,
    /// Precompressed siblings to look for (`style.css.br` beside `style.css`), in the server's
    /// order of preference. The order decides between codings that the client likes equally well. A
    /// sibling must hold the same content as its file. An empty list turns siblings off. Default
    /// `["br", "zstd", "gzip"]`.
    pub precompressed: Vec<Coding>,
    /// File below the root that is sent, with status 200, for a path that names no file, as single-page
    /// applications want it. Default: none.
    pub fallback: Option<String>,
    /// File below the root that is sent, with status 404, for a path that names no file. Default:
    /// none, a plain line of text.
    pub not_found: Option<String>,
    /// Media types by file name extension (without the dot, lower case), before
    /// the built-in ones: `{ "geojson" = "application/geo+json" }`. Default: none.
    pub types: BTreeMap<String, String>,
    /// `Cache-Control` values; the first rule that matches holds.
    /// Default: none, clients decide by `Last-Modified` and `ETag`.
    pub cache_control: Vec<CacheRule>,
    /// Paths whose open file or content is kept, with its prepared headers. Each holds at most one
    /// file descriptor a coding, or a body of at most `small_body` bytes. 0 turns the cache off.
    /// Default 2048.
    pub cache_entries: usize,
    /// Age at which a kept path is compared with the file system again; a
    /// changed file is seen at most this much later. 0 compares at each request.
    /// Default `1s`.
    #[serde(with = "hikyaku_units::duration")]
    pub revalidate: Duration,
    /// Files up to this size are kept in memory. Default `16KiB`, at most `1MiB`.
    pub small_body: ByteSize,
}

impl Default for FilesConfig {
    fn default() -> Self {
        Self {
            index: vec!["index.html".to_owned()],
            extensions: Vec::new(),
            listing: false,
            hidden: false,
            symlinks: Symlinks::Beneath,
            trusted_roots: Vec::new(),
            precompressed: vec![Coding::Br, Coding::Zstd, Coding::Gzip],
            fallback: None,
            not_found: None,
            types: BTreeMap::new(),
            cache_control: Vec::new(),
            cache_entries: 2048,
            revalidate: Duration::from_secs(1),
            small_body: ByteSize::from_kib(16),
        }
    }
}

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Symlinks {
    /// Links that stay below the root at every step.
    Beneath,
    /// No links.
    Never,
    /// All links, wherever they lead.
    Follow,
}

/// A `Cache-Control` value for paths of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheRule {
    /// Glob against the file's path below the root, as in `assets/**`. A glob without a slash goes
    /// against the file's name, as in `*.css`. `*` does not cross a slash.
    #[serde(rename = "match")]
    pub pattern: String,
    /// The header's value: `public, max-age=31536000, immutable`.
    pub value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_and_unknown_ones_are_refused() {
        let text = r#"
            index = ["home.html", "index.htm"]
            extensions = [".html", ".htm"]
            listing = true
            hidden = true
            symlinks = "never"
            trusted_roots = ["/usr/share"]
            precompressed = ["gzip"]
            fallback = "index.html"
            not_found = "404.html"
            types = { geojson = "application/geo+json" }
            cache_control = [{ match = "*.css", value = "max-age=60" }]
            cache_entries = 0
            revalidate = "500ms"
            small_body = "4KiB"
        "#;
        let want = FilesConfig {
            index: vec!["home.html".to_owned(), "index.htm".to_owned()],
            extensions: vec![".html".to_owned(), ".htm".to_owned()],
            listing: true,
            hidden: true,
            symlinks: Symlinks::Never,
            trusted_roots: vec!["/usr/share".into()],
            precompressed: vec![Coding::Gzip],
            fallback: Some("index.html".to_owned()),
            not_found: Some("404.html".to_owned()),
            types: BTreeMap::from([("geojson".to_owned(), "application/geo+json".to_owned())]),
            cache_control: vec![CacheRule {
                pattern: "*.css".to_owned(),
                value: "max-age=60".to_owned(),
            }],
            cache_entries: 0,
            revalidate: Duration::from_millis(500),
            small_body: ByteSize::from_kib(4),
        };
        assert_eq!(toml::from_str::<FilesConfig>(text).unwrap(), want);
        assert_eq!(
            toml::from_str::<FilesConfig>("").unwrap(),
            FilesConfig::default()
        );
        let error = toml::from_str::<FilesConfig>("indexes = []").unwrap_err();
        assert!(error.to_string().contains("`index`"), "{error}");
    }
}
