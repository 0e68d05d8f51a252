//! Sessions of one client with the edges of a fleet.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_core::fleet::Reach;

use super::super::certificate::HOST;
use super::super::cpu_wait::share;
use super::super::error::{Attempt, RunError};
use super::super::experiment::Experiment;
use super::super::fetch::{self, Fetched, Request};
use super::super::get::Get;
use super::super::lane::{Lane, Shared};
use super::super::measured::Measured;
use super::super::plan::Job;
use super::super::session::{Recorder, pair};
use super::edges::Edges;
use super::{Bed, SLOW, address_of, fresh, link_of};
use crate::experiment::axis::Axis;
use crate::experiment::files::SiteFile;
use crate::experiment::record::{Links, Outcome, Run};
use crate::experiment::spec::{Arm, Edge, Fault, Fleet};

/// Runs a job's sessions with edges and stores of their own. Returns `None` if a signal to stop came
/// first.
pub(crate) fn run(
    lane: &mut Lane<'_>,
    job: &Job,
    attempt: u32,
    experiment: &Experiment,
) -> Result<Option<Vec<Run>>, RunError> {
    let (shared, port) = (lane.shared(), lane.port());
    let spec = &experiment.spec;
    let arm = &spec.arms[job.arm];
    let Some(fleet) = &arm.fleet else {
        unreachable!("the experiment was checked: its arms have a fleet");
    };
    let links = spec.pop_links(&job.cell).map_err(RunError::Arguments)?;
    let bed = lane.fleet()?;
    bed.start_stores(fleet.stores)?;
    let directory = bed.directory.join("client");
    fresh(&directory).attempt(|| format!("emptying {}", directory.display()))?;
    let kind = experiment.server(&job.cell, arm);
    let files = spec.files(&job.cell);
    let edges = Edges::start(bed, kind, fleet, arm, &files, shared, port)?;
    let mut sessions = Sessions {
        job,
        attempt,
        experiment,
        shared,
        arm,
        fleet,
        files: &files,
        links,
        directory,
        edges,
        bed,
    };
    sessions.all()
}

/// The common parts of a job's sessions.
struct Sessions<'a> {
    job: &'a Job,
    attempt: u32,
    experiment: &'a Experiment,
    shared: &'a Shared,
    arm: &'a Arm,
    fleet: &'a Fleet,
    files: &'a [SiteFile],
    /// Links to each `PoP`.
    links: [Links; 2],
    /// Directory of the client's log.
    directory: PathBuf,
    // Edges end before the bed goes to the next run.
    edges: Edges<'a>,
    bed: &'a mut Bed,
}

impl Sessions<'_> {
    fn all(&mut self) -> Result<Option<Vec<Run>>, RunError> {
        let (warmup, _) = self.experiment.spec.sessions(self.arm);
        let mut runs = Vec::new();
        for number in self.job.sessions.clone() {
            if !runs.is_empty() {
                thread::sleep(self.experiment.spec.workload.pause);
            }
            self.begin_fault(number, warmup)?;
            let Some(run) = self.one(number)? else {
                return Ok(None);
            };
            runs.push(run);
        }
        Ok(Some(runs))
    }

    /// Makes the arm's fault happen before a session of this number.
    fn begin_fault(&mut self, number: u32, warmup: u32) -> Result<(), RunError> {
        let Some(fault) = self.fleet.fault else {
            return Ok(());
        };
        let (is_first, is_measured) = (number == warmup, number >= warmup);
        match fault {
            Fault::Restart if is_measured => self.edges.restart(self.bed),
            Fault::Slow if is_first => self.bed.set_store_delay(SLOW),
            _ if is_first => self.bed.break_store(fault),
            _ => Ok(()),
        }
    }

    fn one(&mut self, number: u32) -> Result<Option<Run>, RunError> {
        self.edges.check()?;
        let recorder = Recorder::begin(self.job, self.attempt, self.experiment, number);
        let [near, far] = &self.links;
        let seed = recorder.seed;
        self.bed
            .start_links(&[pair(near, seed)?, pair(far, seed)?], seed)?;
        let last = self.last();
        let (waited, began) = (self.edges.get(last).waited(), Instant::now());
        let Some(fetched) = self.fetch()? else {
            return Ok(None);
        };
        let server_wait = self.edges.get(last).waited().saturating_sub(waited);
        let server_wait = share(server_wait, began.elapsed());
        let client_wait = share(fetched.client.waited, fetched.client.took);
        let mut measured = Measured::default();
        self.measure(fetched, &mut measured)?;
        self.label_knowledge(&mut measured)?;
        // The client's end may still send packets, such as the closing of its connections.
        thread::sleep(self.links_to(last).rtt() + Duration::from_millis(5));
        let report = self.bed.stop_links()?;
        let link = self.links_to(last).clone();
        let mut run = recorder.end(link, measured, &report, server_wait.max(client_wait));
        for edge in Edge::ALL.into_iter().filter(|edge| *edge != last) {
            let links = self.links_to(edge).clone();
            run.other_links.insert(link_of(edge), links);
        }
        Ok(Some(run))
    }

    /// Runs the client. Returns `None` if a signal to stop came first.
    fn fetch(&self) -> Result<Option<Fetched>, RunError> {
        let visits = self.fleet.visits.len() as u32;
        let each = self.timeout() * 2 + self.experiment.spec.workload.pause;
        let limit = each * visits + Duration::from_secs(10);
        let log = self.directory.join("client.log");
        let delivered = || self.bed.delivered();
        let (netns, stop) = (self.bed.client(), &self.shared.stop);
        fetch::fetch(
            netns,
            self.command(),
            &log,
            limit,
            (false, &delivered),
            stop,
        )
    }

    /// Returns the client's command: a visit in each repeat, each with connections of its own. The host
    /// moves from edge to edge.
    fn command(&self) -> Command {
        let port = self.edges.port;
        let files = self.files.iter();
        let urls: Vec<String> = files
            .map(|file| format!("https://{HOST}:{port}/{}", file.name))
            .collect();
        let swept = self.job.cell.get(Axis::Connections);
        let swept = swept.and_then(|text| text.parse().ok());
        let connections = swept.or(self.arm.connections);
        let binary = &self.shared.binary;
        let mut command = fetch::command(binary, self.arm, connections, &urls, self.timeout());
        let visits = &self.fleet.visits;
        command.args(["--resume", "--repeat", &visits.len().to_string()]);
        let pause = self.experiment.spec.workload.pause;
        command.args(["--interval", &format!("{}ms", pause.as_millis())]);
        for (repeat, edge) in visits.iter().enumerate() {
            let address = address_of(*edge);
            let moved = format!("{HOST}:{port}:{address}@{repeat}");
            command.args(["--resolve", &moved]);
        }
        command
    }

    /// Records the last visit, and how long the first one took.
    fn measure(&mut self, mut fetched: Fetched, measured: &mut Measured) -> Result<(), RunError> {
        let rtt = self.links_to(self.last()).rtt();
        let Some(file) = self.files.last() else {
            unreachable!("the experiment was checked: it has files");
        };
        let last = self.fleet.visits.len() as u32 - 1;
        measure_first(&fetched.requests, measured);
        for request in fetched
            .requests
            .extract_if(.., |request| request.run < last)
        {
            if let Some(error) = request.error {
                let why = format!("visit {}: {}: {}", request.run, request.url, error.message);
                measured.fail(Outcome::Failed, why);
            }
        }
        let get = Get {
            fetched: &fetched,
            file,
            rtt,
        };
        get.measure(measured);
        let line = get.server_line(self.edges.get(self.last()))?;
        get.measure_server(line.as_ref(), measured);
        Ok(())
    }

    /// Records the sources beside the last edge itself from which it knows the client.
    fn label_knowledge(&mut self, measured: &mut Measured) -> Result<(), RunError> {
        let last = self.last();
        let netns = self.bed.edge(last);
        let explanation = self.edges.get(last).explain(netns)?;
        let mut sources = BTreeSet::new();
        if explanation.levels.iter().any(|level| level.carried) {
            sources.insert("ticket");
        }
        for from in &explanation.from_edges {
            sources.insert(match from.reach {
                Reach::Pop => "pop",
                _ => "fleet",
            });
        }
        let names: Vec<&str> = sources.into_iter().collect();
        measured.label("known_from", &names.join(","));
        measured.label("decision", explanation.decision.version.name());
        measured.label("reason", &explanation.decision.reason_code);
        Ok(())
    }

    /// Returns the edge of the last visit.
    fn last(&self) -> Edge {
        let Some(last) = self.fleet.visits.last() else {
            unreachable!("the experiment was checked: an edge is visited");
        };
        *last
    }

    fn links_to(&self, edge: Edge) -> &Links {
        &self.links[usize::from(edge.pop()) - 1]
    }

    fn timeout(&self) -> Duration {
        self.experiment.spec.timeout(&self.job.cell, self.arm)
    }
}

/// Records how long the first visit took.
fn measure_first(requests: &[Request], measured: &mut Measured) {
    let first = || requests.iter().filter(|request| request.run == 0);
    let start_us = first().map(|request| request.start_us).min();
    let end_us = first().map(Request::end_us).max();
    if let (Some(start_us), Some(end_us)) = (start_us, end_us) {
        measured.metric("first_visit_ms", (end_us - start_us) as f64 / 1e3);
    }
}

impl Bed {
    /// Breaks the first store.
    fn break_store(&mut self, fault: Fault) -> Result<(), RunError> {
        let Self {
            stores, network, ..
        } = self;
        let (Some(store), Some(netns)) = (stores.first_mut(), network.node("store")) else {
            unreachable!("the experiment was checked: it has a store to break");
        };
        match fault {
            Fault::Hung => store.hang(),
            Fault::Killed => store.kill(),
            Fault::Full => store.fill(netns),
            Fault::Emptied => store.empty(netns),
            Fault::Slow | Fault::Restart => unreachable!("these are no faults of the program"),
        }
    }
}
