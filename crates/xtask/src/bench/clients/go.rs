//! The Go client (`crates/xtask/client`): net/http over HTTP/1.1 and HTTP/2, quic-go over HTTP/3.
//!
//! It opens its connections, reports that, and begins when a line comes on its standard input. So
//! the server's CPU time for handshakes and for requests is known apart.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::arms;
use super::super::process::Process;
use super::super::rows::{File, Http, Load, OPEN_CONNECTIONS, Row};
use super::super::server::Server;
use super::{Latency, Outcome, SETTLE, Scene};

/// The program's name in `build/peers`.
pub(super) const PROGRAM: &str = "bench-client";

/// The report of open connections.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Opened {
    open: u64,
}

/// The report of a load.
#[derive(Clone, Debug, Deserialize)]
struct Report {
    requests: u64,
    failed: u64,
    body_bytes: u64,
    elapsed_us: u64,
    connections: u64,
    resumed: u64,
    latency_us: Latency,
    cpu_us: u64,
    #[serde(default)]
    fault: String,
}

/// The time within which the client has to open its connections, or to end a run.
const LIMIT: Duration = Duration::from_secs(300);

/// Time from the last answer until memory is read, so that a server can free that of requests.
const REST: Duration = Duration::from_secs(3);

pub(super) fn run(scene: Scene<'_>, row: &Row, server: &Server, count: u64) -> Result<Outcome> {
    match row.load {
        Load::Idle { connections } => hold(scene, row.http, server, connections),
        _ => load(scene, row, server, count),
    }
}

fn load(scene: Scene<'_>, row: &Row, server: &Server, count: u64) -> Result<Outcome> {
    let file = match row.load {
        Load::Closed { file, .. } => file,
        _ => File::Small,
    };
    let mut client = Client::start(scene, &arguments(row, file, &server.url(file), count))?;
    client.next::<Opened>(scene)?;
    let before = server.cpu_time()?;
    client.begin()?;
    let report = client.next::<Report>(scene)?;
    scene.stop.sleep(SETTLE)?;
    let server_cpu = server.cpu_time()?.saturating_sub(before);
    check(&report, row, file, count)?;
    Ok(Outcome {
        requests: report.requests,
        body_bytes: report.body_bytes,
        connections: report.connections,
        elapsed: Duration::from_micros(report.elapsed_us),
        server_cpu,
        client_cpu: Some(Duration::from_micros(report.cpu_us)),
        latency: Some(report.latency_us),
        memory: None,
    })
}

/// Measures the server's memory with idle connections.
fn hold(scene: Scene<'_>, http: Http, server: &Server, count: u32) -> Result<Outcome> {
    let (began, cpu, fresh) = (Instant::now(), server.cpu_time()?, server.memory()?);
    let arguments = [
        "hold",
        "-http",
        version(http),
        "-connections",
        &count.to_string(),
    ];
    let mut arguments = arguments.map(str::to_owned).to_vec();
    arguments.push(server.url(File::Small));
    let mut client = Client::start(scene, &arguments)?;
    let opened = client.next::<Opened>(scene)?;
    let elapsed = began.elapsed();
    ensure!(
        opened.open == u64::from(count),
        "{} connections are open",
        opened.open
    );
    scene.stop.sleep(REST)?;
    let memory = server.memory()?.saturating_sub(fresh);
    client.begin()?;
    // Each of them still answers.
    let left = client.next::<Opened>(scene)?;
    ensure!(
        left.open == opened.open,
        "only {} connections stayed open",
        left.open
    );
    Ok(Outcome {
        requests: opened.open,
        body_bytes: opened.open * File::Small.size(),
        connections: opened.open,
        elapsed,
        server_cpu: server.cpu_time()?.saturating_sub(cpu),
        client_cpu: None,
        latency: None,
        memory: Some(memory),
    })
}

const fn version(http: Http) -> &'static str {
    match http {
        Http::H1 => "1",
        Http::H2 => "2",
        Http::H3 => "3",
    }
}

fn arguments(row: &Row, file: File, url: &str, count: u64) -> Vec<String> {
    let (mode, connections, streams) = match row.load {
        Load::Closed {
            connections,
            streams,
            ..
        } => ("load", connections, streams),
        Load::Open { streams, .. } => ("load", OPEN_CONNECTIONS, streams),
        Load::Connect { .. } | Load::Idle { .. } => ("connect", 1, 1),
    };
    let mut arguments = vec![mode.to_owned()];
    let mut option = |name: &str, value: String| {
        arguments.extend([format!("-{name}"), value]);
    };
    option("http", version(row.http).to_owned());
    option("connections", connections.to_string());
    option("streams", streams.to_string());
    option("requests", count.to_string());
    option("files", file.count().to_string());
    option("size", file.size().to_string());
    match row.load {
        Load::Open { per_s, .. } => option("rate", per_s.to_string()),
        Load::Connect { resume: true } => arguments.push("-resume".to_owned()),
        _ => {}
    }
    arguments.push(url.to_owned());
    arguments
}

fn check(report: &Report, row: &Row, file: File, count: u64) -> Result<()> {
    ensure!(
        (report.requests, report.failed) == (count, 0) && report.body_bytes == count * file.size(),
        "the client reported {} of {count} requests, {} failed, {} bytes: {}",
        report.requests,
        report.failed,
        report.body_bytes,
        report.fault
    );
    if let Load::Connect { resume } = row.load {
        let wanted = if resume { report.connections } else { 0 };
        ensure!(
            report.resumed == wanted,
            "{} of {} connections were resumed, not {wanted}",
            report.resumed,
            report.connections
        );
    }
    Ok(())
}

struct Client {
    process: Process,
    input: ChildStdin,
    lines: mpsc::Receiver<io::Result<String>>,
}

impl Client {
    fn start(scene: Scene<'_>, arguments: &[String]) -> Result<Self> {
        let mut command = Command::new(arms::find(PROGRAM)?);
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let directory = scene.workspace.path();
        let mut process = Process::start(command, &[scene.cpus.client], directory)?;
        let stdout = process.child().stdout.take();
        let stdout = BufReader::new(stdout.context("the client has no standard output")?);
        let input = process.child().stdin.take();
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines() {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            process,
            input: input.context("the client has no standard input")?,
            lines,
        })
    }

    fn begin(&mut self) -> Result<()> {
        writeln!(self.input).context("starting the client's requests")
    }

    fn next<T: DeserializeOwned>(&mut self, scene: Scene<'_>) -> Result<T> {
        let end = Instant::now() + LIMIT;
        loop {
            match self.lines.recv_timeout(Duration::from_millis(20)) {
                Ok(line) => {
                    let line = line?;
                    let report = serde_json::from_str(&line);
                    return report.with_context(|| format!("the client reported `{line}`"));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => scene.stop.check()?,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    // Its end is visible a moment after that of its output.
                    scene.stop.sleep(Duration::from_millis(100))?;
                    self.process.check()?;
                    bail!("the client closed its output without a report");
                }
            }
            ensure!(
                Instant::now() < end,
                "the client took more than {} s",
                LIMIT.as_secs()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::rows;
    use super::*;

    fn row(id: &str) -> Row {
        let all = rows::all(false);
        all.into_iter().find(|row| row.id == id).expect("it exists")
    }

    #[test]
    fn reports() {
        let json = r#"{"requests":2,"failed":0,"body_bytes":2048,"elapsed_us":900,"connections":2,
            "resumed":2,"latency_us":{"mean":400.5,"p50":400,"p90":401,"p99":401,"p999":401,
            "max":401},"cpu_us":800}"#;
        let report: Report = serde_json::from_str(json).expect("it is one");
        let failed = Report {
            failed: 1,
            fault: "status 503".to_owned(),
            ..report.clone()
        };
        let cases: &[(&str, &Report, &str, u64, Option<&str>)] = &[
            ("all resumed", &report, "tcp-resumed", 2, None),
            (
                "none should be",
                &report,
                "tcp-full",
                2,
                Some("2 of 2 connections were resumed"),
            ),
            (
                "one too few",
                &report,
                "h3-small",
                3,
                Some("2 of 3 requests"),
            ),
            ("short", &report, "h3-100k", 2, Some("2048 bytes")),
            ("failed", &failed, "h3-small", 2, Some("status 503")),
        ];
        for (name, report, id, count, want) in cases {
            let row = row(id);
            let file = match row.load {
                Load::Closed { file, .. } => file,
                _ => File::Small,
            };
            let fault = check(report, &row, file, *count).err();
            let fault = fault.map(|fault| fault.to_string());
            let same = match want {
                Some(part) => fault.as_ref().is_some_and(|fault| fault.contains(part)),
                None => fault.is_none(),
            };
            assert!(same, "{name}: {fault:?}");
        }
    }

    #[test]
    fn rows_become_arguments() {
        let of = |id: &str, count| {
            let row = row(id);
            let file = File::Small;
            arguments(&row, file, "https://127.0.0.1:1/f", count).join(" ")
        };
        assert_eq!(
            of("h3-32x4", 9),
            "load -http 3 -connections 32 -streams 4 -requests 9 -files 1 -size 1024 \
             https://127.0.0.1:1/f"
        );
        assert_eq!(
            of("tcp-resumed", 9),
            "connect -http 1 -connections 1 -streams 1 -requests 9 -files 1 -size 1024 -resume \
             https://127.0.0.1:1/f"
        );
        assert!(of("tail-h2", 9).contains("-connections 64 -streams 4 -requests 9"));
        assert!(of("tail-h2", 9).contains("-rate 4000"));
    }
}
