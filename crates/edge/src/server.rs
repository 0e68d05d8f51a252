//! The server: starting, reloading and stopping it.

mod certificate;
mod check;
mod doors;
mod in_force;
mod setup;
mod start;
mod upgrade;
mod workers;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use hikyaku_acme::{Keeper, SetupError, common_name};
use hikyaku_quic::proto::VarInt;
use hikyaku_units::arm::Congestion;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access_log::AccessLogError;
use crate::admin::{self, Admin, AdminError, Demand, Demands};
use crate::config::{Config, ConfigError};
use crate::fleet::{FleetPeers, Joining, rotate_together, share_drains, share_gain};
use crate::gain::CountriesError;
use crate::handover::{HandoverError, Origin, Predecessor};
use crate::listen::{ListenError, PlainListener};
use crate::marked::Former;
use crate::metrics::add;
use crate::part::{Part, Whole};
use crate::secrets::{self, KeyFileError, NoRandomness, Secrets};
use crate::serve::{QuicError, Site};
use crate::shards::{ShardsError, warn_of_coalescing};
use crate::shared::Shared;
use crate::spans::{Tracer, export};
use crate::store::{self, Lender, Store, StoreError, Writer};
use crate::syn_ack::SynAcks;
use crate::tls::{Certificate, Certificates, Stapler, TlsError};
use certificate::{follow_fleet, keeper, watch_certificates};
pub use check::Findings;
use doors::{Doors, QuicDoor};
use hikyaku_content::{FilesError, SiteError};
use in_force::{InForce, Kept};
pub use setup::load_model;
use setup::{check_unchanged, hasten_syn_acks, raise_descriptor_limit, set_floor};
use start::{Known, Sockets};
pub use upgrade::Prepared;
pub use workers::Pulse;
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
    KeyFile(#[from] KeyFileError),
    #[error(transparent)]
    Quic(#[from] QuicError),
    #[error("starting the threads of QUIC")]
    Workers(#[source] io::Error),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Content(#[from] SiteError),
    #[error(transparent)]
    Acme(#[from] SetupError),
    #[error("serving `http.challenges`")]
    Challenges(#[from] FilesError),
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
    #[error(transparent)]
    Countries(#[from] CountriesError),
    #[error("preparing the shards")]
    Shards(#[from] ShardsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error(transparent)]
    Handover(#[from] HandoverError),
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
    secrets: Arc<Secrets>,
    /// The process that serves until this one does.
    predecessor: Option<Predecessor>,
    doors: Doors,
    quic: Vec<QuicDoor>,
    workers: Workers,
    mptcp: bool,
    /// `None` where the kernel does not take it.
    _syn_acks: Option<SynAcks>,
    admin_address: Option<SocketAddr>,
    store: Option<PathBuf>,
    /// `None` without a place for what it keeps.
    acme: Option<Arc<Keeper>>,
    /// Lends the store to another process.
    lender: Option<Lender>,
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
        Self::start_from(config, Origin::default())
    }

    /// Starts to serve, with the sockets of another process where it has handed some over. A server that is
    /// upgraded serves until this one is ready. To be called on a tokio runtime.
    ///
    /// # Errors
    /// When anything that the configuration asks for can't be had; nothing is left running
    /// then, and a server that is upgraded goes on.
    pub fn start_from(config: Config, origin: Origin) -> Result<Self, ServerError> {
        config.check()?;
        config.policy.validate()?;
        raise_descriptor_limit();
        let Origin { pool, predecessor } = origin;
        let known = Known::load(config, predecessor.as_ref())?;
        let config = &known.in_force.load().config;
        let steering = known.kept.quic_keys.steering();
        let sockets = Sockets::bind(config, known.egress.as_deref(), steering, &pool)?;
        let workers = Workers::start(steering.workers()).map_err(ServerError::Workers)?;
        let (mut server, store) = Self::of(known, sockets, workers);
        // From here on the other process receives nothing more.
        let handshakes = predecessor.as_ref().map(Predecessor::take_over);
        let handshakes = handshakes.transpose()?.unwrap_or_default();
        let handshakes = Arc::new(handshakes.into_iter().collect());
        server.predecessor = predecessor;
        let keys = &server.kept.quic_keys;
        let (giver, former) = (keys.giver(), keys.generation().wrapping_sub(1));
        server
            .open_quic(&|link| Former::new(giver.clone(), former, Arc::clone(&handshakes), link))?;
        server.open_doors()?;
        server.look_after(store);
        Ok(server)
    }

    /// Puts a server together, without anything that runs; also gives its store.
    fn of(
        known: Known,
        sockets: Sockets,
        workers: Workers,
    ) -> (Self, Option<Result<Store, StoreError>>) {
        let listeners = &sockets.listeners;
        let (in_force, kept) = (known.in_force, known.kept);
        let terms = in_force.part(|all| &all.terms);
        let (clients, egress) = (known.clients, known.egress);
        let shared = Shared::new(known.clock, clients, egress, known.gain, terms);
        let shared = Arc::new(shared);
        let service = in_force.part(|all| &all.service);
        let addresses: Vec<_> = listeners.iter().map(|listener| listener.address).collect();
        let served = addresses.first().map_or(443, SocketAddr::port);
        let controls = Arc::clone(&kept.controls);
        let site = Site::new(Arc::clone(&shared), controls, service, served);
        let settings = in_force.part(|all| &all.admin);
        let certificates = in_force.part(|all| &all.certificates);
        let state = in_force.load().config.state.dir.clone();
        let board = Arc::clone(&known.secrets.board);
        let peers = FleetPeers::new(Arc::clone(&shared.fleet), board);
        let acme = state.as_deref().map(|state| {
            let certificates = in_force.part(|all| &all.certificates);
            Arc::new(keeper(state, certificates, &shared, &kept, Arc::new(peers)))
        });
        let stapled = in_force.part(|all| &all.certificates);
        let stapler = Stapler::new(stapled, state.as_deref(), &kept.provider);
        let admin = Admin {
            cleartext: local_addresses(&sockets.cleartext),
            acme: acme.clone(),
            ..admin_of(&site, certificates, addresses, settings, (&kept, stapler))
        };
        let server = Self {
            mptcp: listeners.iter().all(|listener| listener.mptcp),
            _syn_acks: hasten_syn_acks(&sockets),
            admin_address: local_addresses(&sockets.admin).first().copied(),
            doors: Doors::of(sockets),
            store: state.as_deref().map(Store::file),
            acme,
            lender: None,
            in_force,
            kept,
            shared,
            site: Arc::new(site),
            admin: Arc::new(admin),
            secrets: known.secrets,
            predecessor: None,
            quic: Vec::new(),
            workers,
            connections: TaskTracker::new(),
            end: CancellationToken::new(),
            services: TaskTracker::new(),
        };
        (server, known.store)
    }

    /// Starts what serves the server itself: the agent's follower, the writer of the store, and checks of
    /// upstreams. Others look after names, keys and certificates.
    fn look_after(&mut self, store: Option<Result<Store, StoreError>>) {
        let (services, end) = (&self.services, &self.end);
        self.kept.upstreams.start_checks();
        if let Some(egress) = &self.shared.egress {
            egress.start(services, end);
        }
        let config = &self.in_force.load().config;
        if let (Some(dir), Some(store)) = (config.state.dir.clone(), store) {
            let writer = Writer::new(dir, store, &self.shared);
            let (lender, requests) = store::lending();
            services.spawn(store::write_behind(writer, end.clone(), requests));
            self.lender = Some(lender);
        }
        if let Some(collector) = config.tracing.otlp.clone() {
            let (tracer, spans) = Tracer::new(&config.tracing);
            let tracer = self.shared.tracer.get_or_init(|| Arc::new(tracer));
            let (config, tracer) = (config.tracing.clone(), Arc::clone(tracer));
            services.spawn(export(config, collector, tracer, spans, end.clone()));
        }
        let warning = warn_of_coalescing(config.shards.clone());
        let ended = end.clone();
        services.spawn(async move { ended.run_until_cancelled(warning).await });
        let secrets = Arc::clone(&self.secrets);
        services.spawn(secrets::follow_fleet(Arc::clone(&secrets), end.clone()));
        services.spawn(rotate_together(
            Arc::clone(&secrets),
            Arc::clone(&self.shared.fleet),
            end.clone(),
        ));
        if let Some(egress) = self.shared.egress.clone() {
            let (fleet, board) = (&self.shared.fleet, &self.secrets.board);
            let (fleet, board) = (Arc::clone(fleet), Arc::clone(board));
            services.spawn(share_drains(egress, fleet, board, end.clone()));
        }
        services.spawn(share_gain(
            Arc::clone(&self.shared.gain),
            Arc::clone(&self.shared.fleet),
            Arc::clone(&self.secrets.board),
            end.clone(),
        ));
        services.spawn(secrets::rotate_in_time(secrets, end.clone()));
        let (shared, provider) = (Arc::clone(&self.shared), Arc::clone(&self.kept.provider));
        let certificates = self.in_force.part(|all| &all.certificates);
        services.spawn(watch_certificates(
            certificates,
            shared,
            provider,
            end.clone(),
        ));
        services.spawn(Arc::clone(&self.admin.stapler).run(end.clone()));
        if let Some(keeper) = &self.acme {
            let (keeper, board) = (Arc::clone(keeper), &self.secrets.board);
            services.spawn(follow_fleet(keeper, Arc::clone(board), end.clone()));
        }
        // Orders first look at the fleet's certificates.
        self.join_fleet();
        self.keep_certificates(false);
    }

    /// Is in the fleet that the configuration in force names, or in none.
    fn join_fleet(&self) {
        let config = &self.in_force.load().config;
        self.shared.fleet.join(Joining {
            config: &config.fleet,
            digest: config.digest(),
            caches: &self.kept.caches,
            board: &self.secrets.board,
            certificates: config
                .names_by_acme()
                .map(|names| common_name(names))
                .collect(),
        });
    }

    /// Keeps the certificates that are got by ACME. With `forgiving`, failures before make none wait.
    fn keep_certificates(&self, forgiving: bool) {
        let Some(keeper) = &self.acme else {
            return;
        };
        let now = self.in_force.load();
        match &now.acme {
            Some(setup) => {
                let names = now.config.names_by_acme().cloned();
                keeper.keep(setup.clone(), names.collect(), forgiving);
            }
            None => keeper.rest(),
        }
    }

    /// A way to see that all of its threads run.
    pub fn pulse(&self) -> Pulse {
        self.workers.pulse()
    }

    /// Whether content is served in the clear.
    pub fn serves_in_clear(&self) -> bool {
        self.in_force.load().config.serves_in_clear()
    }

    /// Addresses of HTTP in the clear.
    pub fn cleartext(&self) -> &[SocketAddr] {
        &self.admin.cleartext
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

    /// The next demand that came over the admin API, to be answered once it is met.
    pub async fn next_demand(&self) -> Option<Demand> {
        self.admin.demands.next().await
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
        let shared = self.secrets.read_shared()?;
        // The last that can fail; from here on everything is put into force.
        self.kept.certificate.reload(&self.kept.provider)?;
        self.secrets.share(shared);
        set_floor(&self.kept.controls, &in_force.config.policy);
        self.in_force.replace(in_force);
        self.kept.upstreams.start_checks();
        self.join_fleet();
        self.keep_certificates(true);
        self.site.reloaded();
        self.admin.stapler.reloaded();
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
        if let Some(predecessor) = &self.predecessor {
            predecessor.stops();
        }
        self.doors.remove();
        // Tunnels have nothing to finish.
        self.site.end.cancel();
        let cut = self.drain().await;
        self.end().await;
        cut
    }

    /// Ends, whatever is in flight, and writes the store unless another process has it.
    pub async fn end(self) {
        self.doors.remove();
        self.site.end.cancel();
        for door in &self.quic {
            door.endpoint
                .close(VarInt::from_u32(0x100), b"server stops");
        }
        // The last packets are on their way soon; nobody waits for dead clients.
        let idle = join_all(self.quic.iter().map(|door| door.endpoint.wait_idle()));
        let _ = tokio::time::timeout(LAST_PACKETS, idle).await;
        if let Some(keeper) = &self.acme {
            keeper.stop().await;
        }
        self.shared.fleet.leave().await;
        self.end.cancel();
        self.services.close();
        self.services.wait().await;
        self.finish_log().await;
        self.workers.stop().await;
    }
}

fn local_addresses(listeners: &[PlainListener]) -> Vec<SocketAddr> {
    let addresses = listeners.iter().map(|one| one.listener.local_addr());
    addresses.filter_map(Result::ok).collect()
}

fn admin_of(
    site: &Site,
    certificates: Part<Certificates>,
    addresses: Vec<SocketAddr>,
    settings: Part<admin::Settings>,
    (kept, stapler): (&Kept, Stapler),
) -> Admin {
    Admin {
        shared: Arc::clone(&site.shared),
        connections: Arc::clone(&site.connections),
        live: Arc::clone(&site.live),
        traces: Arc::clone(&site.traces),
        certificates,
        addresses,
        cleartext: Vec::new(),
        demands: Demands::default(),
        settings,
        acme: None,
        stapler: Arc::new(stapler),
        upstreams: kept.upstreams.clone(),
        caches: kept.caches.clone(),
        series: admin::Series::default(),
    }
}

/// For how long a stop waits for the last packets of all QUIC connections.
const LAST_PACKETS: Duration = Duration::from_millis(500);

/// How long a stop waits for a reader of the access log that takes nothing.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
