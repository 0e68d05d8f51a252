//! A pair of namespaces with its servers, on which one run follows another.

use std::fs;
use std::path::PathBuf;
use std::thread;

use super::certificate::Certificate;
use super::control;
use super::crowd;
use super::epe::{self, TestBed};
use super::error::{Attempt, RunError};
use super::experiment::Experiment;
use super::fleet;
use super::flows;
use super::plan::Job;
use super::server::{Host, Kind, Server};
use super::session::Session;
use super::stop::Stop;
use crate::experiment::record::Run;
use crate::experiment::spec;
use hikyaku_emulator::link::{LinkPair, Topology};

/// The common parts of all lanes.
#[derive(Debug)]
pub(super) struct Shared {
    /// The measured binary: a copy, so that a new build does not disturb.
    pub(super) binary: PathBuf,
    /// Directory for logs and state.
    pub(super) scratch: PathBuf,
    pub(super) certificate: Certificate,
    pub(super) stop: Stop,
}

/// A pair of namespaces and the servers that run in it.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    shared: &'a Shared,
    // Servers end before their namespace is removed.
    servers: Vec<Server>,
    started: u16,
    pub(super) topology: Topology,
    /// The test bed; the first run that needs it opens it.
    test_bed: Option<TestBed>,
    /// The network of a fleet; the first run that needs it opens it.
    fleet: Option<fleet::Bed>,
}

/// Number of servers kept for later runs.
const KEPT: usize = 4;

/// Ports of a lane's servers, in turn.
const PORTS: std::ops::Range<u16> = 4430..8430;

impl<'a> Lane<'a> {
    /// Creates the namespaces.
    pub(super) fn open(shared: &'a Shared) -> Result<Self, RunError> {
        Ok(Self {
            shared,
            servers: Vec::new(),
            started: 0,
            topology: Topology::create()?,
            test_bed: None,
            fleet: None,
        })
    }

    /// Runs one job to its end. Returns `None` if a signal to stop came first. Only a problem of
    /// every run is an error.
    pub(super) fn run(
        &mut self,
        job: &Job,
        attempt: u32,
        experiment: &Experiment,
    ) -> Result<Option<Vec<Run>>, RunError> {
        match experiment.spec.workload.kind {
            spec::Kind::Load => self.sessions(job, attempt, experiment),
            spec::Kind::Flows => {
                let run = flows::run(self, job, attempt, experiment)?;
                Ok(run.map(|run| vec![run]))
            }
            spec::Kind::Control => {
                let Shared { scratch, stop, .. } = self.shared;
                control::run(scratch, stop, job, attempt, experiment)
            }
            spec::Kind::Crowd => {
                let run = crowd::run(self, job, attempt, experiment)?;
                Ok(run.map(|run| vec![run]))
            }
            spec::Kind::Paths => epe::run(self, job, attempt, experiment),
            spec::Kind::Fleet => fleet::run(self, job, attempt, experiment),
        }
    }

    /// Returns the lane's test bed of several paths.
    pub(super) fn test_bed(&mut self, borders: spec::Borders) -> Result<&mut TestBed, RunError> {
        match &mut self.test_bed {
            Some(bed) => Ok(bed),
            empty => {
                let directory = directory(self.shared, &self.topology, "epe")?;
                Ok(empty.insert(TestBed::open(directory, borders)?))
            }
        }
    }

    /// Returns the lane's network of a fleet.
    pub(super) fn fleet(&mut self) -> Result<&mut fleet::Bed, RunError> {
        match &mut self.fleet {
            Some(bed) => Ok(bed),
            empty => {
                let directory = directory(self.shared, &self.topology, "fleet")?;
                Ok(empty.insert(fleet::Bed::open(directory)?))
            }
        }
    }

    /// Returns a port that no server of the lane has had of late.
    pub(super) fn port(&mut self) -> u16 {
        let port = PORTS.start + self.started % (PORTS.end - PORTS.start);
        self.started += 1;
        port
    }

    fn sessions(
        &mut self,
        job: &Job,
        attempt: u32,
        experiment: &Experiment,
    ) -> Result<Option<Vec<Run>>, RunError> {
        let arm = &experiment.spec.arms[job.arm];
        let kind = experiment.server(&job.cell, arm);
        let learns = kind.learns;
        let index = self.server(kind, &arm.name)?;
        let directory = self.shared.scratch.join(self.topology.server().name());
        let mut session = Session::new(job, attempt, experiment, self.shared, &directory)?;
        let mut runs = Vec::new();
        for number in job.sessions.clone() {
            if !runs.is_empty() {
                thread::sleep(experiment.spec.workload.pause);
            }
            let server = &mut self.servers[index];
            let Some(run) = session.run(number, server, &mut self.topology)? else {
                return Ok(None);
            };
            runs.push(run);
        }
        if learns {
            // Its knowledge must not help the next arm.
            self.servers.remove(index);
        }
        Ok(Some(runs))
    }

    /// Finds or starts a server, and returns its index.
    fn server(&mut self, kind: Kind, arm: &str) -> Result<usize, RunError> {
        if let Some(index) = self.servers.iter().position(|server| server.kind == kind) {
            self.servers[index].check()?;
            self.servers[index]
                .kind
                .set_congestion(self.topology.server())?;
            return Ok(index);
        }
        if self.servers.len() >= KEPT {
            self.servers.remove(0);
        }
        let server = self.start(kind, arm)?;
        self.servers.push(server);
        Ok(self.servers.len() - 1)
    }

    /// Starts a server on a port of its own.
    pub(super) fn start(&mut self, kind: Kind, arm: &str) -> Result<Server, RunError> {
        let port = self.port();
        // Without a link there is no carrier to bind to.
        self.topology.start_link(LinkPair::default(), 0)?;
        Server::start(kind, arm, Host::of(&self.topology), self.shared, port)
    }

    pub(super) fn shared(&self) -> &'a Shared {
        self.shared
    }
}

/// Makes the directory of a lane's test bed.
fn directory(shared: &Shared, topology: &Topology, of: &str) -> Result<PathBuf, RunError> {
    let name = format!("{}-{of}", topology.server().name());
    let directory = shared.scratch.join(name);
    fs::create_dir_all(&directory).attempt(|| format!("creating {}", directory.display()))?;
    Ok(directory)
}
