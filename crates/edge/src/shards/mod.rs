//! Spreading a page's resources over several connections (CONNS §6). The page names them by other
//! addresses of the server, so that browsers open a connection to each.
//!
//! `core::connections` decides for which clients that pays. `docs/shards.md` lists the resources that
//! are rewritten, and those that never are.

mod config;
mod cors;
mod css;
mod names;
mod page;
mod rewrite;
mod spread;
mod srcset;

use std::hash::Hasher;
use std::sync::Arc;

use globset::{GlobSet, GlobSetBuilder};
use hikyaku_core::policy::MAX_CONNECTIONS;
use http::uri::Authority;
use http::{HeaderValue, Request, Response, StatusCode, Uri, header};
use siphasher::sip::SipHasher13;

use crate::pages::{Asked, Tags};
use crate::tls::Certificate;
use hikyaku_content::Body;
use hikyaku_content::path_glob;
use page::PageRequest;

pub use config::{Kind, ShardHost, ShardsConfig};
pub(crate) use names::warn_of_coalescing;

/// Why shards can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardsError {
    /// A page would have too many connections.
    #[error("`shards.hosts` names {count} hosts; at most {} are used", MAX_CONNECTIONS - 1)]
    TooMany {
        /// So many are named.
        count: usize,
    },
    /// Two would be one origin.
    #[error("`shards.hosts` names {host} twice")]
    Twice {
        /// The host.
        host: ShardHost,
    },
    /// Browsers would refuse every resource of the shard.
    #[error(
        "`shards.hosts` names {host}, which the certificate does not cover (it has {names}): get \
         a certificate that does, or leave the host out"
    )]
    NotCovered {
        /// The host.
        host: ShardHost,
        /// Names that the certificate covers.
        names: String,
    },
    /// A pattern of `paths` is no glob.
    #[error("`shards.paths`: reading the pattern `{pattern}`")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The pattern's fault.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The shards in force.
#[derive(Debug)]
pub(crate) struct Shards {
    hosts: Vec<ShardHost>,
    kinds: Vec<Kind>,
    paths: GlobSet,
    site: Option<Authority>,
    tags: Tags,
    certificate: Arc<Certificate>,
}

/// The treatment of a response, by its request.
#[derive(Debug)]
pub(crate) enum Treatment {
    /// It is to be rewritten, if it is a page.
    Page(Box<PageRequest>, Asked),
    /// It may be an answer to a client that has a rewritten page.
    Known(Asked),
    /// It is for a resource that a page has spread.
    AtShard {
        /// The page's origin, where it fetches with CORS.
        origin: Option<HeaderValue>,
    },
}

impl Shards {
    /// `None` where there are none.
    ///
    /// # Errors
    /// When the configuration cannot be used with this certificate.
    pub(crate) fn new(
        config: &ShardsConfig,
        certificate: Arc<Certificate>,
    ) -> Result<Option<Self>, ShardsError> {
        if config.hosts.is_empty() {
            return Ok(None);
        }
        let count = config.hosts.len();
        if count >= usize::from(MAX_CONNECTIONS) {
            return Err(ShardsError::TooMany { count });
        }
        for (position, host) in config.hosts.iter().enumerate() {
            if config.hosts[..position].contains(host) {
                return Err(ShardsError::Twice { host: host.clone() });
            }
            if !certificate.covers(host.name()) {
                return Err(ShardsError::NotCovered {
                    host: host.clone(),
                    names: certificate.names().join(", "),
                });
            }
        }
        Ok(Some(Self {
            hosts: config.hosts.clone(),
            kinds: config.kinds.clone(),
            paths: globs(&config.paths)?,
            site: config.site.clone(),
            tags: Tags::new("shards", fingerprint(config)).without_dates(),
            certificate,
        }))
    }

    /// Connections that a page can be spread over, its own included.
    pub(crate) fn available(&self) -> u8 {
        u8::try_from(self.hosts.len() + 1).unwrap_or(MAX_CONNECTIONS)
    }

    /// Prepares a request for the content. `connections` returns over how many its client's pages are
    /// spread; it is called for pages alone.
    pub(crate) fn prepare<B>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        connections: impl FnOnce() -> u8,
    ) -> Option<Treatment> {
        let authority = authority(request)?;
        if self.is_at_shard(&authority) {
            let origin = cors::own_origin(request.headers(), &self.certificate);
            if let Some(site) = &self.site {
                readdress(request, site);
            }
            return Some(Treatment::AtShard { origin });
        }
        let asked = self.tags.unmark(request.headers_mut());
        let is_static = self.matches(request.uri().path());
        match PageRequest::of(request, &authority, is_static, connections) {
            Some(page) => Some(Treatment::Page(Box::new(page), asked)),
            None => Some(Treatment::Known(asked)),
        }
    }

    /// Finishes the content's response; returns whether its page was spread.
    pub(crate) fn finish(
        self: &Arc<Self>,
        treatment: Treatment,
        response: Response<Body>,
    ) -> (Response<Body>, bool) {
        let (mut response, asked, page) = match treatment {
            Treatment::AtShard { origin } => {
                let mut response = response;
                cors::allow(response.headers_mut(), origin);
                return (response, false);
            }
            Treatment::Known(asked) => (response, asked, None),
            Treatment::Page(page, asked) => (response, asked, Some(page)),
        };
        if response.status() == StatusCode::NOT_MODIFIED {
            asked.restore(response.headers_mut());
        }
        match page {
            Some(page) => page.spread(self, response),
            None => (response, false),
        }
    }

    /// Whether resources at this path, percent-encoded, may be spread.
    fn matches(&self, path: &str) -> bool {
        self.paths.is_match(path.trim_start_matches('/'))
    }

    /// Whether the certificate, which may have been renewed, still covers all shards.
    fn are_covered(&self) -> bool {
        let mut hosts = self.hosts.iter();
        hosts.all(|host| self.certificate.covers(host.name()))
    }

    fn is_at_shard(&self, authority: &Authority) -> bool {
        let port = authority.port_u16().unwrap_or(443);
        let is = |shard: &ShardHost| {
            shard.host.eq_ignore_ascii_case(authority.host())
                && shard.port.is_none_or(|of_shard| of_shard == port)
        };
        self.hosts.iter().any(is)
    }
}

fn globs(patterns: &[String]) -> Result<GlobSet, ShardsError> {
    let mut set = GlobSetBuilder::new();
    let failed = |pattern: &str| {
        let pattern = pattern.to_owned();
        |source: globset::Error| ShardsError::Pattern {
            pattern,
            source: source.into(),
        }
    };
    for pattern in patterns {
        set.add(path_glob(pattern, true).map_err(failed(pattern))?);
    }
    set.build().map_err(failed("*"))
}

/// A number that differs where pages would be spread in another way.
fn fingerprint(config: &ShardsConfig) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(format!("1 {config:?}").as_bytes());
    hasher.finish()
}

/// The host that was asked for.
fn authority<B>(request: &Request<B>) -> Option<Authority> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.clone());
    }
    let host = request.headers().get(header::HOST)?;
    Authority::try_from(host.as_bytes()).ok()
}

/// Makes a request one for another host.
fn readdress<B>(request: &mut Request<B>, to: &Authority) {
    if let Ok(host) = HeaderValue::from_str(to.as_str())
        && request.headers().contains_key(header::HOST)
    {
        request.headers_mut().insert(header::HOST, host);
    }
    if request.uri().authority().is_some() {
        let mut parts = request.uri().clone().into_parts();
        parts.authority = Some(to.clone());
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
}

#[cfg(test)]
mod tests;
