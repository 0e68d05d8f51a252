//! Many clients of one server, each over a link of its own.

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cpu_wait::share;
use super::error::{Attempt, RunError};
use super::experiment::Experiment;
use super::fetch::{self, Ended, Failure};
use super::lane::Lane;
use super::measured::Measured;
use super::plan::Job;
use super::server::{Gain, Server};
use super::session::{Recorder, pair, stop};
use crate::experiment::crowd::{ADDRESSES, Member};
use crate::experiment::record::{Outcome, Run};
use crate::experiment::spec::Spec;
use hikyaku_emulator::link::{INTERFACE, LinkPair, LinkSet, Report, Topology};
use hikyaku_netsim::derive_seed;

/// The content of the file of `hikyaku get --crowd` (`docs/get.md`).
#[derive(Debug, Serialize)]
struct File<'a> {
    duration_us: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_us: Option<u128>,
    clients: Vec<Entry<'a>>,
}

#[derive(Debug, Serialize)]
struct Entry<'a> {
    name: &'a str,
    local: IpAddr,
    http: &'static str,
    start_us: u128,
}

impl<'a> Entry<'a> {
    fn of(member: &'a Member) -> Self {
        Self {
            name: &member.name,
            local: IpAddr::V4(member.address),
            http: fetch::version(member.http),
            start_us: member.start.as_micros(),
        }
    }
}

/// The fields of the output of `hikyaku get --crowd` that matter here.
#[derive(Debug, Deserialize)]
struct Line {
    name: String,
    goodput_bps: Option<u64>,
    visits_us: Option<Vec<u64>>,
    error: Option<Failure>,
}

/// Time that the clients may take to start, and to end.
const GRACE: Duration = Duration::from_secs(20);

/// Runs a session's clients together, on a server of their own. Returns `None` if a signal to stop
/// came first.
pub(super) fn run(
    lane: &mut Lane<'_>,
    job: &Job,
    attempt: u32,
    experiment: &Experiment,
) -> Result<Option<Run>, RunError> {
    let spec = &experiment.spec;
    let arm = &spec.arms[job.arm];
    let session = job.sessions.start;
    let crowd = spec.crowd(&job.cell, arm, job.repeat, session);
    let crowd = crowd.map_err(RunError::Arguments)?;
    let server = lane.start(experiment.server(&job.cell, arm), &arm.name)?;
    give_addresses(&lane.topology, &crowd)?;
    let recorder = Recorder::begin(job, attempt, experiment, session);
    let links = links(&crowd, recorder.seed)?;
    lane.topology.start_link(links, recorder.seed)?;
    let (used, waited) = (server.used(), server.waited());
    let command = command(lane, job, experiment, &server, &crowd)?;
    let log = file(lane, "get");
    let limit = span(spec) + GRACE;
    let shared = lane.shared();
    let delivered = || lane.topology.delivered_bytes()[1];
    let netns = lane.topology.client();
    let Some(client) = fetch::run(
        netns,
        command,
        &log,
        limit,
        (false, &delivered),
        &shared.stop,
    )?
    else {
        return Ok(None);
    };
    let used = server.used().saturating_sub(used);
    let server_wait = share(server.waited().saturating_sub(waited), client.took);
    let cpu_wait = server_wait.max(share(client.waited, client.took));
    let report = stop(&mut lane.topology)?;
    let mut measured = Measured::default();
    measured.metric(
        "load_ms",
        spec.workload.duration.unwrap_or_default().as_secs_f64() * 1e3,
    );
    goodputs(&crowd, &client, &mut measured);
    if spec.workload.visits {
        visits(&crowd, &client, &mut measured);
        if server.kind.learns {
            gain(&server.gain(lane.topology.server())?, &mut measured);
        }
    }
    machine(used, &client, &report, &mut measured);
    let of = match &crowd[..] {
        [one] => one.links.clone(),
        _ => experiment.links(&job.cell)?,
    };
    Ok(Some(recorder.end(of, measured, &report, cpu_wait)))
}

/// Time from the first client's start to the last one's end.
fn span(spec: &Spec) -> Duration {
    spec.workload.duration.unwrap_or_default() + spec.workload.stagger
}

/// A file of this run in the lab's directory.
fn file(lane: &Lane<'_>, extension: &str) -> std::path::PathBuf {
    let name = lane.topology.client().name();
    lane.shared()
        .scratch
        .join(format!("{name}.crowd.{extension}"))
}

/// Returns the links of a run with this seed. Each client meets another part of a trace.
fn links(crowd: &[Member], seed: u64) -> Result<LinkSet, RunError> {
    let own = crowd.iter().enumerate().map(|(i, member)| {
        let seed = derive_seed(seed, &[i as u64]);
        Ok((IpAddr::V4(member.address), pair(&member.links, seed)?))
    });
    Ok(LinkSet {
        common: LinkPair::default(),
        own: own.collect::<Result<_, RunError>>()?,
    })
}

/// Gives the client's namespace the addresses of all clients, and the server's the routes to them.
/// They may have them from an earlier run.
fn give_addresses(topology: &Topology, crowd: &[Member]) -> Result<(), RunError> {
    let mut commands = String::new();
    for member in crowd {
        let _ = writeln!(
            commands,
            "address replace {}/32 dev {INTERFACE}",
            member.address
        );
    }
    topology.client().ip(&commands)?;
    let route = format!("route replace {ADDRESSES} dev {INTERFACE}\n");
    Ok(topology.server().ip(&route)?)
}

fn command(
    lane: &Lane<'_>,
    job: &Job,
    experiment: &Experiment,
    server: &Server,
    crowd: &[Member],
) -> Result<Command, RunError> {
    let spec = &experiment.spec;
    let text = serde_json::to_vec(&File {
        duration_us: spec.workload.duration.unwrap_or_default().as_micros(),
        pause_us: (spec.workload.visits).then_some(spec.workload.pause.as_micros()),
        clients: crowd.iter().map(Entry::of).collect(),
    });
    let path = file(lane, "json");
    let written = text
        .map_err(std::io::Error::from)
        .and_then(|text| fs::write(&path, text));
    written.attempt(|| format!("writing the clients to {}", path.display()))?;
    let timeout = spec.timeout(&job.cell, &spec.arms[job.arm]);
    let timeout = format!("{}ms", timeout.as_millis());
    let mut command = Command::new(&lane.shared().binary);
    command
        .args(["get", "--insecure", "--json", "--threads", "1", "--crowd"])
        .arg(&path)
        .args(["--timeout", &timeout, "--connect-timeout", &timeout])
        .args(["--alt-svc", fetch::alt_svc(spec.arms[job.arm].alt_svc)]);
    for site_file in spec.files(&job.cell) {
        command.arg(format!("https://{}/{}", server.address, site_file.name));
    }
    Ok(command)
}

/// Returns what the clients have reported.
fn reported(client: &Ended) -> Vec<Line> {
    let lines = client.text.lines();
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Records the geometric mean of each client's visits, and the share of the clients' latest
/// responses by version.
fn visits(crowd: &[Member], client: &Ended, measured: &mut Measured) {
    for line in reported(client) {
        let times = line.visits_us.unwrap_or_default();
        if times.is_empty() || !crowd.iter().any(|member| member.name == line.name) {
            continue;
        }
        let logs = times.iter().map(|us| (*us as f64 * 1e-3).ln());
        let mean = logs.sum::<f64>() / times.len() as f64;
        measured.metric(&format!("load_ms.{}", line.name), mean.exp());
    }
}

/// Records the gain that the server has found, in which one means none.
fn gain(gain: &Gain, measured: &mut Measured) {
    if let Some(ratio) = gain.ratio {
        measured.metric("gain_ratio", ratio.mean);
        measured.metric("gain_low", ratio.low);
        measured.metric("gain_high", ratio.high);
    }
}

/// Records each client's goodput. A client that reported nothing, or failed, has none.
fn goodputs(crowd: &[Member], client: &Ended, measured: &mut Measured) {
    let lines = reported(client);
    let mut sum = 0.0;
    for member in crowd {
        let line = lines.iter().find(|line| line.name == member.name);
        let bps = line.and_then(|line| line.goodput_bps).unwrap_or(0);
        let mbps = bps as f64 * 1e-6;
        sum += mbps;
        measured.metric(&format!("goodput_mbps.{}", member.name), mbps);
        let why = match line {
            None => Some(format!("reported nothing; {}", client.how)),
            Some(line) => line.error.as_ref().map(|error| error.message.clone()),
        };
        if let Some(why) = why {
            measured.fail(
                Outcome::Failed,
                format!("the client `{}`: {why}", member.name),
            );
        }
    }
    measured.metric("goodput_mbps", sum);
}

/// Records the machine's load, in per cent of one CPU, and the emulator's lateness.
fn machine(server_used: Duration, client: &Ended, report: &Report, measured: &mut Measured) {
    let percent = |used: Duration, of: Duration| share(used, of) * 100.0;
    measured.metric("server_cpu_percent", percent(server_used, client.took));
    measured.metric("client_cpu_percent", percent(client.used, client.took));
    measured.metric("emulator_cpu_percent", percent(report.cpu, report.elapsed));
    let lateness = &report.lateness;
    measured.metric("lateness_mean_ms", lateness.mean().as_secs_f64() * 1e3);
    measured.metric(
        "lateness_p99_ms",
        lateness.quantile(0.99).as_secs_f64() * 1e3,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::record::Links;
    use crate::experiment::spec::Http;

    #[test]
    fn a_client_counts_by_the_geometric_mean_of_its_visits() {
        let text = r#"{"type":"client","name":"a","goodput_bps":1,"visits_us":[100000,400000],"error":null}
{"type":"client","name":"b","goodput_bps":1,"visits_us":[],"error":null}
"#;
        let client = Ended {
            text: text.to_owned(),
            ..Ended::default()
        };
        let member = |name: &str| Member {
            name: name.to_owned(),
            http: Http::Auto,
            address: [10, 128, 0, 1].into(),
            links: Links::default(),
            start: Duration::ZERO,
        };
        let mut measured = Measured::default();
        visits(&[member("a"), member("b")], &client, &mut measured);
        assert_eq!(measured.metrics, [("load_ms.a".to_owned(), 200.0)].into());
    }

    #[test]
    fn a_silent_client_has_no_goodput() {
        let member = |name: &str| Member {
            name: name.to_owned(),
            http: Http::Http2,
            address: [10, 128, 0, 1].into(),
            links: Links::default(),
            start: Duration::ZERO,
        };
        let text = r#"{"type":"client","name":"a","goodput_bps":250000,"error":null}
{"type":"client","name":"b","goodput_bps":null,"error":{"kind":"timeout","message":"timed out","hint":null}}
"#;
        let client = Ended {
            text: text.to_owned(),
            how: "`hikyaku get`: exit status: 1".to_owned(),
            ..Ended::default()
        };
        let mut measured = Measured::default();
        goodputs(
            &[member("a"), member("b"), member("c")],
            &client,
            &mut measured,
        );
        let got = ["a", "b", "c"].map(|name| measured.metrics[&format!("goodput_mbps.{name}")]);
        assert_eq!(got, [0.25, 0.0, 0.0]);
        assert_eq!(measured.metrics["goodput_mbps"], 0.25);
        assert_eq!(measured.outcome, Outcome::Failed);
        assert_eq!(measured.error.as_deref(), Some("the client `b`: timed out"));
    }
}
