//! A pair of namespaces with its servers, on which one run follows another.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hikyaku_core::arm::Congestion;
use hikyaku_lab::link::{LinkPair, Report, SERVER_V4, Topology};
use hikyaku_netsim::{LinkConfig, derive_seed};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::access_log::{AccessLog, Line};
use crate::client::{self, Download};
use crate::plan::{Job, Size};
use crate::record::{Conditions, LinkView, Run};

/// What all lanes share: the binary and the files that it serves.
#[derive(Debug)]
pub(crate) struct Site {
    binary: PathBuf,
    cap: Duration,
    directory: tempfile::TempDir,
}

/// A pair of namespaces, and a server for each congestion control.
#[derive(Debug)]
pub(crate) struct Lane<'a> {
    site: &'a Site,
    // Servers end before their namespace is removed.
    servers: [Server; 2],
    topology: Topology,
}

#[derive(Debug)]
struct Server {
    congestion: Congestion,
    process: Process,
    address: SocketAddr,
    log: AccessLog,
}

/// A child process that ends with its owner.
#[derive(Debug)]
struct Process(Child);

/// How long the server may take to start.
const START_LIMIT: Duration = Duration::from_secs(10);

/// How long the server may take to log a response, or notice that it was given up.
const LOG_LIMIT: Duration = Duration::from_secs(3);

/// The coarsest kernel tick (`CONFIG_HZ_100`).
const TICK_US: u64 = 10_000;

impl Site {
    /// Writes the files to be served: bytes that do not compress.
    pub(crate) fn prepare(binary: &Path, sizes: &[Size], cap: Duration) -> Result<Self> {
        let binary = binary
            .canonicalize()
            .with_context(|| format!("finding {}", binary.display()))?;
        let directory =
            tempfile::tempdir().context("creating a directory for the files to serve")?;
        let root = directory.path().join("root");
        fs::create_dir(&root).context("creating the served directory")?;
        for &Size { bytes, .. } in sizes {
            let mut content = vec![0; usize::try_from(bytes)?];
            ChaCha8Rng::seed_from_u64(derive_seed(0, &[bytes])).fill_bytes(&mut content);
            let path = root.join(file_name(bytes));
            fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(Self {
            binary,
            cap,
            directory,
        })
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }
}

fn file_name(bytes: u64) -> String {
    format!("{bytes}.bin")
}

impl<'a> Lane<'a> {
    /// Makes the namespaces and starts the servers in theirs.
    pub(crate) fn open(site: &'a Site) -> Result<Self> {
        let mut topology = Topology::create()?;
        // Without a link there is no carrier to bind to.
        topology.start_link(
            LinkPair {
                up: LinkConfig::default(),
                down: LinkConfig::default(),
            },
            0,
        )?;
        let server = |congestion, port| Server::start(site, &topology, congestion, port);
        let servers = [
            server(Congestion::Cubic, 4430)?,
            server(Congestion::Bbr, 4431)?,
        ];
        Ok(Self {
            site,
            servers,
            topology,
        })
    }

    /// Runs one download. Only what keeps every run from working is an error.
    pub(crate) fn run(&mut self, job: &Job, conditions: &Conditions) -> Result<Run> {
        let began = OffsetDateTime::now_utc().format(&Rfc3339)?;
        let site = self.site;
        self.topology
            .start_link(job.path.links(), job.seed(conditions.seed))?;
        let server = self
            .servers
            .iter_mut()
            .find(|server| server.congestion == job.arm.congestion)
            .context("no server has this congestion control")?;
        server.process.check()?;

        let url = format!("https://{}/{}", server.address, file_name(job.size));
        let mut command = Command::new(&site.binary);
        command.args(client::arguments(job.arm.version, site.cap, &url));
        let download = client::fetch(&self.topology, command)?;
        let line = match download.request.local {
            Some(local) => server.log.wait_for(local.port(), LOG_LIMIT)?,
            None => None,
        };
        let report = self.topology.stop_link()?.context("the link was gone")?;
        Ok(describe(job, conditions, began, &download, line, &report))
    }
}

fn describe(
    job: &Job,
    conditions: &Conditions,
    began: String,
    download: &Download,
    line: Option<Line>,
    report: &Report,
) -> Run {
    let request = &download.request;
    let acknowledged = line
        .filter(|line| line.complete)
        .map(|line| line.duration_us);
    let (load, error) = match &request.error {
        _ if request.timed_out => (extrapolate(download, job.size), None),
        Some(failure) => (None, Some(failure.message.clone())),
        None => {
            let client_us = request.since_request_us();
            (
                Some(load_us(acknowledged, client_us, job.path.rtt_ms)),
                None,
            )
        }
    };
    let error = error.or_else(|| load.is_none().then(|| "nothing came in time".to_owned()));
    Run {
        job: *job,
        conditions: conditions.clone(),
        began,
        load_us: load,
        server_us: acknowledged,
        client_us: Some(request.since_request_us()),
        censored: request.timed_out,
        error,
        handshake_us: Some(request.connect_us + request.tls_us),
        client_total_us: Some(request.total_us),
        body_bytes: Some(request.body_bytes),
        server: line.map(|line| line.server),
        disturbed: report.disturbed().is_some(),
        link: link_view(report),
    }
}

/// Load time in µs of a complete download.
///
/// Client and server see the same interval half a round trip apart. The client's
/// is exact, but holds the retransmission of a lost request, which the server
/// cannot see. The server's ends at the kernel's time of the last
/// acknowledgement, which is up to a tick early on TCP. So it is the client's
/// time as far as the server's allows it; a server's time that is shorter than
/// the round trip allows nothing.
fn load_us(server_us: Option<u64>, client_us: u64, rtt_ms: u32) -> u64 {
    match server_us {
        Some(server_us) if server_us + TICK_US >= u64::from(rtt_ms) * 1_000 => {
            client_us.clamp(server_us, server_us + TICK_US)
        }
        _ => client_us,
    }
}

/// Load time in µs of a download that was given up, if it had gone on as in its
/// second half; at the rate of the whole if the second half brought nothing.
fn extrapolate(download: &Download, size: u64) -> Option<u64> {
    let Download { request, progress } = download;
    let so_far = request.since_request_us() as f64 / 1e6;
    let body = request.body_bytes as f64;
    if body == 0.0 || so_far == 0.0 {
        return None;
    }
    // Body bytes among all that the link delivered.
    let body_share = body / progress.total().max(1) as f64;
    let rate = progress
        .late_rate()
        .map_or(body / so_far, |rate| rate * body_share);
    let left = size.saturating_sub(request.body_bytes) as f64;
    Some(((so_far + left / rate) * 1e6) as u64)
}

fn link_view(report: &Report) -> LinkView {
    let us = |duration: Duration| duration.as_micros() as u64;
    LinkView {
        delivered: report.down.delivered.packets,
        lost: report.down.lost.packets,
        dropped: report.down.dropped.packets,
        lateness_mean_us: us(report.lateness.mean()),
        lateness_p99_us: us(report.lateness.quantile(0.99)),
        lateness_max_us: us(report.lateness.max()),
        faults: report.faults,
        realtime: report.realtime,
        steal: report.steal,
    }
}

impl Server {
    fn start(site: &Site, topology: &Topology, congestion: Congestion, port: u16) -> Result<Self> {
        let name = match congestion {
            Congestion::Cubic => "cubic",
            Congestion::Bbr => "bbr",
        };
        let address = SocketAddr::from((SERVER_V4, port));
        let file = |kind: &str| {
            site.directory
                .path()
                .join(format!("{}-{name}.{kind}", topology.server().name()))
        };
        let log = file("access.jsonl");
        let mut command = Command::new(&site.binary);
        command
            .arg("serve")
            .arg(site.root())
            .args(["--listen", &address.to_string()]);
        for setting in [
            format!("policy.congestion={name}"),
            format!("log.access={}", log.display()),
            "admin.listen=".to_owned(),
        ] {
            command.args(["--set", &setting]);
        }
        let stderr = file("log");
        let output = File::create(&stderr).context("creating the server's log")?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output);
        let child = topology
            .server()
            .spawn(&mut command)?
            .context("starting `hikyaku serve`")?;
        let mut process = Process(child);
        if let Err(error) = process.wait_until_open(topology, address) {
            let said = fs::read_to_string(&stderr).unwrap_or_default();
            return Err(error.context(format!(
                "starting `hikyaku serve` ({name}): {}",
                said.trim()
            )));
        }
        Ok(Self {
            congestion,
            process,
            address,
            log: AccessLog::new(&log),
        })
    }
}

impl Process {
    fn wait_until_open(&mut self, topology: &Topology, address: SocketAddr) -> Result<()> {
        let began = Instant::now();
        while topology
            .server()
            .enter(|| TcpStream::connect(address))?
            .is_err()
        {
            self.check()?;
            if began.elapsed() > START_LIMIT {
                bail!("it did not open {address}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            Some(status) => bail!("it ended: {status}"),
            None => Ok(()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_time_is_the_clients_as_far_as_the_servers_allows() {
        let cases = [
            // name, server µs, client µs, RTT ms, load µs
            ("they agree", Some(100_300), 101_000, 50, 101_000),
            ("a tick early", Some(97_000), 101_000, 50, 101_000),
            ("the request was lost", Some(52_000), 252_000, 50, 62_000),
            ("the client is ahead", Some(54_000), 52_000, 50, 54_000),
            ("faster than light", Some(0), 101_000, 50, 101_000),
            ("no line in the log", None, 101_000, 50, 101_000),
            ("less than a tick", Some(0), 1_700, 1, 1_700),
        ];
        for (name, server_us, client_us, rtt_ms, want) in cases {
            assert_eq!(load_us(server_us, client_us, rtt_ms), want, "{name}");
        }
    }
}
