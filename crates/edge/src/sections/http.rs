//! HTTP in the clear (RFC 9110 §4.2.1).

use std::path::PathBuf;

use serde::Deserialize;

use super::ListenAddress;

/// The response to clients that speak HTTP in the clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InClear {
    /// A redirect to the same address with `https` (308).
    #[default]
    Redirect,
    /// The content of the site.
    Content,
}

/// HTTP in the clear, for clients that begin there (`[http]` of the configuration).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// TCP addresses on which HTTP/1.1, and HTTP/2 with prior knowledge, are spoken in the clear. Default:
    /// none.
    #[serde(deserialize_with = "super::addresses")]
    pub listen: Vec<ListenAddress>,
    /// The response there, for sites that do not have their own `http`. Default `redirect`.
    pub serve: InClear,
    /// Port to which clients are sent. Default: that of the first address of the server's `listen`.
    pub https_port: Option<u16>,
    /// Directory below which `/.well-known/acme-challenge` is served in the clear (RFC 8555 §8.3), as
    /// `certbot --webroot` fills it. Default: none.
    pub challenges: Option<PathBuf>,
}
