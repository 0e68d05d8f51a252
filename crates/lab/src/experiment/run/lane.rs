//! A pair of namespaces with its servers, on which one run follows another.

use std::path::{Path, PathBuf};
use std::thread;

use super::error::RunError;
use super::experiment::Experiment;
use super::plan::Job;
use super::server::{Kind, Server};
use super::session::Session;
use super::stop::Stop;
use crate::experiment::record::Run;
use crate::link::{LinkPair, Topology};

/// What all lanes share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The measured binary: a copy, so that a new build does not disturb.
    pub(super) binary: PathBuf,
    /// Directory for logs and state.
    pub(super) scratch: PathBuf,
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
}

/// Servers kept for runs to come.
const KEPT: usize = 4;

/// Ports of a lane's servers, in turn.
const PORTS: std::ops::Range<u16> = 4430..8430;

impl<'a> Lane<'a> {
    /// Makes the namespaces.
    pub(super) fn open(shared: &'a Shared) -> Result<Self, RunError> {
        let topology = Topology::create()?;
        Ok(Self {
            shared,
            servers: Vec::new(),
            started: 0,
            topology,
        })
    }

    /// Runs one job to its end; `None` if a signal to stop came first. Only what
    /// keeps every run from working is an error.
    pub(super) fn run(
        &mut self,
        job: &Job,
        attempt: u32,
        experiment: &Experiment,
    ) -> Result<Option<Vec<Run>>, RunError> {
        let arm = &experiment.spec.arms[job.arm];
        let memoryless = experiment.spec.memoryless(arm);
        // Without a link there is no carrier to bind to.
        let (up, down) = Default::default();
        self.topology.start_link(LinkPair { up, down }, 0)?;
        let server = self.server(job, experiment)?;
        let directory = self.shared.scratch.join(self.topology.server().name());
        let mut session = Session::new(job, attempt, experiment, &directory)?;
        let mut runs = Vec::new();
        for number in job.sessions.clone() {
            let server = &mut self.servers[server];
            let Some(run) = session.run(number, server, &mut self.topology, self.shared)? else {
                return Ok(None);
            };
            runs.push(run);
            let last = number + 1 == job.sessions.end;
            thread::sleep(if last {
                std::time::Duration::ZERO
            } else {
                experiment.spec.workload.pause
            });
        }
        if !memoryless {
            // What it has learnt must not help the next.
            self.servers.remove(server);
        }
        Ok(Some(runs))
    }

    /// Finds or starts the server of a job, and gives its index.
    fn server(&mut self, job: &Job, experiment: &Experiment) -> Result<usize, RunError> {
        let arm = &experiment.spec.arms[job.arm];
        let kind = Kind {
            program: arm.server,
            settings: experiment.settings(&job.cell, arm),
            root: experiment.root.clone(),
            learns: !experiment.spec.memoryless(arm),
        };
        if let Some(index) = self.servers.iter().position(|server| server.kind == kind) {
            self.servers[index].check()?;
            return Ok(index);
        }
        if self.servers.len() >= KEPT {
            self.servers.remove(0);
        }
        let port = PORTS.start + self.started % (PORTS.end - PORTS.start);
        self.started += 1;
        let Shared {
            binary, scratch, ..
        } = self.shared;
        let server = Server::start(kind, &arm.name, &self.topology, binary, scratch, port)?;
        self.servers.push(server);
        Ok(self.servers.len() - 1)
    }
}

/// A fresh directory for what a job keeps between its sessions.
pub(super) fn fresh(directory: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::create_dir_all(directory)
}
