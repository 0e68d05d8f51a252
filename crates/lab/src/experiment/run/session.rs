//! One session: a client, a link, and the record of both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::access_log::Line;
use super::cpu_time::CpuTime;
use super::error::{Attempt, RunError};
use super::experiment::Experiment;
use super::fetch::{self, Fetched, Request};
use super::lane::{Shared, fresh};
use super::plan::{self, Job};
use super::server::Server;
use crate::experiment::axis::Axis;
use crate::experiment::files::SiteFile;
use crate::experiment::record::{Emulator, Links, Outcome, Run};
use crate::experiment::spec::{Arm, Backend};
use crate::link::{LinkPair, Report, Topology};

/// What the sessions of a job have in common.
pub(super) struct Session<'a> {
    job: &'a Job,
    attempt: u32,
    experiment: &'a Experiment,
    arm: &'a Arm,
    files: Vec<SiteFile>,
    timeout: Duration,
    links: Links,
    /// For what is kept between sessions.
    directory: PathBuf,
}

/// How long the server may take to log a response, or notice that it was given up.
const LOG_LIMIT: Duration = Duration::from_secs(3);

/// The emulator must hand over 99 of 100 packets within this time.
const LATENESS_LIMIT: Duration = Duration::from_millis(2);

/// Share of CPU time that other machines may take.
const STEAL_LIMIT: f64 = 0.05;

/// The coarsest kernel tick (`CONFIG_HZ_100`).
const TICK_US: u64 = 10_000;

impl<'a> Session<'a> {
    /// Prepares the sessions of a job; `directory` is emptied.
    pub(super) fn new(
        job: &'a Job,
        attempt: u32,
        experiment: &'a Experiment,
        directory: &Path,
    ) -> Result<Self, RunError> {
        fresh(directory).attempt(|| format!("emptying {}", directory.display()))?;
        let spec = &experiment.spec;
        let arm = &spec.arms[job.arm];
        let links = spec.links(&job.cell).map_err(RunError::Arguments)?;
        let mut session = Self {
            job,
            attempt,
            experiment,
            arm,
            files: spec.files(&job.cell),
            timeout: spec.timeout(&job.cell, arm),
            links,
            directory: directory.to_owned(),
        };
        // A run that begins later meets the link as those before have left it.
        for before in 0..job.sessions.start {
            session.change_link(before);
        }
        Ok(session)
    }

    /// Runs one session; `None` if a signal to stop came first.
    pub(super) fn run(
        &mut self,
        number: u32,
        server: &mut Server,
        topology: &mut Topology,
        shared: &Shared,
    ) -> Result<Option<Run>, RunError> {
        let began = OffsetDateTime::now_utc();
        let spec = &self.experiment.spec;
        self.change_link(number);
        let seed = self.experiment.conditions.seed;
        let seed = plan::seed(seed, &self.job.cell, self.job.repeat, number);
        let [up, down] = self.links.configs().map_err(RunError::Arguments)?;
        let cpu = CpuTime::now()?;
        topology.start_link(LinkPair { up, down }, seed)?;
        server.check()?;

        let command = self.command(server, &shared.binary);
        let stderr = self.directory.join("client.log");
        let limit = self.timeout * 2 + Duration::from_secs(10);
        let fetched = fetch::fetch(
            topology,
            command,
            &stderr,
            limit,
            spec.workload.series,
            &shared.stop,
        )?;
        let Some(fetched) = fetched else {
            return Ok(None);
        };
        let mut measured = Measured::default();
        self.measure(&fetched, &mut measured);
        let line = self.server_line(&fetched, server)?;
        self.measure_server(&fetched, line.as_ref(), &mut measured);
        if server.kind.learns {
            let decision = server.explain(topology)?.decision;
            measured.label("decision", decision.version.name());
            measured.label("reason", &decision.reason_code);
        }
        // What the client's end still sends, such as the closing of its connections.
        thread::sleep(self.links.rtt() + Duration::from_millis(5));
        let Some(report) = topology.stop_link()? else {
            return Err(RunError::Arguments("the link was gone".to_owned()));
        };
        let emulator = emulator(&report, cpu.steal_until(&CpuTime::now()?));
        let began = began.format(&Rfc3339).unwrap_or_default();
        Ok(Some(self.record(number, seed, began, measured, emulator)))
    }

    fn record(
        &self,
        number: u32,
        seed: u64,
        began: String,
        measured: Measured,
        emulator: Emulator,
    ) -> Run {
        let (warmup, _) = self.experiment.spec.sessions(self.arm);
        Run {
            experiment: self.experiment.name.clone(),
            cell: self.job.cell.clone(),
            arm: self.arm.name.clone(),
            repeat: self.job.repeat,
            session: number,
            warmup: number < warmup,
            seed,
            attempt: self.attempt,
            backend: Backend::Link,
            began,
            outcome: measured.outcome,
            error: measured.error,
            metrics: measured.metrics,
            labels: measured.labels,
            series: measured.series,
            link: self.links.clone(),
            disturbed: disturbed(&emulator),
            emulator: Some(emulator),
            conditions: self.experiment.conditions.clone(),
        }
    }

    fn command(&self, server: &Server, binary: &Path) -> std::process::Command {
        let workload = &self.experiment.spec.workload;
        let requested = if workload.page {
            &self.files[..1]
        } else {
            &self.files[..]
        };
        let urls: Vec<String> = requested
            .iter()
            .map(|file| format!("https://{}/{}", server.address, file.name))
            .collect();
        let swept = self.job.cell.get(Axis::Connections);
        let connections = swept
            .and_then(|text| text.parse().ok())
            .or(self.arm.connections);
        let mut command = fetch::command(binary, self.arm, connections, &urls, self.timeout);
        if workload.page {
            command.arg("--page");
        }
        if self.arm.returning.unwrap_or(workload.returning) {
            command
                .arg("--alt-svc-cache")
                .arg(self.directory.join("alt-svc.json"));
        }
        command
    }

    /// Changes the link as it is to be before a session.
    fn change_link(&mut self, number: u32) {
        let changes = &self.experiment.spec.workload.change;
        for change in changes
            .iter()
            .filter(|change| change.session == number && change.at.is_none())
        {
            for (direction, own) in [
                (&mut self.links.up, &change.up),
                (&mut self.links.down, &change.down),
            ] {
                direction.extend(change.both.clone());
                direction.extend(own.clone());
            }
        }
    }

    /// The request for the last file.
    fn last<'b>(&self, fetched: &'b Fetched) -> Option<&'b Request> {
        let name = &self.files.last()?.name;
        fetched
            .requests
            .iter()
            .rev()
            .find(|request| request.url.rsplit('/').next() == Some(name))
    }

    /// What the client saw.
    fn measure(&self, fetched: &Fetched, measured: &mut Measured) {
        let requests = &fetched.requests;
        measured.error.clone_from(&fetched.error);
        measured.outcome = if fetched.error.is_some() {
            Outcome::Failed
        } else {
            Outcome::Complete
        };
        for request in requests {
            if let Some(status) = request.status.filter(|status| *status >= 400) {
                measured.fail(
                    Outcome::Failed,
                    format!("{} has status {status}", request.url),
                );
            }
            if let Some(error) = &request.error {
                let outcome = if request.timed_out {
                    Outcome::TimedOut
                } else {
                    Outcome::Failed
                };
                measured.fail(outcome, format!("{}: {}", request.url, error.message));
            }
        }
        let (Some(first), Some(end)) =
            (requests.first(), requests.iter().map(Request::end_us).max())
        else {
            return;
        };
        let load_us = end - first.start_us;
        measured.metric("load_ms", load_us as f64 / 1e3);
        measured.metric(
            "handshake_ms",
            (first.connect_us + first.tls_us) as f64 / 1e3,
        );
        if let Some(us) = first.first_byte_us {
            measured.metric("first_byte_ms", us as f64 / 1e3);
        }
        let bytes: u64 = requests.iter().map(|request| request.body_bytes).sum();
        measured.metric("goodput_mbps", bytes as f64 * 8.0 / load_us.max(1) as f64);
        measured.label("http_first", first.http.as_deref().unwrap_or("none"));
        if let Some(alt_svc) = &first.alt_svc {
            measured.label("alt_svc", alt_svc);
        }
        if let Some(last) = self.last(fetched) {
            measured.label("http", last.http.as_deref().unwrap_or("none"));
        }
        if self.experiment.spec.workload.series {
            measured
                .series
                .insert("goodput_mbps".to_owned(), fetched.progress.rates());
        }
    }

    /// What the server's access log says of the last file.
    fn server_line(
        &self,
        fetched: &Fetched,
        server: &mut Server,
    ) -> Result<Option<Line>, RunError> {
        let last = self
            .last(fetched)
            .and_then(|request| Some((request.local?.port(), request)));
        let (Some(log), Some((port, request))) = (&mut server.log, last) else {
            return Ok(None);
        };
        let name = request.url.rsplit('/').next().unwrap_or_default();
        log.wait_for(port, &format!("/{name}"), LOG_LIMIT)
    }

    /// What the server measured, and the response's time as the model has it.
    fn measure_server(&self, fetched: &Fetched, line: Option<&Line>, measured: &mut Measured) {
        let Some(last) = self.last(fetched) else {
            return;
        };
        let size = self.files.last().map_or(0, |file| file.bytes);
        measured.metric("size_bytes", size as f64);
        if let Some(line) = line {
            if line.min_rtt_us > 0 {
                measured.metric("server_min_rtt_ms", line.min_rtt_us as f64 / 1e3);
            }
            measured.metric("server_packets_sent", line.packets_sent as f64);
            measured.metric("server_packets_lost", line.packets_lost as f64);
            if let Some(bps) = line.delivery_rate_bps {
                measured.metric("server_rate_mbps", bps as f64 / 1e6);
                let flag = f64::from(u8::from(line.app_limited));
                measured.metric("server_app_limited", flag);
            }
        }
        let response_us = if last.timed_out {
            measured.label("censored", "true");
            extrapolate(last, fetched, size)
        } else {
            let acknowledged = line
                .filter(|line| line.complete)
                .map(|line| line.duration_us);
            let rtt_us = self.links.rtt().as_micros() as u64;
            last.error
                .is_none()
                .then(|| response_us(acknowledged, last.since_request_us(), rtt_us) as f64)
        };
        if let Some(us) = response_us {
            measured.metric("response_ms", us / 1e3);
        }
    }
}

/// What was measured of a session.
#[derive(Debug)]
struct Measured {
    outcome: Outcome,
    error: Option<String>,
    metrics: BTreeMap<String, f64>,
    labels: BTreeMap<String, String>,
    series: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Default for Measured {
    fn default() -> Self {
        Self {
            outcome: Outcome::Complete,
            error: None,
            metrics: BTreeMap::new(),
            labels: BTreeMap::new(),
            series: BTreeMap::new(),
        }
    }
}

impl Measured {
    fn metric(&mut self, name: &str, value: f64) {
        // Nothing here is known more exactly.
        let rounded = (value * 1e3).round() / 1e3;
        self.metrics.insert(name.to_owned(), rounded);
    }

    fn label(&mut self, name: &str, value: &str) {
        self.labels.insert(name.to_owned(), value.to_owned());
    }

    /// A request failed; the first reason is kept, and a failure outweighs a time-out.
    fn fail(&mut self, outcome: Outcome, why: String) {
        if self.outcome == Outcome::Complete
            || (self.outcome, outcome) == (Outcome::TimedOut, Outcome::Failed)
        {
            (self.outcome, self.error) = (outcome, Some(why));
        }
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
fn response_us(server_us: Option<u64>, client_us: u64, rtt_us: u64) -> u64 {
    match server_us {
        Some(server_us) if server_us + TICK_US >= rtt_us => {
            client_us.clamp(server_us, server_us + TICK_US)
        }
        _ => client_us,
    }
}

/// Load time in µs of a download that was given up, if it had gone on as in its
/// second half; at the rate of the whole if the second half brought nothing.
fn extrapolate(request: &Request, fetched: &Fetched, size: u64) -> Option<f64> {
    let so_far = request.since_request_us() as f64 / 1e6;
    let body = request.body_bytes as f64;
    if body == 0.0 || so_far == 0.0 {
        return None;
    }
    // Body bytes among all that the link delivered.
    let body_share = body / fetched.progress.total().max(1) as f64;
    let rate = fetched
        .progress
        .late_rate()
        .map_or(body / so_far, |rate| rate * body_share);
    let left = size.saturating_sub(request.body_bytes) as f64;
    Some((so_far + left / rate) * 1e6)
}

fn emulator(report: &Report, steal: f64) -> Emulator {
    let us = |duration: Duration| duration.as_micros() as u64;
    Emulator {
        delivered: report.down.delivered.packets,
        lost: report.down.lost.packets,
        dropped: report.down.dropped.packets,
        lateness_mean_us: us(report.lateness.mean()),
        lateness_p99_us: us(report.lateness.quantile(0.99)),
        lateness_max_us: us(report.lateness.max()),
        faults: report.faults,
        realtime: report.realtime,
        steal,
    }
}

/// How the machine disturbed a session, if it did.
fn disturbed(emulator: &Emulator) -> Option<String> {
    let p99 = Duration::from_micros(emulator.lateness_p99_us);
    if p99 > LATENESS_LIMIT {
        return Some(format!(
            "packets were late by {p99:?} (p99; at most {LATENESS_LIMIT:?})"
        ));
    }
    if emulator.faults > 0 {
        return Some(format!("the kernel refused {} packets", emulator.faults));
    }
    let steal = emulator.steal;
    (steal > STEAL_LIMIT)
        .then(|| format!("other machines took {:.0} % of the CPU time", steal * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_time_is_the_clients_as_far_as_the_servers_allows() {
        let cases = [
            // name, server µs, client µs, RTT µs, load µs
            ("they agree", Some(100_300), 101_000, 50_000, 101_000),
            ("a tick early", Some(97_000), 101_000, 50_000, 101_000),
            (
                "the request was lost",
                Some(52_000),
                252_000,
                50_000,
                62_000,
            ),
            ("the client is ahead", Some(54_000), 52_000, 50_000, 54_000),
            ("faster than light", Some(0), 101_000, 50_000, 101_000),
            ("no line in the log", None, 101_000, 50_000, 101_000),
            ("less than a tick", Some(0), 1_700, 1_000, 1_700),
        ];
        for (name, server_us, client_us, rtt_us, want) in cases {
            assert_eq!(response_us(server_us, client_us, rtt_us), want, "{name}");
        }
    }

    #[test]
    fn what_the_machine_did_is_told() {
        let good = Emulator {
            lateness_p99_us: 1_900,
            steal: 0.04,
            ..Emulator::default()
        };
        assert_eq!(disturbed(&good), None);
        let late = disturbed(&Emulator {
            lateness_p99_us: 2_500,
            ..good
        })
        .unwrap();
        assert!(late.contains("late by 2.5ms"), "{late}");
        assert!(disturbed(&Emulator { faults: 1, ..good }).is_some());
        assert!(disturbed(&Emulator { steal: 0.5, ..good }).is_some());
    }
}
