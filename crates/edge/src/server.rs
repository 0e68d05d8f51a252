//! The server: starting, reloading and stopping it.

mod certificate;
mod in_force;
mod setup;
mod start;
mod workers;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use hikyaku_quic::proto::VarInt;
use hikyaku_quic::{Driver, Endpoint, Group};
use hikyaku_units::arm::Congestion;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access_log::AccessLogError;
use crate::admin::{self, Admin, AdminError, ReloadRequest, Reloads};
use crate::config::{Config, ConfigError};
use crate::listen::{ListenError, Listener, TcpSocket};
use crate::marked::MarkedSocket;
use crate::metrics::add;
use crate::part::{Part, Whole};
use crate::secrets::{self, NoRandomness, Secrets};
use crate::serve::{QuicError, QuicListener, Site, TcpAcceptor};
use crate::shards::{ShardsError, warn_of_coalescing};
use crate::shared::Shared;
use crate::store::{self, Store, StoreError, Writer};
use crate::tls::{Certificate, Certificates, TlsError};
use certificate::watch_certificates;
use hikyaku_content::SiteError;
use in_force::{InForce, Kept};
use setup::{check_unchanged, raise_descriptor_limit, set_floor};
use start::{Known, Sockets};
use workers::Workers;

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
    #[error("starting the threads of QUIC")]
    Workers(#[source] io::Error),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Content(#[from] SiteError),
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
    /// All that a reload replaces. The parts of the server read theirs from it.
    in_force: Whole<InForce>,
    kept: Kept,
    shared: Arc<Shared>,
    site: Arc<Site>,
    admin: Arc<Admin>,
    endpoints: Vec<Endpoint>,
    workers: Workers,
    mptcp: bool,
    admin_address: Option<SocketAddr>,
    store: Option<PathBuf>,
    connections: TaskTracker,
    /// Ends the services of the server itself, after the connections.
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
        let known = Known::load(config)?;
        let config = &known.in_force.load().config;
        let steering = known.kept.quic_keys.steering();
        let sockets = Sockets::bind(config, known.egress.as_deref(), steering)?;
        let workers = Workers::start(steering.workers()).map_err(ServerError::Workers)?;
        let secrets = Arc::clone(&known.secrets);
        let (mut server, store) = Self::of(known, &sockets, workers);
        for listener in sockets.listeners {
            server.serve(listener)?;
        }
        server.look_after(sockets.admin, store, secrets);
        Ok(server)
    }

    /// Puts a server together, without anything that runs; also gives its store.
    fn of(
        known: Known,
        sockets: &Sockets,
        workers: Workers,
    ) -> (Self, Option<Result<Store, StoreError>>) {
        let listeners = &sockets.listeners;
        let admin_address = sockets.admin.first();
        let (in_force, kept) = (known.in_force, known.kept);
        let terms = in_force.part(|all| &all.terms);
        let shared = Arc::new(Shared::new(known.clock, known.clients, known.egress, terms));
        let service = in_force.part(|all| &all.service);
        let site = Site::new(Arc::clone(&shared), Arc::clone(&kept.controls), service);
        let addresses = listeners.iter().map(|listener| listener.address).collect();
        let settings = in_force.part(|all| &all.admin);
        let certificates = in_force.part(|all| &all.certificates);
        let admin = admin_of(&site, certificates, addresses, settings);
        let state = in_force.load().config.state.dir.clone();
        let server = Self {
            mptcp: listeners.iter().all(|listener| listener.mptcp),
            admin_address: admin_address.and_then(|listener| listener.local_addr().ok()),
            store: state.as_deref().map(Store::file),
            in_force,
            kept,
            shared,
            site: Arc::new(site),
            admin: Arc::new(admin),
            endpoints: Vec::new(),
            workers,
            connections: TaskTracker::new(),
            end: CancellationToken::new(),
            services: TaskTracker::new(),
        };
        (server, known.store)
    }

    /// Starts what serves the server itself: the admin API, the agent's follower, the writer of the
    /// store, and who looks after names, keys and certificates.
    fn look_after(
        &self,
        admin_listeners: Vec<TcpListener>,
        store: Option<Result<Store, StoreError>>,
        secrets: Arc<Secrets>,
    ) {
        let (services, end) = (&self.services, &self.end);
        for listener in admin_listeners {
            let serving = admin::serve(listener, Arc::clone(&self.admin), end.clone());
            services.spawn(serving);
        }
        if let Some(egress) = &self.shared.egress {
            egress.start(services, end);
        }
        let config = &self.in_force.load().config;
        if let (Some(dir), Some(store)) = (config.state.dir.clone(), store) {
            let writer = Writer::new(dir, store, &self.shared);
            services.spawn(store::write_behind(writer, end.clone()));
        }
        let warning = warn_of_coalescing(config.shards.clone());
        let ended = end.clone();
        services.spawn(async move { ended.run_until_cancelled(warning).await });
        services.spawn(secrets::rotate_in_time(secrets, end.clone()));
        let (shared, provider) = (Arc::clone(&self.shared), Arc::clone(&self.kept.provider));
        let certificates = self.in_force.part(|all| &all.certificates);
        services.spawn(watch_certificates(
            certificates,
            shared,
            provider,
            end.clone(),
        ));
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
        for socket in listener.tcp {
            self.serve_tcp(socket).map_err(failed("TCP"))?;
        }
        self.serve_quic(listener.udp, address)
            .map_err(failed("UDP"))?;
        Ok(())
    }

    /// Serves HTTP/3 on the sockets of an address, each in its worker.
    fn serve_quic(&mut self, sockets: Vec<UdpSocket>, local: SocketAddr) -> io::Result<()> {
        let keys = &self.kept.quic_keys;
        let group = Group::new(keys.steering());
        let (handshakes, unvalidated) = (Arc::default(), Arc::default());
        let workers = self.workers.runtimes();
        for (index, (socket, runtime)) in sockets.into_iter().zip(workers).enumerate() {
            let _entered = runtime.enter();
            let marks = Arc::clone(&self.site.marks);
            let socket = MarkedSocket::new(socket, marks, Arc::clone(&unvalidated))?;
            let (config, server) = (keys.endpoint(index), self.in_force.load().quic.endpoint());
            let made = Endpoint::of_worker(config, Some(server), Arc::new(socket), &group, index);
            let (endpoint, driver) = made?;
            let quic = QuicListener {
                endpoint: endpoint.clone(),
                local,
                config: self.in_force.part(|all| &all.quic),
                site: Arc::clone(&self.site),
                tasks: self.connections.clone(),
                handshakes: Arc::clone(&handshakes),
                unvalidated: Arc::clone(&unvalidated),
            };
            self.endpoints.push(endpoint);
            runtime.spawn(drive(driver, local));
            self.connections.spawn_on(quic.run(), runtime);
        }
        Ok(())
    }

    fn serve_tcp(&self, TcpSocket { listener, refused }: TcpSocket) -> io::Result<()> {
        let acceptor = TcpAcceptor {
            listener: tokio::net::TcpListener::from_std(listener)?,
            refused,
            tls: self.in_force.part(|all| &all.tcp_tls),
            site: Arc::clone(&self.site),
            tasks: self.connections.clone(),
        };
        self.connections.spawn(acceptor.run());
        Ok(())
    }

    /// Addresses that are served, with the ports that were chosen where 0 was asked for.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.admin.addresses
    }

    /// The first name of each site.
    pub fn sites(&self) -> Vec<String> {
        let config = &self.in_force.load().config;
        let names = config.sites.iter().filter_map(|site| site.names.first());
        names.cloned().collect()
    }

    /// A host for which there is content: `localhost`, if that is not for named sites alone.
    pub fn host(&self) -> String {
        let config = &self.in_force.load().config;
        let mut names = config.sites.iter().flat_map(|site| &site.names);
        let host = match config.serves_all_hosts() {
            true => None,
            false => names.find(|name| name.parse::<IpAddr>().is_err()),
        };
        let of_wildcard = |name: &String| name.replacen("*.", "www.", 1);
        host.map_or_else(|| "localhost".to_owned(), of_wildcard)
    }

    /// Address of the admin page.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Whether clients can use MPTCP.
    pub fn mptcp(&self) -> bool {
        self.mptcp
    }

    /// The store's file; `None` when estimates are only kept in memory.
    pub fn store(&self) -> Option<&PathBuf> {
        self.store.as_ref()
    }

    /// The certificate in use.
    pub fn certificate(&self) -> &Certificate {
        &self.kept.certificate
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
        let former = self.in_force.load();
        check_unchanged(&former.config, &config)?;
        let in_force = InForce::new(config, &self.kept, Some(&former))?;
        // The last that can fail; from here on everything is put into force.
        self.kept.certificate.reload(&self.kept.provider)?;
        set_floor(&self.kept.controls, &in_force.config.policy);
        self.in_force.replace(in_force);
        self.site.reloaded();
        if let Some(egress) = &self.shared.egress {
            egress.reloaded();
        }
        self.shared.clients.reloaded();
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
        let drain = self.in_force.load().config.timeouts.drain;
        self.site.stop.cancel();
        self.connections.close();
        let drained = tokio::time::timeout(drain, self.connections.wait()).await;
        let cut = match drained {
            Ok(()) => 0,
            Err(_) => self.site.connections.count(),
        };
        for endpoint in &self.endpoints {
            endpoint.close(VarInt::from_u32(0x100), b"server stops");
        }
        // The last packets are on their way soon; nobody waits for dead clients.
        let idle = join_all(self.endpoints.iter().map(Endpoint::wait_idle));
        let _ = tokio::time::timeout(LAST_PACKETS, idle).await;
        self.end.cancel();
        self.services.close();
        self.services.wait().await;
        self.finish_log().await;
        self.workers.stop().await;
        cut
    }
}

/// Drives an endpoint, whose connections end when its socket fails.
async fn drive(driver: Driver, local: SocketAddr) {
    if let Err(error) = driver.await {
        tracing::error!("HTTP/3 ends on {local}, whose socket fails: {error}");
    }
}

fn admin_of(
    site: &Site,
    certificates: Part<Certificates>,
    addresses: Vec<SocketAddr>,
    settings: Part<admin::Settings>,
) -> Admin {
    Admin {
        shared: Arc::clone(&site.shared),
        connections: Arc::clone(&site.connections),
        live: Arc::clone(&site.live),
        traces: Arc::clone(&site.traces),
        certificates,
        addresses,
        reloads: Reloads::default(),
        settings,
    }
}

/// For how long a stop waits for the last packets of all QUIC connections.
const LAST_PACKETS: Duration = Duration::from_millis(500);

/// How long a stop waits for a reader of the access log that takes nothing.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
