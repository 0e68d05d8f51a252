//! Routing daemons: a BGP speaker of `GoBGP` or FRR from one description.

mod frr;
mod gobgp;

use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use super::super::error::RunError;
use super::super::process::Process;
use super::net::OWN_AS;
use hikyaku_emulator::link::Netns;

pub(super) use frr::Vty;
pub(in super::super) use frr::{Zebra, start_with_config};

/// The BGP configuration of a router.
#[derive(Clone, Debug)]
pub(super) struct Router {
    pub(super) asn: u32,
    pub(super) router_id: String,
    /// Addresses on which it listens.
    pub(super) listen: Vec<Ipv6Addr>,
    pub(super) neighbours: Vec<Neighbour>,
    /// Prefixes that it originates.
    pub(super) networks: Vec<String>,
}

/// One of a router's neighbours.
#[derive(Clone, Debug)]
pub(super) struct Neighbour {
    pub(super) address: Ipv6Addr,
    pub(super) local: Ipv6Addr,
    pub(super) asn: u32,
    pub(super) families: &'static [Family],
    /// Whether this side waits for the other to connect.
    pub(super) passive: bool,
}

/// The address families of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Unicast,
    Vpn,
}

/// The maker of the routers that are not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    GoBgp,
    Frr,
}

impl Router {
    /// Whether a neighbour is a client of this route reflector: each speaker within the AS is.
    fn reflects(&self, neighbour: &Neighbour) -> bool {
        self.asn == OWN_AS && neighbour.asn == OWN_AS && self.neighbours.len() > 1
    }

    /// Starts its daemon. `directory` is for its files alone.
    pub(super) fn start(
        &self,
        maker: Maker,
        netns: &Netns,
        directory: &Path,
    ) -> Result<Process, RunError> {
        match maker {
            Maker::GoBgp => gobgp::start(self, netns, directory),
            Maker::Frr => frr::start(self, None, netns, directory),
        }
    }

    /// Starts its daemon by FRR, whose routes go into the kernel.
    pub(super) fn start_with(
        &self,
        zebra: &Zebra,
        netns: &Netns,
        directory: &Path,
    ) -> Result<Process, RunError> {
        frr::start(self, Some(zebra), netns, directory)
    }
}

/// Makes a directory for a daemon's files.
fn place(directory: &Path) -> Result<PathBuf, RunError> {
    use super::super::error::Attempt;
    std::fs::create_dir_all(directory).attempt(|| format!("creating {}", directory.display()))?;
    Ok(directory.to_owned())
}

fn write(path: &Path, text: &str) -> Result<(), RunError> {
    use super::super::error::Attempt;
    std::fs::write(path, text).attempt(|| format!("writing {}", path.display()))
}
