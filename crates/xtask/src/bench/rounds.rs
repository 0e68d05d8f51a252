//! Paired rounds: each has one run of every arm.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::arms::{Arm, Program};
use super::clients::{self, Latency, Outcome, Scene};
use super::host::CpuTicks;
use super::rows::{Content, File, Load, Row};
use super::server::Server;

/// One arm in one round of a row.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) row: String,
    pub(super) server: String,
    pub(super) round: usize,
    /// The number of requests that were answered.
    pub(super) requests: u64,
    pub(super) body_bytes: u64,
    pub(super) connections: u64,
    /// Seconds from the first request to the last response, by the client.
    pub(super) elapsed_s: f64,
    /// CPU time of the server. Handshakes are in it if the client is curl or h2load.
    pub(super) server_cpu_s: f64,
    pub(super) client_cpu_s: Option<f64>,
    pub(super) latency: Option<Latency>,
    /// Bytes that the server's memory grew by with idle connections.
    pub(super) memory_bytes: Option<u64>,
    /// The share of both CPUs that the hypervisor gave to other machines.
    pub(super) steal: f64,
    /// The share of the server's CPU that other processes and the kernel's own work took.
    pub(super) foreign: f64,
}

impl Run {
    /// The share of the time in which the server was at work.
    pub(super) fn server_busy(&self) -> f64 {
        self.server_cpu_s / self.elapsed_s
    }

    /// The share of the time in which the client was at work.
    pub(super) fn client_busy(&self) -> Option<f64> {
        Some(self.client_cpu_s? / self.elapsed_s)
    }

    /// Whether other work took so much of the machine that the figures may be off.
    pub(super) fn disturbed(&self) -> bool {
        self.steal > STEAL_LIMIT || self.foreign > FOREIGN_LIMIT
    }
}

pub(super) const STEAL_LIMIT: f64 = 0.01;
pub(super) const FOREIGN_LIMIT: f64 = 0.05;

/// A server that could not run a row, and the reason.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Failure {
    pub(super) row: String,
    pub(super) server: String,
    pub(super) fault: String,
}

/// How long and how often each arm runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) rounds: usize,
    /// Of a run, at least and roughly.
    pub(super) time: Duration,
}

/// The measurement of one row.
pub(super) struct Measurement<'a> {
    pub(super) scene: Scene<'a>,
    pub(super) row: &'a Row,
    pub(super) extent: Extent,
    /// The server behind proxies.
    pub(super) origin: SocketAddr,
}

/// An arm that is ready for its rounds.
struct Entry<'a> {
    arm: &'a Arm,
    /// Requests of a run.
    count: u64,
    /// A server for all rounds; `None` if each run takes a fresh one.
    server: Option<Server>,
}

impl Measurement<'_> {
    /// Runs all rounds of `arms`. An arm that fails runs no more, and the others go on.
    ///
    /// # Errors
    /// If the benchmark is to stop, or `report` fails.
    pub(super) fn run(
        &self,
        arms: &[Arm],
        mut report: impl FnMut(&Run) -> Result<()>,
    ) -> Result<(Vec<Run>, Vec<Failure>)> {
        let (mut runs, mut failures, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        for arm in arms.iter().filter(|arm| arm.runs(self.row)) {
            match self.prepare(arm) {
                Ok(entry) => entries.push(entry),
                Err(fault) => failures.push(self.failure(arm, &fault)?),
            }
        }
        for round in 0..self.rounds() {
            let mut order = in_turn(entries.len(), round);
            order.retain(|&index| {
                let name = &entries[index].arm.name;
                failures.iter().all(|failure| failure.server != *name)
            });
            for index in order {
                let entry = &mut entries[index];
                match self.run_once(entry, round) {
                    Ok(run) => {
                        report(&run)?;
                        runs.push(run);
                    }
                    Err(fault) => failures.push(self.failure(entry.arm, &fault)?),
                }
            }
        }
        Ok((runs, failures))
    }

    /// Memory differs little between runs, and thousands of connections take their time.
    fn rounds(&self) -> usize {
        match self.row.load {
            Load::Idle { .. } => self.extent.rounds.min(3),
            _ => self.extent.rounds,
        }
    }

    fn failure(&self, arm: &Arm, fault: &anyhow::Error) -> Result<Failure> {
        // Everything fails once the benchmark is to stop.
        self.scene.stop.check()?;
        Ok(Failure {
            row: self.row.id.clone(),
            server: arm.name.clone(),
            fault: format!("{fault:#}"),
        })
    }

    fn start(&self, arm: &Arm) -> Result<Server> {
        let Scene {
            workspace,
            cpus,
            stop,
        } = self.scene;
        Server::start(arm, self.row, workspace, (cpus, self.origin), stop)
            .with_context(|| format!("starting {arm}"))
    }

    fn prepare<'b>(&self, arm: &'b Arm) -> Result<Entry<'b>> {
        if let Load::Idle { connections } = self.row.load {
            return Ok(Entry {
                arm,
                count: connections.into(),
                server: None,
            });
        }
        let server = self.start(arm)?;
        let count = self.calibrate(&server)?;
        Ok(Entry {
            arm,
            count,
            server: Some(server),
        })
    }

    /// The number of requests that take the time of a run.
    fn calibrate(&self, server: &Server) -> Result<u64> {
        let time = self.extent.time.as_secs_f64();
        let minimum = match self.row.load {
            Load::Closed {
                file: File::Large { .. },
                ..
            } => 1,
            Load::Closed {
                connections,
                streams,
                ..
            } => u64::from(connections * streams) * 4,
            Load::Open { per_s, .. } => return Ok(((f64::from(per_s) * time) as u64).max(100)),
            Load::Connect { .. } | Load::Idle { .. } => 20,
        };
        let mut count = minimum;
        loop {
            let outcome = clients::run(self.scene, self.row, server, count)?;
            let share = outcome.elapsed.as_secs_f64() / time;
            if share > 0.2 {
                // A tenth more, since a warm server is faster than it just was.
                return Ok(((count as f64 * 1.1 / share).ceil() as u64).max(minimum));
            }
            count *= 4;
        }
    }

    fn run_once(&self, entry: &mut Entry<'_>, round: usize) -> Result<Run> {
        let mut fresh = None;
        let server = match &mut entry.server {
            Some(server) => server,
            None => fresh.insert(self.start(entry.arm)?),
        };
        server.check()?;
        let (began, ticks, cpu) = (Instant::now(), CpuTicks::now()?, server.cpu_time()?);
        let outcome = clients::run(self.scene, self.row, server, entry.count)?;
        let all_cpu_s = (server.cpu_time()?.saturating_sub(cpu)).as_secs_f64();
        let (wall, now) = (began.elapsed().as_secs_f64(), CpuTicks::now()?);
        let (steal, busy) = now.since(&ticks, self.scene.cpus.server);
        let (client_steal, _) = now.since(&ticks, self.scene.cpus.client);
        let foreign = match self.row.cores {
            1 => ((busy - all_cpu_s) / wall).max(0.0),
            // The client is on the other one.
            _ => 0.0,
        };
        let steal = (steal + client_steal) / (2.0 * wall);
        Ok(Run {
            row: self.row.id.clone(),
            server: entry.arm.name.clone(),
            round,
            steal,
            foreign,
            ..of(&outcome)
        })
    }
}

fn of(outcome: &Outcome) -> Run {
    Run {
        row: String::new(),
        server: String::new(),
        round: 0,
        requests: outcome.requests,
        body_bytes: outcome.body_bytes,
        connections: outcome.connections,
        elapsed_s: outcome.elapsed.as_secs_f64(),
        server_cpu_s: outcome.server_cpu.as_secs_f64(),
        client_cpu_s: outcome.client_cpu.map(|time| time.as_secs_f64()),
        latency: outcome.latency,
        memory_bytes: outcome.memory,
        steal: 0.0,
        foreign: 0.0,
    }
}

/// Whether a row has a server behind it: an upstream, or what `HAProxy` caches.
pub(super) fn needs_upstream(row: &Row, arms: &[Arm]) -> bool {
    let caches = |arm: &Arm| arm.program == Program::Haproxy && arm.runs(row);
    row.content != Content::Files || arms.iter().any(caches)
}

/// The order of `count` arms in a round. Each round begins one arm further, and every other one is
/// reversed, so that no arm always follows the same one.
fn in_turn(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.rotate_left(round % count.max(1));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_take_turns() {
        let rounds: Vec<Vec<usize>> = (0..4).map(|round| in_turn(3, round)).collect();
        assert_eq!(rounds, [[0, 1, 2], [0, 2, 1], [2, 0, 1], [2, 1, 0]]);
        assert!(in_turn(0, 3).is_empty());
    }
}
