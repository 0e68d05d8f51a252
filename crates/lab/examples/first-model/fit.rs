//! From runs to a model.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use anyhow::{Result, ensure};
use hikyaku_core::arm::Arm;
use hikyaku_core::model::{ArmTable, AxesFile, FORMAT, ModelFile, Source};

use crate::grid::{Shape, Table, Trend, pool_adjacent_violators};
use crate::plan::{ARMS, Path, Plan};
use crate::record::Run;

/// More RTT, more loss and more bytes are never faster, a higher rate never
/// slower.
const TRENDS: [Trend; 4] = [Trend::Rising, Trend::Rising, Trend::Falling, Trend::Rising];

/// Relative standard error that even many equal repeats leave: the emulator is
/// not the Internet.
const SPREAD_FLOOR: f64 = 0.02;

/// Relative standard error of an extrapolated load time, besides its scatter.
const SPREAD_CENSORED: f64 = 0.15;

/// Fits the model: load times by each arm on the plan's grid, the loss axis being
/// what was measured of the path, the RTT axis what the server measured.
///
/// # Errors
/// If a point of the grid has no run.
pub(crate) fn model(plan: &Plan, runs: &[Run], source: Source) -> Result<ModelFile> {
    let usable = usable(runs);
    let axes = AxesFile {
        rtt_ms: measured_rtts(plan, &usable),
        loss: plan
            .losses_ppm
            .iter()
            .map(|&ppm| f64::from(ppm) / 1e6)
            .collect(),
        rate_mbps: plan.rates_mbps.iter().copied().map(f64::from).collect(),
        size_bytes: plan.sizes.iter().map(|size| size.bytes as f64).collect(),
    };
    let losses = path_losses(&usable);
    let arms = ARMS
        .into_iter()
        .map(|arm| {
            Ok((
                arm.to_string(),
                Fit::new(plan, &usable, arm, &losses)?.table(&axes.loss),
            ))
        })
        .collect::<Result<BTreeMap<_, _>>>()?;
    let censored = usable.iter().filter(|run| run.censored).count();
    let description = format!(
        "Load times of hikyaku serve and get over emulated links, loss as the server measured it; \
         {} runs, {censored} of them given up and extrapolated. See docs/first-model.md.",
        usable.len(),
    );
    Ok(ModelFile {
        format: FORMAT,
        description,
        source,
        axes,
        arms,
    })
}

/// Runs with a load time; of a job that was repeated because it was disturbed,
/// the good one, or the last.
fn usable(runs: &[Run]) -> Vec<&Run> {
    let mut best: HashMap<_, &Run> = HashMap::new();
    for run in runs.iter().filter(|run| run.load_us.is_some()) {
        let entry = best.entry(run.job).or_insert(run);
        if entry.disturbed {
            *entry = run;
        }
    }
    best.into_values().collect()
}

/// Median of what the server measured as smallest RTT at each configured RTT.
fn measured_rtts(plan: &Plan, runs: &[&Run]) -> Vec<f64> {
    let median = |rtt_ms: u32| {
        let here = runs.iter().filter(|run| run.job.path.rtt_ms == rtt_ms);
        let mut measured: Vec<u64> = here
            .filter_map(|run| run.server.map(|server| server.min_rtt_us))
            .collect();
        measured.sort_unstable();
        measured
            .get(measured.len() / 2)
            .map_or(f64::from(rtt_ms), |&us| us as f64 / 1e3)
    };
    plan.rtts_ms.iter().map(|&rtt_ms| median(rtt_ms)).collect()
}

/// The loss of each path: what the arm that lost least measured there.
///
/// What another arm loses beyond that it does to itself: quinn's slow start overfills a
/// queue and loses a sixth of 10 MB on a lossless path. That is part of its load time.
fn path_losses(runs: &[&Run]) -> HashMap<Path, f64> {
    let mut packets: HashMap<(Path, Arm), (u64, u64)> = HashMap::new();
    for run in runs {
        let (run_lost, run_sent) = run.packets();
        let (lost, sent) = packets.entry((run.job.path, run.job.arm)).or_default();
        *lost += run_lost;
        *sent += run_sent;
    }
    let mut losses = HashMap::new();
    for ((path, _), (lost, sent)) in packets {
        let loss = lost as f64 / sent.max(1) as f64;
        let least = losses.entry(path).or_insert(loss);
        *least = loss.min(*least);
    }
    losses
}

/// One arm's measurements.
struct Fit<'a> {
    plan: &'a Plan,
    /// Load times by path and size.
    loads: HashMap<(Path, u64), Load>,
    /// See [`path_losses`].
    losses: &'a HashMap<Path, f64>,
}

/// Load times of the repeats of one download.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    /// Mean of the logarithm of the seconds.
    ln: f64,
    /// Relative standard error.
    spread: f64,
}

impl<'a> Fit<'a> {
    fn new(
        plan: &'a Plan,
        runs: &[&Run],
        arm: Arm,
        losses: &'a HashMap<Path, f64>,
    ) -> Result<Self> {
        let mut repeats: HashMap<(Path, u64), Vec<&Run>> = HashMap::new();
        for &run in runs.iter().filter(|run| run.job.arm == arm) {
            repeats
                .entry((run.job.path, run.job.size))
                .or_default()
                .push(run);
        }
        for path in plan.paths() {
            for size in &plan.sizes {
                ensure!(
                    repeats.contains_key(&(path, size.bytes)),
                    "no run of {arm} with {} B on {path:?}: measure again",
                    size.bytes
                );
            }
        }
        let scatter = typical_scatter(&repeats);
        let loads = repeats
            .iter()
            .map(|(&key, runs)| (key, Load::of(runs, scatter)))
            .collect();
        Ok(Self {
            plan,
            loads,
            losses,
        })
    }

    /// Load times at the nominal losses `axis`.
    fn table(&self, axis: &[f64]) -> ArmTable {
        let Plan {
            rtts_ms,
            losses_ppm,
            rates_mbps,
            sizes,
        } = self.plan;
        let shape: Shape = [
            rtts_ms.len(),
            losses_ppm.len(),
            rates_mbps.len(),
            sizes.len(),
        ];
        let at = |[rtt, loss, rate, size]: [usize; 4]| {
            self.load_at(
                rtts_ms[rtt],
                rates_mbps[rate],
                sizes[size].bytes,
                axis[loss],
            )
        };
        let measured = Table::from_fn(shape, |point| at(point).ln);
        let mut fitted = measured.clone();
        fitted.make_monotone(TRENDS);
        let spread = Table::from_fn(shape, |point| {
            // What monotony changed is an error of one or the other.
            at(point)
                .spread
                .hypot(fitted.at(point) - measured.at(point))
        });
        ArmTable {
            load_ms: fitted
                .values
                .iter()
                .map(|ln| rounded(ln.exp() * 1e3))
                .collect(),
            spread: spread.values.into_iter().map(rounded).collect(),
        }
    }

    /// Load time where `loss` would have been measured: between the
    /// configured losses of the same path, placed where they were measured.
    fn load_at(&self, rtt_ms: u32, rate_mbps: u32, size: u64, loss: f64) -> Load {
        let mut measured: Vec<(f64, Load)> = self
            .plan
            .losses_ppm
            .iter()
            .filter_map(|&loss_ppm| {
                let path = Path {
                    rtt_ms,
                    loss_ppm,
                    rate_mbps,
                };
                let nominal = f64::from(loss_ppm) / 1e6;
                let loss = self.losses.get(&path).copied().unwrap_or(nominal);
                Some((coordinate(loss), *self.loads.get(&(path, size))?))
            })
            .collect();
        measured.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut loads: Vec<f64> = measured.iter().map(|(_, load)| load.ln).collect();
        pool_adjacent_violators(&mut loads);
        for ((_, load), ln) in measured.iter_mut().zip(loads) {
            load.spread = load.spread.hypot(ln - load.ln);
            load.ln = ln;
        }
        interpolate(&measured, coordinate(loss))
    }
}

impl Load {
    fn of(runs: &[&Run], scatter: f64) -> Self {
        let logs: Vec<f64> = runs
            .iter()
            .filter_map(|run| run.load_us)
            .map(|us| (us as f64 / 1e6).ln())
            .collect();
        let (ln, deviation) = mean_and_deviation(&logs);
        let error = deviation.unwrap_or(scatter) / (logs.len() as f64).sqrt();
        let censored = if runs.iter().any(|run| run.censored) {
            SPREAD_CENSORED
        } else {
            0.0
        };
        Self {
            ln,
            spread: error.hypot(SPREAD_FLOOR).hypot(censored),
        }
    }
}

/// Standard deviation of a load time's logarithm where there is but one run: the
/// root mean square of where there are several.
fn typical_scatter(repeats: &HashMap<(Path, u64), Vec<&Run>>) -> f64 {
    let squares: Vec<f64> = repeats
        .values()
        .filter_map(|runs| {
            let logs: Vec<f64> = runs
                .iter()
                .filter_map(|run| run.load_us)
                .map(|us| (us as f64).ln())
                .collect();
            mean_and_deviation(&logs)
                .1
                .map(|deviation| deviation * deviation)
        })
        .collect();
    (squares.iter().sum::<f64>() / squares.len().max(1) as f64).sqrt()
}

/// Mean, and the standard deviation if there are at least two.
fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (
        mean,
        (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()),
    )
}

/// The coordinate in which the model interpolates loss (`docs/model.md`).
fn coordinate(loss: f64) -> f64 {
    (loss + 1e-4).ln()
}

/// Linear between ascending points, constant beyond them.
fn interpolate(points: &[(f64, Load)], at: f64) -> Load {
    let after = points.partition_point(|&(x, _)| x < at);
    match (
        after.checked_sub(1).map(|before| points[before]),
        points.get(after),
    ) {
        (Some((x0, a)), Some(&(x1, b))) => {
            let share = (at - x0) / (x1 - x0);
            let between = |a: f64, b: f64| a + share * (b - a);
            Load {
                ln: between(a.ln, b.ln),
                spread: between(a.spread, b.spread),
            }
        }
        (Some((_, load)), None) | (None, Some(&(_, load))) => load,
        (None, None) => unreachable!("every path has been measured"),
    }
}

/// Four significant digits: more would be noise.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
