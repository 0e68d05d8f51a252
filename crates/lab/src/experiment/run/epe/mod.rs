//! The paper's test bed: a content AS with two egress peers (topology `epe`).
//!
//! [`TestBed`] is the network with its BGP daemons and egress agents, ready for clients. Its users
//! start servers and clients in its namespaces.

mod api;
mod arrivals;
mod border;
mod changes;
mod config;
mod events;
mod flow_stats;
mod origin;
mod ready;
mod responses;
mod session;
mod side;
mod visitors;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::control::{Zebra, start_with_config};
use super::error::{Attempt, RunError};
use super::process::Process;
use super::programs::{self, BGPD, EGRESS, ZEBRA, of_egress};
use crate::experiment::spec::{Borders, Spec};
use hikyaku_emulator::link::{ChangePair, EmulatedLink, LinkPair, Netns, Report};
use hikyaku_emulator::topology::{Network, TopologySpec};
use hikyaku_units::Rate;

pub(super) use api::Agent;
pub(super) use config::{CLIENT, CLIENT_PREFIX, SERVER};
pub(super) use session::run;
pub(super) use side::Side;

/// Name of the topology.
pub(super) const TOPOLOGY: &str = "epe";

/// Time that daemons and agents may take until the client is reached over all paths.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Returns the first program that the borders' routing needs and that is not installed.
pub(super) fn missing(spec: &Spec) -> Option<&'static str> {
    match spec.workload.borders {
        Borders::Agents => None,
        Borders::Frr => programs::missing(&[BGPD, ZEBRA]),
    }
}

/// A running content AS. A drop ends all programs inside and removes the namespaces. After a kill,
/// `lab clean` finds all of it, since everything is inside of them.
#[derive(Debug)]
pub(super) struct TestBed {
    // The order is that of dropping: programs before their namespaces.
    agents: Vec<(&'static str, Process)>,
    daemons: Vec<(&'static str, Process)>,
    /// FRR's daemons beside the agents, behind `daemons`, which hold their sockets.
    zebras: Vec<Zebra>,
    pub(super) network: Network,
    /// The program `hikyaku-egress`.
    egress: PathBuf,
    /// Directory of configurations, sockets, state and logs.
    directory: PathBuf,
    /// Capacities of the borders' ports, where they know them.
    ports: Option<[Option<Rate>; 2]>,
}

impl TestBed {
    /// Builds the network and starts everything in it but servers and clients. GoBGP runs as route
    /// reflector, in both transits and in the client's ISP. `hikyaku-egress border` runs on both
    /// borders, and `hikyaku-egress server` on the content server. The call returns when the
    /// content server can send to the client over each path.
    ///
    /// # Errors
    /// Without privileges, gobgpd or `hikyaku-egress`, or if a part does not come up within a
    /// minute. The error has the end of that part's log.
    pub(super) fn open(directory: PathBuf, borders: Borders) -> Result<Self, RunError> {
        let spec =
            TopologySpec::load(TOPOLOGY).map_err(|error| RunError::Arguments(error.to_string()))?;
        let mut bed = Self {
            agents: Vec::new(),
            daemons: Vec::new(),
            zebras: Vec::new(),
            network: Network::create(&spec)?,
            egress: of_egress(EGRESS)?,
            directory,
            ports: None,
        };
        bed.start_links(Side::ALL.map(|_| LinkPair::default()), 0)?;
        for (node, text) in config::daemons(borders) {
            bed.start_daemon(node, &text)?;
        }
        if borders == Borders::Frr {
            for side in Side::ALL {
                bed.start_frr(side)?;
            }
        }
        bed.announce_client()?;
        for side in Side::ALL {
            bed.start_agent(side.border(), borders)?;
        }
        bed.start_agent("server", borders)?;
        bed.start_flow_stats()?;
        bed.wait_until_ready()?;
        Ok(bed)
    }

    /// Returns the namespace of a node of the topology. The nodes are `client`, `server`,
    /// `reflector`, `asbr1`, `asbr2`, `transit-a`, `transit-b` and `isp`.
    pub(super) fn node(&self, name: &str) -> &Netns {
        let Some(netns) = self.network.node(name) else {
            unreachable!("the topology has no node `{name}`");
        };
        netns
    }

    /// Returns an emulated link; up is from the client to the server.
    pub(super) fn link(&self, side: Side) -> &EmulatedLink {
        let Some(link) = self.network.link(side.link()) else {
            unreachable!("the topology has both links");
        };
        link
    }

    /// Starts both links afresh, empty and with random streams from their start. BGP goes on.
    ///
    /// # Errors
    /// If a pump's thread cannot be started.
    pub(super) fn start_links(&mut self, links: [LinkPair; 2], seed: u64) -> Result<(), RunError> {
        for (i, (side, pair)) in Side::ALL.into_iter().zip(links).enumerate() {
            let seed = hikyaku_netsim::derive_seed(seed, &[i as u64]);
            if let Some(link) = self.network.link_mut(side.link()) {
                link.start(pair, seed)?;
            }
        }
        Ok(())
    }

    /// Begins changes of both links, at times that count from now.
    ///
    /// # Errors
    /// If a pump has failed.
    pub(super) fn begin_changes(&self, changes: [ChangePair; 2]) -> Result<(), RunError> {
        for (side, changes) in Side::ALL.into_iter().zip(changes) {
            self.link(side).begin_changes(changes)?;
        }
        Ok(())
    }

    /// Ends the present run of the links and returns its reports. Afterwards they carry everything
    /// at once, without limits.
    ///
    /// # Errors
    /// If a pump had failed.
    pub(super) fn stop_links(&mut self) -> Result<[Report; 2], RunError> {
        let mut reports = Vec::new();
        for side in Side::ALL {
            let link = self.network.link_mut(side.link());
            let report = link.map(EmulatedLink::stop).transpose()?.flatten();
            let stopped = || RunError::Arguments("a link was stopped before its time".to_owned());
            reports.push(report.ok_or_else(stopped)?);
        }
        self.start_links(Side::ALL.map(|_| LinkPair::default()), 0)?;
        let Ok(both) = reports.try_into() else {
            unreachable!("there are two sides");
        };
        Ok(both)
    }

    /// Returns the API of the agent on `server`, `asbr1` or `asbr2`.
    pub(super) fn agent(&self, node: &str) -> Agent {
        Agent::new(self.socket(node))
    }

    /// Returns the Unix socket of that API, for `egress.socket`.
    pub(super) fn socket(&self, node: &str) -> PathBuf {
        self.directory.join(format!("{node}.sock"))
    }

    /// Starts the agent of a node, without waiting for it.
    fn start_agent(&mut self, node: &'static str, borders: Borders) -> Result<(), RunError> {
        let mut text = config::agent(node, &self.socket(node), &self.directory, borders);
        let side = Side::ALL.iter().position(|side| side.border() == node);
        if let Some(rate) = side.and_then(|side| self.ports?[side]) {
            text += &config::port(rate);
        }
        let file = self.write(&format!("{node}.toml"), &text)?;
        let role = if node == "server" { "server" } else { "border" };
        let mut command = Command::new(&self.egress);
        command.arg(role).arg("--config").arg(&file);
        command.stdout(Stdio::null());
        let log = self.directory.join(format!("{node}.log"));
        let process = Process::start(self.node(node), &mut command, &log)?;
        self.agents.push((node, process));
        Ok(())
    }

    /// Has the borders know the capacities of their ports from now on, or forget them. Their agents
    /// start anew where that is a change.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn set_ports(
        &mut self,
        ports: Option<[Option<Rate>; 2]>,
        borders: Borders,
    ) -> Result<(), RunError> {
        if ports == self.ports {
            return Ok(());
        }
        self.ports = ports;
        for side in Side::ALL {
            self.agents.retain(|(node, _)| *node != side.border());
            self.start_agent(side.border(), borders)?;
        }
        self.wait_until_ready()
    }

    /// Returns the file of FlowStats' counts at the server's interface, as JSON lines.
    pub(super) fn flow_stats(&self) -> PathBuf {
        self.file(config::FLOW_STATS)
    }

    /// Returns a file in the test bed's directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn start_flow_stats(&mut self) -> Result<(), RunError> {
        let mut command = Command::new(&self.egress);
        command
            .arg("flows")
            .arg("--config")
            .arg(self.file("server.toml"));
        command.stdout(Stdio::null());
        let process = Process::start(self.node("server"), &mut command, &self.file("flows.log"))?;
        self.daemons.push(("hikyaku-egress flows", process));
        Ok(())
    }

    /// Kills the agent of a node, as by `kill -9`.
    #[cfg(test)]
    fn kill_agent(&mut self, node: &str) {
        self.agents.retain(|(of, _)| *of != node);
    }

    /// Fails if an agent or a daemon has ended.
    ///
    /// # Errors
    /// The program that ended, and the end of its log.
    pub(super) fn check(&mut self) -> Result<(), RunError> {
        let agents = self
            .agents
            .iter_mut()
            .map(|(node, process)| (*node, process));
        let daemons = self
            .daemons
            .iter_mut()
            .map(|(name, process)| (*name, process));
        for (what, process) in agents.chain(daemons) {
            let ended = process.ended().attempt(|| format!("waiting for {what}"))?;
            if let Some(status) = ended {
                return Err(RunError::TestBed {
                    what: format!("{what} ended with {status}"),
                    said: process.said(),
                });
            }
        }
        Ok(())
    }

    /// Returns the end of each agent's log.
    fn said(&self) -> String {
        let agents = self.agents.iter();
        let said = agents.map(|(node, process)| format!("{node}: {}", process.said()));
        said.collect::<Vec<_>>().join("; ")
    }

    /// Starts FRR on a border, with a second address towards the transit.
    fn start_frr(&mut self, side: Side) -> Result<(), RunError> {
        let node = self.node(side.border());
        node.ip_command(&config::second_address(side))?;
        let zebra = Zebra::start(node)?;
        let directory = self.directory.join(format!("{}-frr", side.border()));
        let process = start_with_config(&config::frr(side), Some(&zebra), node, &directory)?;
        self.daemons.push(("bgpd", process));
        self.zebras.push(zebra);
        Ok(())
    }

    fn start_daemon(&mut self, node: &'static str, text: &str) -> Result<(), RunError> {
        let file = self.write(&format!("{node}-gobgpd.toml"), text)?;
        let mut command = Command::new("gobgpd");
        command.arg("-f").arg(&file).args(["--pprof-disable", "-p"]);
        command.args(["--api-hosts", config::GOBGP_API]);
        command.stdout(Stdio::null());
        let log = self.directory.join(format!("{node}-gobgpd.log"));
        let process = Process::start(self.node(node), &mut command, &log)?;
        self.daemons.push(("gobgpd", process));
        Ok(())
    }

    /// Makes the ISP announce the client's prefix.
    fn announce_client(&mut self) -> Result<(), RunError> {
        let began = Instant::now();
        loop {
            let mut command = Command::new("gobgp");
            command.args(["global", "rib", "add", "-a", "ipv6", CLIENT_PREFIX]);
            let output = self
                .node("isp")
                .output(&mut command)?
                .attempt(|| "starting gobgp (Debian's package gobgpd)".to_owned())?;
            if output.status.success() {
                return Ok(());
            }
            self.check()?;
            if began.elapsed() > READY_LIMIT {
                return Err(RunError::TestBed {
                    what: format!("`gobgp` cannot announce {CLIENT_PREFIX}"),
                    said: String::from_utf8_lossy(&output.stderr).into_owned(),
                });
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, RunError> {
        let file = self.directory.join(name);
        fs::write(&file, text).attempt(|| format!("writing {}", file.display()))?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests;
