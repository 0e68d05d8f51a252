//! A fleet of edges (topology `fleet`), and the stores through which they share their knowledge.
//!
//! [`Bed`] is the network. Each run has edges and stores of its own.

mod edges;
mod session;
mod store;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{Attempt, RunError};
use super::programs;
use crate::experiment::spec::{Arm, Edge, Stores};
use hikyaku_emulator::link::{EmulatedLink, LinkPair, Netns, Report};
use hikyaku_emulator::topology::{Network, TopologySpec};
use hikyaku_netsim::{LinkConfig, derive_seed};
use store::Store;

pub(super) use session::run;

/// Name of the topology.
const TOPOLOGY: &str = "fleet";

/// Address of the client, the same for all edges.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 107, 0, 1));

/// Address of the stores.
const STORE: Ipv4Addr = Ipv4Addr::new(10, 108, 1, 2);

/// Link to the stores.
const STORE_LINK: &str = "store";

/// Time by which a slow store's answers are late.
const SLOW: Duration = Duration::from_millis(200);

/// Secrets of the edges.
const KEYS: &str = "6b65796b65796b65796b65796b65796b65796b65796b65796b65796b65796b65";

/// Returns the program that an arm needs and that is not installed.
pub(super) fn missing(arm: &Arm) -> Option<&'static str> {
    let stores = arm.fleet.as_ref().map(|fleet| fleet.stores)?;
    let needed = stores != Stores::None && programs::store().is_none();
    needed.then_some(programs::REDIS)
}

/// The network of a fleet. A drop ends all programs inside and removes the namespaces. After a kill,
/// `lab clean` finds all of it, since everything is inside of them.
#[derive(Debug)]
pub(super) struct Bed {
    // Stores end before their namespace is removed.
    stores: Vec<Store>,
    network: Network,
    /// Directory of the key file and of logs.
    directory: PathBuf,
}

impl Bed {
    /// Builds the network and the key file. No program runs in it yet.
    ///
    /// # Errors
    /// Without privileges, `/dev/net/tun` or iproute2.
    pub(super) fn open(directory: PathBuf) -> Result<Self, RunError> {
        let spec =
            TopologySpec::load(TOPOLOGY).map_err(|error| RunError::Arguments(error.to_string()))?;
        write_keys(&directory.join("fleet.keys"))?;
        let mut bed = Self {
            stores: Vec::new(),
            network: Network::create(&spec)?,
            directory,
        };
        bed.rest()?;
        bed.set_store_delay(Duration::ZERO)?;
        Ok(bed)
    }

    /// Returns the file of the edges' secrets.
    fn keys(&self) -> PathBuf {
        self.directory.join("fleet.keys")
    }

    fn node(&self, name: &str) -> &Netns {
        let Some(netns) = self.network.node(name) else {
            unreachable!("the topology has no node `{name}`");
        };
        netns
    }

    fn client(&self) -> &Netns {
        self.node("client")
    }

    /// Returns the namespace of an edge.
    fn edge(&self, edge: Edge) -> &Netns {
        self.node(&format!("edge-{}", edge.name()))
    }

    /// Returns the bytes of IP packets that the client has received over the present links.
    fn delivered(&self) -> u64 {
        let links = Edge::ALL.iter();
        let links = links.filter_map(|edge| self.network.link(&link_of(*edge)));
        links.map(|link| link.delivered_bytes()[1]).sum()
    }

    /// Starts the links to the edges afresh, empty and with random streams from their start. `links`
    /// are those to each `PoP`.
    ///
    /// # Errors
    /// If a pump's thread cannot be started.
    fn start_links(&mut self, links: &[LinkPair; 2], seed: u64) -> Result<(), RunError> {
        for (i, edge) in Edge::ALL.into_iter().enumerate() {
            let pair = links[usize::from(edge.pop()) - 1].clone();
            let seed = derive_seed(seed, &[i as u64]);
            if let Some(link) = self.network.link_mut(&link_of(edge)) {
                link.start(pair, seed)?;
            }
        }
        Ok(())
    }

    /// Ends the links and returns the report of all together. Afterwards they carry everything at once,
    /// without limits.
    ///
    /// # Errors
    /// If a pump had failed.
    fn stop_links(&mut self) -> Result<Report, RunError> {
        let mut all: Option<Report> = None;
        for edge in Edge::ALL {
            let link = self.network.link_mut(&link_of(edge));
            let report = link.map(EmulatedLink::stop).transpose()?.flatten();
            all = match (all, report) {
                (Some(all), Some(report)) => Some(all.beside(&report)),
                (all, report) => all.or(report),
            };
        }
        self.rest()?;
        all.ok_or_else(|| {
            RunError::Arguments("the links were stopped before their time".to_owned())
        })
    }

    /// Makes the links between sessions carry everything at once, since servers need a carrier.
    fn rest(&mut self) -> Result<(), RunError> {
        self.start_links(&[LinkPair::default(), LinkPair::default()], 0)
    }

    /// Makes the stores answer late by `delay`.
    fn set_store_delay(&mut self, delay: Duration) -> Result<(), RunError> {
        let direction = LinkConfig {
            one_way_delay: delay / 2,
            ..LinkConfig::default()
        };
        let pair = LinkPair {
            up: direction.clone(),
            down: direction,
        };
        if let Some(link) = self.network.link_mut(STORE_LINK) {
            link.start(pair, 0)?;
        }
        Ok(())
    }

    /// Starts empty stores in place of those of a run before.
    fn start_stores(&mut self, stores: Stores) -> Result<(), RunError> {
        self.stores.clear();
        self.set_store_delay(Duration::ZERO)?;
        let count = match stores {
            Stores::None => 0,
            Stores::Fleet => 1,
            Stores::Pop => 2,
        };
        for number in 0..count {
            let directory = self.directory.join(format!("store-{number}"));
            let store = Store::start(self.node("store"), number, directory)?;
            self.stores.push(store);
        }
        Ok(())
    }

    /// Returns the URL of an edge's store.
    fn store_of(&self, edge: Edge) -> Option<String> {
        let own = self.stores.get(usize::from(edge.pop()) - 1);
        own.or(self.stores.first()).map(Store::url)
    }
}

/// Name of the link to an edge.
fn link_of(edge: Edge) -> String {
    format!("link-{}", edge.name())
}

/// Address of an edge.
fn address_of(edge: Edge) -> Ipv4Addr {
    let network = match edge {
        Edge::A => 1,
        Edge::B => 2,
        Edge::C => 3,
    };
    Ipv4Addr::new(10, 107, network, 2)
}

/// Writes the file of the edges' secrets, which only their user may read.
fn write_keys(path: &Path) -> Result<(), RunError> {
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(path)?.write_all(KEYS.as_bytes())
    };
    write().attempt(|| format!("writing {}", path.display()))
}

/// Makes an empty directory.
fn fresh(directory: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(directory)
}
