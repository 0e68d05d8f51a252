//! The server: starting, reloading and stopping it.

mod certificate;
mod setup;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use hikyaku_units::arm::Congestion;
use quinn::{Endpoint, TokioRuntime, VarInt};
use rustls::crypto::CryptoProvider;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access_log::AccessLogError;
use crate::admin::{self, Admin, AdminError, ReloadRequest, Reloads};
use crate::clients::Clients;
use crate::clock::Clock;
use crate::config::{Config, ConfigError};
use crate::egress::{Classes, Egress};
use crate::listen::{ListenError, Listener, TcpSocket};
use crate::marked::MarkedSocket;
use crate::metrics::add;
use crate::secrets::{self, NoRandomness, Secrets};
use crate::serve::{QuicConfig, QuicError, QuicKeys, QuicListener, Site, TcpAcceptor};
use crate::shards::{ShardsError, warn_of_coalescing};
use crate::shared::Shared;
use crate::store::{self, Store, StoreError, Writer};
use crate::tls::{self, Certificate, Resumption, TlsError};
use certificate::watch_certificate;
use setup::{
    InForce, available, certificate_source, check_unchanged, load_controls, load_model, open_store,
    quic_settings, raise_descriptor_limit, set_floor, tls_settings,
};

/// Why the server can't start, or a configuration is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ServerError {
    #[error("checking the configuration")]
    Config(#[from] ConfigError),
    #[error("checking the configuration")]
    Policy(#[from] hikyaku_core::policy::PolicyError),
    #[error("preparing the certificate")]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Secrets(#[from] NoRandomness),
    #[error(transparent)]
    Quic(#[from] QuicError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("serving {what}")]
    Content {
        what: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("reading the model {}", path.display())]
    Model {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("using TCP congestion control `{}`, which this kernel does not offer", congestion.name())]
    Congestion {
        congestion: Congestion,
        #[source]
        source: io::Error,
    },
    #[error("preparing the shards")]
    Shards(#[from] ShardsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error("reloading: `{key}` can't change while the server runs; restart it for that")]
    NeedsRestart { key: &'static str },
}

/// A running server.
pub struct Server {
    /// The configuration in force.
    config: ArcSwap<Config>,
    shared: Arc<Shared>,
    site: Arc<Site>,
    admin: Arc<Admin>,
    certificate: Arc<Certificate>,
    provider: Arc<CryptoProvider>,
    resumption: Resumption,
    quic_keys: QuicKeys,
    tcp_tls: Arc<ArcSwap<rustls::ServerConfig>>,
    quic_config: Arc<ArcSwap<QuicConfig>>,
    endpoints: Vec<Endpoint>,
    mptcp: bool,
    admin_address: Option<SocketAddr>,
    store: Option<PathBuf>,
    connections: TaskTracker,
    /// What serves the server itself ends after the connections.
    end: CancellationToken,
    services: TaskTracker,
}

impl Server {
    /// Starts to serve. To be called on a tokio runtime.
    ///
    /// # Errors
    /// When anything that the configuration asks for can't be had; nothing is left running
    /// then.
    pub fn start(config: Config) -> Result<Self, ServerError> {
        config.check()?;
        config.policy.validate()?;
        raise_descriptor_limit();
        let controls = load_controls(&config.policy);
        let available = available(&config.policy, &controls)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certificate = Arc::new(Certificate::load(certificate_source(&config), &provider)?);

        set_floor(&controls, &config.policy);
        let clock = Clock::start();
        let (policy, journal) = (&config.policy, config.state.dir.is_some());
        let (max, model) = (config.limits.clients, load_model(&config)?);
        let clients = Clients::new(policy, max, journal, model, available, clock);
        let classes = Classes::new(&config.classes).map_err(ConfigError::from)?;
        let egress = Egress::new(
            &config.egress,
            config.mptcp,
            policy,
            journal,
            classes,
            clock,
        );
        let state_dir = config.state.dir.clone();
        let store = match &state_dir {
            Some(dir) => Some(open_store(dir, &clients, egress.as_deref())?),
            None => None,
        };
        // Once the store is this process's, so are the keys beside it.
        let secrets = Arc::new(Secrets::load(state_dir.as_deref())?);
        let resumption = Resumption::new(Arc::clone(&secrets.tickets));
        let settings = tls_settings(&config, &resumption);
        let tcp_tls = tls::tcp_config(Arc::clone(&certificate), &provider, &settings)?;
        let quic_tls = tls::quic_config(Arc::clone(&certificate), &provider, &settings)?;
        let quic_keys = QuicKeys::new(&secrets)?;
        let quic_config = quic_settings(quic_tls, &quic_keys, &config)?;
        let gate = egress.as_ref().and_then(|egress| egress.gate());
        let listeners = Listener::bind_all(&config.listen, config.mptcp, gate)?;
        if config.mptcp && listeners.iter().any(|listener| !listener.mptcp) {
            tracing::info!("this kernel has no MPTCP: clients are served over plain TCP");
        }
        let admin_listeners = admin::bind(&config.admin)?;
        let addresses = listeners.iter().map(|listener| listener.address).collect();
        let in_force = InForce::new(&config, &certificate, None)?;
        let InForce {
            terms,
            service,
            access_log,
            admin,
        } = in_force;
        let shards = config.shards.clone();
        let shared = Arc::new(Shared::new(clock, clients, egress, access_log, terms));
        let site = Arc::new(Site::new(Arc::clone(&shared), controls, service));
        let admin = Arc::new(Admin {
            shared: Arc::clone(&shared),
            connections: Arc::clone(&site.connections),
            live: Arc::clone(&site.live),
            traces: Arc::clone(&site.traces),
            certificate: Arc::clone(&certificate),
            addresses,
            reloads: Reloads::default(),
            settings: ArcSwap::from_pointee(admin),
        });

        let mut server = Self {
            mptcp: listeners.iter().all(|listener| listener.mptcp),
            admin_address: admin_listeners
                .first()
                .and_then(|listener| listener.local_addr().ok()),
            store: state_dir.as_deref().map(Store::file),
            config: ArcSwap::from_pointee(config),
            shared,
            site,
            admin,
            certificate,
            provider,
            resumption,
            quic_keys,
            tcp_tls: Arc::new(ArcSwap::from_pointee(tcp_tls)),
            quic_config: Arc::new(ArcSwap::from_pointee(quic_config)),
            endpoints: Vec::new(),
            connections: TaskTracker::new(),
            end: CancellationToken::new(),
            services: TaskTracker::new(),
        };
        for listener in listeners {
            server.serve(listener)?;
        }
        for listener in admin_listeners {
            let serving = admin::serve(listener, Arc::clone(&server.admin), server.end.clone());
            server.services.spawn(serving);
        }
        if let Some(egress) = &server.shared.egress {
            egress.start(&server.services, &server.end);
        }
        if let (Some(dir), Some(store)) = (state_dir, store) {
            let writer = Writer::new(dir, store, &server.shared);
            let writing = store::write_behind(writer, server.end.clone());
            server.services.spawn(writing);
        }
        let warning = warn_of_coalescing(shards);
        let end = server.end.clone();
        server
            .services
            .spawn(async move { end.run_until_cancelled(warning).await });
        let rotating = secrets::rotate_in_time(secrets, server.end.clone());
        server.services.spawn(rotating);
        let (shared, provider) = (Arc::clone(&server.shared), Arc::clone(&server.provider));
        let certificate = Arc::clone(&server.certificate);
        let watching = watch_certificate(certificate, shared, provider, server.end.clone());
        server.services.spawn(watching);
        Ok(server)
    }

    fn serve(&mut self, listener: Listener) -> Result<(), ServerError> {
        let address = listener.address;
        let failed = |transport| {
            move |source| ListenError {
                transport,
                address: address.into(),
                source,
            }
        };
        for TcpSocket { listener, refused } in listener.tcp {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(failed("TCP"))?;
            let acceptor = TcpAcceptor {
                listener,
                refused,
                tls: Arc::clone(&self.tcp_tls),
                site: Arc::clone(&self.site),
                tasks: self.connections.clone(),
            };
            self.connections.spawn(acceptor.run());
        }
        let marks = Arc::clone(&self.site.marks);
        let unvalidated = Arc::default();
        let socket = MarkedSocket::new(listener.udp, marks, Arc::clone(&unvalidated));
        let socket = socket.map_err(failed("UDP"))?;
        let endpoint = Endpoint::new_with_abstract_socket(
            self.quic_keys.endpoint(),
            Some(self.quic_config.load().endpoint()),
            Arc::new(socket),
            Arc::new(TokioRuntime),
        )
        .map_err(failed("UDP"))?;
        let quic = QuicListener {
            endpoint: endpoint.clone(),
            local: address,
            config: Arc::clone(&self.quic_config),
            site: Arc::clone(&self.site),
            tasks: self.connections.clone(),
            handshakes: Arc::default(),
            unvalidated,
        };
        self.endpoints.push(endpoint);
        self.connections.spawn(quic.run());
        Ok(())
    }

    /// Addresses that are served, with the ports that were chosen where 0 was asked for.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.admin.addresses
    }

    /// Address of the admin page.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Whether clients can use MPTCP.
    pub fn mptcp(&self) -> bool {
        self.mptcp
    }

    /// The store's file; `None` when what is learnt is only kept in memory.
    pub fn store(&self) -> Option<&PathBuf> {
        self.store.as_ref()
    }

    /// The certificate in use.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Puts another configuration into force. Connections keep going; those that are open
    /// keep the TLS and QUIC settings with which they began.
    ///
    /// # Errors
    /// When the configuration is bad, or changes what needs a restart; the former one then
    /// stays in force.
    pub fn reload(&self, config: Config) -> Result<(), ServerError> {
        let result = self.try_reload(config);
        let metrics = &self.shared.metrics;
        let counter = match result {
            Ok(()) => &metrics.reloads,
            Err(_) => &metrics.reloads_failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        result
    }

    /// The next reload that the admin API is asked for, to be answered once it has happened.
    pub async fn next_reload(&self) -> Option<ReloadRequest> {
        self.admin.reloads.next().await
    }

    /// Counts a configuration that could not even be read.
    pub fn count_refused_reload(&self) {
        add(&self.shared.metrics.reloads_failed, 1);
    }

    fn try_reload(&self, config: Config) -> Result<(), ServerError> {
        config.check()?;
        config.policy.validate()?;
        let former = self.config.load_full();
        check_unchanged(&former, &config)?;
        let available = available(&config.policy, &self.site.controls)?;
        let model = load_model(&config)?;
        let settings = tls_settings(&config, &self.resumption);
        let certificate = || Arc::clone(&self.certificate);
        let tcp_tls = tls::tcp_config(certificate(), &self.provider, &settings)?;
        let quic_tls = tls::quic_config(certificate(), &self.provider, &settings)?;
        let quic_config = quic_settings(quic_tls, &self.quic_keys, &config)?;
        let policy = config.policy.clone();
        let classes = Classes::new(&config.classes).map_err(ConfigError::from)?;
        let former = (&former.log, self.shared.access_log());
        let in_force = InForce::new(&config, &self.certificate, Some(former))?;
        // The last that can fail; from here on everything is put into force.
        self.certificate.reload(&self.provider)?;
        self.tcp_tls.store(Arc::new(tcp_tls));
        self.quic_config.store(Arc::new(quic_config));
        set_floor(&self.site.controls, &policy);
        if let Some(egress) = &self.shared.egress {
            egress.set_rules(policy.clone(), classes);
        }
        self.shared.clients.set_rules(policy, model, available);
        self.site.reload(in_force.service);
        self.shared.reload(in_force.terms, in_force.access_log);
        self.admin.settings.store(Arc::new(in_force.admin));
        self.config.store(Arc::new(config));
        Ok(())
    }

    /// Waits until the lines of the access log are written, unless nobody takes them.
    async fn finish_log(&self) {
        let counts = Arc::clone(&self.shared.metrics.access_log);
        let settled = tokio::task::spawn_blocking(move || counts.settle(LOG_PATIENCE)).await;
        if let Ok(lost @ 1..) = settled {
            tracing::warn!("{lost} lines of the access log could not be written and are lost");
        }
    }

    /// Stops: takes no more connections or requests, answers those in flight for at most
    /// `timeouts.drain`, and writes the store. Gives the number of connections that had to
    /// be cut.
    pub async fn stop(self) -> usize {
        let drain = self.config.load().timeouts.drain;
        self.site.stop.cancel();
        self.connections.close();
        let drained = tokio::time::timeout(drain, self.connections.wait()).await;
        let cut = match drained {
            Ok(()) => 0,
            Err(_) => self.site.connections.count(),
        };
        for endpoint in &self.endpoints {
            endpoint.close(VarInt::from_u32(0x100), b"server stops");
            // The last packets are on their way soon; nobody waits for dead clients.
            let _ = tokio::time::timeout(Duration::from_millis(500), endpoint.wait_idle()).await;
        }
        self.end.cancel();
        self.services.close();
        self.services.wait().await;
        self.finish_log().await;
        cut
    }
}

/// How long a stop waits for a reader of the access log that takes nothing.
const LOG_PATIENCE: Duration = Duration::from_secs(2);
