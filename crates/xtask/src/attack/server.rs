//! The servers under attack.

use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use tempfile::TempDir;

use crate::usage::Usage;

/// Bytes of the file that honest clients request.
pub(super) const SMALL: usize = 16 * 1024;
/// Bytes of the file that attackers request.
const LARGE: u64 = 100_000_000;
/// The time within which a server has to start.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    Hikyaku,
    /// nginx, as Debian packages it.
    Nginx,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hikyaku => "hikyaku",
            Self::Nginx => "nginx",
        })
    }
}

impl Kind {
    pub(super) const fn speaks_http3(self) -> bool {
        matches!(self, Self::Hikyaku)
    }
}

/// A server that runs on one CPU, with its files. It ends when dropped.
pub(super) struct Server {
    child: Child,
    address: SocketAddr,
    directory: TempDir,
}

impl Server {
    /// Starts `kind` with its default limits on CPU 0.
    pub(super) fn start(kind: Kind, hikyaku: &Path) -> Result<Self> {
        let directory = tempfile::tempdir().context("creating a directory")?;
        prepare(directory.path())?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]);
        match kind {
            Kind::Hikyaku => as_hikyaku(&mut command, hikyaku, directory.path(), address),
            Kind::Nginx => as_nginx(&mut command, directory.path(), address)?,
        }
        let log = fs::File::create(directory.path().join("stderr"))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = child.spawn().with_context(|| format!("starting {kind}"))?;
        let mut server = Self {
            child,
            address,
            directory,
        };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            server.check()?;
            ensure!(begun.elapsed() < START_LIMIT, "{kind} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// # Errors
    /// If the server has ended; with its output.
    pub(super) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = fs::read_to_string(self.directory.path().join("stderr"));
            bail!(
                "the server has ended ({status}): {}",
                log.unwrap_or_default()
            );
        }
        Ok(())
    }

    /// Reads the resources that the process and its children have used.
    pub(super) fn usage(&self) -> Result<Usage> {
        let mut sum = Usage::default();
        for process in processes(self.child.id())? {
            let one =
                Usage::of(process).with_context(|| format!("looking at process {process}"))?;
            sum.memory += one.memory;
            sum.cpu += one.cpu;
        }
        Ok(sum)
    }

    /// Starts attackers on CPU 1, behind the honest client.
    pub(super) fn attackers(&self, name: &str, seconds: u64) -> Result<Attackers> {
        let program = std::env::current_exe()?;
        let child = Command::new("taskset")
            .args(["-c", "1", "chrt", "--idle", "0"])
            .arg(program)
            .args(["attack", name, "--seconds", &seconds.to_string()])
            .args(["--against", &self.address.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the attackers")?;
        Ok(Attackers(child))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // nginx's workers end with their master only if it is asked to.
        if let Ok(processes) = processes(self.child.id()) {
            for process in processes {
                let _ = Command::new("kill")
                    .args(["-9", &process.to_string()])
                    .status();
            }
        }
        let _ = self.child.wait();
    }
}

/// Running attackers.
pub(super) struct Attackers(Child);

impl Attackers {
    /// Waits for their end. Returns how many connections they opened, and how many of these the
    /// server ended.
    pub(super) fn wait(self) -> Result<(u64, u64)> {
        let output = self.0.wait_with_output()?;
        let text = String::from_utf8(output.stdout)?;
        let mut counts = text.split_whitespace().map(str::parse::<u64>);
        match (counts.next(), counts.next()) {
            (Some(Ok(opened)), Some(Ok(ended))) => Ok((opened, ended)),
            _ => bail!("the attackers said `{}`", text.trim()),
        }
    }
}

fn prepare(directory: &Path) -> Result<()> {
    let root = directory.join("root");
    fs::create_dir(&root)?;
    fs::write(root.join("small.bin"), vec![b'x'; SMALL])?;
    // With holes, its pages would not be those of a file.
    fs::write(root.join("large.bin"), vec![b'x'; usize::try_from(LARGE)?])?;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    fs::write(directory.join("cert.pem"), made.cert.pem())?;
    fs::write(directory.join("key.pem"), made.signing_key.serialize_pem())?;
    Ok(())
}

fn as_hikyaku(command: &mut Command, program: &Path, directory: &Path, address: SocketAddr) {
    command
        .arg(program)
        .arg("serve")
        .arg(directory.join("root"))
        .args(["--listen", &address.to_string()])
        .arg("--cert")
        .arg(directory.join("cert.pem"))
        .arg("--key")
        .arg(directory.join("key.pem"))
        .args(["--set", "admin.listen=", "--set", "log.access=off"]);
}

fn as_nginx(command: &mut Command, directory: &Path, address: SocketAddr) -> Result<()> {
    const TEMPLATE: &str = include_str!("../../../../conf/bench/nginx-attack.conf.in");
    let config = TEMPLATE
        .replace("@DIR@", &directory.to_string_lossy())
        .replace("@ADDRESS@", &address.to_string());
    let path = directory.join("nginx.conf");
    fs::write(&path, config)?;
    // Debian installs nginx into a directory that only root's PATH has.
    let path_of_root = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    command
        .env("PATH", path_of_root)
        .arg("nginx")
        .arg("-c")
        .arg(path);
    Ok(())
}

/// Finds a port that is free on TCP and UDP.
fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = tcp.local_addr()?.port();
        if UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free on TCP and UDP")
}

/// Lists a process and its children.
fn processes(id: u32) -> Result<Vec<u32>> {
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
    let children = children.split_whitespace().flat_map(str::parse);
    Ok(std::iter::once(id).chain(children).collect())
}
