//! The configuration: a TOML file, overridden key by key from the command line.

mod digest;
mod load;

use std::collections::BTreeMap;
use std::path::PathBuf;

use hikyaku_acme::AcmeConfig;
use hikyaku_core::policy::{PolicyConfig, SitePolicy};
use hikyaku_fleet::FleetConfig;
use serde::Deserialize;

use crate::behind::BehindConfig;
use crate::egress::{ClassConfig, EgressConfig};
use crate::gain::GainConfig;
use crate::shards::ShardsConfig;
use crate::spans::TracingConfig;
use hikyaku_content::{
    AccessConfig, CacheConfig, CompressionConfig, FilesConfig, HeadersConfig, ProxyConfig,
    RouteConfig,
};

pub use crate::sections::{
    AccessFormat, AccessTarget, AdminAddress, AdminConfig, BeaconConfig, BeaconPath, HttpConfig,
    InClear, Limits, ListenAddress, LogConfig, ModelConfig, ParseAddressError, Share, SiteSection,
    SiteTls, StateConfig, Timeouts, TlsConfig, TlsVersion,
};
pub use hikyaku_content::UpstreamsConfig;
pub use load::ConfigError;

/// Everything that can be configured; `conf/edge.toml` shows each key with its default.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Addresses to serve on, TCP and UDP alike. An IPv6 wildcard, or a port alone, takes IPv4, too.
    /// Default `["[::]:8443"]`.
    #[serde(deserialize_with = "crate::sections::addresses")]
    pub listen: Vec<ListenAddress>,
    /// Directory whose files are served. Default: none; exactly one of `root` and
    /// `upstream` is needed.
    pub root: Option<PathBuf>,
    /// URL of the server that requests are passed to, or a list of those of a group, each a URL or a table with
    /// `url`, `weight` and `backup`. Default: none.
    pub upstream: Option<UpstreamsConfig>,
    /// Accept MPTCP where the kernel has it. Default `true`.
    pub mptcp: bool,
    /// HTTP in the clear, for clients that begin there.
    pub http: HttpConfig,
    /// The intermediaries between clients and this server: balancers, proxies and port mappings.
    pub behind: BehindConfig,
    /// Certificate and TLS versions.
    pub tls: TlsConfig,
    /// How certificates are got by ACME.
    pub acme: AcmeConfig,
    /// How the transport of each client is chosen.
    pub policy: PolicyConfig,
    /// Settings of a policy that decides beside `policy` and never acts. Default: none.
    pub shadow: SitePolicy,
    /// Other addresses of the server, over which a page's resources are spread.
    pub shards: ShardsConfig,
    /// Reports of browsers on pages and failures.
    pub beacon: BeaconConfig,
    /// The agent of the egress paths.
    pub egress: EgressConfig,
    /// Classes of content, by what they want of their path. Default: `live`, `interactive` and `bulk`.
    #[serde(rename = "class")]
    pub classes: Vec<ClassConfig>,
    /// The store through which edges share what they learn.
    pub fleet: FleetConfig,
    /// Counts of responses that show the gain.
    pub gain: GainConfig,
    /// The model that predictions come from.
    pub model: ModelConfig,
    /// Resources that one client, and all of them, may use.
    pub limits: Limits,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// Logs.
    pub log: LogConfig,
    /// Traces for OpenTelemetry.
    pub tracing: TracingConfig,
    /// Admin page, API and metrics.
    pub admin: AdminConfig,
    /// Where the estimates of clients are kept.
    pub state: StateConfig,
    /// Static files.
    pub files: FilesConfig,
    /// Reverse proxy.
    pub proxy: ProxyConfig,
    /// The cache of upstreams' responses.
    pub cache: CacheConfig,
    /// Compression on the fly.
    pub compression: CompressionConfig,
    /// Changes of the fields of requests that an upstream gets. Default: none.
    pub request_headers: HeadersConfig,
    /// Changes of the fields of all responses. Default: none.
    pub response_headers: HeadersConfig,
    /// Files in place of errors in words, by status (`404`) or class (`4xx`, `5xx`). Default: none.
    pub error_pages: BTreeMap<String, PathBuf>,
    /// Who may use the server. Default: everybody.
    pub access: AccessConfig,
    /// Sites by their hosts. `root`, `upstream` and `route` outside of them are for all other hosts.
    /// Default: none.
    #[serde(rename = "site")]
    pub sites: Vec<SiteSection>,
    /// Parts of the site that are served in another way. Their `files`, `proxy`, `cache` and
    /// `compression` need only the keys that differ from the site's. Default: none.
    #[serde(rename = "route")]
    pub routes: Vec<RouteConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![ListenAddress::any(8443)],
            root: None,
            upstream: None,
            mptcp: true,
            http: HttpConfig::default(),
            behind: BehindConfig::default(),
            tls: TlsConfig::default(),
            acme: AcmeConfig::default(),
            policy: PolicyConfig::default(),
            shadow: SitePolicy::default(),
            shards: ShardsConfig::default(),
            beacon: BeaconConfig::default(),
            egress: EgressConfig::default(),
            classes: ClassConfig::defaults(),
            fleet: FleetConfig::default(),
            gain: GainConfig::default(),
            model: ModelConfig::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            log: LogConfig::default(),
            tracing: TracingConfig::default(),
            admin: AdminConfig::default(),
            state: StateConfig::default(),
            files: FilesConfig::default(),
            proxy: ProxyConfig::default(),
            cache: CacheConfig::default(),
            compression: CompressionConfig::default(),
            request_headers: HeadersConfig::default(),
            response_headers: HeadersConfig::default(),
            error_pages: BTreeMap::new(),
            access: AccessConfig::default(),
            sites: Vec::new(),
            routes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
