//! Everything that a configuration puts into force, behind one pointer.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::ResolvesServerCert;

use super::ServerError;
use super::setup::{available, load_model};
use crate::access_log::AccessLog;
use crate::config::{AccessTarget, Config, ConfigError, LogConfig, TlsVersion};
use crate::egress::{self, Classes};
use crate::serve::{QuicConfig, QuicKeys, Service};
use crate::shards::Shards;
use crate::shared::Terms;
use crate::tcp_cc::Controls;
use crate::tls::{self, Certificate, Certificates, Resumption};
use crate::{admin, clients};
use hikyaku_content::{Content, SiteConfig, SiteError};
use hikyaku_core::policy::VersionPolicy;

/// Parts that outlive a reload, and that settings are made with.
pub(super) struct Kept {
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) certificate: Arc<Certificate>,
    pub(super) controls: Arc<Controls>,
    pub(super) resumption: Resumption,
    pub(super) quic_keys: QuicKeys,
}

/// State that a configuration puts into force, at the start and at each reload.
pub(super) struct InForce {
    pub(super) config: Config,
    pub(super) clients: Arc<clients::Rules>,
    pub(super) egress: Arc<egress::Rules>,
    pub(super) terms: Arc<Terms>,
    pub(super) service: Arc<Service>,
    pub(super) certificates: Arc<Certificates>,
    pub(super) admin: Arc<admin::Settings>,
    pub(super) tcp_tls: Arc<rustls::ServerConfig>,
    pub(super) quic: Arc<QuicConfig>,
}

impl InForce {
    /// Prepares everything, in place of the `former` where there is one.
    ///
    /// # Errors
    /// When anything that the configuration asks for can't be had.
    pub(super) fn new(
        config: Config,
        kept: &Kept,
        former: Option<&Self>,
    ) -> Result<Self, ServerError> {
        let (policy, limits) = (&config.policy, &config.limits);
        let model = load_model(&config)?;
        let available = available(policy, &kept.controls)?;
        let classes = Classes::new(&config.classes).map_err(ConfigError::from)?;
        let rules = egress::Rules::new(policy.clone(), classes);
        let egress = match former {
            Some(former) => rules.after(&former.egress),
            None => rules,
        };
        let content = content(&config)?;
        let certificates = Arc::new(Certificates::new(
            Arc::clone(&kept.certificate),
            &config.sites,
            former.map(|former| &*former.certificates),
            &kept.provider,
        )?);
        let (tcp_tls, quic) = transports(&config, kept, &certificates)?;
        let certificate = Arc::clone(&kept.certificate);
        let shards = Shards::new(&config.shards, certificate)?.map(Arc::new);
        let access_log = access_log(&config.log, former)?;
        let service = Service {
            content,
            shards: shards.clone(),
            limits: limits.clone(),
            timeouts: config.timeouts.clone(),
            early_data: config.tls.early_data,
        };
        Ok(Self {
            clients: Arc::new(clients::Rules::new(policy.clone(), model, available)),
            egress: Arc::new(egress),
            terms: Arc::new(Terms::new(policy, limits, shards, access_log)),
            service: Arc::new(service),
            certificates,
            admin: Arc::new(admin_settings(&config)),
            tcp_tls: Arc::new(tcp_tls),
            quic: Arc::new(quic),
            config,
        })
    }
}

/// The settings of TLS over TCP, and those of QUIC.
fn transports(
    config: &Config,
    kept: &Kept,
    certificates: &Arc<Certificates>,
) -> Result<(rustls::ServerConfig, QuicConfig), ServerError> {
    let settings = tls_settings(config, &kept.resumption);
    let certificates = || Arc::clone(certificates) as Arc<dyn ResolvesServerCert>;
    let tcp_tls = tls::tcp_config(certificates(), &kept.provider, &settings)?;
    let quic_tls = tls::quic_config(certificates(), &kept.provider, &settings)?;
    let min_cwnd = config.policy.min_cwnd.bytes();
    let (limits, timeouts) = (&config.limits, &config.timeouts);
    let quic = QuicConfig::new(quic_tls, &kept.quic_keys, min_cwnd, limits, timeouts)?;
    Ok((tcp_tls, quic))
}

fn tls_settings(config: &Config, resumption: &Resumption) -> tls::Settings {
    tls::Settings {
        resumption: resumption.clone(),
        http2: config.policy.version != VersionPolicy::H1,
        only_tls13: config.tls.min_version == TlsVersion::Tls13,
        early_data: config.tls.early_data,
    }
}

fn content(config: &Config) -> Result<Content, SiteError> {
    let header_size = config.limits.header_size;
    let named = config.sites.iter().map(|site| {
        let (mut request_headers, mut response_headers) =
            (site.request_headers.clone(), site.response_headers.clone());
        request_headers.inherit(&config.request_headers);
        response_headers.inherit(&config.response_headers);
        SiteConfig {
            names: site.names.clone(),
            root: site.root.clone(),
            upstream: site.upstream.clone(),
            files: site.files.clone(),
            proxy: site.proxy.clone(),
            request_headers,
            response_headers,
            routes: site.routes.clone(),
            header_size,
        }
    });
    let other = SiteConfig {
        names: Vec::new(),
        root: config.root.clone(),
        upstream: config.upstream.clone(),
        files: config.files.clone(),
        proxy: config.proxy.clone(),
        request_headers: config.request_headers.clone(),
        response_headers: config.response_headers.clone(),
        routes: config.routes.clone(),
        header_size,
    };
    let other = config.serves_all_hosts().then_some(other);
    let sites: Vec<_> = named.chain(other).collect();
    Content::new(&sites)
}

fn admin_settings(config: &Config) -> admin::Settings {
    let root = config.root.as_ref().map(|root| root.display().to_string());
    let routes = (!config.routes.is_empty()).then(|| format!("{} routes", config.routes.len()));
    let sites = (!config.sites.is_empty()).then(|| format!("{} sites", config.sites.len()));
    let content = root.or(config.upstream.clone()).or(routes);
    let serves: Vec<_> = content.into_iter().chain(sites).collect();
    admin::Settings {
        token: config.admin.token.clone(),
        send_timeout: config.timeouts.send,
        serves: serves.join(", "),
        policy: match config.policy.version.pinned() {
            None => "adaptive",
            Some(version) => version.name(),
        },
        congestion: config.policy.congestion.name(),
    }
}

/// Opens the access log anew, unless it is the standard output that it was before.
fn access_log(config: &LogConfig, former: Option<&InForce>) -> Result<Arc<AccessLog>, ServerError> {
    let former = former.map(|former| (&former.config.log, &former.terms.access_log));
    let counts = match former {
        Some((former, log))
            if config.access == AccessTarget::Stdout
                && former.access == config.access
                && former.format == config.format =>
        {
            return Ok(Arc::clone(log));
        }
        Some((_, log)) => Arc::clone(log.counts()),
        None => Arc::default(),
    };
    let opened = AccessLog::open(&config.access, config.format, &counts)?;
    Ok(Arc::new(opened))
}
