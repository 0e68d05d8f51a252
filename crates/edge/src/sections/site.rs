//! The sites of a server.

use std::path::PathBuf;

use hikyaku_content::{FilesConfig, HeadersConfig, ProxyConfig, RouteConfig};
use serde::Deserialize;

/// A site by its hosts (`[[site]]` of the configuration).
///
/// Its `files` and `proxy` need only the keys that differ from those of the server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SiteSection {
    /// Names such as `www.example.org`, wildcards such as `*.example.org` for one label, and addresses.
    pub names: Vec<String>,
    /// Its certificate.
    pub tls: SiteTls,
    /// Directory whose files are served. Default: none; at most one of `root` and `upstream`.
    pub root: Option<PathBuf>,
    /// URL of the server that requests are passed to. Default: none.
    pub upstream: Option<String>,
    /// Static files. Default: as for the server.
    pub files: FilesConfig,
    /// Reverse proxy. Default: as for the server.
    pub proxy: ProxyConfig,
    /// Changes of the fields of requests that an upstream gets, besides the server's.
    pub request_headers: HeadersConfig,
    /// Changes of the fields of all responses, besides the server's.
    pub response_headers: HeadersConfig,
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
    #[serde(deserialize_with = "super::one_or_many::deserialize")]
    pub cert: Vec<PathBuf>,
    /// PEM files of their private keys, in the same order.
    #[serde(deserialize_with = "super::one_or_many::deserialize")]
    pub key: Vec<PathBuf>,
}
