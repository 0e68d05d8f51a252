//! The servers of a lane.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_core::explain::Explanation;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::access_log::AccessLog;
use super::error::{Attempt, RunError};
use super::lane::Shared;
use super::peer::{self, Place};
use super::process::Process;
use crate::experiment::spec;
use hikyaku_emulator::link::{CLIENT_V4, Netns, SERVER_V4, Topology};

/// The properties of a server: two runs may share one if these are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) program: spec::Server,
    /// Settings of hikyaku's configuration, as `KEY=VALUE`.
    pub(super) settings: Vec<String>,
    /// A peer's configuration file in place of the lab's.
    pub(super) config: Option<PathBuf>,
    /// Further ports, over which the server may spread pages.
    pub(super) shards: u8,
    /// The served directory.
    pub(super) root: PathBuf,
    /// Congestion control of the kernel's TCP, unless the server chooses itself.
    pub(super) tcp: String,
    /// Whether it learns about clients, and is asked for its knowledge.
    pub(super) learns: bool,
    /// Server behind it if it is a proxy, in place of the directory.
    pub(super) upstream: Option<SocketAddr>,
}

/// The fields of a server's report of its gain (`docs/gain.md`) that matter here.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Gain {
    /// Load time with hikyaku over that without; `None` with too few clients.
    pub(super) ratio: Option<Ratio>,
}

/// A ratio of load times, with its interval.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Ratio {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The namespace of a server, its addresses and its client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host<'a> {
    pub(super) netns: &'a Netns,
    /// Address to which clients connect.
    pub(super) address: IpAddr,
    /// Address on which it listens.
    pub(super) listen: IpAddr,
    /// Address for its own host, beside `listen`.
    pub(super) within: IpAddr,
    /// Address of the client, for questions about it.
    pub(super) client: IpAddr,
}

impl<'a> Host<'a> {
    /// Returns the server's end of a topology.
    pub(super) fn of(topology: &'a Topology) -> Self {
        Self {
            netns: topology.server(),
            address: SERVER_V4.into(),
            listen: SERVER_V4.into(),
            within: Ipv4Addr::LOCALHOST.into(),
            client: CLIENT_V4.into(),
        }
    }
}

impl Kind {
    /// Sets the congestion control of the server's sockets. They take it from the namespace when a
    /// connection is accepted, not when the server starts. So each run sets it, since another
    /// server of the lane may have changed it.
    pub(super) fn set_congestion(&self, netns: &Netns) -> Result<(), RunError> {
        let key = "net/ipv4/tcp_congestion_control";
        Ok(netns.set_sysctl(key, &self.tcp)?)
    }
}

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) kind: Kind,
    /// Name of the arm, for error messages.
    arm: String,
    process: Process,
    /// The server behind a proxy.
    origin: Option<Process>,
    pub(super) address: SocketAddr,
    /// Address of the server for its host.
    within: SocketAddr,
    client: IpAddr,
    pub(super) log: Option<AccessLog>,
    /// Binary that asks a server that learns.
    binary: PathBuf,
}

/// Time that a server may take to start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Time that a server may take to end.
const END_LIMIT: Duration = Duration::from_secs(60);

/// Admin address of a server that learns. Each lane has a loopback interface of its own, and one
/// such server at a time.
pub(super) const ADMIN: &str = "127.0.0.1:8440";

/// Offset from a proxy's port to that of the server behind it.
const ORIGIN: u16 = 10_000;

/// Offset from a server's port to that of its first shard.
const FIRST_SHARD: u16 = 20_000;
/// Offset from a shard's port to that of the next: the number of a lane's server ports.
const NEXT_SHARD: u16 = 4_000;

impl Server {
    /// Starts a server on `port` and waits until it accepts connections.
    pub(super) fn start(
        kind: Kind,
        arm: &str,
        host: Host<'_>,
        shared: &Shared,
        port: u16,
    ) -> Result<Self, RunError> {
        let netns = host.netns;
        let address = SocketAddr::from((host.address, port));
        let within = SocketAddr::from((host.within, port));
        let file = |extension: &str| {
            shared
                .scratch
                .join(format!("{}-{port}.{extension}", netns.name()))
        };
        kind.set_congestion(netns)?;
        let (log, origin, process) = match kind.program {
            spec::Server::Hikyaku => {
                let log = file("access.jsonl");
                // An earlier server may have left it on this port.
                let _ = std::fs::remove_file(&log);
                let listen = SocketAddr::from((host.listen, port));
                let content = kind
                    .upstream
                    .map(|origin| format!("--upstream=http://{origin}"));
                let content = content.map_or_else(|| kind.root.clone().into(), OsString::from);
                let mut command = serve(shared, &content, listen);
                let admin = if kind.learns { ADMIN } else { "" };
                let own = [
                    format!("log.access={}", log.display()),
                    format!("admin.listen={admin}"),
                ];
                for setting in kind.settings.iter().chain(&own) {
                    command.args(["--set", setting]);
                }
                add_shards(&mut command, address, kind.shards);
                if !host.listen.is_unspecified() {
                    command.args(["--listen", &within.to_string()]);
                }
                (
                    Some(log),
                    None,
                    Process::start(netns, &mut command, &file("log"))?,
                )
            }
            peer => {
                let origin_port = port + ORIGIN;
                let origin = SocketAddr::from(([127, 0, 0, 1], origin_port));
                let origin = peer.is_proxy().then(|| {
                    let mut command = serve(shared, kind.root.as_os_str(), origin);
                    command.args(["--set", "log.access=off", "--set", "admin.listen="]);
                    // Otherwise its offers of HTTP/3 would go through the proxy.
                    command.args(["--set", "policy.version=h1"]);
                    Process::start(netns, &mut command, &file("origin.log"))
                });
                let mut command = peer::command(
                    peer,
                    &Place {
                        address,
                        root: &kind.root,
                        directory: &file("peer"),
                        certificate: &shared.certificate,
                        origin: origin_port,
                    },
                    kind.config.as_deref(),
                )?;
                command.stdout(Stdio::null());
                (
                    None,
                    origin.transpose()?,
                    Process::start(netns, &mut command, &file("log"))?,
                )
            }
        };
        let mut server = Self {
            kind,
            arm: arm.to_owned(),
            process,
            origin,
            address,
            within,
            client: host.client,
            log: log.as_deref().map(AccessLog::new),
            binary: shared.binary.clone(),
        };
        server.wait_until_open(netns)?;
        if server.kind.program == spec::Server::Hikyaku {
            server.warm_up(netns)?;
        }
        Ok(server)
    }

    fn wait_until_open(&mut self, netns: &Netns) -> Result<(), RunError> {
        let began = Instant::now();
        let address = self.address;
        while netns.enter(|| TcpStream::connect(address))?.is_err() {
            self.check()?;
            if began.elapsed() > START_LIMIT {
                return Err(self.error(format!("did not open {address}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Requests a response over each version, since a process pages its code in with its first
    /// requests. The requests come from an address of its own host, so that every client is still
    /// new to it. A request that its settings refuse is not repeated.
    fn warm_up(&self, netns: &Netns) -> Result<(), RunError> {
        for http in ["2", "3"] {
            let mut command = Command::new(&self.binary);
            command.args(["get", "--insecure", "--json", "--http", http]);
            command.args(["--timeout", "5s"]);
            command.arg(format!("https://{}/", self.within));
            netns
                .output(&mut command)?
                .attempt(|| "starting `hikyaku get`".to_owned())?;
        }
        Ok(())
    }

    /// Fails if the server has ended.
    pub(super) fn check(&mut self) -> Result<(), RunError> {
        match self
            .process
            .ended()
            .attempt(|| "waiting for a server".to_owned())?
        {
            Some(status) => Err(self.error(format!("ended with {status}"))),
            None => Ok(()),
        }
    }

    /// Time that it, and the server behind it, have waited for a CPU.
    pub(super) fn waited(&self) -> Duration {
        let origin = self.origin.as_ref().map(Process::waited);
        self.process.waited() + origin.unwrap_or_default()
    }

    /// CPU time that it, and the server behind it, have used.
    pub(super) fn used(&self) -> Duration {
        let origin = self.origin.as_ref().map(Process::used);
        self.process.used() + origin.unwrap_or_default()
    }

    /// Ends it as an operator does, and waits for its end.
    pub(super) fn end(&mut self) -> Result<(), RunError> {
        match self.process.end(END_LIMIT)? {
            true => Ok(()),
            false => Err(self.error(format!("did not end within {END_LIMIT:?}"))),
        }
    }

    fn error(&self, what: String) -> RunError {
        RunError::Server {
            arm: self.arm.clone(),
            what,
            said: self.process.said(),
        }
    }

    /// Returns the knowledge of the client by a server that learns, and its present decision.
    pub(super) fn explain(&self, netns: &Netns) -> Result<Explanation, RunError> {
        let client = self.client.to_string();
        self.ask(netns, "`hikyaku explain`", &["explain", &client])
    }

    /// Returns the gain that a server that learns has found by itself.
    pub(super) fn gain(&self, netns: &Netns) -> Result<Gain, RunError> {
        self.ask(netns, "`hikyaku gain`", &["gain"])
    }

    /// Returns the answer of the server's admin address to a command.
    fn ask<T: DeserializeOwned>(
        &self,
        netns: &Netns,
        program: &'static str,
        question: &[&str],
    ) -> Result<T, RunError> {
        let mut command = Command::new(&self.binary);
        command.args(question).args(["--admin", ADMIN, "--json"]);
        let output = netns
            .output(&mut command)?
            .attempt(|| format!("starting {program}"))?;
        serde_json::from_slice(&output.stdout).map_err(|error| RunError::Report {
            program,
            why: format!(
                "{error}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ),
        })
    }
}

/// Makes `hikyaku serve` listen on further ports, and spread pages over them. For `hikyaku get` and
/// browsers, other ports are other connections as other addresses are.
fn add_shards(command: &mut Command, address: SocketAddr, count: u8) {
    if count == 0 {
        return;
    }
    let port = |shard| address.port() + FIRST_SHARD + u16::from(shard) * NEXT_SHARD;
    let shards: Vec<SocketAddr> = (0..count)
        .map(|shard| SocketAddr::new(address.ip(), port(shard)))
        .collect();
    for shard in &shards {
        command.args(["--listen", &shard.to_string()]);
    }
    let hosts: Vec<String> = shards.iter().map(|shard| format!("'{shard}'")).collect();
    let setting = format!("shards.hosts=[{}]", hosts.join(","));
    command.args(["--set", &setting]);
}

/// Returns the command `hikyaku serve`, without its settings.
fn serve(shared: &Shared, content: &OsStr, address: SocketAddr) -> Command {
    let mut command = Command::new(&shared.binary);
    command
        .arg("serve")
        .arg(content)
        .args(["--listen", &address.to_string()]);
    command.arg("--cert").arg(&shared.certificate.cert);
    command.arg("--key").arg(&shared.certificate.key);
    command.stdout(Stdio::null());
    command
}
