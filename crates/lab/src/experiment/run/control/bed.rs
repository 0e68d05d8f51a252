//! The network with its daemons and agents.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::super::error::{Attempt, RunError};
use super::super::process::Process;
use super::super::stop::Stop;
use super::Place;
use super::agent::Agent;
use super::daemon::{Family, Maker, Neighbour, Router, Zebra};
use super::feed::{Feed, Session, Speaker};
use super::net::{Border, OWN_AS, Peer, REFLECTOR, SERVER, SERVER_DAEMON, Shape};
use super::watch::Prefix;
use hikyaku_emulator::link::Netns;
use hikyaku_emulator::topology::Network;

/// All running parts. The first fields end first.
#[derive(Debug)]
pub(super) struct Bed {
    pub(super) shape: Shape,
    pub(super) server: Agent,
    pub(super) borders: Vec<Agent>,
    daemons: Vec<Process>,
    #[allow(dead_code, reason = "kept for its drop")]
    zebra: Option<Zebra>,
    network: Network,
    directory: PathBuf,
    stop: Stop,
    limit: Duration,
}

/// The parts to run besides the agents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) shape: Shape,
    /// Maker of the route reflector.
    pub(super) reflector: Maker,
    /// Whether borders also select best paths, and send them to the reflector.
    pub(super) best_paths: bool,
    /// Whether FRR puts best paths into the content server's main table.
    pub(super) best_path_at_server: bool,
}

/// Time between two polls.
const LOOK: Duration = Duration::from_millis(20);

impl Bed {
    /// Builds the network and starts reflector and agents.
    pub(super) fn start(setup: Setup, place: &Place<'_>) -> Result<Self, RunError> {
        let Setup { shape, .. } = setup;
        let directory = place.directory;
        let spec = shape
            .topology()
            .map_err(|error| RunError::Arguments(error.to_string()))?;
        let network = Network::create(&spec)?;
        let node = |name: &str| find(&network, name);
        let files = |name: &str| directory.join(name);
        let mut daemons = Vec::new();
        let reflector = reflector(setup);
        daemons.push(reflector.start(setup.reflector, node("reflector")?, &files("reflector"))?);
        let mut zebra = None;
        if setup.best_path_at_server {
            let started = Zebra::start(node("server")?)?;
            let files = files("server-bgp");
            daemons.push(of_server().start_with(&started, node("server")?, &files)?);
            zebra = Some(started);
        }
        let border = |border: Border| {
            let name = border.node();
            Agent::border(shape, border, setup.best_paths, node(&name)?, &files(&name))
        };
        let borders = shape.borders().map(border).collect::<Result<_, _>>()?;
        let server = Agent::server(shape, node("server")?, &files("server"))?;
        Ok(Self {
            shape,
            server,
            borders,
            daemons,
            zebra,
            network,
            directory: directory.to_owned(),
            stop: place.stop.clone(),
            limit: place.timeout,
        })
    }

    pub(super) fn node(&self, name: &str) -> Result<&Netns, RunError> {
        find(&self.network, name)
    }

    /// Waits until the agents have their reflector, which would otherwise lose their routes.
    /// Returns false if a signal to stop came first.
    pub(super) fn wait_for_reflector(&mut self) -> Result<bool, RunError> {
        self.until("the agents' session with the reflector", |bed| {
            for agent in bed.borders.iter_mut().chain([&mut bed.server]) {
                if !agent.is_reflected()? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Whether the content server has a route in a table, or in the main one by this border.
    pub(super) fn has_route(
        &self,
        table: u32,
        (prefix, length): Prefix,
        via: Option<Border>,
    ) -> Result<bool, RunError> {
        let mut command = Command::new("ip");
        command.args(["-6", "route", "show", "table", &table.to_string()]);
        command.arg(format!("{prefix}/{length}"));
        let output = self
            .node("server")?
            .output(&mut command)?
            .attempt(|| "starting `ip`".to_owned())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(match via {
            Some(border) => text.contains(&format!("via {} ", border.address())),
            None => text.contains(&prefix.to_string()),
        })
    }

    /// Starts a further routing daemon in a node.
    pub(super) fn add(
        &mut self,
        node: &str,
        router: &Router,
        maker: Maker,
    ) -> Result<(), RunError> {
        let place = self.place(node);
        let process = router.start(maker, self.node(node)?, &place)?;
        self.daemons.push(process);
        Ok(())
    }

    /// Returns the directory of a node's files.
    pub(super) fn place(&self, node: &str) -> PathBuf {
        self.directory.join(node)
    }

    /// Starts a neighbour of a node, which executes commands.
    pub(super) fn feed(
        &self,
        node: &str,
        session: &Session,
        speaker: Speaker,
    ) -> Result<Feed, RunError> {
        let log = format!("feed-{}.log", session.router_id);
        Feed::start(
            self.node(node)?,
            session,
            speaker,
            &self.directory.join(log),
        )
    }

    /// Starts a feed in place of a peer's router.
    pub(super) fn feed_of(&self, peer: Peer) -> Result<Feed, RunError> {
        let session = Session {
            local: peer.address(),
            asn: peer.asn(),
            router_id: peer.router_id(),
            neighbour: peer.border_address(),
            neighbour_asn: OWN_AS,
        };
        self.feed(&peer.node(), &session, Speaker::Lean)
    }

    /// Waits until the condition holds, for at most the length of a session. Returns false if a
    /// signal to stop came first.
    pub(super) fn until(
        &mut self,
        what: &str,
        mut holds: impl FnMut(&mut Self) -> Result<bool, RunError>,
    ) -> Result<bool, RunError> {
        let deadline = Instant::now() + self.limit;
        loop {
            if self.stop.is_set() {
                return Ok(false);
            }
            if holds(self)? {
                return Ok(true);
            }
            if Instant::now() > deadline {
                return Err(RunError::TestBed {
                    what: format!("waited {:?} in vain for {what}", self.limit),
                    said: self.said()?,
                });
            }
            thread::sleep(LOOK);
        }
    }

    /// Describes the server's paths, for errors.
    fn said(&mut self) -> Result<String, RunError> {
        let paths = self.server.paths()?;
        let texts = paths.iter().map(|path| {
            format!(
                "{} {} with {} routes",
                path.name, path.state, path.routes.ipv6
            )
        });
        let paths: Vec<String> = texts.collect();
        let daemons: Vec<String> = self.daemons.iter().map(Process::said).collect();
        Ok(format!(
            "paths: {}; {}",
            paths.join(", "),
            daemons.join("; ")
        ))
    }

    /// Returns the number of prefixes that each path reaches, in the order of the peers; 0 for one
    /// that is down.
    pub(super) fn reached(&mut self) -> Result<Vec<u64>, RunError> {
        let reports = self.server.paths()?;
        let of = |peer: Peer| {
            let path = reports.iter().find(|path| path.name == peer.path());
            path.filter(|path| path.state == "up")
                .map_or(0, |path| path.routes.ipv6)
        };
        Ok(self.shape.peers().map(of).collect())
    }

    /// Returns the CPU time of the route reflector, the borders' agents and the server's.
    pub(super) fn used(&self) -> [Duration; 3] {
        let reflector = self.daemons.first().map(Process::used);
        [
            reflector.unwrap_or_default(),
            self.borders.iter().map(Agent::used).sum(),
            self.server.used(),
        ]
    }

    /// Whether a signal to stop came.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }
}

fn find<'a>(network: &'a Network, name: &str) -> Result<&'a Netns, RunError> {
    let missing = || RunError::Arguments(format!("the network has no node `{name}`"));
    network.node(name).ok_or_else(missing)
}

/// The AS's route reflector, to which its clients connect.
fn reflector(setup: Setup) -> Router {
    let client = |address, families| Neighbour {
        address,
        local: REFLECTOR,
        asn: OWN_AS,
        families,
        passive: true,
    };
    let borders = setup.shape.borders().map(|border| match setup.best_paths {
        true => client(border.address(), &[Family::Vpn, Family::Unicast]),
        false => client(border.address(), &[Family::Vpn]),
    });
    let mut neighbours: Vec<Neighbour> = borders.collect();
    neighbours.push(client(SERVER, &[Family::Vpn]));
    if setup.best_path_at_server {
        neighbours.push(client(SERVER_DAEMON, &[Family::Unicast]));
    }
    Router {
        asn: OWN_AS,
        router_id: "192.0.2.53".to_owned(),
        listen: vec![REFLECTOR],
        neighbours,
        networks: Vec::new(),
    }
}

/// The routing daemon on the content server.
fn of_server() -> Router {
    Router {
        asn: OWN_AS,
        router_id: "192.0.2.101".to_owned(),
        listen: vec![SERVER_DAEMON],
        neighbours: vec![Neighbour {
            address: REFLECTOR,
            local: SERVER_DAEMON,
            asn: OWN_AS,
            families: &[Family::Unicast],
            passive: false,
        }],
        networks: Vec::new(),
    }
}
