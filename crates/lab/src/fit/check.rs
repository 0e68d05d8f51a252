//! How well a model predicts load times and chooses versions, on paths that it was not
//! fitted on.

use std::collections::BTreeMap;
use std::sync::Arc;

use hikyaku_core::arm::{Arm, Congestion};
use hikyaku_core::human;
use hikyaku_core::model::Model;
use serde::Serialize;

use super::examples::{Cell, VERSIONS};
use super::print::percent;
use super::replay::{Replayed, predicted};
use crate::experiment::Links;
use crate::report::stats;

/// Cells shown that cost most.
const WORST: usize = 10;

/// The result of a check, as it is written to `MODEL.check.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Check {
    /// Which paths were held out.
    pub(super) held_out: String,
    /// SHA-256 of the data that were held out.
    pub(super) data_sha256: String,
    /// By arm.
    pub(super) prediction: BTreeMap<String, Prediction>,
    /// By congestion control, for clients that fetch one size, and for those that fetch all
    /// sizes that were measured on their path.
    pub(super) choice: BTreeMap<String, Choice>,
    /// Cells that cost most.
    pub(super) worst: Vec<Worst>,
}

/// Error of an arm's predictions: |ln(predicted / measured)|.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Prediction {
    /// Cells measured.
    pub(super) cells: usize,
    /// Median error.
    pub(super) median: f64,
    /// 95 of 100 are smaller.
    pub(super) p95: f64,
    /// Median of ln(predicted / measured).
    pub(super) bias: f64,
}

/// Choices of replayed servers. Regret: how much longer a response took than by
/// the faster version, as a share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Choice {
    /// Cells measured.
    pub(super) cells: usize,
    /// Cells in which one version takes over 5 % longer than the other.
    pub(super) differing: usize,
    /// Share of visits in these for which the faster was chosen; 1 without any.
    pub(super) right: f64,
    /// Mean regret over all cells.
    pub(super) regret_mean: f64,
    /// Regret that 95 of 100 cells stay below.
    pub(super) regret_p95: f64,
    /// Greatest regret.
    pub(super) regret_worst: f64,
    /// Mean regret of always choosing HTTP/2.
    pub(super) regret_h2: f64,
    /// Mean regret of always choosing HTTP/3.
    pub(super) regret_h3: f64,
}

/// A cell in which choices cost much.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Worst {
    pub(super) path: String,
    pub(super) congestion: Congestion,
    pub(super) size_bytes: u64,
    pub(super) h2_ms: f64,
    pub(super) h3_ms: f64,
    /// Repeats of the less measured version.
    pub(super) repeats: usize,
    /// Share of visits for which HTTP/3 was chosen.
    pub(super) h3_share: f64,
    pub(super) regret: f64,
}

/// Clients replayed under a model that does not know their paths.
#[derive(Debug, Default)]
pub(super) struct Replays<'a> {
    /// By cell, with the model's predictions.
    one_size: Vec<(Cell<'a>, Replayed, [Option<f64>; 2])>,
    /// By path.
    all_sizes: Vec<(Congestion, Replayed)>,
}

impl<'a> Replays<'a> {
    /// Replays clients over all cells.
    pub(super) fn new(cells: Vec<Cell<'a>>, model: &Arc<Model>) -> Self {
        let mut paths: BTreeMap<(&str, Congestion), Vec<&Cell<'_>>> = BTreeMap::new();
        for cell in &cells {
            paths
                .entry((cell.path, cell.congestion))
                .or_default()
                .push(cell);
        }
        let all_sizes = paths
            .into_iter()
            .filter(|(_, cells)| cells.len() > 1)
            .map(|((_, congestion), cells)| (congestion, Replayed::new(&cells, model)))
            .collect();
        let one_size = cells
            .into_iter()
            .map(|cell| {
                let replayed = Replayed::new(&[&cell], model);
                let predicted = predicted(&cell, model);
                (cell, replayed, predicted)
            })
            .collect();
        Self {
            one_size,
            all_sizes,
        }
    }

    /// These and `other`.
    pub(super) fn joined(mut self, other: Self) -> Self {
        self.one_size.extend(other.one_size);
        self.all_sizes.extend(other.all_sizes);
        self
    }
}

impl Check {
    /// Sums up replayed clients.
    pub(super) fn new(held_out: String, data_sha256: String, replays: &Replays<'_>) -> Self {
        let mut prediction = BTreeMap::new();
        let mut choice = BTreeMap::new();
        for congestion in [Congestion::Cubic, Congestion::Bbr] {
            let of = |(cell, ..): &&(Cell<'_>, _, _)| cell.congestion == congestion;
            let one_size: Vec<_> = replays.one_size.iter().filter(of).collect();
            let all_sizes = replays.all_sizes.iter().filter(|(of, _)| *of == congestion);
            let groups = [
                (
                    "one size",
                    one_size.iter().map(|(_, replayed, _)| replayed).collect(),
                ),
                (
                    "all sizes",
                    all_sizes.map(|(_, replayed)| replayed).collect::<Vec<_>>(),
                ),
            ];
            for (name, replayed) in groups {
                if !replayed.is_empty() {
                    let name = format!("{}, {name}", congestion.name());
                    choice.insert(name, Choice::of(&replayed));
                }
            }
            for (i, version) in VERSIONS.into_iter().enumerate() {
                let errors: Vec<f64> = one_size
                    .iter()
                    .filter_map(|(_, replayed, predicted)| Some(predicted[i]? - replayed.truth[i]))
                    .collect();
                if !errors.is_empty() {
                    let arm = Arm::new(version, congestion).to_string();
                    prediction.insert(arm, Prediction::of(errors));
                }
            }
        }
        Self {
            held_out,
            data_sha256,
            prediction,
            choice,
            worst: worst(&replays.one_size),
        }
    }

    /// The choices in a sentence.
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
        let regret_of = |share: f64| mean(replayed.iter().map(|r| r.regret(share)).collect());
        let mut regrets: Vec<f64> = replayed.iter().map(|r| r.regret(r.h3_share)).collect();
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
            regret_h2: rounded(regret_of(0.0)),
            regret_h3: rounded(regret_of(1.0)),
        }
    }
}

fn worst(replayed: &[(Cell<'_>, Replayed, [Option<f64>; 2])]) -> Vec<Worst> {
    let mut worst: Vec<Worst> = replayed
        .iter()
        .map(|(cell, replayed, _)| {
            let [h2_ms, h3_ms] = replayed.truth.map(|ln| rounded(ln.exp() * 1e3));
            Worst {
                path: describe(cell.path),
                congestion: cell.congestion,
                size_bytes: cell.size,
                h2_ms,
                h3_ms,
                repeats: cell
                    .responses
                    .iter()
                    .map(Vec::len)
                    .min()
                    .unwrap_or_default(),
                h3_share: rounded(replayed.h3_share),
                regret: rounded(replayed.regret(replayed.h3_share)),
            }
        })
        .filter(|worst| worst.regret > 0.0)
        .collect();
    worst.sort_by(|a, b| b.regret.total_cmp(&a.regret));
    worst.truncate(WORST);
    worst
}

/// The link for people.
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

/// The value that this share of the ascending values does not exceed; `NaN` without values.
fn quantile(ascending: &[f64], share: f64) -> f64 {
    stats::quantile(ascending, share).unwrap_or(f64::NAN)
}

/// Four digits behind the point at most, so that the last bit of a sum does not show.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
