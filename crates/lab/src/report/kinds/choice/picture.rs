//! A dot for each cell and adaptive arm.

use super::super::{View, WIDTH};
use super::{Row, excess_text};
use crate::experiment::{Axis as Swept, Cell};
use crate::report::axis;
use crate::report::content::{Key, Mark};
use crate::report::figure::Choice;
use crate::report::metric::signed_percent;
use crate::report::plot::{self, Anchor, Axis, Frame, Marker, Scale};
use crate::report::sample::{self, Certainty};

pub(super) fn legend(view: &View, choice: &Choice, rows: &[Row]) -> Vec<Key> {
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
        text: format!(
            "Excess of the adaptive arm's median over the best fixed arm's [{}]; left of 0 it was faster",
            sample::confidence(rows.iter().map(|row| row.excess.coverage))
        ),
    });
    keys
}

/// Draws a dot for each cell and adaptive arm, with one line for each cell.
pub(super) fn picture(view: &View, choice: &Choice, rows: &[Row], axes: &[Swept]) -> String {
    let mut cells: Vec<&Cell> = rows.iter().map(|row| row.cell).collect();
    cells.dedup();
    // Bands go upwards, but a list goes downwards.
    cells.reverse();
    let names: Vec<String> = cells.iter().map(|cell| axis::cell(cell, axes)).collect();
    let limits = rows.iter().flat_map(|row| {
        let ends = row.excess.interval.map(|(low, high)| [low, high]);
        ends.into_iter()
            .flatten()
            .chain([row.excess.value])
            .chain(row.paper_excess)
    });
    // One arm that timed out must not squeeze all others together.
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
    let mut frame = Frame::new((WIDTH, height), "", x, Axis::bands(&names, ""));
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
