//! An adaptive arm against the best fixed one, cell by cell (VERSION, table 4).

mod picture;
mod table;

pub(super) use self::table::{excess_text, excess_value};
use super::View;
use super::compare::{self, Best};
use crate::experiment::Cell;
use crate::report::content::{Block, Chart, Section};
use crate::report::data::bootstrap_seed;
use crate::report::figure::Choice;
use crate::report::goal::Goal;
use crate::report::sample::{Excess, Sample, Value};

/// One adaptive arm in one cell.
struct Row<'a> {
    cell: &'a Cell,
    arm: &'a str,
    best: Best<'a>,
    excess: Excess,
    /// Sessions with the right choice, and all whose choice is known.
    right: (usize, usize),
    runs: usize,
    paper_excess: Option<f64>,
}

pub(super) fn draw(view: &View, choice: &Choice, section: &mut Section) {
    let fixed = view.fixed(&choice.fixed, &choice.adaptive);
    let rows: Vec<Row> = view
        .cells
        .iter()
        .flat_map(|cell| {
            choice
                .adaptive
                .iter()
                .filter_map(|arm| row(view, choice, cell, arm, &fixed))
                .collect::<Vec<_>>()
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    let axes = view.data.varied(&view.cells);
    section.blocks.push(Block::Chart(Chart {
        legend: picture::legend(view, choice, &rows),
        panels: vec![picture::picture(view, choice, &rows, &axes)],
    }));
    for arm in &choice.adaptive {
        let of_arm: Vec<&Row> = rows.iter().filter(|row| row.arm == arm).collect();
        if !of_arm.is_empty() {
            let table = table::table(view, choice, &of_arm, &fixed, &axes);
            section.blocks.push(Block::Table(table));
        }
    }
    section
        .blocks
        .push(Block::Table(table::summary(choice, &rows)));
    goals(view, choice, &rows, section);
}

fn row<'a>(
    view: &View<'a>,
    choice: &Choice,
    cell: &'a Cell,
    arm: &'a str,
    fixed: &[&'a str],
) -> Option<Row<'a>> {
    let candidates: Vec<_> = fixed
        .iter()
        .map(|arm| view.candidate(cell, arm, &choice.label))
        .collect();
    let best = compare::best(&candidates, choice.differ)?;
    let sample = view.sample(cell, arm);
    let excess = sample.excess(&best.sample, bootstrap_seed(cell, &[arm, best.arm]))?;
    let labels = view
        .data
        .sessions(cell, arm)
        .filter_map(|run| run.label(&choice.label));
    let right = labels.fold((0, 0), |(hits, all), label| {
        (
            hits + usize::from(best.right.iter().any(|right| right == label)),
            all + 1,
        )
    });
    let of_paper = |arm| view.paper(cell, Some(arm)).map(|paper| paper.value);
    let paper_best = fixed
        .iter()
        .filter_map(|arm| of_paper(arm))
        .reduce(f64::min);
    Some(Row {
        cell,
        arm,
        excess,
        right,
        runs: sample.runs(),
        paper_excess: of_paper(arm)
            .zip(paper_best)
            .map(|(value, best)| value / best - 1.0),
        best,
    })
}

/// The results of one adaptive arm over all cells.
#[derive(Default)]
struct Reached {
    /// Mean excess; a lower limit if a cell's excess is one.
    mean: Option<Value>,
    worst: Option<Value>,
    /// Sessions with the right choice, and all, in cells in which the arms differ.
    right: (usize, usize),
    /// Number of runs in these cells.
    deciding_runs: usize,
    right_worst: Option<f64>,
}

fn reached(rows: &[Row], arm: &str) -> Reached {
    let of_arm = || rows.iter().filter(|row| row.arm == arm);
    let excesses: Sample = of_arm().filter_map(|row| row.excess.known()).collect();
    let deciding = || of_arm().filter(|row| row.best.differ && row.right.1 > 0);
    Reached {
        mean: excesses.mean(),
        worst: excesses.worst(),
        right: deciding().fold((0, 0), |(hits, all), row| {
            (hits + row.right.0, all + row.right.1)
        }),
        deciding_runs: deciding().map(|row| row.runs).sum(),
        right_worst: deciding()
            .map(|row| row.right.0 as f64 / row.right.1 as f64)
            .reduce(f64::min),
    }
}

fn goals(view: &View, choice: &Choice, rows: &[Row], section: &mut Section) {
    for arm in choice
        .adaptive
        .iter()
        .filter(|arm| view.arms.contains(&arm.as_str()))
    {
        let reached = reached(rows, arm);
        for (name, bound) in &view.common.goal {
            let share = (reached.right.1 > 0)
                .then(|| Value::Exact(reached.right.0 as f64 / reached.right.1 as f64));
            let (words, result) = match name.as_str() {
                "excess_worst" => ("worst excess over the best fixed arm", reached.worst),
                "excess_mean" => ("mean excess over the best fixed arm", reached.mean),
                "right_share" => ("right choice where arms differ", share),
                _ => (
                    "right choice, lowest cell in which arms differ",
                    reached.right_worst.map(Value::Exact),
                ),
            };
            section
                .goals
                .push(Goal::of(format!("{arm}: {words}"), bound, result));
        }
    }
}
