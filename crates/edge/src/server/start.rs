//! Parts of a server, in the order in which they can be had.

use std::sync::Arc;

use hikyaku_quic::Steering;

use super::in_force::{InForce, Kept};
use super::setup::{certificate_source, load_controls, load_store, open_store, set_floor};
use super::{ServerError, workers};
use crate::admin;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::config::Config;
use crate::connection_ids::{QuicKeys, new_steering};
use crate::egress::Egress;
use crate::gain::Gain;
use crate::handover::{Pool, Predecessor, Role};
use crate::listen::{ListenError, Listener, PlainListener};
use crate::part::Whole;
use crate::secrets::Secrets;
use crate::store::{Store, StoreError};
use crate::tls::{Certificate, Resumption};
use hikyaku_content::{Caches, Directories, Upstreams};

/// The parts that are there before the server listens.
pub(super) struct Known {
    pub(super) clock: Clock,
    pub(super) kept: Kept,
    pub(super) secrets: Arc<Secrets>,
    pub(super) in_force: Whole<InForce>,
    pub(super) clients: Clients,
    pub(super) egress: Option<Arc<Egress>>,
    pub(super) gain: Gain,
    /// `None` without one; the error may pass.
    pub(super) store: Option<Result<Store, StoreError>>,
}

impl Known {
    /// Takes over from a `former` process where there is one.
    pub(super) fn load(config: Config, former: Option<&Predecessor>) -> Result<Self, ServerError> {
        let controls = Arc::new(load_controls(&config.policy));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let certificate = Arc::new(Certificate::load(certificate_source(&config), &provider)?);
        let store = config.state.dir.as_deref().map(open_store).transpose()?;
        // Once the store is this process's, so are the keys beside it.
        let keys = former.map(Predecessor::keys).transpose()?;
        let secrets = Secrets::load(config.state.dir.as_deref(), keys)?;
        let secrets = Arc::new(secrets.in_fleet(&config.fleet)?);
        // The workers stay as many: the sockets are distributed among them.
        let steering = match former {
            Some(former) => former.steering(),
            None => new_steering(workers::worth())?,
        };
        let generation = former.map_or(0, Predecessor::generation);
        let kept = Kept {
            provider,
            certificate,
            controls,
            resumption: Resumption::new(Arc::clone(&secrets.tickets)),
            quic_keys: QuicKeys::new(&secrets, steering, generation)?
                .behind(config.behind.quic_lb.as_ref()),
            upstreams: Upstreams::default(),
            directories: Directories::default(),
            caches: Caches::default(),
            answers: Arc::default(),
        };
        let in_force = InForce::new(config, &kept, None)?;
        set_floor(&kept.controls, &in_force.config.policy);
        let in_force = Whole::new(in_force);
        let clock = Clock::start();
        let (clients, egress, gain) = memory(&in_force, store.as_ref(), clock);
        Ok(Self {
            clock,
            kept,
            secrets,
            in_force,
            clients,
            egress,
            gain,
            store,
        })
    }
}

/// The knowledge of clients and of their routes, and the counts of responses, with the records of the store.
fn memory(
    in_force: &Whole<InForce>,
    store: Option<&Result<Store, StoreError>>,
    clock: Clock,
) -> (Clients, Option<Arc<Egress>>, Gain) {
    let now = in_force.load();
    let config = &now.config;
    let (max, journal) = (config.limits.clients, store.is_some());
    let rules = in_force.part(|all| &all.clients);
    let clients = Clients::new(rules, max, journal, clock);
    let rules = in_force.part(|all| &all.egress);
    let egress = Egress::new(&config.egress, config.mptcp, rules, journal, clock);
    let gain = Gain::new(in_force.part(|all| &all.gain), clock);
    if let (Some(dir), Some(store)) = (&config.state.dir, store) {
        load_store(dir, store, &clients, egress.as_deref(), &gain);
    }
    (clients, egress, gain)
}

/// The sockets that are listened on.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) listeners: Vec<Listener>,
    /// HTTP in the clear.
    pub(super) cleartext: Vec<PlainListener>,
    pub(super) admin: Vec<PlainListener>,
}

impl Sockets {
    /// Takes those of `pool`, and binds the others.
    pub(super) fn bind(
        config: &Config,
        egress: Option<&Egress>,
        steering: Steering,
        pool: &Pool,
    ) -> Result<Self, ServerError> {
        let gate = egress.and_then(Egress::gate);
        let listeners = Listener::bind_all(&config.listen, config.mptcp, gate, steering, pool)?;
        if config.mptcp && listeners.iter().any(|listener| !listener.mptcp) {
            tracing::info!("this kernel has no MPTCP: clients are served over plain TCP");
        }
        let mut cleartext = Vec::new();
        for address in &config.http.listen {
            let bound = PlainListener::bind(address, Role::Cleartext, pool);
            cleartext.extend(bound.map_err(|source| ListenError {
                transport: "TCP",
                address: address.clone(),
                source,
            })?);
        }
        let admin = admin::bind(&config.admin, pool)?;
        for address in pool.close() {
            tracing::warn!(
                "systemd has handed over a socket of {address}, which nothing in the configuration \
                 listens on: it is closed"
            );
        }
        Ok(Self {
            listeners,
            cleartext,
            admin,
        })
    }
}
