//! The gain that a server has found by its own assignment, beside the true one.
//!
//! The true gain is that of the same clients over the same links. They are once all served as the
//! server chooses, and once all held back.

use std::collections::BTreeMap;

use super::View;
use crate::experiment::{Cell, Run};
use crate::report::axis;
use crate::report::content::{Block, Section, Table};
use crate::report::figure::Gain;
use crate::report::goal::Goal;
use crate::report::metric::{Metric, Unit, percent};
use crate::report::sample::Value;
use crate::report::stats;

/// Metric of a client's load time in records, with its name behind it.
const LOAD: &str = "load_ms.";

/// The 97.5 % quantile of the normal distribution.
const Z: f64 = 1.959_964;

/// A true gain: mean differences of clients' logarithms of load times.
struct Truth {
    /// Geometric means of the clients' load times, in milliseconds.
    without: f64,
    with: f64,
    mean: f64,
    /// Half the width of the 95 % interval of `mean`.
    half: f64,
    clients: usize,
}

/// The report of one server.
struct Found {
    repeat: u32,
    ratio: f64,
    low: f64,
    high: f64,
}

pub(super) fn draw(view: &View, gain: &Gain, section: &mut Section) {
    let axes = view.data.varied(&view.cells);
    let (mut truths, mut rows, mut covered, mut errors) = (vec![], vec![], vec![], vec![]);
    for cell in &view.cells {
        let name: Vec<String> = axes
            .iter()
            .map(|axis| axis::value(*axis, cell.get(*axis).unwrap_or_default()))
            .collect();
        let kinds = view.data.spec.client_kinds().into_iter().map(|kind| kind.0);
        for kind in kinds.chain([String::new()]) {
            if let Some(truth) = truth(view, gain, cell, &kind) {
                let mut row = name.clone();
                row.extend(truth.row(&kind));
                truths.push(row);
            }
        }
        let Some(truth) = truth(view, gain, cell, "") else {
            continue;
        };
        for found in found(view, cell, &gain.assigned) {
            let is_covered = (found.low..=found.high).contains(&truth.mean.exp());
            covered.push(f64::from(u8::from(is_covered)));
            errors.push(Value::Exact((found.ratio / truth.mean.exp() - 1.0).abs()));
            let mut row = name.clone();
            row.extend(found.row(is_covered));
            rows.push(row);
        }
    }
    if truths.is_empty() {
        return;
    }
    let names = axes.iter().map(|axis| axis::name(*axis).to_owned());
    let titles = |own: &[&str]| -> Vec<String> {
        names
            .clone()
            .chain(own.iter().map(|text| (*text).to_owned()))
            .collect()
    };
    section.blocks.push(Block::Table(Table {
        caption: format!(
            "true gain: geometric means over clients of load times by {} and {}, and their ratio [95 % confidence interval]",
            gain.without, gain.with
        ),
        columns: titles(&["clients", &gain.without, &gain.with, "ratio", "n"]),
        rows: truths,
        names: axes.len() + 1,
        folded: false,
    }));
    section.blocks.push(Block::Table(Table {
        caption: format!(
            "gain that the server of {} reports [its interval]",
            gain.assigned
        ),
        columns: titles(&["repeat", "ratio", "true one within"]),
        rows,
        names: axes.len() + 1,
        folded: false,
    }));
    for (name, bound) in &view.common.goal {
        let (what, result) = match name.as_str() {
            "covered_share" => (
                "servers whose interval holds the true gain",
                stats::mean(&covered).map(Value::Exact),
            ),
            _ => ("error of the reported ratio, worst", bound.worst(&errors)),
        };
        section.goals.push(Goal::of(what.to_owned(), bound, result));
    }
}

/// Returns the true gain of the clients of a kind, or of all if `kind` is empty.
fn truth(view: &View, gain: &Gain, cell: &Cell, kind: &str) -> Option<Truth> {
    let of = |arm: &str| clients(view.data.sessions(cell, arm), kind);
    let (with, without) = (of(&gain.with), of(&gain.without));
    let pairs: Vec<(f64, f64)> = with
        .iter()
        .filter_map(|(name, with)| Some((*with, *without.get(name)?)))
        .collect();
    let differences: Vec<f64> = pairs.iter().map(|(with, without)| with - without).collect();
    let mean = stats::mean(&differences)?;
    let squares = differences.iter().map(|value| (value - mean).powi(2));
    let n = differences.len();
    let variance = squares.sum::<f64>() / (n as f64 - 1.0);
    let geometric = |logs: Vec<f64>| stats::mean(&logs).map(f64::exp);
    (n > 1).then_some(Truth {
        without: geometric(pairs.iter().map(|pair| pair.1).collect())?,
        with: geometric(pairs.iter().map(|pair| pair.0).collect())?,
        mean,
        half: Z * (variance / n as f64).sqrt(),
        clients: n,
    })
}

/// Returns each client's mean logarithm of its load time, over all repeats.
fn clients<'a>(runs: impl Iterator<Item = &'a Run>, kind: &str) -> BTreeMap<&'a str, f64> {
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (metric, value) in runs.flat_map(|run| &run.metrics) {
        let Some(name) = metric.strip_prefix(LOAD) else {
            continue;
        };
        if is_of(name, kind) {
            let sum = sums.entry(name).or_default();
            *sum = (sum.0 + value.ln(), sum.1 + 1.0);
        }
    }
    let mean = |(name, (sum, n))| (name, sum / n);
    sums.into_iter().map(mean).collect()
}

/// Whether a client, `KIND-NUMBER`, is of a kind.
fn is_of(name: &str, kind: &str) -> bool {
    kind.is_empty() || name.rsplit_once('-').is_some_and(|(own, _)| own == kind)
}

fn found(view: &View, cell: &Cell, arm: &str) -> Vec<Found> {
    let metric = |run: &Run, name: &str| run.metric(&Metric::named(name).name);
    let found = |run: &Run| {
        Some(Found {
            repeat: run.repeat,
            ratio: metric(run, "gain_ratio")?,
            low: metric(run, "gain_low")?,
            high: metric(run, "gain_high")?,
        })
    };
    view.data.sessions(cell, arm).filter_map(found).collect()
}

impl Truth {
    fn row(&self, kind: &str) -> Vec<String> {
        let kind = if kind.is_empty() { "all" } else { kind };
        let (low, high) = (self.mean - self.half, self.mean + self.half);
        vec![
            kind.to_owned(),
            Unit::Millis.text(self.without),
            Unit::Millis.text(self.with),
            interval(self.mean.exp(), low.exp(), high.exp()),
            self.clients.to_string(),
        ]
    }
}

impl Found {
    fn row(&self, is_covered: bool) -> Vec<String> {
        vec![
            (self.repeat + 1).to_string(),
            interval(self.ratio, self.low, self.high),
            if is_covered { "yes" } else { "no" }.to_owned(),
        ]
    }
}

fn interval(ratio: f64, low: f64, high: f64) -> String {
    let [ratio, low, high] = [ratio, low, high].map(percent);
    format!("{ratio} [{low} – {high}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart_by_whole_names() {
        assert!(is_of("dsl-h2-12", "dsl-h2") && is_of("dsl-h2-12", ""));
        assert!(!is_of("dsl-h2-12", "dsl") && !is_of("dsl-h2", "dsl-h2"));
    }
}
