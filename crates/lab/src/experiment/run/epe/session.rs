//! Sessions of one client that two paths reach.

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use super::super::cpu_wait::share;
use super::super::error::RunError;
use super::super::experiment::Experiment;
use super::super::fetch;
use super::super::get::Get;
use super::super::lane::{Lane, Shared};
use super::super::measured::Measured;
use super::super::plan::Job;
use super::super::server::{Host, Kind, Server};
use super::super::session::{Recorder, pair};
use super::arrivals::{self, Pipe};
use super::changes::{changes, decay};
use super::events::RunningEvent;
use super::flow_stats::{self, FlowStats};
use super::origin::{Content, Origin};
use super::responses;
use super::visitors;
use super::{CLIENT, SERVER, Side, TestBed};
use crate::experiment::axis::Axis;
use crate::experiment::files::SiteFile;
use crate::experiment::record::{Links, Run};
use crate::experiment::spec::{Arm, Event, Traffic};
use hikyaku_emulator::link::ChangePair;

/// Runs a job's sessions against a server of their own. Returns `None` if a signal to stop came
/// first.
pub(crate) fn run(
    lane: &mut Lane<'_>,
    job: &Job,
    attempt: u32,
    experiment: &Experiment,
) -> Result<Option<Vec<Run>>, RunError> {
    let (shared, port) = (lane.shared(), lane.port());
    let spec = &experiment.spec;
    let Some(traffic) = spec.traffic(&job.cell) else {
        unreachable!("the experiment was checked: it has traffic");
    };
    let links = spec.path_links(&job.cell).map_err(RunError::Arguments)?;
    let knows_ports = spec.pattern(&job.cell).is_some_and(|pattern| pattern.ports);
    let ports = knows_ports.then(|| links.each_ref().map(Links::rate));
    let bed = lane.test_bed(spec.workload.borders)?;
    bed.set_ports(ports, spec.workload.borders)?;
    let arm = &spec.arms[job.arm];
    let origin = origin(bed, traffic, spec.training_file())?;
    let mut kind = experiment.server(&job.cell, arm);
    kind.upstream = origin.as_ref().map(|origin| origin.address);
    let server = start(bed, kind, arm, shared, port)?;
    let mut sessions = Sessions {
        job,
        attempt,
        experiment,
        shared,
        arm,
        traffic,
        links,
        flow_stats: FlowStats::new(&bed.flow_stats()),
        bed,
        server,
    };
    sessions.all()
}

/// Starts the server behind the content server, if the client loads a stream.
fn origin(
    bed: &TestBed,
    traffic: &Traffic,
    training: Option<SiteFile>,
) -> Result<Option<Origin>, RunError> {
    let Some((rate, duration)) = traffic.rate.zip(traffic.duration) else {
        return Ok(None);
    };
    let content = Content {
        rate,
        duration,
        training: training.map_or(0, |file| file.bytes),
    };
    Origin::start(bed.node("server"), content).map(Some)
}

/// Starts `hikyaku serve` on all addresses of the content server, since MPTCP's subflows come to
/// the EPE addresses.
fn start(
    bed: &TestBed,
    mut kind: Kind,
    arm: &Arm,
    shared: &Shared,
    port: u16,
) -> Result<Server, RunError> {
    let socket = format!("egress.socket={}", bed.socket("server").display());
    kind.settings.push(socket);
    let host = Host {
        netns: bed.node("server"),
        address: SERVER.into(),
        listen: Ipv6Addr::UNSPECIFIED.into(),
        within: Ipv6Addr::LOCALHOST.into(),
        client: CLIENT.into(),
    };
    Server::start(kind, &arm.name, host, shared, port)
}

/// The common parts of a job's sessions.
struct Sessions<'a> {
    job: &'a Job,
    attempt: u32,
    experiment: &'a Experiment,
    shared: &'a Shared,
    arm: &'a Arm,
    traffic: &'a Traffic,
    links: [Links; 2],
    flow_stats: FlowStats,
    bed: &'a mut TestBed,
    server: Server,
}

/// Time that the server may take to log the last responses.
const LOG_LIMIT: Duration = Duration::from_secs(10);

/// Share of the time for which a client waited for a CPU, and the load's duration; `None` if a
/// signal to stop came first.
type Loaded = Option<(f64, Duration)>;

/// Returns the address of a neighbour of the client, by number. The topology gives these to the
/// client's node.
fn neighbour(number: u16) -> Ipv6Addr {
    let [a, b, c, ..] = CLIENT.segments();
    Ipv6Addr::new(a, b, c, 1, 0, 0, 0, number)
}

impl Sessions<'_> {
    fn all(&mut self) -> Result<Option<Vec<Run>>, RunError> {
        let mut runs = Vec::new();
        for number in self.job.sessions.clone() {
            if !runs.is_empty() {
                thread::sleep(self.experiment.spec.workload.pause);
            }
            let Some(run) = self.one(number)? else {
                return Ok(None);
            };
            runs.push(run);
        }
        Ok(Some(runs))
    }

    fn one(&mut self, number: u32) -> Result<Option<Run>, RunError> {
        self.server.check()?;
        self.bed.check()?;
        let recorder = Recorder::begin(self.job, self.attempt, self.experiment, number);
        let [a, b] = &self.links;
        let seed = recorder.seed;
        self.bed
            .start_links([pair(a, seed)?, pair(b, seed)?], seed)?;
        self.flow_stats.lines()?;
        let (warmup, _) = self.experiment.spec.sessions(self.arm);
        let mut measured = Measured::default();
        let waited = self.server.waited();
        let loaded = match self.experiment.spec.training_file() {
            Some(file) if number < warmup => self.train(&file, &mut measured)?,
            _ if self.experiment.spec.workload.visitors.is_some() => self.visit(&mut measured)?,
            _ => self.measure(&mut measured)?,
        };
        let Some((cpu_wait, took)) = loaded else {
            return Ok(None);
        };
        let server_wait = share(self.server.waited().saturating_sub(waited), took);
        // The client's end may still send packets, such as the closing of its connections.
        thread::sleep(self.links[0].rtt() + Duration::from_millis(5));
        let [a, b] = self.bed.stop_links()?;
        if self.event().is_some() {
            self.bed.wait_until_ready()?;
        }
        let report = a.beside(&b);
        let cpu_wait = cpu_wait.max(server_wait);
        let [a, b] = self.links.clone();
        let mut run = recorder.end(a, measured, &report, cpu_wait);
        run.other_links.insert(Side::B.link().to_owned(), b);
        Ok(Some(run))
    }

    /// Loads a file by neighbours of the client, one after the other. Returns the sum of their
    /// loads, as [`Self::load`] does.
    fn train(&mut self, file: &SiteFile, measured: &mut Measured) -> Result<Loaded, RunError> {
        let visits = self.experiment.spec.workload.training.as_ref();
        let began = Instant::now();
        let mut waited = 0.0;
        for visitor in 1..=visits.map_or(0, |training| training.visits) {
            let mut command = self.command(std::slice::from_ref(file));
            let address = neighbour(visitor);
            command.args(["--local", &address.to_string()]);
            let Some((share, took)) = self.load(command, file, false, measured)? else {
                return Ok(None);
            };
            waited += share * took.as_secs_f64();
        }
        let took = began.elapsed();
        Ok(Some((waited / took.as_secs_f64(), took)))
    }

    /// Loads the measured files by the client, as [`Self::load`] does.
    fn measure(&mut self, measured: &mut Measured) -> Result<Loaded, RunError> {
        let files = self.experiment.spec.files(&self.job.cell);
        let Some(last) = files.last() else {
            unreachable!("the experiment was checked: it has files");
        };
        let pipe_path = self.file("content");
        let mut command = self.command(&files);
        // Only a single URL's content can be distinguished.
        let pipe = match &files[..] {
            [_] if self.traffic.requests == 1 => {
                command.arg("--output").arg(&pipe_path);
                Some(Pipe::create(&pipe_path)?)
            }
            _ => None,
        };
        let repeats = self.traffic.requests;
        if repeats > 1 {
            command.args(["--warm", "--repeat", &repeats.to_string()]);
            let pause = format!("{}ms", self.traffic.pause.as_millis());
            command.args(["--interval", &pause]);
        }
        self.bed.begin_changes(self.changes()?)?;
        let began = OffsetDateTime::now_utc();
        let loaded = self.load(command, last, true, measured)?;
        if let Some(pipe) = pipe {
            arrivals::record(&pipe.end()?, loaded.map(|(_, took)| took), measured);
        }
        self.measure_paths(began, measured)?;
        Ok(loaded)
    }

    /// Has clients visit over and over, as [`Self::load`] does with one.
    fn visit(&mut self, measured: &mut Measured) -> Result<Loaded, RunError> {
        let spec = &self.experiment.spec;
        let (Some(visitors), files) = (&spec.workload.visitors, spec.files(&self.job.cell)) else {
            unreachable!("only a workload with visitors comes here");
        };
        let rates = self.links.each_ref().map(Links::rate);
        self.bed.begin_changes(decay(visitors))?;
        let log = self.file("client.log");
        let delivered = || Side::ALL.map(|side| self.bed.link(side).delivered_bytes()[1]);
        let ground = visitors::Ground {
            netns: self.bed.node("client"),
            stop: &self.shared.stop,
            log: &log,
            timeout: self.timeout(),
        };
        let (mut half, began) = (([0; 2], Instant::now()), Instant::now());
        let command = |address: Ipv6Addr| {
            let mut command = self.command(&files);
            command.args(["--local", &address.to_string()]);
            command
        };
        let halfway = || half = (delivered(), Instant::now());
        let seen = visitors::visit(visitors, ground, command, halfway)?;
        if seen.stopped {
            return Ok(None);
        }
        let secs = half.1.elapsed().as_secs_f64();
        for (i, side) in Side::ALL.into_iter().enumerate() {
            let bits = (delivered()[i] - half.0[i]) as f64 * 8.0;
            if let Some(rate) = rates[i] {
                let load = bits / secs / rate.bits_per_sec() as f64;
                measured.metric(&format!("load_share.{}", side.path()), load);
            }
        }
        let path = files
            .first()
            .map_or_else(String::new, |file| format!("/{}", file.name));
        let lines = match &mut self.server.log {
            Some(log) => log.wait_for_all(seen.count(), &path, LOG_LIMIT)?,
            None => Vec::new(),
        };
        let worse_at = rates[1].and_then(|rate| visitors.worse_at(rate));
        visitors::record(&seen, &lines, visitors, worse_at, measured);
        Ok(Some((seen.cpu_wait, began.elapsed())))
    }

    /// Loads files. Returns the share of the time for which the client waited for a CPU, and the
    /// duration; `None` if a signal to stop came first. An `eventful` load meets the pattern's
    /// event.
    fn load(
        &mut self,
        command: Command,
        last: &SiteFile,
        eventful: bool,
        measured: &mut Measured,
    ) -> Result<Loaded, RunError> {
        let bed = &self.bed;
        let event = self.event().filter(|_| eventful);
        let running = event.map(|(event, at)| RunningEvent::begin(event, at, bed));
        let running = running.transpose()?;
        let delivered = || {
            let bytes = Side::ALL.map(|side| bed.link(side).delivered_bytes()[1]);
            if let Some(running) = &running {
                running.saw(bytes);
            }
            bytes.iter().sum()
        };
        let log = self.file("client.log");
        let limit = self.timeout() * 2 + Duration::from_secs(10);
        let (netns, stop) = (bed.node("client"), &self.shared.stop);
        let watch: fetch::Watch<'_> = (running.is_some(), &delivered);
        let fetched = fetch::fetch(netns, command, &log, limit, watch, stop);
        if let Some(running) = running {
            running.end(measured)?;
        }
        let fetched = fetched?;
        let Some(fetched) = fetched else {
            return Ok(None);
        };
        let get = Get {
            fetched: &fetched,
            file: last,
            rtt: self.links[0].rtt(),
        };
        get.measure(measured);
        if fetched.requests.len() > 1 {
            responses::record(&fetched.requests, measured);
        }
        let line = get.server_line(&mut self.server)?;
        get.measure_server(line.as_ref(), measured);
        let client = &fetched.client;
        Ok(Some((share(client.waited, client.took), client.took)))
    }

    fn timeout(&self) -> Duration {
        self.experiment.spec.timeout(&self.job.cell, self.arm)
    }

    /// Records the bytes that each path carried, by FlowStats.
    fn measure_paths(
        &mut self,
        began: OffsetDateTime,
        measured: &mut Measured,
    ) -> Result<(), RunError> {
        // So that its last reading of the session is written.
        thread::sleep(Duration::from_secs_f64(1.5 * flow_stats::INTERVAL));
        let lines = self.flow_stats.lines()?;
        let paths = flow_stats::by_path(&lines, began);
        if self.experiment.spec.workload.series {
            let sum = flow_stats::sum(paths.values());
            measured.series.insert("path_mbps".to_owned(), sum);
        }
        for (path, series) in paths {
            let sum: f64 = series.iter().map(|(_, mbps)| mbps * flow_stats::STEP).sum();
            measured.metric(&format!("sent_megabits.{path}"), sum);
            if self.experiment.spec.workload.series {
                measured.series.insert(format!("path_mbps.{path}"), series);
            }
        }
        Ok(())
    }

    fn command(&self, files: &[SiteFile]) -> Command {
        let address = self.server.address;
        let urls: Vec<String> = files
            .iter()
            .map(|file| format!("https://{address}/{}", file.name))
            .collect();
        let swept = self.job.cell.get(Axis::Connections);
        let swept = swept.and_then(|text| text.parse().ok());
        let connections = swept.or(self.arm.connections);
        let binary = &self.shared.binary;
        let mut command = fetch::command(binary, self.arm, connections, &urls, self.timeout());
        if self.arm.mptcp {
            command.arg("--mptcp");
        }
        command
    }

    /// Returns the event of transit A in mid-transfer, and its time.
    fn event(&self) -> Option<(Event, Duration)> {
        let pattern = self.experiment.spec.pattern(&self.job.cell)?;
        pattern.event.zip(self.traffic.change_at)
    }

    /// Returns the changes of the links in mid-transfer.
    fn changes(&self) -> Result<[ChangePair; 2], RunError> {
        let pattern = self.experiment.spec.pattern(&self.job.cell);
        match pattern.zip(self.traffic.change_at) {
            Some((pattern, at)) => changes(pattern, at, &self.links, self.timeout()),
            None => Ok(Default::default()),
        }
    }

    /// A file of this lane in the lab's directory.
    fn file(&self, name: &str) -> PathBuf {
        self.bed.file(name)
    }
}
