//! The sites of a server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::{BeaconConfig, InClear};
use hikyaku_content::{
    AccessConfig, CacheConfig, CompressionConfig, FilesConfig, HeadersConfig, ProxyConfig,
    RouteConfig, UpstreamsConfig,
};
use hikyaku_core::policy::SitePolicy;
use hikyaku_units::ByteSize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// A site by its hosts (`[[site]]` of the configuration).
///
/// Its `files`, `proxy`, `cache`, `compression` and `beacon` need only the keys that differ from those of the
/// server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SiteSection {
    /// Names such as `www.example.org`, wildcards such as `*.example.org` for one label, and addresses.
    pub names: Vec<String>,
    /// Its certificate; `"acme"` stands for `{ acme = true }`.
    #[serde(deserialize_with = "word_or_table")]
    pub tls: SiteTls,
    /// The response on the addresses of `http.listen`. Default: `http.serve`.
    pub http: Option<InClear>,
    /// Directory whose files are served. Default: none; at most one of `root` and `upstream`.
    pub root: Option<PathBuf>,
    /// URL of the server that requests are passed to, or a list of those of a group, each a URL or a table with
    /// `url`, `weight` and `backup`. Default: none.
    pub upstream: Option<UpstreamsConfig>,
    /// Static files. Default: as for the server.
    pub files: FilesConfig,
    /// Reverse proxy. Default: as for the server.
    pub proxy: ProxyConfig,
    /// The cache of the upstream's responses. Default: as for the server.
    pub cache: CacheConfig,
    /// Compression on the fly. Default: as for the server.
    pub compression: CompressionConfig,
    /// Reports of browsers on its pages. Default: as for the server.
    pub beacon: BeaconConfig,
    /// Changes of the fields of requests that an upstream gets, besides the server's.
    pub request_headers: HeadersConfig,
    /// Changes of the fields of all responses, besides the server's.
    pub response_headers: HeadersConfig,
    /// Size of a request's body. Default: `limits.body_size`.
    pub body_size: Option<ByteSize>,
    /// Whether the access log has its requests. Default `true`.
    pub access_log: Option<bool>,
    /// Files in place of errors in words, by status (`404`) or class (`4xx`, `5xx`), besides the server's.
    pub error_pages: BTreeMap<String, PathBuf>,
    /// Who may use the site. It takes the place of the server's whole table: `access = {}` is for everybody.
    /// Default: the server's.
    pub access: Option<AccessConfig>,
    /// How transports are chosen for its clients. Default: as for the server.
    pub policy: SitePolicy,
    /// Parts of the site that are served in another way.
    #[serde(rename = "route")]
    pub routes: Vec<RouteConfig>,
}

/// The certificate of a site (`[site.tls]` of the configuration).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SiteTls {
    /// PEM files of the certificate chains, leaf first. Default: those of the server or, where that has
    /// none, a self-signed certificate for the site's names.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub cert: Vec<PathBuf>,
    /// PEM files of their private keys, in the same order.
    #[serde(deserialize_with = "hikyaku_units::one_or_many")]
    pub key: Vec<PathBuf>,
    /// Whether its certificate is got by ACME. Default `false`.
    pub acme: bool,
}

/// Reads `"acme"`, or the table.
fn word_or_table<'de, D: Deserializer<'de>>(from: D) -> Result<SiteTls, D::Error> {
    struct WordOrTable;

    impl<'de> Visitor<'de> for WordOrTable {
        type Value = SiteTls;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("\"acme\" or a table with `cert` and `key`")
        }

        fn visit_str<E: Error>(self, word: &str) -> Result<SiteTls, E> {
            match word {
                "acme" => Ok(SiteTls {
                    acme: true,
                    ..SiteTls::default()
                }),
                other => Err(E::invalid_value(Unexpected::Str(other), &self)),
            }
        }

        fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<SiteTls, A::Error> {
            SiteTls::deserialize(MapAccessDeserializer::new(table))
        }
    }

    from.deserialize_any(WordOrTable)
}
