//! The edges of a run.

use std::net::Ipv4Addr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::super::error::{Attempt, RunError};
use super::super::fetch;
use super::super::lane::Shared;
use super::super::server::{ADMIN, Host, Kind, Server};
use super::{Bed, CLIENT, address_of};
use crate::experiment::files::SiteFile;
use crate::experiment::spec::{Arm, Edge, Fleet};

/// Running edges, each in its namespace and all on the same port.
#[derive(Debug)]
pub(super) struct Edges<'a> {
    running: Vec<Server>,
    kind: Kind,
    fleet: &'a Fleet,
    arm: &'a Arm,
    files: &'a [SiteFile],
    shared: &'a Shared,
    pub(super) port: u16,
}

/// The fields of an edge's report of its fleet (`docs/admin-api.md`) that matter here.
#[derive(Debug, Deserialize)]
struct Status {
    up: bool,
}

/// Visits of others to an edge before a client's first one, and the time limit of each.
const OTHERS: u32 = 4;
const OTHERS_LIMIT: Duration = Duration::from_secs(60);

/// Time that an edge may take to reach its store.
const REACH_LIMIT: Duration = Duration::from_secs(20);

impl<'a> Edges<'a> {
    /// Starts all edges and waits until each has reached its store.
    ///
    /// # Errors
    /// If an edge ends or does not come up. The error has the end of its log.
    pub(super) fn start(
        bed: &Bed,
        kind: Kind,
        fleet: &'a Fleet,
        arm: &'a Arm,
        files: &'a [SiteFile],
        shared: &'a Shared,
        port: u16,
    ) -> Result<Self, RunError> {
        let mut edges = Self {
            running: Vec::new(),
            // All are asked for what they know.
            kind: Kind {
                learns: true,
                ..kind
            },
            fleet,
            arm,
            files,
            shared,
            port,
        };
        for edge in Edge::ALL {
            let server = edges.start_one(bed, edge)?;
            edges.running.push(server);
        }
        for edge in Edge::ALL {
            edges.wait_for_store(bed, edge)?;
        }
        Ok(edges)
    }

    /// Returns an edge.
    pub(super) fn get(&mut self, edge: Edge) -> &mut Server {
        &mut self.running[edge as usize]
    }

    /// Fails if an edge has ended.
    pub(super) fn check(&mut self) -> Result<(), RunError> {
        self.running.iter_mut().try_for_each(Server::check)
    }

    /// Restarts the edges one after the other, as for an update.
    pub(super) fn restart(&mut self, bed: &Bed) -> Result<(), RunError> {
        for edge in Edge::ALL {
            self.get(edge).end()?;
            let server = self.start_one(bed, edge)?;
            *self.get(edge) = server;
            self.wait_for_store(bed, edge)?;
        }
        Ok(())
    }

    fn start_one(&self, bed: &Bed, edge: Edge) -> Result<Server, RunError> {
        let mut kind = self.kind.clone();
        kind.settings.extend(self.settings(bed, edge));
        let address = address_of(edge).into();
        let host = Host {
            netns: bed.edge(edge),
            address,
            listen: address,
            within: Ipv4Addr::LOCALHOST.into(),
            client: CLIENT,
        };
        let server = Server::start(kind, &self.arm.name, host, self.shared, self.port)?;
        self.serve_others(bed, edge)?;
        Ok(server)
    }

    /// Has an edge serve others, from its own host, as an edge in use has done. Else its program would be
    /// slower at its first visit than at a return, whatever it knows.
    fn serve_others(&self, bed: &Bed, edge: Edge) -> Result<(), RunError> {
        let files = self.files.iter().map(|file| &file.name);
        let urls: Vec<String> = files
            .map(|name| format!("https://{}:{}/{name}", Ipv4Addr::LOCALHOST, self.port))
            .collect();
        let binary = &self.shared.binary;
        let mut command = fetch::command(binary, self.arm, None, &urls, OTHERS_LIMIT);
        command.args(["--repeat", &OTHERS.to_string()]);
        let output = bed.edge(edge).output(&mut command)?;
        let output = output.attempt(|| "starting `hikyaku get`".to_owned())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(RunError::TestBed {
                what: format!("edge {} does not serve its own host", edge.name()),
                said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
        }
    }

    /// Returns an edge's settings of the fleet, as `KEY=VALUE`.
    fn settings(&self, bed: &Bed, edge: Edge) -> Vec<String> {
        let mut settings = Vec::new();
        if self.fleet.keys {
            settings.push(format!("fleet.key_file={}", bed.keys().display()));
        }
        if let Some(store) = bed.store_of(edge) {
            settings.push(format!("fleet.store={store}"));
            settings.push(format!("fleet.name={}", edge.name()));
            settings.push(format!("fleet.pop=pop{}", edge.pop()));
        }
        settings
    }

    /// Waits until an edge has reached its store, if it has one.
    fn wait_for_store(&mut self, bed: &Bed, edge: Edge) -> Result<(), RunError> {
        if bed.store_of(edge).is_none() {
            return Ok(());
        }
        let began = Instant::now();
        loop {
            let mut command = Command::new(&self.shared.binary);
            command.args(["fleet", "--admin", ADMIN, "--json"]);
            let output = bed.edge(edge).output(&mut command)?;
            let output = output.attempt(|| "starting `hikyaku fleet`".to_owned())?;
            let status: Option<Status> = serde_json::from_slice(&output.stdout).ok();
            if status.is_some_and(|status| status.up) {
                return Ok(());
            }
            self.get(edge).check()?;
            if began.elapsed() > REACH_LIMIT {
                return Err(RunError::TestBed {
                    what: format!("edge {} does not reach its store", edge.name()),
                    said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                });
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}
