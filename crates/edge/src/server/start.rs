//! Parts of a server, in the order in which they can be had.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use tokio::net::TcpListener;

use super::ServerError;
use super::setup::{
    available, certificate_source, load_controls, load_model, open_store, quic_settings, set_floor,
    tls_settings,
};
use crate::admin;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::config::{Config, ConfigError};
use crate::egress::{Classes, Egress};
use crate::listen::Listener;
use crate::secrets::Secrets;
use crate::serve::{QuicConfig, QuicKeys};
use crate::store::{Store, StoreError};
use crate::tcp_cc::Controls;
use crate::tls::{self, Certificate, Resumption};

/// The parts that are there before the server starts: its store's records, and the settings of
/// connections.
pub(super) struct Known {
    pub(super) clock: Clock,
    pub(super) controls: Controls,
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) certificate: Arc<Certificate>,
    pub(super) clients: Clients,
    pub(super) egress: Option<Arc<Egress>>,
    /// `None` without one; the error may pass.
    pub(super) store: Option<Result<Store, StoreError>>,
}

impl Known {
    pub(super) fn load(config: &Config) -> Result<Self, ServerError> {
        let controls = load_controls(&config.policy);
        let available = available(&config.policy, &controls)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certificate = Arc::new(Certificate::load(certificate_source(config), &provider)?);
        set_floor(&controls, &config.policy);
        let clock = Clock::start();
        let (policy, journal) = (&config.policy, config.state.dir.is_some());
        let (max, model) = (config.limits.clients, load_model(config)?);
        let clients = Clients::new(policy, max, journal, model, available, clock);
        let classes = Classes::new(&config.classes).map_err(ConfigError::from)?;
        let (egress, mptcp) = (&config.egress, config.mptcp);
        let egress = Egress::new(egress, mptcp, policy, journal, classes, clock);
        let store = match &config.state.dir {
            Some(dir) => Some(open_store(dir, &clients, egress.as_deref())?),
            None => None,
        };
        Ok(Self {
            clock,
            controls,
            provider,
            certificate,
            clients,
            egress,
            store,
        })
    }
}

/// Keys, and the settings of TLS and QUIC that are made with them.
pub(super) struct Keys {
    pub(super) secrets: Arc<Secrets>,
    pub(super) resumption: Resumption,
    pub(super) quic: QuicKeys,
    pub(super) tcp_tls: rustls::ServerConfig,
    pub(super) quic_config: QuicConfig,
}

impl Keys {
    /// To be loaded after [`Known`]: once the store is this process's, so are the keys beside it.
    pub(super) fn load(config: &Config, known: &Known) -> Result<Self, ServerError> {
        let secrets = Arc::new(Secrets::load(config.state.dir.as_deref())?);
        let resumption = Resumption::new(Arc::clone(&secrets.tickets));
        let settings = tls_settings(config, &resumption);
        let certificate = || Arc::clone(&known.certificate);
        let tcp_tls = tls::tcp_config(certificate(), &known.provider, &settings)?;
        let quic_tls = tls::quic_config(certificate(), &known.provider, &settings)?;
        let quic = QuicKeys::new(&secrets)?;
        Ok(Self {
            quic_config: quic_settings(quic_tls, &quic, config)?,
            secrets,
            resumption,
            quic,
            tcp_tls,
        })
    }
}

/// The sockets that are listened on.
pub(super) struct Sockets {
    pub(super) listeners: Vec<Listener>,
    pub(super) admin: Vec<TcpListener>,
}

impl Sockets {
    pub(super) fn bind(config: &Config, egress: Option<&Egress>) -> Result<Self, ServerError> {
        let gate = egress.and_then(Egress::gate);
        let listeners = Listener::bind_all(&config.listen, config.mptcp, gate)?;
        if config.mptcp && listeners.iter().any(|listener| !listener.mptcp) {
            tracing::info!("this kernel has no MPTCP: clients are served over plain TCP");
        }
        Ok(Self {
            listeners,
            admin: admin::bind(&config.admin)?,
        })
    }
}
