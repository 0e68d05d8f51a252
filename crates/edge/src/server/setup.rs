//! The parts of a server, from its configuration.

use std::path::{Path, PathBuf};

use hikyaku_acme::file_of;
use hikyaku_core::model::Model;
use hikyaku_core::policy::PolicyConfig;
use hikyaku_units::arm::{ByTransport, Congestion, CongestionSet};

use super::start::Sockets;
use super::{ServerError, local_addresses};
use crate::causes::chain;
use crate::clients::Clients;
use crate::config::Config;
use crate::egress::Egress;
use crate::gain::Gain;
use crate::listen::probe_congestion;
use crate::packed::built_in_model;
use crate::store::{Store, StoreError};
use crate::syn_ack::SynAcks;
use crate::tcp_cc::{Controls, Prefix, Setting};
use crate::tls::{self, Pair, Source};
use crate::transport;

/// Allows as many descriptors as the system lets us have: each connection and each file
/// being sent is one.
pub(super) fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("raising the limit of open files: {error}");
    }
}

/// The congestion controls that connections can get.
pub(super) fn available(
    policy: &PolicyConfig,
    controls: &Controls,
) -> Result<ByTransport<CongestionSet>, ServerError> {
    transport::available(policy, controls)
        .map_err(|(congestion, source)| ServerError::Congestion { congestion, source })
}

/// Checks that connections can get what the policies of sites ask for.
pub(super) fn check_available(config: &Config, controls: &Controls) -> Result<(), ServerError> {
    let own = config.sites.iter();
    let own = own.filter_map(|site| site.policy.over(&config.policy));
    own.filter(|policy| policy.congestion != config.policy.congestion)
        .try_for_each(|policy| available(&policy, controls).map(drop))
}

pub(super) fn certificate_source(config: &Config) -> Source {
    let pairs = config.tls.cert.iter().zip(&config.tls.key);
    let pairs: Vec<_> = pairs
        .map(|(cert, key)| Pair {
            cert: cert.clone(),
            key: key.clone(),
        })
        .collect();
    if !pairs.is_empty() {
        return Source::Files(pairs);
    }
    if let (false, Some(state)) = (config.tls.acme.is_empty(), &config.state.dir) {
        return Source::Acme {
            names: config.tls.acme.clone(),
            file: file_of(state, &config.tls.acme),
        };
    }
    let shards = config.shards.hosts.iter();
    Source::SelfSigned {
        names: tls::default_names()
            .into_iter()
            .chain(config.tls.names.iter().cloned())
            .chain(shards.map(|host| host.name().to_owned()))
            .collect(),
    }
}

/// The model of a configuration, or the one that is built in.
///
/// # Errors
/// When its file can't be read, or is no model.
pub fn load_model(config: &Config) -> Result<Model, ServerError> {
    let Some(path) = &config.model.file else {
        let failed = |source| ServerError::Model {
            path: PathBuf::from("models/default.json (built in)"),
            source,
        };
        let text = built_in_model().map_err(|error| failed(Box::new(error) as _))?;
        return Model::from_json(&text).map_err(|error| failed(Box::new(error)));
    };
    let failed = |source| ServerError::Model {
        path: path.clone(),
        source,
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(Box::new(error) as _))?;
    Model::from_json(&text).map_err(|error| failed(Box::new(error)))
}

/// Loads our congestion controls of TCP, or logs which abilities are missing without them.
pub(super) fn load_controls(policy: &PolicyConfig) -> Controls {
    let bbr = probe_congestion(Congestion::Bbr).is_ok();
    let loaded = Controls::load(bbr).inspect(|controls| {
        let names = controls.own_names().join(", ");
        tracing::info!("TCP congestion controls: {names}");
    });
    loaded.unwrap_or_else(|error| {
        let cause = chain(&error);
        if policy.min_cwnd.bytes().is_some() {
            tracing::warn!("policy.min_cwnd can't be held on TCP: {cause}");
        } else {
            tracing::info!(
                "TCP without window floors, which would make lossy paths faster: {cause}"
            );
        }
        Controls::plain()
    })
}

/// Has lost SYN-ACKs sent again early, or logs the missing part.
pub(super) fn hasten_syn_acks(sockets: &Sockets) -> Option<SynAcks> {
    let listeners = sockets.listeners.iter().map(|listener| listener.address);
    let cleartext = local_addresses(&sockets.cleartext);
    let ports: Vec<u16> = listeners.chain(cleartext).map(|at| at.port()).collect();
    SynAcks::load(&ports)
        .inspect(|_| tracing::debug!("lost SYN-ACKs are sent again early"))
        .inspect_err(|error| {
            tracing::debug!("lost SYN-ACKs wait a second: {}", chain(error));
        })
        .ok()
}

/// Puts the policy's fixed floor under TCP's windows, and warns of what it does there and on QUIC.
pub(super) fn set_floor(controls: &Controls, policy: &PolicyConfig) {
    let floor = policy.min_cwnd.bytes();
    let setting = floor.map(|bytes| Setting {
        floor: u32::try_from(bytes).unwrap_or(u32::MAX),
        ..Setting::default()
    });
    if let Err(error) = controls.set_prefix(Prefix::ALL, setting) {
        tracing::error!("notifying the kernel of policy.min_cwnd: {error}; TCP keeps the former");
    }
    if let Some(bytes) = floor {
        let held = match controls.has_floors() {
            true => "the congestion windows of QUIC and TCP",
            false => "QUIC's congestion window",
        };
        tracing::warn!(
            "policy.min_cwnd holds {held} at {bytes} bytes or more, whatever is lost: use it only \
             on networks that nobody else shares"
        );
    }
}

/// Opens the store in `dir`. The inner error is one that may pass while the server works from memory.
pub(super) fn open_store(dir: &Path) -> Result<Result<Store, StoreError>, ServerError> {
    match Store::open(dir) {
        Err(error) if error.is_final() => Err(error.into()),
        opened => Ok(opened),
    }
}

/// Takes what the store in `dir` knows from before, as far as it can be read.
pub(super) fn load_store(
    dir: &Path,
    opened: &Result<Store, StoreError>,
    clients: &Clients,
    egress: Option<&Egress>,
    gain: &Gain,
) {
    match opened {
        Ok(store) => load(store, clients, egress, gain),
        Err(_) => {
            if let Some(store) = Store::open_read_only(dir) {
                load(&store, clients, egress, gain);
            }
        }
    }
}

fn load(store: &Store, clients: &Clients, egress: Option<&Egress>, gain: &Gain) {
    let loaded = store.load(|key, encoded| clients.insert(key, encoded));
    log_loaded(store, "clients and prefixes", loaded);
    if let Some(egress) = egress {
        let loaded = egress.restore(|each| store.load_routes(each));
        log_loaded(
            store,
            "clients, prefixes and ASes with egress routes",
            loaded,
        );
    }
    let loaded = store.load_gain(|day, encoded| gain.insert(day, encoded));
    log_loaded(store, "days of the gain", loaded);
}

/// Logs how many records were of use, and how many not.
fn log_loaded(store: &Store, what: &str, loaded: Result<(usize, usize), redb::Error>) {
    match loaded {
        Ok((0, 0)) => {}
        Ok((used, 0)) => tracing::info!("{used} {what} known from before"),
        Ok((used, unusable)) => tracing::warn!(
            "{used} {what} known from before; {unusable} records are of another format and are \
             left out"
        ),
        Err(error) => tracing::error!(
            "reading {}: {error}; what could not be read is learnt anew",
            store.path().display()
        ),
    }
}

/// Refuses changes of what sockets and files were opened for.
pub(super) fn check_unchanged(now: &Config, new: &Config) -> Result<(), ServerError> {
    let keys = [
        ("listen", now.listen == new.listen && now.mptcp == new.mptcp),
        ("http.listen", now.http.listen == new.http.listen),
        ("admin.listen", now.admin.listen == new.admin.listen),
        ("behind.quic_lb", now.behind.quic_lb == new.behind.quic_lb),
        ("egress", now.egress == new.egress),
        ("state.dir", now.state == new.state),
        ("tracing", now.tracing == new.tracing),
        (
            "fleet.key_file",
            now.fleet.key_file == new.fleet.key_file
                && now.fleet.shared_addresses == new.fleet.shared_addresses,
        ),
        ("limits.clients", now.limits.clients == new.limits.clients),
        (
            "tls.cert",
            now.tls.cert == new.tls.cert && now.tls.key == new.tls.key,
        ),
        ("tls.acme", now.tls.acme == new.tls.acme),
        ("tls.names", now.tls.names == new.tls.names),
    ];
    match keys.into_iter().find(|(_, same)| !same) {
        Some((key, _)) => Err(ServerError::NeedsRestart { key }),
        None => Ok(()),
    }
}
