//! Running servers.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Result, ensure};

use super::arms::{self, Arm, Program};
use super::host;
use super::process::{Process, Stop};
use super::rows::{Content, File, Http, Row};
use super::workspace::Workspace;

/// The CPUs of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpus {
    pub(super) server: usize,
    pub(super) client: usize,
}

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    process: Process,
    address: SocketAddr,
}

/// The time within which a server has to start.
const START_LIMIT: Duration = Duration::from_secs(30);

impl Server {
    /// Starts a fresh server for `row`. `origin` is the server behind a proxy.
    pub(super) fn start(
        arm: &Arm,
        row: &Row,
        workspace: &Workspace,
        (cpus, origin): (Cpus, SocketAddr),
        stop: &Stop,
    ) -> Result<Self> {
        let address = free_address()?;
        let name = format!("{}-{}", arm.path_name(), address.port());
        let directory = workspace.path().join(name);
        // An earlier server on this port may have left its state.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory)?;
        let place = Place {
            workspace,
            directory: &directory,
            address,
            origin,
        };
        let mut command = match arm.is_hikyaku() {
            true => hikyaku(arm, row, &place),
            false => peer(arm, row, &place)?,
        };
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let process = Process::start(command, &cpus.of_server(row.cores), &directory)?;
        Self { process, address }.opened(stop)
    }

    /// Starts the upstream of proxies, on the clients' CPU.
    pub(super) fn start_upstream(workspace: &Workspace, cpus: Cpus, stop: &Stop) -> Result<Self> {
        const TEMPLATE: &str = include_str!("../../../../conf/bench/upstream.conf.in");
        let address = free_address()?;
        let directory = workspace.path().join("upstream");
        fs::create_dir(&directory)?;
        let place = Place {
            workspace,
            directory: &directory,
            address,
            origin: address,
        };
        let mut command = nginx(&arms::find("nginx")?, &directory, &place.fill(TEMPLATE, 1))?;
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let process = Process::start(command, &[cpus.client], &directory)?;
        Self { process, address }.opened(stop)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn url(&self, file: File) -> String {
        format!("https://{}/{}", self.address, file.path())
    }

    /// CPU time of its processes so far.
    pub(super) fn cpu_time(&self) -> Result<Duration> {
        host::cpu_time(self.process.id())
    }

    /// Bytes of memory that its processes have (PSS).
    pub(super) fn memory(&self) -> Result<u64> {
        host::pss(self.process.id())
    }

    /// # Errors
    /// If the server has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    fn opened(mut self, stop: &Stop) -> Result<Self> {
        let began = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            self.check()?;
            ensure!(
                began.elapsed() < START_LIMIT,
                "{} did not open",
                self.address
            );
            stop.sleep(Duration::from_millis(20))?;
        }
        Ok(self)
    }
}

impl Arm {
    /// Its name as part of a file's.
    fn path_name(&self) -> String {
        let plain = |character: char| character.is_ascii_alphanumeric();
        self.name.replace(|character| !plain(character), "-")
    }
}

impl Cpus {
    /// The CPUs of a server on `cores` of them. The clients' is the last that it gets.
    fn of_server(self, cores: usize) -> Vec<usize> {
        let count = host::cpu_count();
        let others = (0..count).filter(|cpu| ![self.server, self.client].contains(cpu));
        let all = [self.server].into_iter().chain(others).chain([self.client]);
        all.take(cores).collect()
    }
}

/// The surroundings of a server.
struct Place<'a> {
    workspace: &'a Workspace,
    /// For its configuration and state.
    directory: &'a Path,
    address: SocketAddr,
    origin: SocketAddr,
}

impl Place<'_> {
    fn fill(&self, template: &str, cores: usize) -> String {
        let path = |path: &Path| path.display().to_string();
        let values = [
            ("@ADDRESS@", self.address.to_string()),
            ("@PORT@", self.address.port().to_string()),
            ("@ORIGIN@", self.origin.to_string()),
            ("@CORES@", cores.to_string()),
            ("@ROOT@", path(&self.workspace.root())),
            ("@DIR@", path(self.directory)),
            ("@CERT@", path(&self.workspace.certificate())),
            ("@KEY@", path(&self.workspace.key())),
            ("@BOTH@", path(&self.workspace.both())),
        ];
        let filled = |text: String, (name, value): (&str, String)| text.replace(name, &value);
        values.into_iter().fold(template.to_owned(), filled)
    }
}

/// hikyaku as shipped, without the log, which is off on all servers.
fn hikyaku(arm: &Arm, row: &Row, place: &Place<'_>) -> Command {
    let workspace = place.workspace;
    let mut command = Command::new(&arm.path);
    command.arg("serve");
    let mut settings = ["admin.listen=", "log.access=off", "log.level=warn"]
        .map(str::to_owned)
        .to_vec();
    match row.content {
        Content::Cache if arm.program == Program::Files => command.arg(workspace.root()),
        Content::Files => command.arg(workspace.root()),
        Content::Upstream | Content::Cache => {
            command.arg(format!("--upstream=http://{}", place.origin))
        }
    };
    if row.content == Content::Cache && arm.program != Program::Files {
        settings.extend(["cache.enabled=true", "cache.default_ttl=1h"].map(str::to_owned));
    }
    command.args(["--listen", &place.address.to_string()]);
    command.arg("--cert").arg(workspace.certificate());
    command.arg("--key").arg(workspace.key());
    // Idle connections have to stay idle for as long as the measurement takes.
    settings.extend(["timeouts.idle=10m", "timeouts.drain=1s"].map(str::to_owned));
    match arm.program {
        Program::Pinned => settings.extend(pinned(row.http)),
        Program::Egress => {
            settings.push(format!("egress.socket={}", workspace.agent().display()));
        }
        _ => {}
    }
    for setting in settings {
        command.args(["--set", &setting]);
    }
    command
}

/// The settings that pin all choices.
fn pinned(http: Http) -> [String; 4] {
    [
        format!("policy.version={http}"),
        "policy.congestion=cubic".to_owned(),
        "policy.min_cwnd=off".to_owned(),
        "policy.connections=1".to_owned(),
    ]
}

/// A server of somebody else, after writing its configuration.
fn peer(arm: &Arm, row: &Row, place: &Place<'_>) -> io::Result<Command> {
    let template = match arm.program {
        Program::Nginx => include_str!("../../../../conf/bench/nginx.conf.in"),
        Program::Caddy => include_str!("../../../../conf/bench/Caddyfile.in"),
        Program::Haproxy => include_str!("../../../../conf/bench/haproxy.cfg.in"),
        _ => include_str!("../../../../conf/bench/h2o.conf.in"),
    };
    let marks: &[&str] = match row.content {
        Content::Files => &["#files# "],
        Content::Upstream => &["#upstream# "],
        Content::Cache => &["#upstream# ", "#cache# "],
    };
    let mut template = template.to_owned();
    for mark in marks {
        template = template.replace(mark, "");
    }
    if arm.has_http3() {
        template = template.replace("#h3# ", "");
    }
    let config = place.fill(&template, row.cores);
    let directory = place.directory;
    if arm.program == Program::Nginx {
        return nginx(&arm.path, directory, &config);
    }
    // Caddy knows the format by the name.
    let path = directory.join("Caddyfile");
    fs::write(&path, config)?;
    let mut command = Command::new(&arm.path);
    match arm.program {
        Program::Caddy => command.args(["run", "--adapter", "caddyfile", "--config"]),
        Program::Haproxy => command.args(["-db", "-f"]),
        _ => command.args(["-m", "worker", "-c"]),
    };
    command.arg(path).env("HOME", directory);
    command
        .env("XDG_DATA_HOME", directory)
        .env("XDG_CONFIG_HOME", directory);
    Ok(command)
}

fn nginx(program: &Path, directory: &Path, config: &str) -> io::Result<Command> {
    let path = directory.join("nginx.conf");
    fs::write(&path, config)?;
    let mut command = Command::new(program);
    command.arg("-p").arg(directory).arg("-c").arg(path);
    command.arg("-e").arg(directory.join("error.log"));
    // A worker of another user could not read the files.
    if rustix::process::geteuid().is_root() {
        command.args(["-g", "user root;"]);
    }
    Ok(command)
}

/// Finds an address that is free on TCP and UDP.
fn free_address() -> Result<SocketAddr> {
    const ATTEMPTS: usize = 100;
    for _ in 0..ATTEMPTS {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = tcp.local_addr()?;
        if UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
    anyhow::bail!("no port is free on TCP and UDP")
}
