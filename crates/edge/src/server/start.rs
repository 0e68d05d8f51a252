//! Parts of a server, in the order in which they can be had.

use std::sync::Arc;

use hikyaku_quic::Steering;
use tokio::net::TcpListener;

use super::in_force::{InForce, Kept};
use super::setup::{certificate_source, load_controls, load_store, open_store, set_floor};
use super::{ServerError, workers};
use crate::admin;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::config::Config;
use crate::egress::Egress;
use crate::listen::Listener;
use crate::part::Whole;
use crate::secrets::Secrets;
use crate::serve::QuicKeys;
use crate::store::{Store, StoreError};
use crate::tls::{Certificate, Resumption};

/// The parts that are there before the server listens.
pub(super) struct Known {
    pub(super) clock: Clock,
    pub(super) kept: Kept,
    pub(super) secrets: Arc<Secrets>,
    pub(super) in_force: Whole<InForce>,
    pub(super) clients: Clients,
    pub(super) egress: Option<Arc<Egress>>,
    /// `None` without one; the error may pass.
    pub(super) store: Option<Result<Store, StoreError>>,
}

impl Known {
    pub(super) fn load(config: Config) -> Result<Self, ServerError> {
        let controls = Arc::new(load_controls(&config.policy));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let certificate = Arc::new(Certificate::load(certificate_source(&config), &provider)?);
        let store = config.state.dir.as_deref().map(open_store).transpose()?;
        // Once the store is this process's, so are the keys beside it.
        let secrets = Arc::new(Secrets::load(config.state.dir.as_deref())?);
        let kept = Kept {
            provider,
            certificate,
            controls,
            resumption: Resumption::new(Arc::clone(&secrets.tickets)),
            quic_keys: QuicKeys::new(&secrets, workers::worth())?,
        };
        let in_force = InForce::new(config, &kept, None)?;
        set_floor(&kept.controls, &in_force.config.policy);
        let in_force = Whole::new(in_force);
        let clock = Clock::start();
        let (clients, egress) = memory(&in_force, store.as_ref(), clock);
        Ok(Self {
            clock,
            kept,
            secrets,
            in_force,
            clients,
            egress,
            store,
        })
    }
}

/// The knowledge of clients and of their routes, with the records of the store.
fn memory(
    in_force: &Whole<InForce>,
    store: Option<&Result<Store, StoreError>>,
    clock: Clock,
) -> (Clients, Option<Arc<Egress>>) {
    let now = in_force.load();
    let config = &now.config;
    let (max, journal) = (config.limits.clients, store.is_some());
    let rules = in_force.part(|all| &all.clients);
    let clients = Clients::new(rules, max, journal, clock);
    let rules = in_force.part(|all| &all.egress);
    let egress = Egress::new(&config.egress, config.mptcp, rules, journal, clock);
    if let (Some(dir), Some(store)) = (&config.state.dir, store) {
        load_store(dir, store, &clients, egress.as_deref());
    }
    (clients, egress)
}

/// The sockets that are listened on.
pub(super) struct Sockets {
    pub(super) listeners: Vec<Listener>,
    pub(super) admin: Vec<TcpListener>,
}

impl Sockets {
    pub(super) fn bind(
        config: &Config,
        egress: Option<&Egress>,
        steering: Steering,
    ) -> Result<Self, ServerError> {
        let gate = egress.and_then(Egress::gate);
        let listeners = Listener::bind_all(&config.listen, config.mptcp, gate, steering)?;
        if config.mptcp && listeners.iter().any(|listener| !listener.mptcp) {
            tracing::info!("this kernel has no MPTCP: clients are served over plain TCP");
        }
        Ok(Self {
            listeners,
            admin: admin::bind(&config.admin)?,
        })
    }
}
