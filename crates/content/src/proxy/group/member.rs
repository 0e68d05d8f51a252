//! An upstream of a group.

use std::sync::Arc;

use super::{State, Terms};
use crate::header_size::HeaderSize;
use crate::proxy::checks::Check;
use crate::proxy::config::{ProxyConfig, UpstreamConfig};
use crate::proxy::connect::Connector;
use crate::proxy::error::ProxyError;
use crate::proxy::pool::Pool;
use crate::proxy::upstream::Upstream;
use crate::proxy::upstreams::Upstreams;

/// An upstream with its connections.
#[derive(Debug)]
pub(in crate::proxy) struct Member {
    pub(in crate::proxy) upstream: Upstream,
    pub(in crate::proxy) pool: Pool,
    pub(in crate::proxy) state: Arc<State>,
    pub(in crate::proxy) check: Option<Check>,
    /// Its part of the requests, compared with those of the others.
    pub(super) weight: u16,
    /// Whether it is asked only when no other one can be.
    pub(super) is_backup: bool,
}

impl Member {
    /// Prepares for an upstream, without connecting to it. Its state is that of `known` where an
    /// upstream with the same URL and settings is there.
    ///
    /// # Errors
    /// If the URL or a setting cannot be used.
    pub(in crate::proxy) fn new(
        settings: &UpstreamConfig,
        config: &ProxyConfig,
        header_size: HeaderSize,
        known: &Upstreams,
    ) -> Result<Arc<Self>, ProxyError> {
        let url = &settings.url;
        let upstream = Upstream::parse(url, config)?;
        let connector = Arc::new(Connector::new(upstream.clone(), config, header_size)?);
        let check = match &config.health {
            Some(health) => Some(Check::new(health, &connector, config)?),
            None => None,
        };
        let member = Arc::new(Self {
            pool: Pool::new(connector, config),
            upstream,
            state: known.state(url, config),
            check,
            weight: settings.weight,
            is_backup: settings.backup,
        });
        if member.check.is_some() {
            known.add_unchecked(&member);
        }
        Ok(member)
    }
}

impl From<&ProxyConfig> for Terms {
    fn from(config: &ProxyConfig) -> Self {
        let checks = config.health.as_ref();
        Self {
            avoid_after: config.avoid_after,
            avoid_min: config.avoid_min,
            avoid_max: config.avoid_max,
            slow_start: config.slow_start,
            rise: checks.map_or(1, |checks| checks.rise),
            fall: checks.map_or(1, |checks| checks.fall),
        }
    }
}
