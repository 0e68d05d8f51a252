//! Order and expected costs of the runs.

use std::ops::Range;
use std::time::Duration;

use hikyaku_netsim::derive_seed;
use hikyaku_units::Rate;

use super::experiment::Experiment;
use super::progress::Load;
use super::{DEFAULT_LANES, default_capacity};
use crate::experiment::axis::{Axis, Cell};
use crate::experiment::crowd::Member;
use crate::experiment::data::Key;
use crate::experiment::record::Links;
use crate::experiment::spec::{Arm, Backend, Client, Kind, Server, Spec, Workload};

/// One run: sessions that follow each other against the same server. If no arm remembers anything
/// between sessions, each session is a run of its own.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Job {
    /// Index among the experiments that run together.
    pub(super) experiment: usize,
    pub(super) cell: Cell,
    /// Index of the arm.
    pub(super) arm: usize,
    pub(super) repeat: u32,
    pub(super) sessions: Range<u32>,
    pub(super) cost: Cost,
}

/// The expected cost of a run. Estimates suffice, since they only decide which runs go side by
/// side, and predict the total time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// Load on the machine, as a rate in Mbit/s.
    pub(super) weight: f64,
    /// Duration in seconds.
    pub(super) duration: f64,
}

/// Time to start a client and its connection, in seconds. It loads the machine for three times as
/// long, at this rate in Mbit/s.
const GET_START: (f64, f64) = (0.15, 50.0);

/// Time and load of a browser's start.
const BROWSER_START: (f64, f64) = (2.0, 300.0);

/// An idle link and its programs, in Mbit/s.
const MIN_WEIGHT: f64 = 2.0;

/// Load of a crowd's client in Mbit/s: its handshake, its connection's timers and its link's
/// packets.
const CLIENT_WEIGHT: f64 = 1.0;

/// Cost of a Mbit/s over several paths: two emulators, SRv6, and routers between.
const PATHS_WEIGHT: f64 = 4.0;

/// Time to start a fleet's edges and stores, in seconds, and the load of all of them, in Mbit/s.
const FLEET_START: f64 = 2.0;
const FLEET_WEIGHT: f64 = 20.0;

/// Rate of a link without a limit, about the machine's capacity, in Mbit/s.
const UNLIMITED: f64 = 1000.0;

impl Job {
    pub(super) fn keys<'a>(&'a self, spec: &'a Spec) -> impl Iterator<Item = Key> + 'a {
        self.sessions.clone().map(|session| Key {
            cell: self.cell.clone(),
            arm: spec.arms[self.arm].name.clone(),
            repeat: self.repeat,
            session,
        })
    }

    /// Whether the run mostly waits and leaves the machine to others.
    pub(super) fn is_light(&self) -> bool {
        self.cost.weight < 10.0
    }
}

/// Returns the seed of the link in a session. It ignores the arm and the servers' settings. So all
/// of them meet the same losses, as far as they send the same packets.
pub(crate) fn seed(seed: u64, cell: &Cell, repeat: u32, session: u32) -> u64 {
    let mut path = cell.clone();
    path.0
        .retain(|axis, _| !matches!(axis, Axis::Congestion | Axis::MinCwnd | Axis::Connections));
    derive_seed(seed, &[path.number(), repeat.into(), session.into()])
}

/// The size of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RunSize {
    pub(crate) cells: usize,
    pub(crate) arms: usize,
    pub(crate) sessions: u64,
    /// Expected duration on this machine in seconds; `None` in simulation.
    pub(crate) seconds: Option<f64>,
}

impl RunSize {
    pub(crate) fn of(spec: &Spec) -> Self {
        let cells = spec.cells(spec.seed);
        let arms: Vec<String> = spec.arms.iter().map(|arm| arm.name.clone()).collect();
        let jobs: Vec<Job> = groups(0, spec, &cells, &arms)
            .into_iter()
            .flatten()
            .collect();
        let seconds = Load::of(&jobs).seconds(default_capacity(), f64::from(DEFAULT_LANES));
        Self {
            cells: cells.len(),
            arms: spec.arms.len(),
            sessions: jobs.iter().map(|job| job.sessions.len() as u64).sum(),
            seconds: (spec.backend == Backend::Link).then_some(seconds),
        }
    }
}

/// Returns all runs of some experiments, in their order.
///
/// The arms of a repeat follow each other in random order, so that the machine's drift hits all
/// alike. The pool handles light jobs apart, so they may begin at other times than the rest of
/// their repeat. Jobs that need the machine for themselves come first, then the longest. Among
/// equals, the first repeats come first.
pub(super) fn jobs(experiments: &[Experiment], capacity: f64) -> Vec<Job> {
    let groups = experiments
        .iter()
        .enumerate()
        .flat_map(|(index, experiment)| {
            let Experiment {
                spec, cells, arms, ..
            } = experiment;
            groups(index, spec, cells, arms)
        });
    let seed = experiments
        .first()
        .map_or(0, |experiment| experiment.conditions.seed);
    let mut order: Vec<(usize, Vec<Job>)> = groups.enumerate().collect();
    order.sort_by_cached_key(|(i, group)| {
        let max =
            |value: fn(&Cost) -> f64| group.iter().map(|job| value(&job.cost)).fold(0.0, f64::max);
        let alone = max(|cost| cost.weight).min(capacity) > capacity / 2.0;
        // Doublings: costs that differ less count as equal.
        let weight = max(|cost| cost.weight).log2().round() as i64;
        let duration = max(|cost| cost.duration).log2().round() as i64;
        let first = if alone { -weight } else { -duration };
        (
            !alone,
            first,
            group[0].repeat,
            derive_seed(seed, &[*i as u64]),
        )
    });
    order
        .into_iter()
        .flat_map(|(i, mut group)| {
            group.sort_by_cached_key(|job| derive_seed(seed, &[i as u64, job.arm as u64]));
            group
        })
        .collect()
}

/// Returns the runs of all cells, by cell and repeat, of the named arms. Without memory they are
/// also by session.
fn groups(index: usize, spec: &Spec, cells: &[Cell], arms: &[String]) -> Vec<Vec<Job>> {
    let mut groups = Vec::new();
    for cell in cells {
        for repeat in 0.. {
            let group = repeat_of(index, spec, cell, repeat, arms);
            if group.is_empty() {
                break;
            }
            groups.extend(group);
        }
    }
    groups
}

/// Returns the runs of one repeat of a cell, without memory by session. It has none if no arm has
/// so many repeats.
fn repeat_of(
    index: usize,
    spec: &Spec,
    cell: &Cell,
    repeat: u32,
    arms: &[String],
) -> Vec<Vec<Job>> {
    let mut groups: Vec<Vec<Job>> = Vec::new();
    for (i, arm) in spec.arms.iter().enumerate() {
        let wanted = arms.contains(&arm.name);
        if !wanted || repeat >= spec.repeats(cell, arm) || spec.skipped(cell, arm).is_some() {
            continue;
        }
        for (n, sessions) in runs(spec, arm).into_iter().enumerate() {
            let job = Job {
                experiment: index,
                cell: cell.clone(),
                arm: i,
                repeat,
                cost: cost(spec, cell, arm, sessions.len() as u32),
                sessions,
            };
            match groups.get_mut(n) {
                Some(group) => group.push(job),
                None => groups.push(vec![job]),
            }
        }
    }
    groups
}

/// Returns the sessions of a repeat, as runs. Beside an arm that remembers, which is one run, the
/// others are one run, too. So they meet the machine in the same state.
fn runs(spec: &Spec, arm: &Arm) -> Vec<Range<u32>> {
    let (warmup, sessions) = spec.sessions(arm);
    let end = warmup + sessions;
    let begin = if spec.memoryless(arm) { warmup } else { 0 };
    if spec.workload.kind == Kind::Control {
        return vec![Range { start: begin, end }];
    }
    if spec.arms.iter().all(|arm| spec.memoryless(arm)) {
        return (begin..end).map(|session| session..session + 1).collect();
    }
    vec![Range { start: begin, end }]
}

fn cost(spec: &Spec, cell: &Cell, arm: &Arm, sessions: u32) -> Cost {
    if spec.workload.kind == Kind::Control {
        return control_cost(spec, sessions);
    }
    let rate = expected_rate(spec, cell, arm);
    if spec.workload.kind == Kind::Flows {
        // Each flow has a server and a client, which must not wait for a CPU.
        let duration = spec.workload.duration.unwrap_or_default().as_secs_f64() + 1.0;
        return Cost {
            weight: (2.0 * rate).max(MIN_WEIGHT),
            duration,
        };
    }
    if spec.workload.kind == Kind::Crowd {
        return crowd_cost(spec, cell, arm);
    }
    let rate = match spec.workload.kind {
        Kind::Paths => paths_rate(spec, cell),
        _ => rate,
    };
    let bits = spec
        .files(cell)
        .iter()
        .map(|file| file.bytes as f64 * 8.0)
        .sum::<f64>();
    let rtt = spec
        .links(cell)
        .map_or(Duration::ZERO, |links| links.rtt())
        .as_secs_f64();
    // Slow start doubles ten packets until the rate is reached or all is sent.
    let reach = bits.min(rate * 1e6 * rtt).max(1.0);
    let rounds = 3.0 + (reach / (10.0 * 1448.0 * 8.0)).log2().max(0.0);
    let transfer = bits / (rate * 1e6);
    let (start, start_weight) = match arm.client {
        Client::Get => GET_START,
        Client::Chromium => BROWSER_START,
    };
    let session = (start + rounds * rtt + transfer).min(spec.timeout(cell, arm).as_secs_f64());
    if spec.workload.kind == Kind::Paths {
        let visits = spec.workload.visitors.as_ref();
        let measured = visits.map_or(0.0, |visitors| visitors.duration.as_secs_f64());
        return Cost {
            weight: (PATHS_WEIGHT * rate).max(MIN_WEIGHT),
            duration: f64::from(sessions) * (start + transfer) + measured,
        };
    }
    if let Some(fleet) = &arm.fleet {
        let visits = f64::from(sessions) * fleet.visits.len() as f64;
        let pause = spec.workload.pause.as_secs_f64();
        return Cost {
            weight: (rate * transfer / (transfer + pause + 0.05)).max(FLEET_WEIGHT),
            duration: FLEET_START + visits * (session + pause),
        };
    }
    let weight = (rate * transfer / (transfer + 0.05))
        .max(start_weight * (start * 3.0 / session).min(1.0))
        .max(MIN_WEIGHT);
    let pause = spec.workload.pause.as_secs_f64();
    let weight = (weight * session / (session + pause)).max(MIN_WEIGHT);
    let count = f64::from(sessions);
    Cost {
        weight,
        duration: count * (session + pause),
    }
}

/// Returns the cost of routers and agents, which no other job must delay.
fn control_cost(spec: &Spec, sessions: u32) -> Cost {
    /// Time until all daemons know each other, in seconds.
    const START: f64 = 15.0;
    let Workload {
        duration, pause, ..
    } = &spec.workload;
    // A route is taken away and brought back.
    let session = 2 * *pause + duration.unwrap_or_default();
    Cost {
        weight: UNLIMITED,
        duration: START + f64::from(sessions) * session.as_secs_f64(),
    }
}

/// Returns the rate of both paths together, in Mbit/s.
fn paths_rate(spec: &Spec, cell: &Cell) -> f64 {
    let links = spec.path_links(cell).unwrap_or_default();
    let rate = |link: &Links| link.rate().map_or(UNLIMITED, Rate::mbps);
    let stream = spec.traffic(cell).and_then(|traffic| traffic.rate);
    let visitors = spec.workload.visitors.as_ref();
    let clients = f64::from(visitors.map_or(1, |visitors| visitors.clients));
    let all: f64 = links.iter().map(rate).sum();
    all.min(stream.map_or(UNLIMITED, |rate| clients * rate.mbps()))
}

/// Returns the cost of all clients, or of one client of any kind alone.
fn crowd_cost(spec: &Spec, cell: &Cell, arm: &Arm) -> Cost {
    let crowd = spec.crowd(cell, arm, 0, 0).unwrap_or_default();
    let rate = |member: &Member| member.links.rate().map_or(UNLIMITED, Rate::mbps);
    let weight = |member| 2.0 * rate(member) + CLIENT_WEIGHT;
    let workload = &spec.workload;
    let duration = workload.duration.unwrap_or_default() + workload.stagger;
    Cost {
        weight: crowd.iter().map(weight).sum::<f64>().max(MIN_WEIGHT),
        duration: duration.as_secs_f64() + 1.0,
    }
}

/// Returns the rate that an arm may reach in a cell, in Mbit/s. Loss limits CUBIC to `1.22 MSS /
/// (RTT √loss)` for each connection (Mathis et al. 1997).
fn expected_rate(spec: &Spec, cell: &Cell, arm: &Arm) -> f64 {
    let Ok(links) = spec.links(cell) else {
        return UNLIMITED;
    };
    let rate = links.rate().map_or(UNLIMITED, Rate::mbps);
    let setting = |axis, key| cell.get(axis).or(arm.set.get(key).map(String::as_str));
    // By default our server does not let losses hold it back.
    let ours = arm.server == Server::Hikyaku;
    let default = if ours { "adaptive" } else { "cubic" };
    let congestion = setting(Axis::Congestion, "policy.congestion").unwrap_or(default);
    let floor = setting(Axis::MinCwnd, "policy.min_cwnd").map_or(ours, |floor| floor != "off");
    let (loss, rtt) = (links.loss().fraction(), links.rtt().as_secs_f64());
    if congestion != "cubic" || floor || loss == 0.0 || spec.workload.kind == Kind::Flows {
        return rate;
    }
    // Without delay, the rest is that of the machine itself.
    let one = 1.22 * 1_448.0 * 8e-6 / (rtt.max(2e-4) * loss.sqrt());
    let connections = arm.connections.unwrap_or(1) + u16::from(arm.shards);
    rate.min(one * f64::from(connections))
}

#[cfg(test)]
mod tests;
