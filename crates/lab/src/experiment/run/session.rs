//! One session: a client, a link, and the record of both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_netsim::{Change, LinkPatch};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use toml::Table;

use super::browser;
use super::cpu_wait::share;
use super::error::{Attempt, RunError};
use super::experiment::Experiment;
use super::fetch;
use super::get::Get;
use super::lane::Shared;
use super::measured::Measured;
use super::plan::{self, Job};
use super::server::Server;
use crate::experiment::axis::Axis;
use crate::experiment::files::SiteFile;
use crate::experiment::record::{Emulator, Links, Run};
use crate::experiment::spec::{Arm, Backend, Client};
use crate::table::of_table;
use hikyaku_emulator::link::{ChangePair, LinkPair, Report, Topology};

/// The common parts of a job's sessions.
#[derive(Debug)]
pub(super) struct Session<'a> {
    job: &'a Job,
    attempt: u32,
    experiment: &'a Experiment,
    shared: &'a Shared,
    arm: &'a Arm,
    files: Vec<SiteFile>,
    timeout: Duration,
    links: Links,
    /// Directory of files that are kept between sessions.
    directory: PathBuf,
}

impl<'a> Session<'a> {
    /// Prepares the sessions of a job, and empties `directory`.
    pub(super) fn new(
        job: &'a Job,
        attempt: u32,
        experiment: &'a Experiment,
        shared: &'a Shared,
        directory: &Path,
    ) -> Result<Self, RunError> {
        fresh(directory).attempt(|| format!("emptying {}", directory.display()))?;
        let spec = &experiment.spec;
        let arm = &spec.arms[job.arm];
        let mut session = Self {
            job,
            attempt,
            experiment,
            shared,
            arm,
            files: spec.files(&job.cell),
            timeout: spec.timeout(&job.cell, arm),
            links: experiment.links(&job.cell)?,
            directory: directory.to_owned(),
        };
        // A run that begins later meets the link as earlier sessions have left it.
        for before in 0..job.sessions.start {
            session.change_link(before, false);
            session.change_link(before, true);
        }
        Ok(session)
    }

    /// Runs one session. Returns `None` if a signal to stop came first.
    pub(super) fn run(
        &mut self,
        number: u32,
        server: &mut Server,
        topology: &mut Topology,
    ) -> Result<Option<Run>, RunError> {
        self.change_link(number, false);
        server.check()?;
        let recorder = Recorder::begin(self.job, self.attempt, self.experiment, number);
        topology.start_link(pair(&self.links, recorder.seed)?, recorder.seed)?;
        let changes = self.changes(number)?;
        topology.link().begin_changes_at_first_packet(changes)?;
        let mut measured = Measured::default();
        let (waited, began) = (server.waited(), Instant::now());
        let client_wait = match self.arm.client {
            Client::Get => self.get(server, topology, &mut measured)?,
            Client::Chromium => self.browse(server, topology, &mut measured)?,
        };
        let Some(client_wait) = client_wait else {
            return Ok(None);
        };
        let server_wait = share(server.waited().saturating_sub(waited), began.elapsed());
        if server.kind.learns {
            let explanation = server.explain(topology.server())?;
            let decision = explanation.decision;
            if let Some(connections) = explanation.connections {
                measured.label("connections_decision", &connections.n.to_string());
                measured.label("connections_reason", &connections.reason_code);
            }
            measured.label("decision", decision.version.name());
            measured.label("reason", &decision.reason_code);
        }
        // The client's end may still send packets, such as the closing of its connections.
        thread::sleep(self.links.rtt() + Duration::from_millis(5));
        let report = stop(topology)?;
        let links = self.links.clone();
        self.change_link(number, true);
        let cpu_wait = server_wait.max(client_wait);
        Ok(Some(recorder.end(links, measured, &report, cpu_wait)))
    }

    /// Runs `hikyaku get`. Returns the share of the session for which the client waited for a CPU;
    /// `None` if a signal to stop came first.
    fn get(
        &self,
        server: &mut Server,
        topology: &Topology,
        measured: &mut Measured,
    ) -> Result<Option<f64>, RunError> {
        let stderr = self.directory.join("client.log");
        let limit = self.timeout * 2 + Duration::from_secs(10);
        let series = self.experiment.spec.workload.series;
        let command = self.command(server);
        let stop = &self.shared.stop;
        let delivered = || topology.delivered_bytes()[1];
        let client = topology.client();
        let fetched = fetch::fetch(client, command, &stderr, limit, (series, &delivered), stop)?;
        let (Some(fetched), Some(file)) = (fetched, self.files.last()) else {
            return Ok(None);
        };
        let get = Get {
            fetched: &fetched,
            file,
            rtt: self.links.rtt(),
        };
        get.measure(measured);
        let line = get.server_line(server)?;
        get.measure_server(line.as_ref(), measured);
        if series {
            let rates = fetched.client.progress.rates();
            measured.series.insert("goodput_mbps".to_owned(), rates);
        }
        Ok(Some(share(fetched.client.waited, fetched.client.took)))
    }

    /// Runs a browser, otherwise as [`Self::get`]. The wait of a browser's many processes is
    /// unknown and left out.
    fn browse(
        &self,
        server: &Server,
        topology: &Topology,
        measured: &mut Measured,
    ) -> Result<Option<f64>, RunError> {
        let profile = self.directory.join("profile");
        if !self.returns() {
            fresh(&profile).attempt(|| format!("emptying {}", profile.display()))?;
        }
        let visit = browser::Visit {
            topology,
            address: server.address,
            path: &self.files[0].name,
            last: self.files.last().map_or("", |file| &file.name),
            spki: &self.shared.certificate.spki,
            profile: &profile,
            log: &self.directory.join("browser.log"),
            timeout: self.timeout,
        };
        visit.run(measured)?;
        Ok((!self.shared.stop.is_set()).then_some(0.0))
    }

    fn command(&self, server: &Server) -> Command {
        let page = self.experiment.spec.workload.page;
        let requested = if page {
            &self.files[..1]
        } else {
            &self.files[..]
        };
        let urls: Vec<String> = requested
            .iter()
            .map(|file| format!("https://{}/{}", server.address, file.name))
            .collect();
        let swept = self.job.cell.get(Axis::Connections);
        let swept = swept.and_then(|text| text.parse().ok());
        let connections = swept.or(self.arm.connections);
        let binary = &self.shared.binary;
        let mut command = fetch::command(binary, self.arm, connections, &urls, self.timeout);
        if page {
            command.arg("--page");
        }
        if self.returns() {
            let cache = self.directory.join("alt-svc.json");
            command.arg("--alt-svc-cache").arg(cache);
        }
        command
    }

    /// Whether the client keeps its Alt-Svc cache.
    fn returns(&self) -> bool {
        let all = self.experiment.spec.workload.returning;
        self.arm.returning.unwrap_or(all)
    }

    /// Brings the link to its state before a session, or to that after the changes `within` it.
    fn change_link(&mut self, number: u32, within: bool) {
        let changes = &self.experiment.spec.workload.change;
        let here = changes.iter().filter(|change| change.session == number);
        for change in here.filter(|change| change.at.is_some() == within) {
            let Links { up, down } = &mut self.links;
            for (direction, own) in [(up, &change.up), (down, &change.down)] {
                direction.extend(change.both.clone());
                direction.extend(own.clone());
            }
        }
    }

    /// Returns the changes within a session.
    fn changes(&self, number: u32) -> Result<ChangePair, RunError> {
        let mut changes = ChangePair::default();
        let all = &self.experiment.spec.workload.change;
        for change in all.iter().filter(|change| change.session == number) {
            let Some(at) = change.at else { continue };
            for (direction, own) in [
                (&mut changes.up, &change.up),
                (&mut changes.down, &change.down),
            ] {
                let mut table = change.both.clone();
                table.extend(own.clone());
                direction.push(Change {
                    at,
                    patch: patch(&table)?,
                });
            }
        }
        Ok(changes)
    }
}

fn patch(table: &Table) -> Result<LinkPatch, RunError> {
    let why = |error: toml::de::Error| RunError::Arguments(error.message().to_owned());
    of_table(table).map_err(why)
}

/// Returns a link in the emulator's form, for a session with this seed.
pub(super) fn pair(links: &Links, seed: u64) -> Result<LinkPair, RunError> {
    let [up, down] = links.in_session(seed).map_err(RunError::Arguments)?;
    Ok(LinkPair { up, down })
}

/// Ends the link and returns its report.
pub(super) fn stop(topology: &mut Topology) -> Result<Report, RunError> {
    let report = topology.stop_link()?;
    report.ok_or_else(|| RunError::Arguments("the link was stopped before its time".to_owned()))
}

/// Makes an empty directory.
fn fresh(directory: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::create_dir_all(directory)
}

/// A recorder of a session from its begin on.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    job: &'a Job,
    attempt: u32,
    experiment: &'a Experiment,
    number: u32,
    began: OffsetDateTime,
    /// Seed of the link.
    pub(super) seed: u64,
}

impl<'a> Recorder<'a> {
    /// Marks the begin of the session.
    pub(super) fn begin(
        job: &'a Job,
        attempt: u32,
        experiment: &'a Experiment,
        number: u32,
    ) -> Self {
        let seed = experiment.conditions.seed;
        Self {
            job,
            attempt,
            experiment,
            number,
            began: OffsetDateTime::now_utc(),
            seed: plan::seed(seed, &job.cell, job.repeat, number),
        }
    }

    /// Returns the record, with `cpu_wait` as in [`Emulator`].
    pub(super) fn end(
        self,
        link: Links,
        measured: Measured,
        report: &Report,
        cpu_wait: f64,
    ) -> Run {
        Run {
            link,
            emulator: Some(emulator(report, cpu_wait)),
            disturbed: disturbed(report, cpu_wait),
            ..self.end_unlinked(measured)
        }
    }

    /// Returns the record of a session without an emulated link.
    pub(super) fn end_unlinked(self, measured: Measured) -> Run {
        let spec = &self.experiment.spec;
        let arm = &spec.arms[self.job.arm];
        let (warmup, _) = spec.sessions(arm);
        Run {
            experiment: self.experiment.name.clone(),
            cell: self.job.cell.clone(),
            arm: arm.name.clone(),
            repeat: self.job.repeat,
            session: self.number,
            warmup: self.number < warmup,
            seed: self.seed,
            attempt: self.attempt,
            backend: Backend::Link,
            began: self.began.format(&Rfc3339).unwrap_or_default(),
            outcome: measured.outcome,
            error: measured.error,
            metrics: measured.metrics,
            labels: measured.labels,
            series: measured.series,
            link: Links::default(),
            other_links: BTreeMap::new(),
            emulator: None,
            disturbed: None,
            conditions: self.experiment.conditions.clone(),
        }
    }
}

/// Share of a session for which its server or client may wait for a CPU, all threads together. On a
/// quiet machine of two CPUs it is below 6 %. Up to 40 % do not change load times, since threads
/// wait beside each other.
const CPU_WAIT_LIMIT: f64 = 0.5;

/// Returns the reason why a session shows the machine rather than the measured programs.
fn disturbed(report: &Report, cpu_wait: f64) -> Option<String> {
    let waited = (cpu_wait > CPU_WAIT_LIMIT).then(|| {
        let (cpu_wait, limit) = (cpu_wait * 100.0, CPU_WAIT_LIMIT * 100.0);
        format!(
            "server or client waited for a CPU: {cpu_wait:.1} % of the time, limit {limit:.0} %"
        )
    });
    match (report.disturbed(), waited) {
        (Some(link), Some(waited)) => Some(format!("{link}; {waited}")),
        (link, waited) => link.or(waited),
    }
}

fn emulator(report: &Report, cpu_wait: f64) -> Emulator {
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
        steal: report.steal,
        cpu_wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hikyaku_emulator::link::Lateness;
    use hikyaku_netsim::Counters;

    #[test]
    fn a_session_whose_programs_starved_is_disturbed() {
        let report = |faults| Report {
            up: Counters::default(),
            down: Counters::default(),
            samples: Vec::new(),
            lateness: Lateness::default(),
            faults,
            realtime: true,
            cpu: Duration::ZERO,
            steal: 0.0,
            elapsed: Duration::from_secs(1),
        };
        let waited = "server or client waited for a CPU: 52.3 % of the time, limit 50 %";
        let cases = [
            (0, 0.4, None),
            (0, 0.523, Some(waited.to_owned())),
            (2, 0.0, Some("2 faulty frames".to_owned())),
            (2, 0.523, Some(format!("2 faulty frames; {waited}"))),
        ];
        for (faults, cpu_wait, want) in cases {
            assert_eq!(disturbed(&report(faults), cpu_wait), want);
        }
    }
}
