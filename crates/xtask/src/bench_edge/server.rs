//! The servers under test, and their files.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::arm::{Load, ServerKind};
use super::host;
use super::process::{Process, Stop};

/// The files and the certificate of all servers; removed when dropped.
#[derive(Debug)]
pub(super) struct Workspace {
    directory: tempfile::TempDir,
    pub(super) hikyaku: PathBuf,
    /// The build that `hikyaku` is compared with.
    before: Option<PathBuf>,
    pub(super) server_cpu: usize,
    pub(super) client_cpu: usize,
}

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    process: Process,
    /// The process that does the work: nginx's worker, not its master.
    pub(super) worker: u32,
    port: u16,
    /// nginx's port with frames of 16k.
    port_16k: u16,
}

/// The time within which a server has to start.
const START_LIMIT: Duration = Duration::from_secs(10);

impl Workspace {
    /// Makes the files below `parent`, which has to be on a disk.
    pub(super) fn prepare(
        parent: &Path,
        (hikyaku, before): (&Path, Option<&Path>),
        (server_cpu, client_cpu): (usize, usize),
    ) -> Result<Self> {
        let find = |program: &Path| {
            program.canonicalize().with_context(|| {
                let path = program.display();
                format!("finding {path} (make it with `cargo build --release -p hikyaku`)")
            })
        };
        let (hikyaku, before) = (find(hikyaku)?, before.map(find).transpose()?);
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        ensure_on_disk(parent)?;
        // A full path, since nginx takes others as below its own prefix.
        let parent = parent.canonicalize()?;
        let directory = tempfile::tempdir_in(&parent)
            .with_context(|| format!("creating a directory in {}", parent.display()))?;
        let workspace = Self {
            directory,
            hikyaku,
            before,
            server_cpu,
            client_cpu,
        };
        workspace.write_files()?;
        Ok(workspace)
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn root(&self) -> PathBuf {
        self.path().join("root")
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.path().join("cert.pem")
    }

    /// The socket of the egress agent.
    pub(super) fn agent(&self) -> PathBuf {
        self.path().join("agent.sock")
    }

    fn key(&self) -> PathBuf {
        self.path().join("key.pem")
    }

    fn write_files(&self) -> Result<()> {
        fs::create_dir(self.root())?;
        for load in [Load::Large, Load::Small] {
            // Random content does not compress, if any program should try.
            let mut content = vec![0; usize::try_from(load.size())?];
            ChaCha8Rng::seed_from_u64(load.size()).fill_bytes(&mut content);
            let path = self.root().join(load.file_name());
            // Written and read once, the file is on the disk and in the page cache.
            fs::write(&path, content)
                .and_then(|()| fs::File::open(&path)?.sync_all())
                .and_then(|()| fs::read(&path))
                .with_context(|| format!("writing {}", path.display()))?;
        }
        // The key is ECDSA on P-256, rcgen's default.
        let names = ["localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string()];
        let made = rcgen::generate_simple_self_signed(names).context("making a certificate")?;
        fs::write(self.certificate(), made.cert.pem())?;
        fs::write(self.key(), made.signing_key.serialize_pem())?;
        Ok(())
    }
}

fn ensure_on_disk(path: &Path) -> Result<()> {
    const TMPFS: u64 = 0x0102_1994;
    let found = rustix::fs::statfs(path)?.f_type;
    ensure!(
        u64::try_from(found) != Ok(TMPFS),
        "{} is in memory (tmpfs), but files are to be served from a disk: choose another by --dir",
        path.display()
    );
    Ok(())
}

impl Server {
    /// Starts a fresh server of `kind`.
    pub(super) fn start(workspace: &Workspace, kind: ServerKind, stop: &Stop) -> Result<Self> {
        let (port, port_16k) = (free_port()?, free_port()?);
        let process = match kind {
            ServerKind::Hikyaku => hikyaku(workspace, port, &[])?,
            ServerKind::Before => {
                let program = workspace.before.as_ref();
                let program = program.context("no other build to compare with: give --before")?;
                hikyaku_of(program, workspace, port, &[])?
            }
            ServerKind::FixedH2 => hikyaku(workspace, port, &pinned("h2"))?,
            ServerKind::FixedH3 => hikyaku(workspace, port, &pinned("h3"))?,
            ServerKind::Egress => {
                let socket = format!("egress.socket={}", workspace.agent().display());
                hikyaku(workspace, port, &[socket])?
            }
            ServerKind::Nginx | ServerKind::Nginx16k => nginx(workspace, port, port_16k)?,
        };
        let worker = process.id();
        let mut server = Self {
            process,
            worker,
            port,
            port_16k,
        };
        server.wait_until_open(stop)?;
        if matches!(kind, ServerKind::Nginx | ServerKind::Nginx16k) {
            server.worker = host::only_child(server.worker).context("finding nginx's worker")?;
        }
        Ok(server)
    }

    pub(super) fn url(&self, kind: ServerKind, load: Load) -> String {
        let port = match kind {
            ServerKind::Nginx16k => self.port_16k,
            _ => self.port,
        };
        format!("https://127.0.0.1:{port}/{}", load.file_name())
    }

    /// # Errors
    /// If the server has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    fn wait_until_open(&mut self, stop: &Stop) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            self.check()?;
            ensure!(
                began.elapsed() < START_LIMIT,
                "port {} did not open",
                self.port
            );
            stop.sleep(Duration::from_millis(20))?;
        }
        Ok(())
    }
}

/// The settings that pin all choices.
fn pinned(version: &str) -> [String; 4] {
    [
        format!("policy.version={version}"),
        "policy.congestion=cubic".to_owned(),
        "policy.min_cwnd=off".to_owned(),
        "policy.connections=1".to_owned(),
    ]
}

/// Starts the measured build of hikyaku with `settings`.
fn hikyaku(workspace: &Workspace, port: u16, settings: &[String]) -> Result<Process> {
    hikyaku_of(&workspace.hikyaku, workspace, port, settings)
}

/// Starts `program` as shipped, with `settings` and without the log, which is off on all servers.
fn hikyaku_of(
    program: &Path,
    workspace: &Workspace,
    port: u16,
    settings: &[String],
) -> Result<Process> {
    Process::start(program, workspace.server_cpu, workspace.path(), |command| {
        command
            .arg("serve")
            .arg(workspace.root())
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .arg("--cert")
            .arg(workspace.certificate())
            .arg("--key")
            .arg(workspace.key())
            .args(["--set", "admin.listen=", "--set", "log.access=off"])
            .args(["--set", "log.level=warn"])
            // Idle connections have to stay idle for as long as the measurement takes.
            .args(["--set", "timeouts.idle=10m", "--set", "timeouts.drain=1s"])
            .args(settings.iter().flat_map(|setting| ["--set", setting]))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
    })
}

fn nginx(workspace: &Workspace, port: u16, port_16k: u16) -> Result<Process> {
    const TEMPLATE: &str = include_str!("../../../../conf/bench/nginx.conf.in");
    let directory = workspace.path();
    let config = TEMPLATE
        .replace("@DIR@", &directory.to_string_lossy())
        .replace("@ROOT@", &workspace.root().to_string_lossy())
        .replace("@PORT@", &port.to_string())
        .replace("@PORT_16K@", &port_16k.to_string());
    let path = directory.join("nginx.conf");
    fs::write(&path, config)?;
    Process::start(
        Path::new("nginx"),
        workspace.server_cpu,
        directory,
        |command| {
            command.arg("-c").arg(&path);
            // A worker of another user could not read the files.
            if rustix::process::geteuid().is_root() {
                command.args(["-g", "user root;"]);
            }
            command.stdin(Stdio::null()).stdout(Stdio::null());
        },
    )
}

/// Finds a port that is free on TCP and UDP.
fn free_port() -> Result<u16> {
    const ATTEMPTS: usize = 100;
    for _ in 0..ATTEMPTS {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = tcp.local_addr()?.port();
        if UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    anyhow::bail!("no port is free on TCP and UDP")
}
