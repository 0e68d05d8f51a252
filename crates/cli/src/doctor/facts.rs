//! The facts that the checks go by: of the machine, of the configuration, and of DNS.
//!
//! Gathering them changes nothing. Addresses are bound for a moment, without listening on them.

mod certificates;
mod container;
mod dns;
mod kernel;
mod places;
mod ports;
mod process;
mod sys;
mod system;
mod udp;
mod upstreams;

use std::net::SocketAddr;
use std::time::SystemTime;

use hikyaku_edge::tls::TlsError;
use hikyaku_edge::{Config, Findings, ServerError};

pub(crate) use certificates::{Files, Leaf, Link, Unusable};
pub(crate) use container::{Container, Mapping};
pub(crate) use dns::Dns;
pub(crate) use kernel::{Buffers, Conntrack, Kernel};
pub(crate) use places::{FileSystem, Place};
pub(crate) use ports::{Bound, Owner, Port};
pub(crate) use process::{Capability, Process};
pub(crate) use system::System;
pub(crate) use udp::Udp;
pub(crate) use upstreams::Upstream;

/// Where facts are taken from.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub(crate) system: System,
    /// DNS server; `None` for that of the system.
    pub(crate) resolver: Option<SocketAddr>,
}

/// All that the checks go by.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) config: Config,
    /// Errors of the configuration that no other fact shows.
    pub(crate) faults: Vec<String>,
    pub(crate) kernel: Kernel,
    pub(crate) process: Process,
    pub(crate) udp: Udp,
    pub(crate) ports: Vec<Port>,
    /// Of certificates that are read from files.
    pub(crate) certificates: Vec<Files>,
    pub(crate) time: Time,
    pub(crate) dns: Dns,
    pub(crate) container: Container,
    pub(crate) places: Vec<Place>,
    pub(crate) upstreams: Vec<Upstream>,
}

/// This machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    /// Seconds since the Unix epoch.
    pub(crate) now: i64,
    /// Whether a time service keeps it right; `None` if the kernel does not say.
    pub(crate) synchronised: Option<bool>,
}

impl Facts {
    /// Gathers the facts for a configuration.
    pub(crate) fn gather(config: Config, sources: &Sources) -> Self {
        let system = &sources.system;
        let ports = ports::of(&config, system);
        let certificates = certificates::of(&config);
        let names = dns::names(&config, &certificates);
        Self {
            faults: faults(&config),
            kernel: Kernel::of(system),
            process: Process::of(system, ports::server(&ports)),
            udp: Udp::measure(),
            time: Time {
                now: seconds(SystemTime::now()),
                synchronised: sys::clock_is_synchronised().ok(),
            },
            dns: Dns::ask(sources.resolver.or_else(|| dns::resolver(system)), names),
            container: Container::of(system),
            places: places::of(&config),
            upstreams: upstreams::of(&config),
            ports,
            certificates,
            config,
        }
    }
}

/// The errors of a configuration, but for those of certificates and addresses, which have facts of their own.
/// Without anything to serve there is no configuration to check.
fn faults(config: &Config) -> Vec<String> {
    if !has_content(config) {
        return Vec::new();
    }
    let errors = Findings::of(config).errors.into_iter();
    let others = errors.filter(|error| match error {
        ServerError::Tls(error) => matches!(error, TlsError::Unlike { .. }),
        ServerError::Listen(_) => false,
        _ => true,
    });
    others
        .map(|error| format!("{:#}", anyhow::Error::from(error)))
        .collect()
}

/// Whether anything is to be served.
pub(crate) fn has_content(config: &Config) -> bool {
    let has_own = config.root.is_some() || config.upstream.is_some();
    has_own || !config.sites.is_empty() || !config.routes.is_empty()
}

fn seconds(time: SystemTime) -> i64 {
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.map_or(0, |time| time.as_secs().try_into().unwrap_or(i64::MAX))
}
