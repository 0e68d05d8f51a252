//! Accuracy of a model's predictions and choices, on paths outside of its fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use hikyaku_core::model::Model;
use hikyaku_units::arm::{ARMS, Arm, Congestion, CongestionSet};
use hikyaku_units::human;
use serde::Serialize;

use super::examples::Cell;
use super::print::percent;
use super::replay::{Replayed, predicted};
use crate::experiment::Links;
use crate::report::stats;

/// Number of shown cells, those with the largest cost.
const WORST: usize = 10;

/// The result of a check, as in `MODEL.check.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Check {
    /// Description of the held-out paths.
    pub(super) held_out: String,
    /// SHA-256 of the held-out data.
    pub(super) data_sha256: String,
    /// Predictions by arm.
    pub(super) prediction: BTreeMap<String, Prediction>,
    /// Choices by congestion control, and among all of them (`adaptive`). They are for clients that
    /// fetch one size, and for those that fetch all measured sizes of their path.
    pub(super) choice: BTreeMap<String, Choice>,
    /// Cells with the largest cost.
    pub(super) worst: Vec<Worst>,
}

/// Error of an arm's predictions: |ln(predicted / measured)|.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Prediction {
    /// Cells measured.
    pub(super) cells: usize,
    /// Median error.
    pub(super) median: f64,
    /// Error that 95 of 100 stay below.
    pub(super) p95: f64,
    /// Median of ln(predicted / measured).
    pub(super) bias: f64,
}

/// Choices of replayed servers. Regret: how much longer a response took than by the fastest arm, as
/// a share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Choice {
    /// Cells measured.
    pub(super) cells: usize,
    /// Cells in which one arm takes over 5 % longer than another.
    pub(super) differing: usize,
    /// Share of right choices among the visits in these cells: of the faster version, or of an arm
    /// within 5 % of the fastest. It is 1 without any.
    pub(super) right: f64,
    /// Mean regret over all cells.
    pub(super) regret_mean: f64,
    /// Regret that 95 of 100 cells stay below.
    pub(super) regret_p95: f64,
    /// Largest regret.
    pub(super) regret_worst: f64,
    /// Mean regret of always choosing one arm, among those that all cells allow.
    pub(super) regret_fixed: BTreeMap<String, f64>,
}

/// A cell with costly choices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Worst {
    pub(super) path: String,
    /// A congestion control, or `adaptive`.
    pub(super) of: &'static str,
    pub(super) size_bytes: u64,
    /// Load times of the arms.
    pub(super) load_ms: BTreeMap<String, f64>,
    /// Repeats of the least measured arm.
    pub(super) repeats: usize,
    /// Shares of visits by chosen arm.
    pub(super) chosen: BTreeMap<String, f64>,
    pub(super) regret: f64,
}

/// Clients that were replayed with a model that does not know their paths.
#[derive(Debug, Default)]
pub(super) struct Replays<'a> {
    /// Cells with the model's predictions.
    cells: Vec<(Cell<'a>, [Option<f64>; ARMS])>,
    /// Replays by cell and available arms: a congestion control, or `adaptive`.
    one_size: Vec<(Cell<'a>, &'static str, Replayed)>,
    /// Replays by path and available arms.
    all_sizes: Vec<(&'static str, Replayed)>,
}

impl<'a> Replays<'a> {
    /// Replays clients over all cells.
    pub(super) fn new(cells: Vec<Cell<'a>>, model: &Arc<Model>) -> Self {
        let mut paths: BTreeMap<&str, Vec<&Cell<'_>>> = BTreeMap::new();
        for cell in &cells {
            paths.entry(cell.path).or_default().push(cell);
        }
        let mut all_sizes = Vec::new();
        for cells in paths.into_values() {
            for (of, available) in choices(&cells) {
                let cells: Vec<_> = cells
                    .iter()
                    .copied()
                    .filter(|cell| available == measured(cell).and(available))
                    .collect();
                if cells.len() > 1 {
                    all_sizes.push((of, Replayed::new(&cells, available, model)));
                }
            }
        }
        let mut one_size = Vec::new();
        for cell in &cells {
            for (of, available) in choices(&[cell]) {
                let replayed = Replayed::new(&[cell], available, model);
                one_size.push((cell.clone(), of, replayed));
            }
        }
        let predict = |cell: Cell<'a>| {
            let predicted = predicted(&cell, model);
            (cell, predicted)
        };
        Self {
            one_size,
            all_sizes,
            cells: cells.into_iter().map(predict).collect(),
        }
    }

    /// Joins these replays and `other`.
    pub(super) fn joined(mut self, other: Self) -> Self {
        self.cells.extend(other.cells);
        self.one_size.extend(other.one_size);
        self.all_sizes.extend(other.all_sizes);
        self
    }
}

impl Check {
    /// Sums up replayed clients.
    pub(super) fn new(held_out: String, data_sha256: String, replays: &Replays<'_>) -> Self {
        let mut prediction = BTreeMap::new();
        for arm in Arm::ALL {
            let error = |(cell, predicted): &(Cell<'_>, [Option<f64>; ARMS])| {
                Some(predicted[arm.index()]? - cell.loads()[arm.index()]?.ln)
            };
            let errors: Vec<f64> = replays.cells.iter().filter_map(error).collect();
            if !errors.is_empty() {
                prediction.insert(arm.to_string(), Prediction::of(errors));
            }
        }
        let mut groups: BTreeMap<String, Vec<&Replayed>> = BTreeMap::new();
        let one_size = replays
            .one_size
            .iter()
            .map(|(_, of, replayed)| (of, "one size", replayed));
        let all_sizes = replays
            .all_sizes
            .iter()
            .map(|(of, replayed)| (of, "all sizes", replayed));
        for (of, sizes, replayed) in one_size.chain(all_sizes) {
            groups
                .entry(format!("{of}, {sizes}"))
                .or_default()
                .push(replayed);
        }
        let choice = groups
            .into_iter()
            .map(|(name, replayed)| (name, Choice::of(&replayed)))
            .collect();
        Self {
            held_out,
            data_sha256,
            prediction,
            choice,
            worst: worst(&replays.one_size),
        }
    }

    /// Summarises the choices in a sentence.
    pub(super) fn summary(&self) -> String {
        let choices = self.choice.iter().map(|(name, choice)| {
            format!(
                "{name}: right in {} of {} differing cells, mean regret {}, 95 % below {}",
                percent(choice.right),
                choice.differing,
                percent(choice.regret_mean),
                percent(choice.regret_p95)
            )
        });
        let choices: Vec<String> = choices.collect();
        format!("Replayed on {}: {}.", self.held_out, choices.join("; "))
    }
}

impl Prediction {
    fn of(mut errors: Vec<f64>) -> Self {
        errors.sort_by(f64::total_cmp);
        let bias = quantile(&errors, 0.5);
        errors.iter_mut().for_each(|error| *error = error.abs());
        errors.sort_by(f64::total_cmp);
        Self {
            cells: errors.len(),
            median: rounded(quantile(&errors, 0.5)),
            p95: rounded(quantile(&errors, 0.95)),
            bias: rounded(bias),
        }
    }
}

impl Choice {
    fn of(replayed: &[&Replayed]) -> Self {
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let regret_of = |arm: Arm| {
            let regrets: Option<Vec<f64>> = replayed.iter().map(|r| r.regret_of(arm)).collect();
            Some((arm.to_string(), rounded(mean(regrets?))))
        };
        let mut regrets: Vec<f64> = replayed.iter().map(|r| r.regret()).collect();
        regrets.sort_by(f64::total_cmp);
        let differing = replayed.iter().filter(|r| r.differs());
        let right: Vec<f64> = differing.map(|r| r.right_share()).collect();
        Self {
            cells: replayed.len(),
            differing: right.len(),
            right: rounded(if right.is_empty() { 1.0 } else { mean(right) }),
            regret_p95: rounded(quantile(&regrets, 0.95)),
            regret_worst: rounded(quantile(&regrets, 1.0)),
            regret_mean: rounded(mean(regrets)),
            regret_fixed: Arm::ALL.into_iter().filter_map(regret_of).collect(),
        }
    }
}

/// Returns the sets of arms for clients of these cells, which are of one path. They are each
/// congestion control by itself, and all if there are several.
fn choices(cells: &[&Cell<'_>]) -> Vec<(&'static str, CongestionSet)> {
    let everywhere = |all: CongestionSet, cell: &&Cell<'_>| all.and(measured(cell));
    let somewhere = Congestion::ALL.into_iter().filter(|congestion| {
        cells
            .iter()
            .any(|cell| measured(cell).contains(*congestion))
    });
    let mut choices: Vec<_> = somewhere
        .map(|congestion| (congestion.name(), CongestionSet::of(&[congestion])))
        .collect();
    let all = cells.iter().fold(CongestionSet::ALL, everywhere);
    if all.len() > 1 {
        choices.push(("adaptive", all));
    }
    choices
}

fn measured(cell: &Cell<'_>) -> CongestionSet {
    CongestionSet::of(&cell.congestions().collect::<Vec<_>>())
}

fn worst(replayed: &[(Cell<'_>, &'static str, Replayed)]) -> Vec<Worst> {
    let mut worst: Vec<Worst> = replayed
        .iter()
        .map(|(cell, of, replayed)| {
            let arms = || {
                Arm::ALL
                    .into_iter()
                    .zip(replayed.truth.iter().zip(replayed.shares))
            };
            let known = arms().filter_map(|(arm, (seconds, _))| Some((arm, (*seconds)?)));
            let repeats = known
                .clone()
                .map(|(arm, _)| cell.responses[arm.index()].len());
            let chosen = arms().filter(|(_, (_, share))| *share > 0.0);
            Worst {
                path: describe(cell.path),
                of,
                size_bytes: cell.size,
                repeats: repeats.min().unwrap_or_default(),
                load_ms: known
                    .map(|(arm, s)| (arm.to_string(), rounded(s * 1e3)))
                    .collect(),
                chosen: chosen
                    .map(|(arm, (_, share))| (arm.to_string(), rounded(share)))
                    .collect(),
                regret: rounded(replayed.regret()),
            }
        })
        .filter(|worst| worst.regret > 0.0)
        .collect();
    worst.sort_by(|a, b| b.regret.total_cmp(&a.regret));
    worst.truncate(WORST);
    worst
}

/// Describes the link for people.
fn describe(path: &str) -> String {
    let links: Links = serde_json::from_str(path).unwrap_or_default();
    let rate = links
        .rate()
        .map_or_else(|| "any rate".to_owned(), |rate| rate.to_string());
    let queue = links.down.get("queue").and_then(toml::Value::as_str);
    let queue = queue
        .map(|queue| format!(", queue {queue}"))
        .unwrap_or_default();
    format!(
        "{rate}, RTT {}, loss {}{queue}",
        human::time(links.rtt()),
        links.loss()
    )
}

/// Returns the value that this share of the ascending values does not exceed; `NaN` without values.
fn quantile(ascending: &[f64], share: f64) -> f64 {
    stats::quantile(ascending, share).unwrap_or(f64::NAN)
}

/// Rounds to at most four digits behind the point, so that the last bit of a sum does not show.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
