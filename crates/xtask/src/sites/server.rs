//! The server, and the directories and certificates of its sites.

use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::usage::Usage;

/// The page of each site. No header field ends with it.
pub(super) const BODY: &str = "<p>the page of a site</p>";

/// The time within which a server has to start or to reload.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// The directories and certificates of sites.
pub(super) struct Machine {
    directory: TempDir,
    /// The host of the last site.
    last: String,
}

impl Machine {
    /// Makes those of so many sites.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn new(sites: u32) -> Result<Self> {
        let directory = tempfile::tempdir().context("creating a directory")?;
        for number in 0..sites {
            let at = directory.path().join(number.to_string());
            fs::create_dir_all(at.join("www"))?;
            fs::write(at.join("www/index.html"), BODY)?;
            let made = rcgen::generate_simple_self_signed([host(number)])?;
            fs::write(at.join("cert.pem"), made.cert.pem())?;
            fs::write(at.join("key.pem"), made.signing_key.serialize_pem())?;
        }
        let last = host(sites - 1);
        Ok(Self { directory, last })
    }

    /// The host of the last site.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// Writes the configuration of the last so many sites.
    fn configure(&self, sites: u32, address: SocketAddr) -> Result<PathBuf> {
        let root = self.directory.path().display();
        let mut text =
            format!("listen = \"{address}\"\nadmin.listen = \"\"\nlog.access = \"off\"\n");
        let all = last_number(&self.last)? + 1;
        for number in all - sites..all {
            let host = host(number);
            write!(
                text,
                "[[site]]\nnames = [\"{host}\"]\nroot = \"{root}/{number}/www\"\n\
                 tls = {{ cert = \"{root}/{number}/cert.pem\", key = \"{root}/{number}/key.pem\" }}\n"
            )?;
        }
        let path = self.directory.path().join("edge.toml");
        fs::write(&path, text)?;
        Ok(path)
    }
}

fn host(number: u32) -> String {
    format!("site{number}.example")
}

fn last_number(host: &str) -> Result<u32> {
    let digits: String = host.chars().filter(char::is_ascii_digit).collect();
    Ok(digits.parse()?)
}

/// A running server. It ends when dropped.
pub(super) struct Server {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    started: Instant,
}

impl Server {
    /// Starts a server with the last `sites` of the machine.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(machine: &Machine, program: &Path, sites: u32) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let config = machine.configure(sites, address)?;
        let log = machine.directory.path().join("log");
        let stderr = fs::File::create(&log)?;
        let started = Instant::now();
        let child = Command::new(program)
            .arg("serve")
            .arg("--config")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn();
        let child = child.with_context(|| format!("starting {}", program.display()))?;
        Ok(Self {
            child,
            address,
            log,
            started,
        })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The time since the start.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Tries until there is an answer.
    ///
    /// # Errors
    /// If there is none in time; with the server's log.
    pub(super) fn wait_for<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            match attempt() {
                Ok(answer) => return Ok(answer),
                Err(error) if self.age() > LIMIT => bail!("{error:#}: {}", self.log()),
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Bytes of its memory.
    ///
    /// # Errors
    /// If it has ended.
    pub(super) fn memory(&self) -> Result<u64> {
        Ok(Usage::of(self.child.id())?.memory)
    }

    /// Lets it read its configuration again. Returns the time of the signal.
    ///
    /// # Errors
    /// If it has ended.
    pub(super) fn reload(&self) -> Result<Instant> {
        let id = Pid::from_child(&self.child);
        kill_process(id, Signal::HUP).context("notifying the server")?;
        Ok(Instant::now())
    }

    /// Whether its log reports a reload.
    pub(super) fn has_reloaded(&self) -> bool {
        self.log().contains("configuration reloaded")
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
