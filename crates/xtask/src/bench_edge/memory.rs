//! Memory of a server for each idle connection.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::arm::{Http, Load, ServerKind};
use super::host;
use super::process::{Process, Stop};
use super::server::{Server, Workspace};

/// The cost of idle connections to a server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Idle {
    pub(super) server: ServerKind,
    pub(super) http: Http,
    /// The number of open connections, each after one request.
    pub(super) connections: u64,
    /// The time of opening all of them.
    pub(super) opened_s: f64,
    /// Bytes of the server's memory (PSS) without connections.
    pub(super) before: u64,
    /// Bytes of the server's memory (PSS) with all connections.
    pub(super) with: u64,
}

impl Idle {
    pub(super) fn kib_each(&self) -> f64 {
        self.with.saturating_sub(self.before) as f64 / 1024.0 / self.connections as f64
    }
}

/// The report of `idle` on its connections.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Opened {
    open: u64,
}

/// The time from the last request until memory is read, so that the server can free the memory of
/// requests.
const SETTLE: Duration = Duration::from_secs(3);

/// The time limit for opening all connections.
const OPEN_LIMIT: Duration = Duration::from_secs(120);

/// Measures a fresh server with `count` idle connections, which `cargo xtask idle` holds open.
pub(super) fn measure(
    workspace: &Workspace,
    (kind, http): (ServerKind, Http),
    count: u64,
    idle: &Path,
    stop: &Stop,
) -> Result<Idle> {
    let mut server = Server::start(workspace, kind, stop)?;
    stop.sleep(Duration::from_millis(500))?;
    let before = host::pss(server.worker)?;
    let began = Instant::now();
    let mut client = Client::start(workspace, &server.url(kind, Load::Small), http, count, idle)?;
    let opened = client.next_report(stop)?;
    ensure!(
        opened.open == count,
        "only {} of {count} connections could be opened",
        opened.open
    );
    let opened_s = began.elapsed().as_secs_f64();
    stop.sleep(SETTLE)?;
    server.check()?;
    let with = host::pss(server.worker)?;
    // Its standard input ends, and so it counts the remaining connections.
    drop(client.process.child().stdin.take());
    let left = client.next_report(stop)?;
    ensure!(
        left.open == count,
        "{} of {count} connections were closed while memory was read",
        count - left.open
    );
    Ok(Idle {
        server: kind,
        http,
        connections: count,
        opened_s,
        before,
        with,
    })
}

struct Client {
    process: Process,
    lines: mpsc::Receiver<std::io::Result<String>>,
}

impl Client {
    fn start(
        workspace: &Workspace,
        url: &str,
        http: Http,
        count: u64,
        idle: &Path,
    ) -> Result<Self> {
        let (cpu, directory) = (workspace.client_cpu, workspace.path());
        let mut process = Process::start(idle, cpu, directory, |command| {
            command
                .args(["idle", "--http", http.number()])
                .args(["--connections", &count.to_string()])
                .arg("--cacert")
                .arg(workspace.certificate())
                .arg(url)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
        })?;
        let stdout = process.child().stdout.take();
        let stdout = BufReader::new(stdout.context("`idle` has no standard output")?);
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines() {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, lines })
    }

    fn next_report(&mut self, stop: &Stop) -> Result<Opened> {
        let end = Instant::now() + OPEN_LIMIT;
        loop {
            match self.lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => return Ok(serde_json::from_str(&line?)?),
                Err(mpsc::RecvTimeoutError::Timeout) => stop.check()?,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    // Its end is visible a moment after that of its output.
                    stop.sleep(Duration::from_millis(100))?;
                    self.process.check()?;
                    anyhow::bail!("`idle` closed its output without a report");
                }
            }
            ensure!(
                Instant::now() < end,
                "the connections took more than {} s",
                OPEN_LIMIT.as_secs()
            );
        }
    }
}
