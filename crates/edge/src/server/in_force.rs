//! Everything that a configuration puts into force, behind one pointer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hikyaku_acme::{Answers, ChallengeKind, Setup};
use rustls::crypto::CryptoProvider;
use rustls::server::ResolvesServerCert;

use super::ServerError;
use super::setup::{available, check_available, load_model};
use crate::access_log::AccessLog;
use crate::beacon::Beacons;
use crate::config::{AccessTarget, Config, ConfigError, LogConfig, TlsVersion};
use crate::connection_ids::QuicKeys;
use crate::egress::{self, Classes};
use crate::gain::{Countries, GainTerms};
use crate::policies::Policies;
use crate::serve::cleartext::Cleartext;
use crate::serve::{QuicConfig, Service};
use crate::shards::Shards;
use crate::shared::Terms;
use crate::tcp_cc::Controls;
use crate::tls::{self, Certificate, Certificates, Resumption};
use crate::{admin, clients};
use hikyaku_content::{Caches, Content, Directories, SiteConfig, Upstreams};
use hikyaku_core::gain::Site;
use hikyaku_core::policy::VersionPolicy;

/// Parts that outlive a reload, and that settings are made with.
pub(super) struct Kept {
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) certificate: Arc<Certificate>,
    pub(super) controls: Arc<Controls>,
    pub(super) resumption: Resumption,
    pub(super) quic_keys: QuicKeys,
    pub(super) upstreams: Upstreams,
    pub(super) directories: Directories,
    pub(super) caches: Caches,
    /// For authorities that check names.
    pub(super) answers: Arc<Answers>,
}

/// State that a configuration puts into force, at the start and at each reload.
pub(super) struct InForce {
    pub(super) config: Config,
    pub(super) clients: Arc<clients::Rules>,
    pub(super) egress: Arc<egress::Rules>,
    pub(super) gain: Arc<GainTerms>,
    pub(super) terms: Arc<Terms>,
    pub(super) service: Arc<Service>,
    pub(super) certificates: Arc<Certificates>,
    pub(super) admin: Arc<admin::Settings>,
    pub(super) tcp_tls: Arc<rustls::ServerConfig>,
    pub(super) quic: Arc<QuicConfig>,
    /// `None` where nothing is got by ACME.
    pub(super) acme: Option<Setup>,
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
        check_available(&config, &kept.controls)?;
        let classes = Classes::new(&config.classes).map_err(ConfigError::from)?;
        let rules = egress::Rules::new(policy.clone(), classes);
        let egress = match former {
            Some(former) => rules.after(&former.egress),
            None => rules,
        };
        let sites = site_configs(&config, &kept.upstreams, &kept.directories, &kept.caches);
        let content = Content::new(&sites)?;
        let acme = acme(&config)?;
        let answers = acme.as_ref().map(|_| Arc::clone(&kept.answers));
        let certificates = certificates(&config, kept, former, answers.clone())?;
        let (tcp_tls, quic) = transports(&config, kept, &certificates)?;
        let certificate = Arc::clone(&kept.certificate);
        let shards = Shards::new(&config.shards, certificate)?.map(Arc::new);
        let access_log = access_log(&config.log, former)?;
        let service = Service {
            content,
            cleartext: Cleartext::new(&config, answers)?,
            shards: shards.clone(),
            beacons: beacons(&config),
            limits: limits.clone(),
            timeouts: config.timeouts.clone(),
            server: config.response_headers.server(),
            early_data: config.tls.early_data,
            carried_in: (config.fleet.carry).then(|| Arc::clone(kept.resumption.tickets())),
        };
        Ok(Self {
            clients: Arc::new(clients::Rules::new(
                Policies::new(&config)?,
                model,
                available,
                config.behind.hides_clients(),
            )),
            egress: Arc::new(egress),
            gain: Arc::new(gain_terms(&config)?),
            terms: Arc::new(Terms::new(
                policy,
                limits,
                shards,
                access_log,
                config.behind.clone(),
                !config.listen.is_empty(),
            )),
            service: Arc::new(service),
            certificates,
            admin: Arc::new(admin_settings(&config)),
            tcp_tls: Arc::new(tcp_tls),
            quic: Arc::new(quic),
            acme,
            config,
        })
    }
}

/// Reports of browsers, by site.
fn beacons(config: &Config) -> Beacons {
    let sites = config.sites.iter();
    let sites = sites.map(|site| (&site.names[..], &site.beacon));
    Beacons::new(&config.beacon, sites)
}

/// The settings of the gain, with its database of countries.
fn gain_terms(config: &Config) -> Result<GainTerms, ServerError> {
    let own = config.sites.iter().filter_map(|site| site.policy.holdback);
    let names = config.sites.iter().filter_map(|site| site.names.first());
    Ok(GainTerms {
        config: config.gain.clone(),
        countries: Countries::open(config.gain.countries.as_deref())?,
        holdback: own.fold(config.policy.holdback, f64::max),
        sites: names
            .map(|name| (Site::named(name), name.clone()))
            .collect(),
    })
}

/// The certificates of all sites, with the answers to authorities where there are any.
fn certificates(
    config: &Config,
    kept: &Kept,
    former: Option<&InForce>,
    answers: Option<Arc<Answers>>,
) -> Result<Arc<Certificates>, ServerError> {
    let certificates = Certificates::new(
        Arc::clone(&kept.certificate),
        &config.sites,
        config.state.dir.as_deref(),
        former.map(|former| &*former.certificates),
        &kept.provider,
    )?;
    let certificates = certificates.stapling(config.tls.ocsp);
    Ok(Arc::new(match answers {
        Some(answers) => certificates.answering(answers),
        None => certificates,
    }))
}

/// The settings of orders; `None` where nothing is got by ACME.
pub(super) fn acme(config: &Config) -> Result<Option<Setup>, ServerError> {
    if config.names_by_acme().next().is_none() {
        return Ok(None);
    }
    let cleartext = !config.http.listen.is_empty();
    Ok(Some(Setup::new(&config.acme, cleartext)?))
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
        tls_alpn_01: config.challenges().contains(&ChallengeKind::TlsAlpn01),
    }
}

/// The sites with what they have from the server.
pub(super) fn site_configs(
    config: &Config,
    upstreams: &Upstreams,
    directories: &Directories,
    caches: &Caches,
) -> Vec<SiteConfig> {
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
            upstreams: upstreams.clone(),
            directories: directories.clone(),
            files: site.files.clone(),
            proxy: site.proxy.clone(),
            cache: site.cache.clone(),
            caches: caches.clone(),
            compression: site.compression.clone(),
            request_headers,
            response_headers,
            body_size: site.body_size,
            access_log: site.access_log,
            error_pages: inherited(&config.error_pages, &site.error_pages),
            access: site.access.as_ref().unwrap_or(&config.access).clone(),
            routes: site.routes.clone(),
            header_size,
        }
    });
    let other = SiteConfig {
        names: Vec::new(),
        root: config.root.clone(),
        upstream: config.upstream.clone(),
        upstreams: upstreams.clone(),
        directories: directories.clone(),
        files: config.files.clone(),
        proxy: config.proxy.clone(),
        cache: config.cache.clone(),
        caches: caches.clone(),
        compression: config.compression.clone(),
        request_headers: config.request_headers.clone(),
        response_headers: config.response_headers.clone(),
        body_size: None,
        access_log: None,
        error_pages: config.error_pages.clone(),
        access: config.access.clone(),
        routes: config.routes.clone(),
        header_size,
    };
    let other = config.serves_all_hosts().then_some(other);
    named.chain(other).collect()
}

/// The server's pages with those of a site, which go before.
fn inherited(
    server: &BTreeMap<String, PathBuf>,
    site: &BTreeMap<String, PathBuf>,
) -> BTreeMap<String, PathBuf> {
    let pages = server.iter().chain(site);
    pages
        .map(|(status, page)| (status.clone(), page.clone()))
        .collect()
}

fn admin_settings(config: &Config) -> admin::Settings {
    let root = config.root.as_ref().map(|root| root.display().to_string());
    let routes = (!config.routes.is_empty()).then(|| format!("{} routes", config.routes.len()));
    let sites = (!config.sites.is_empty()).then(|| format!("{} sites", config.sites.len()));
    let upstream = config.upstream.as_ref().map(ToString::to_string);
    let content = root.or(upstream).or(routes);
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
