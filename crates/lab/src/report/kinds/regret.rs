//! An adaptive arm against the best fixed one and against the physical limit, over all cells.

mod saving;

use super::View;
use super::cdf::distribution;
use super::choice::excess_value;
use super::compare;
use crate::experiment::Cell;
use crate::report::axis;
use crate::report::content::{Block, Chart, Key, Mark, Section, Table};
use crate::report::data::bootstrap_seed;
use crate::report::figure::Regret;
use crate::report::goal::Goal;
use crate::report::limit::limit_ms;
use crate::report::metric::percent;
use crate::report::plot::{self, Axis, Scale};
use crate::report::sample::{Certainty, Excess, Sample, Value};

/// One arm in one cell.
struct Row<'a> {
    cell: &'a Cell,
    arm: &'a str,
    best: &'a str,
    /// Excess over the best fixed arm.
    regret: Excess,
    /// Excess over the physical limit.
    over_limit: Option<Value>,
}

/// Regrets of one arm over all cells, as shares. Regret is never negative: it is 0 if the arm was
/// faster than the best fixed one, by chance or by merit.
struct Summary {
    cells: usize,
    mean_excess: Value,
    mean: Value,
    p50: Value,
    p95: Value,
    worst: Value,
    over_limit: Option<Value>,
}

pub(super) fn draw(view: &View, regret: &Regret, section: &mut Section) {
    let fixed = view.fixed(&regret.fixed, &regret.adaptive);
    let mut arms: Vec<&str> = regret.adaptive.iter().map(String::as_str).collect();
    arms.extend(&fixed);
    arms.retain(|arm| view.arms.contains(arm));
    let rows: Vec<Row> = view
        .cells
        .iter()
        .flat_map(|cell| rows_of(view, regret, cell, &arms, &fixed))
        .collect();
    if rows.is_empty() {
        return;
    }
    section.blocks.push(Block::Chart(chart(view, &arms, &rows)));
    section
        .blocks
        .push(Block::Table(summary_table(&arms, &rows)));
    for arm in adaptive(view, regret) {
        let savings = saving::table(view, arm, &fixed);
        section.blocks.push(Block::Table(savings));
    }
    let worst = worst(view, regret, &rows);
    if !worst.rows.is_empty() {
        section.blocks.push(Block::Table(worst));
    }
    let unknown = rows
        .iter()
        .filter(|row| row.regret.certainty == Certainty::Unknown)
        .count();
    if unknown > 0 {
        section.note(format!("In {unknown} cells and arms no fixed arm ended in time: their regret is not known and not counted."));
    }
    goals(view, regret, &fixed, &rows, section);
}

/// Returns the adaptive arms of the figure.
fn adaptive<'a>(view: &View, regret: &'a Regret) -> impl Iterator<Item = &'a str> {
    let shown = regret.adaptive.iter().map(String::as_str);
    shown.filter(|arm| view.arms.contains(arm))
}

fn rows_of<'a>(
    view: &View<'a>,
    regret: &Regret,
    cell: &'a Cell,
    arms: &[&'a str],
    fixed: &[&'a str],
) -> Vec<Row<'a>> {
    // Cells that are equal but for the axes that are also chosen.
    let alike = |other: &&Cell| {
        other
            .0
            .iter()
            .all(|(axis, value)| regret.across.0.contains(axis) || cell.get(*axis) == Some(value))
    };
    let cells: Vec<&Cell> = view.cells.iter().filter(alike).collect();
    let candidates: Vec<compare::Candidate> = cells
        .iter()
        .flat_map(|cell| fixed.iter().map(|arm| view.candidate(cell, arm, "http")))
        .collect();
    let Some(best) = compare::best(&candidates, 0.0) else {
        return vec![];
    };
    let limit = limit_ms(&view.data.spec, cell, &view.metric);
    let row = |arm: &&'a str| {
        let sample = view.sample(cell, arm);
        let median = sample.median()?;
        Some(Row {
            cell,
            arm,
            best: best.arm,
            regret: sample.excess(&best.sample, bootstrap_seed(cell, &[arm, best.arm]))?,
            over_limit: limit.map(|limit| median.map(|median| median / limit - 1.0)),
        })
    };
    arms.iter().filter_map(row).collect()
}

/// Returns an arm's known excesses over all cells.
fn known(rows: &[Row], arm: &str) -> Sample {
    let of_arm = rows.iter().filter(|row| row.arm == arm);
    of_arm.filter_map(|row| row.regret.known()).collect()
}

fn summary(rows: &[Row], arm: &str) -> Option<Summary> {
    let excesses = known(rows, arm);
    let regrets = excesses.values().iter();
    let regrets: Sample = regrets.map(|value| value.map(|v| v.max(0.0))).collect();
    let counted = rows
        .iter()
        .filter(|row| row.arm == arm && row.regret.known().is_some());
    let over: Sample = counted.filter_map(|row| row.over_limit).collect();
    Some(Summary {
        cells: regrets.len(),
        mean_excess: excesses.mean()?,
        mean: regrets.mean()?,
        p50: regrets.quantile(0.5)?,
        p95: regrets.quantile(0.95)?,
        worst: regrets.worst()?,
        over_limit: over.mean(),
    })
}

fn chart(view: &View, arms: &[&str], rows: &[Row]) -> Chart {
    // Shares below a tenth of a per cent are one point of a logarithmic axis.
    const MIN_SHARE: f64 = 0.001;
    let line = |arm: &&str| {
        let known = known(rows, arm);
        let n = known.len() as f64;
        let corner = |(i, value): (usize, f64)| {
            let x = value.clamp(MIN_SHARE, 100.0);
            [(x, i as f64 / n), (x, (i + 1) as f64 / n)]
        };
        let mut points = vec![(MIN_SHARE, 0.0)];
        // The regret of an arm that timed out is unknown, so the line stays below 100 %.
        points.extend(known.exact().into_iter().enumerate().flat_map(corner));
        (plot::series_class(view.data.arm_index(arm)), points)
    };
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = arms.iter().map(line).collect();
    let max = lines
        .iter()
        .flat_map(|(_, points)| points)
        .map(|(x, _)| *x)
        .fold(0.1, f64::max);
    for (_, points) in &mut lines {
        let share = points.last().map_or(0.0, |(_, share)| *share);
        points.push((max, share));
    }
    let scale = Scale::Log {
        low: MIN_SHARE,
        high: max,
        zero: false,
    };
    let x = Axis::new(
        scale,
        "regret: excess over the best fixed arm of the cell",
        |tick| {
            let number = crate::report::metric::trimmed(tick * 100.0);
            if tick <= MIN_SHARE {
                format!("≤ {number} %")
            } else {
                format!("{number} %")
            }
        },
    );
    let legend = arms.iter().map(|arm| Key {
        mark: Mark::Line(plot::series_class(view.data.arm_index(arm))),
        text: (*arm).to_owned(),
    });
    Chart {
        legend: legend.collect(),
        panels: vec![distribution(
            super::size(1),
            "",
            x,
            "share of cells",
            &lines,
        )],
    }
}

/// Formats a share as `9.5 %` or `> 9.5 %`.
fn share_text(value: Value) -> String {
    match value {
        Value::Exact(value) => percent(value),
        Value::Over(value) => format!("> {}", percent(value)),
        Value::Failed => "failed".to_owned(),
    }
}

fn summary_table(arms: &[&str], rows: &[Row]) -> Table {
    let columns = [
        "arm",
        "cells",
        "mean regret",
        "median",
        "p95",
        "worst",
        "mean excess, signed",
        "mean over the physical limit",
    ];
    let row = |arm: &&str| {
        let summary = summary(rows, arm)?;
        let over = summary.over_limit.map_or(String::new(), excess_value);
        let mut row = vec![(*arm).to_owned(), summary.cells.to_string()];
        let shares = [summary.mean, summary.p50, summary.p95, summary.worst];
        row.extend(shares.map(share_text));
        row.push(excess_value(summary.mean_excess));
        row.push(over);
        Some(row)
    };
    Table {
        caption: "regret: excess of an arm's median over that of the best fixed arm of each cell, 0 where it was faster; the fixed arms for comparison".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: arms.iter().filter_map(row).collect(),
        names: 1,
        folded: false,
    }
}

fn worst(view: &View, regret: &Regret, rows: &[Row]) -> Table {
    let mut worst: Vec<(Value, &Row)> = rows
        .iter()
        .filter(|row| regret.adaptive.iter().any(|arm| arm == row.arm))
        .filter_map(|row| Some((row.regret.known()?, row)))
        .collect();
    worst.sort_by(|(a, _), (b, _)| b.rank_cmp(a));
    worst.truncate(regret.worst);
    let axes = view.data.varied(&view.cells);
    let median = |cell: &Cell, arm: &str| {
        let sample = view.sample(cell, arm);
        sample.median().map_or(String::new(), |median: Value| {
            view.metric.median(median, sample.interval())
        })
    };
    let line = |(_, row): &(Value, &Row)| {
        vec![
            axis::cell(row.cell, &axes),
            row.arm.to_owned(),
            median(row.cell, row.arm),
            row.best.to_owned(),
            super::choice::excess_text(&row.regret),
            row.over_limit.map_or(String::new(), excess_value),
        ]
    };
    Table {
        caption: "the worst cells".to_owned(),
        columns: [
            "cell",
            "arm",
            "median",
            "best fixed arm",
            "regret",
            "over the limit",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: worst.iter().map(line).collect(),
        names: 2,
        folded: false,
    }
}

fn goals(view: &View, regret: &Regret, fixed: &[&str], rows: &[Row], section: &mut Section) {
    for arm in adaptive(view, regret) {
        let summary = summary(rows, arm);
        for (name, bound) in &view.common.goal {
            let (words, result) = match name.as_str() {
                "regret_mean" => ("mean regret", summary.as_ref().map(|s| s.mean)),
                "regret_p95" => ("p95 of the regret", summary.as_ref().map(|s| s.p95)),
                "regret_worst" => ("worst regret", summary.as_ref().map(|s| s.worst)),
                "saving_least" => (
                    "smallest mean saving against a fixed arm",
                    saving::smallest(view, arm, fixed),
                ),
                _ => (
                    "mean over the physical limit",
                    summary.as_ref().and_then(|s| s.over_limit),
                ),
            };
            section
                .goals
                .push(Goal::of(format!("{arm}: {words}"), bound, result));
        }
    }
}
