//! An adaptive arm against the best fixed one, cell by cell (VERSION, table 4).

use super::View;
use super::compare::{self, Best};
use crate::experiment::{Axis as Swept, Cell};
use crate::report::axis;
use crate::report::content::{Block, Chart, Key, Mark, Section, Table};
use crate::report::data::bootstrap_seed;
use crate::report::figure::Choice;
use crate::report::goal::Goal;
use crate::report::metric::{percent, signed_percent};
use crate::report::plot::{self, Anchor, Axis, Frame, Marker, Scale};
use crate::report::sample::{Certainty, Excess};
use crate::report::stats;

/// One adaptive arm in one cell.
struct Row<'a> {
    cell: &'a Cell,
    arm: &'a str,
    best: Best<'a>,
    excess: Excess,
    /// Sessions that chose right, and all whose choice is known.
    right: (usize, usize),
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
        legend: legend(view, choice, &rows),
        panels: vec![picture(view, choice, &rows, &axes)],
    }));
    section
        .blocks
        .push(Block::Table(table(view, choice, &rows, &fixed, &axes)));
    section.blocks.push(Block::Table(summary(choice, &rows)));
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
    let excess = view
        .sample(cell, arm)
        .excess(&best.sample, bootstrap_seed(cell, &[arm, best.arm]))?;
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
        paper_excess: of_paper(arm)
            .zip(paper_best)
            .map(|(value, best)| value / best - 1.0),
        best,
    })
}

fn legend(view: &View, choice: &Choice, rows: &[Row]) -> Vec<Key> {
    let mut keys: Vec<Key> = choice
        .adaptive
        .iter()
        .map(|arm| Key {
            mark: Mark::Line(plot::series_class(view.data.arm_index(arm))),
            text: arm.clone(),
        })
        .collect();
    if rows.iter().any(|row| row.paper_excess.is_some()) {
        keys.push(Key {
            mark: Mark::Paper,
            text: "paper".to_owned(),
        });
    }
    keys.push(Key {
        mark: Mark::None,
        text: "Excess of the adaptive arm's median over the best fixed arm's, with its 95 % bootstrap interval; left of 0 it was faster".to_owned(),
    });
    keys
}

/// A dot for each cell and adaptive arm, one line of the picture a cell.
fn picture(view: &View, choice: &Choice, rows: &[Row], axes: &[Swept]) -> String {
    let mut cells: Vec<&Cell> = rows.iter().map(|row| row.cell).collect();
    cells.dedup();
    // Bands go upwards, a list goes downwards.
    cells.reverse();
    let names: Vec<String> = cells.iter().map(|cell| axis::cell(cell, axes)).collect();
    let limits = rows.iter().flat_map(|row| {
        let ends = row.excess.interval.map(|(low, high)| [low, high]);
        ends.into_iter()
            .flatten()
            .chain([row.excess.value])
            .chain(row.paper_excess)
    });
    // One arm that timed out must not press all others together.
    let mut values: Vec<f64> = limits
        .filter(|value| value.is_finite())
        .map(|v| v.clamp(-1.0, 1.0))
        .collect();
    values.extend([0.05, -0.02]);
    let x = Axis::new(
        Scale::linear(&values),
        "excess over the best fixed arm",
        signed_percent,
    );
    let lanes = choice.adaptive.len().max(1) as f64;
    let height = 90.0 + cells.len() as f64 * (14.0 + 14.0 * lanes);
    let mut frame = Frame::new((760.0, height), "", x, Axis::bands(&names, ""));
    frame.line(&[(0.0, -0.5), (0.0, cells.len() as f64 - 0.5)], "zero-axis");
    if let Some(bound) = view.common.goal.get("excess_worst") {
        let x = frame.x(bound.limit());
        let (top, bottom) = frame.edges();
        frame.svg.line((x, top), (x, bottom), "goal-line");
        frame.svg.text(
            (x, top - 4.0),
            Anchor::Middle,
            "note",
            &format!("goal: {}", bound.text()),
        );
    }
    for row in rows {
        let lane = choice
            .adaptive
            .iter()
            .position(|arm| arm == row.arm)
            .unwrap_or(0) as f64;
        let band = cells.iter().position(|cell| *cell == row.cell).unwrap_or(0) as f64;
        let y = band + 0.3 - 0.6 * (lane + 0.5) / lanes;
        draw_row(view, &mut frame, row, y);
    }
    frame.svg.finish()
}

fn draw_row(view: &View, frame: &mut Frame, row: &Row, y: f64) {
    let class = plot::series_class(view.data.arm_index(row.arm));
    let shown = |value: f64| value.clamp(-1.0, 1.0);
    if let Some((low, high)) = row.excess.interval {
        frame.line(
            &[(shown(low), y), (shown(high), y)],
            &format!("whisker {class}"),
        );
    }
    if let Some(paper) = row.paper_excess {
        let hint = format!("paper: {}", signed_percent(paper));
        frame.marker(
            (shown(paper), y),
            Marker::Diamond,
            &format!("hollow {class}"),
            &hint,
        );
    }
    let shape = if row.excess.certainty == Certainty::Exact {
        Marker::Dot
    } else {
        Marker::Up
    };
    let hint = format!(
        "{}: {} over {}",
        row.arm,
        excess_text(&row.excess),
        row.best.arm
    );
    frame.marker(
        (shown(row.excess.value), y),
        shape,
        &format!("dot {class}"),
        &hint,
    );
}

/// `+1.2 % [−0.4 % to +2.9 %]`.
pub(super) fn excess_text(excess: &Excess) -> String {
    let value = signed_percent(excess.value);
    match (excess.certainty, excess.interval) {
        (Certainty::Unknown, _) => "both timed out".to_owned(),
        (Certainty::AtLeast, _) => format!("> {value}"),
        (Certainty::AtMost, _) => format!("< {value}"),
        (Certainty::Exact, None) => value,
        (Certainty::Exact, Some((low, high))) => {
            format!(
                "{value} [{} to {}]",
                signed_percent(low).trim_end_matches(" %"),
                signed_percent(high).trim_end_matches(" %")
            )
        }
    }
}

fn table(view: &View, choice: &Choice, rows: &[Row], fixed: &[&str], axes: &[Swept]) -> Table {
    let has_paper = rows.iter().any(|row| row.paper_excess.is_some());
    let mut columns: Vec<String> = axes
        .iter()
        .map(|axis| axis::name(*axis).to_owned())
        .collect();
    columns.extend(fixed.iter().map(|arm| (*arm).to_owned()));
    columns.extend(["arm", "median", "excess"].map(str::to_owned));
    columns.push(format!("{} {}", choice.label, choice.value));
    columns.push("right choice".to_owned());
    if has_paper {
        columns.push("paper's excess".to_owned());
        columns.push(format!("paper's {} {}", choice.label, choice.value));
    }
    let median = |cell: &Cell, arm: &str| {
        let sample = view.sample(cell, arm);
        sample.median().map_or(String::new(), |median| {
            view.metric.median(median, sample.interval())
        })
    };
    let line = |row: &Row| {
        let value = |axis: &Swept| axis::value(*axis, row.cell.get(*axis).unwrap_or_default());
        let mut line: Vec<String> = axes.iter().map(value).collect();
        line.extend(fixed.iter().map(|arm| median(row.cell, arm)));
        line.extend([
            row.arm.to_owned(),
            median(row.cell, row.arm),
            excess_text(&row.excess),
        ]);
        let share = view
            .data
            .share(row.cell, row.arm, &choice.label, &choice.value);
        line.push(share_text(share));
        line.push(if row.best.differ {
            share_text(row.right)
        } else {
            "either".to_owned()
        });
        if has_paper {
            let paper = view
                .paper(row.cell, Some(row.arm))
                .and_then(|paper| paper.share);
            line.push(row.paper_excess.map_or(String::new(), signed_percent));
            line.push(paper.map_or(String::new(), |share| percent(share / 100.0)));
        }
        line
    };
    Table {
        caption: format!(
            "{}: medians [95 % confidence interval]; \"either\": the fixed arms differ by at most {} %",
            view.metric.label,
            crate::report::metric::trimmed(choice.differ)
        ),
        columns,
        rows: rows.iter().map(line).collect(),
        names: axes.len(),
        folded: false,
    }
}

fn share_text((hits, all): (usize, usize)) -> String {
    match all {
        0 => String::new(),
        _ => percent(hits as f64 / all as f64),
    }
}

/// What one adaptive arm reached over all cells.
#[derive(Default)]
struct Reached {
    mean: Option<f64>,
    worst: Option<f64>,
    /// Over all sessions of cells in which the arms differ.
    right: (usize, usize),
    right_worst: Option<f64>,
}

fn reached(rows: &[Row], arm: &str) -> Reached {
    let of_arm = || rows.iter().filter(|row| row.arm == arm);
    let excesses: Vec<f64> = of_arm()
        .filter(|row| row.excess.certainty != Certainty::Unknown)
        .map(|row| row.excess.value)
        .collect();
    let deciding = || of_arm().filter(|row| row.best.differ && row.right.1 > 0);
    Reached {
        mean: stats::mean(&excesses),
        worst: excesses.iter().copied().reduce(f64::max),
        right: deciding().fold((0, 0), |(hits, all), row| {
            (hits + row.right.0, all + row.right.1)
        }),
        right_worst: deciding()
            .map(|row| row.right.0 as f64 / row.right.1 as f64)
            .reduce(f64::min),
    }
}

fn summary(choice: &Choice, rows: &[Row]) -> Table {
    let columns = [
        "arm",
        "mean excess",
        "worst excess",
        "right choice where arms differ",
        "95 % interval",
        "lowest cell",
    ];
    let line = |arm: &String| {
        let reached = reached(rows, arm);
        let signed = |value: Option<f64>| value.map_or(String::new(), signed_percent);
        let interval = stats::share_interval(reached.right.0, reached.right.1);
        vec![
            arm.clone(),
            signed(reached.mean),
            signed(reached.worst),
            share_text(reached.right),
            interval.map_or(String::new(), |(low, high)| {
                format!("{} to {}", percent(low), percent(high))
            }),
            reached.right_worst.map_or(String::new(), percent),
        ]
    };
    Table {
        caption: "over all cells".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: choice.adaptive.iter().map(line).collect(),
        names: 1,
        folded: false,
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
            let share =
                (reached.right.1 > 0).then(|| reached.right.0 as f64 / reached.right.1 as f64);
            let (words, result) = match name.as_str() {
                "excess_worst" => ("worst excess over the best fixed arm", reached.worst),
                "excess_mean" => ("mean excess over the best fixed arm", reached.mean),
                "right_share" => ("right choice where arms differ", share),
                _ => (
                    "right choice, lowest cell in which arms differ",
                    reached.right_worst,
                ),
            };
            section
                .goals
                .push(Goal::of(format!("{arm}: {words}"), bound, result));
        }
    }
}
