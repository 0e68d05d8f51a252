//! Long flows that share the bottleneck.

mod traffic;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_units::Rate;

use super::cpu_wait::share;
use super::error::{Attempt, RunError};
use super::experiment::Experiment;
use super::lane::Lane;
use super::measured::Measured;
use super::plan::Job;
use super::process::Process;
use super::server::{Kind, Server};
use super::session::{Recorder, pair, stop};
use crate::experiment::files::FLOW_FILE;
use crate::experiment::record::{Links, Outcome, Run};
use crate::experiment::spec::{self, Flow, Transport};
use hikyaku_emulator::link::{Report, Topology};
use traffic::{Traffic, jain, quantile_of};

/// One flow: a server of its own, and a client that fetches from it until all end.
struct Running {
    name: String,
    transport: Transport,
    start: Duration,
    server: Server,
    /// Time that the server had waited for a CPU before the run.
    server_waited: Duration,
    client: Option<Process>,
}

/// Runs all flows of an arm together. Returns `None` if a signal to stop came first.
pub(super) fn run(
    lane: &mut Lane<'_>,
    job: &Job,
    attempt: u32,
    experiment: &Experiment,
) -> Result<Option<Run>, RunError> {
    let arm = &experiment.spec.arms[job.arm];
    let links = experiment.links(&job.cell)?;
    let mut flows = Vec::new();
    for (flow, copy, start) in experiment.spec.flows(arm) {
        let server = lane.start(server(flow, experiment), &arm.name)?;
        flows.push(Running {
            name: name(flow, copy),
            transport: flow.transport,
            start,
            server_waited: server.waited(),
            server,
            client: None,
        });
    }
    let recorder = Recorder::begin(job, attempt, experiment, job.sessions.start);
    let log = packets(lane);
    lane.topology.link_mut().log_packets(Some(log.clone()));
    let pair = pair(&links, recorder.seed)?;
    lane.topology.start_link(pair, recorder.seed)?;
    let duration = experiment.spec.workload.duration.unwrap_or_default();
    let finished = drive(lane, &mut flows, duration);
    // The clients end before the link. Otherwise they would report its loss.
    let wait = flows.iter().map(Running::waited).max().unwrap_or_default();
    let cpu_wait = share(wait, duration);
    let ended: Vec<_> = flows.iter_mut().map(Running::end).collect();
    lane.topology.link_mut().log_packets(None);
    let report = stop(&mut lane.topology)?;
    if !finished? {
        return Ok(None);
    }
    let mut measured = Measured::default();
    for early in ended.into_iter().flatten() {
        measured.fail(Outcome::Failed, early);
    }
    measure(&flows, &links, duration, &log, &report, &mut measured)?;
    Ok(Some(recorder.end(links, measured, &report, cpu_wait)))
}

/// Starts each flow at its time and waits for the end. Returns false if a signal to stop came
/// first.
fn drive(lane: &Lane<'_>, flows: &mut [Running], duration: Duration) -> Result<bool, RunError> {
    let began = Instant::now();
    while began.elapsed() < duration {
        if lane.shared().stop.is_set() {
            return Ok(false);
        }
        let due = |flow: &&mut Running| flow.client.is_none() && flow.start <= began.elapsed();
        for flow in flows.iter_mut().filter(due) {
            flow.begin(
                &lane.topology,
                &lane.shared().binary,
                &lane.shared().scratch,
            )?;
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(true)
}

impl Running {
    fn begin(
        &mut self,
        topology: &Topology,
        binary: &Path,
        scratch: &Path,
    ) -> Result<(), RunError> {
        let http = match self.transport {
            Transport::Tcp => "2",
            Transport::Quic => "3",
        };
        let address = self.server.address;
        let mut command = Command::new(binary);
        command.args([
            "get",
            "--insecure",
            "--json",
            "--threads",
            "1",
            "--timeout",
            "1h",
        ]);
        command
            .args(["--http", http])
            .arg(format!("https://{address}/{FLOW_FILE}"));
        command.stdout(Stdio::null());
        let log = scratch.join(format!(
            "{}-{}.get",
            topology.client().name(),
            address.port()
        ));
        self.client = Some(Process::start(topology.client(), &mut command, &log)?);
        Ok(())
    }

    /// Returns the time for which the server or the client waited for a CPU during the run: the
    /// longer of both.
    fn waited(&self) -> Duration {
        let client = self.client.as_ref().map(Process::waited);
        let server = self.server.waited().saturating_sub(self.server_waited);
        server.max(client.unwrap_or_default())
    }

    /// Ends the client, and returns an error if it had ended by itself.
    fn end(&mut self) -> Option<String> {
        let mut client = self.client.take()?;
        let status = client.ended().ok().flatten()?;
        Some(format!(
            "the flow `{}` ended early: {status}; {}",
            self.name,
            client.said()
        ))
    }
}

fn name(flow: &Flow, copy: u32) -> String {
    match flow.count {
        1 => flow.name.clone(),
        _ => format!("{}-{copy}", flow.name),
    }
}

fn server(flow: &Flow, experiment: &Experiment) -> Kind {
    let version = match flow.transport {
        Transport::Tcp => "h2",
        Transport::Quic => "h3",
    };
    let floor = flow.min_cwnd.as_deref().unwrap_or("off");
    let settings = vec![
        format!("policy.version={version}"),
        format!("policy.congestion={}", flow.congestion),
        format!("policy.min_cwnd={floor}"),
    ];
    Kind {
        program: spec::Server::Hikyaku,
        settings,
        config: None,
        shards: 0,
        root: experiment.root.clone(),
        tcp: "cubic".to_owned(),
        learns: false,
        upstream: None,
    }
}

fn packets(lane: &Lane<'_>) -> PathBuf {
    let name = lane.topology.server().name();
    lane.shared().scratch.join(format!("{name}-packets.csv"))
}

fn measure(
    flows: &[Running],
    links: &Links,
    duration: Duration,
    log: &Path,
    report: &Report,
    measured: &mut Measured,
) -> Result<(), RunError> {
    let ports: Vec<u16> = flows
        .iter()
        .map(|flow| flow.server.address.port())
        .collect();
    let last = flows
        .iter()
        .map(|flow| flow.start)
        .max()
        .unwrap_or_default();
    let delay = links.configs().map_err(RunError::Arguments)?[1].one_way_delay;
    let mut traffic = Traffic::new(&ports, delay, last..duration);
    let reading = || format!("reading the packet log {}", log.display());
    for line in BufReader::new(File::open(log).attempt(reading)?)
        .lines()
        .skip(1)
    {
        traffic.add(&line.attempt(reading)?);
    }
    measured.metric("load_ms", duration.as_secs_f64() * 1e3);
    let seconds = duration.saturating_sub(last).as_secs_f64();
    let rates: Vec<f64> = traffic
        .bytes
        .iter()
        .map(|bytes| *bytes as f64 * 8e-6 / seconds)
        .collect();
    for (i, flow) in flows.iter().enumerate() {
        measured.metric(&format!("goodput_mbps.{}", flow.name), rates[i]);
        if let Some(share) = traffic.share(i) {
            measured.metric(&format!("share.{}", flow.name), share);
        }
        let sent = traffic.sent[i].max(1) as f64;
        measured.metric(
            &format!("loss.{}", flow.name),
            traffic.missing[i] as f64 / sent,
        );
        let series = traffic.series(i);
        measured
            .series
            .insert(format!("goodput_mbps.{}", flow.name), series);
        if traffic.bytes[i] == 0 {
            measured.fail(
                Outcome::Failed,
                format!("the flow `{}` carried nothing", flow.name),
            );
        }
    }
    let sum: f64 = rates.iter().sum();
    measured.metric("goodput_mbps", sum);
    measured.metric("jain", jain(&rates));
    if let Some(rate) = links.rate() {
        measured.metric("utilisation", sum / Rate::mbps(rate));
    }
    traffic.waits_us.sort_unstable();
    for (name, quantile) in [("queue_delay_p50_ms", 0.5), ("queue_delay_p95_ms", 0.95)] {
        if let Some(us) = quantile_of(&traffic.waits_us, quantile) {
            measured.metric(name, us as f64 / 1e3);
        }
    }
    let queue = report.samples.iter().map(|sample| {
        let at = (sample.at.as_secs_f64() * 1e3).round() / 1e3;
        (at, sample.down.queued.bytes as f64)
    });
    measured
        .series
        .insert("queue_bytes".to_owned(), queue.collect());
    Ok(())
}
