//! Paired rounds: each has one run of every arm.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::arm::{Arm, Load, PARALLEL, ServerKind};
use super::generator;
use super::host::CpuTicks;
use super::process::Stop;
use super::server::{Server, Workspace};
use super::sys;

/// One arm in one round.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) round: usize,
    #[serde(flatten)]
    pub(super) arm: Arm,
    /// The number of requests that were answered.
    pub(super) requests: u64,
    pub(super) body_bytes: u64,
    /// Seconds from the first request to the last response, by the generator.
    pub(super) elapsed_s: f64,
    /// CPU time of the server, its handshakes included.
    pub(super) server_cpu_s: f64,
    /// The share of both CPUs that the hypervisor gave to other machines.
    pub(super) steal: f64,
    /// The share of the server's CPU that other processes and the kernel's own work took.
    pub(super) foreign: f64,
}

impl Run {
    pub(super) fn cpu_per_gib(&self) -> f64 {
        self.server_cpu_s / (self.body_bytes as f64 / f64::from(1 << 30))
    }

    pub(super) fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.elapsed_s
    }

    pub(super) fn requests_per_cpu_s(&self) -> f64 {
        self.requests as f64 / self.server_cpu_s
    }

    /// The share of the time in which the server was at work.
    pub(super) fn busy(&self) -> f64 {
        self.server_cpu_s / self.elapsed_s
    }

    /// Whether other work took so much of the machine that the figures may be off.
    pub(super) fn disturbed(&self) -> bool {
        self.steal > STEAL_LIMIT || self.foreign > FOREIGN_LIMIT
    }
}

pub(super) const STEAL_LIMIT: f64 = 0.01;
pub(super) const FOREIGN_LIMIT: f64 = 0.05;

/// Runs `rounds` rounds of `arms`, each for at least about `time`.
pub(super) fn run(
    workspace: &Workspace,
    arms: &[Arm],
    rounds: usize,
    time: Duration,
    stop: &Stop,
    mut report: impl FnMut(&Run) -> Result<()>,
) -> Result<Vec<Run>> {
    let compared = arms.iter().any(|arm| arm.server == ServerKind::Before);
    let before = compared.then(|| Server::start(workspace, ServerKind::Before, stop));
    let mut bench = Bench {
        hikyaku: Server::start(workspace, ServerKind::Hikyaku, stop)?,
        before: before.transpose()?,
        fixed_h2: Server::start(workspace, ServerKind::FixedH2, stop)?,
        fixed_h3: Server::start(workspace, ServerKind::FixedH3, stop)?,
        egress: Server::start(workspace, ServerKind::Egress, stop)?,
        nginx: Server::start(workspace, ServerKind::Nginx, stop)?,
        workspace,
        stop,
    };
    let mut counts = Vec::new();
    for &arm in arms {
        counts.push((arm, bench.calibrate(arm, time)?));
    }
    let mut runs = Vec::new();
    for round in 0..rounds {
        for (arm, count) in in_turn(&counts, round) {
            let run = bench.run(arm, count, round)?;
            report(&run)?;
            runs.push(run);
        }
    }
    Ok(runs)
}

/// The arms of a round. Each round begins one arm further, and every other one is reversed, so that
/// no arm always follows the same one.
fn in_turn<T: Copy>(arms: &[T], round: usize) -> Vec<T> {
    let mut order = arms.to_vec();
    order.rotate_left(round % arms.len().max(1));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

struct Bench<'a> {
    workspace: &'a Workspace,
    hikyaku: Server,
    before: Option<Server>,
    fixed_h2: Server,
    fixed_h3: Server,
    egress: Server,
    nginx: Server,
    stop: &'a Stop,
}

impl Bench<'_> {
    /// The number of requests that take `time`, at least one round of the generator's parallel
    /// ones.
    fn calibrate(&mut self, arm: Arm, time: Duration) -> Result<u64> {
        let minimum = match arm.load {
            Load::Large => 1,
            Load::Small => PARALLEL * 16,
        };
        let mut count = minimum;
        loop {
            let run = self.run(arm, count, 0)?;
            let share = run.elapsed_s / time.as_secs_f64();
            if share > 0.2 {
                // A tenth more, since a warm server is faster than it just was.
                return Ok(((count as f64 * 1.1 / share).ceil() as u64).max(minimum));
            }
            count *= 4;
        }
    }

    fn run(&mut self, arm: Arm, count: u64, round: usize) -> Result<Run> {
        let Workspace {
            server_cpu,
            client_cpu,
            ..
        } = *self.workspace;
        let server = match arm.server {
            ServerKind::Hikyaku => &mut self.hikyaku,
            ServerKind::Before => self.before.as_mut().context("no other build was started")?,
            ServerKind::FixedH2 => &mut self.fixed_h2,
            ServerKind::FixedH3 => &mut self.fixed_h3,
            ServerKind::Egress => &mut self.egress,
            ServerKind::Nginx | ServerKind::Nginx16k => &mut self.nginx,
        };
        server.check()?;
        let url = server.url(arm.server, arm.load);
        let (began, ticks, cpu) = (Instant::now(), CpuTicks::now()?, server.cpu_time()?);
        let elapsed = generator::load(self.workspace, arm, &url, count, self.stop)?;
        // The server's own end of the connection belongs to the run.
        self.stop.sleep(SETTLE)?;
        let server_cpu_s = (server.cpu_time()? - cpu).as_secs_f64();
        let (wall, now) = (began.elapsed().as_secs_f64(), CpuTicks::now()?);
        let (steal, busy) = now.since(&ticks, server_cpu);
        let (client_steal, _) = now.since(&ticks, client_cpu);
        Ok(Run {
            round,
            arm,
            requests: count,
            body_bytes: count * arm.load.size(),
            elapsed_s: elapsed.as_secs_f64(),
            server_cpu_s,
            steal: (steal + client_steal) / (2.0 * wall),
            foreign: ((busy - server_cpu_s) / wall).max(0.0),
        })
    }
}

const SETTLE: Duration = Duration::from_millis(50);

impl Server {
    fn cpu_time(&self) -> Result<Duration> {
        Ok(sys::cpu_time(self.worker)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_take_turns() {
        let rounds: Vec<Vec<u8>> = (0..4).map(|round| in_turn(&[1, 2, 3], round)).collect();
        assert_eq!(rounds, [[1, 2, 3], [1, 3, 2], [3, 1, 2], [3, 2, 1]]);
    }
}
