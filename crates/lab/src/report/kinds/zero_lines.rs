//! The points at which the gain is zero, for each value of an axis.

use super::heatmap::ratio_logarithm;
use super::{Panel, View, size};
use crate::report::axis;
use crate::report::content::{Block, Chart, Key, Mark, Section, Table};
use crate::report::data::bootstrap_seed;
use crate::report::figure::ZeroLines;
use crate::report::metric::{self, signed_percent};
use crate::report::plot::{self, Axis, Frame, Scale};

/// The gains of one line's grid, as `grid[y][x]` in ratio logarithms.
struct Grid {
    name: String,
    values: Vec<Vec<f64>>,
}

pub(super) fn draw(view: &View, lines: &ZeroLines, section: &mut Section) {
    let (xs, ys) = (view.values(lines.x), view.values(lines.y));
    let numbers = |axis_name, texts: &[String]| axis::numbers(axis_name, texts).map(|(n, _)| n);
    let (Some(x_numbers), Some(y_numbers)) = (numbers(lines.x, &xs), numbers(lines.y, &ys)) else {
        section.note(format!(
            "`{}` and `{}` must have numbers for a zero line.",
            lines.x, lines.y
        ));
        return;
    };
    let panels = view.panels(&[lines.x, lines.y, lines.by], &lines.panel, section);
    let by = view.values(lines.by);
    let mut chart = Chart {
        legend: legend(lines, &by),
        panels: vec![],
    };
    let mut tables = vec![];
    for panel in &panels {
        let grids: Vec<Grid> = by
            .iter()
            .map(|value| grid(view, lines, panel, value, (&xs, &ys)))
            .collect();
        let x = Axis::new(
            Scale::tight(&x_numbers),
            axis::title(lines.x, &xs),
            metric::trimmed,
        );
        let y = Axis::new(
            Scale::tight(&y_numbers),
            axis::title(lines.y, &ys),
            metric::trimmed,
        );
        let mut frame = Frame::new(size(panels.len()), &panel.title, x, y);
        for (i, grid) in grids.iter().enumerate() {
            let segments = plot::zero_line(&x_numbers, &y_numbers, &grid.values);
            frame.lines(&segments, &format!("line {}", plot::series_class(i)));
        }
        chart.panels.push(frame.svg.finish());
        tables.push(table(lines, panel, &grids, &x_numbers, &ys));
    }
    section.blocks.push(Block::Chart(chart));
    section.blocks.extend(tables.into_iter().map(Block::Table));
}

fn legend(lines: &ZeroLines, by: &[String]) -> Vec<Key> {
    let [a, b] = &lines.gain;
    let mut keys: Vec<Key> = by
        .iter()
        .enumerate()
        .map(|(i, value)| Key {
            mark: Mark::Line(plot::series_class(i)),
            text: axis::value(lines.by, value),
        })
        .collect();
    keys.push(Key {
        mark: Mark::None,
        text: format!("On a line {a} and {b} are equally fast"),
    });
    keys
}

fn grid(
    view: &View,
    lines: &ZeroLines,
    panel: &Panel,
    by: &str,
    (xs, ys): (&[String], &[String]),
) -> Grid {
    let [a, b] = &lines.gain;
    let value = |x: &String, y: &String| {
        let cell = panel.cell(&[(lines.x, x), (lines.y, y), (lines.by, by)])?;
        let excess = view
            .sample(cell, a)
            .excess(&view.sample(cell, b), bootstrap_seed(cell, &[a, b]))?;
        Some(ratio_logarithm(&excess))
    };
    let row = |y| xs.iter().map(|x| value(x, y).unwrap_or(f64::NAN)).collect();
    Grid {
        name: axis::value(lines.by, by),
        values: ys.iter().map(row).collect(),
    }
}

/// Makes a table of the points at which each line crosses each row of the grid.
fn table(lines: &ZeroLines, panel: &Panel, grids: &[Grid], xs: &[f64], ys: &[String]) -> Table {
    let [a, b] = &lines.gain;
    let crossing = |row: &[f64]| -> String {
        let at: Vec<String> = (1..row.len())
            .filter(|i| !row[i - 1].is_nan() && !row[*i].is_nan())
            .filter(|i| (row[i - 1] >= 0.0) != (row[*i] >= 0.0))
            .map(|i| xs[i - 1] + (xs[i] - xs[i - 1]) * row[i - 1] / (row[i - 1] - row[i]))
            .map(metric::digits)
            .collect();
        let known: Vec<f64> = row
            .iter()
            .copied()
            .filter(|value| !value.is_nan())
            .collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        match (at.is_empty(), known.is_empty()) {
            (_, true) => String::new(),
            (false, _) => at.join(", "),
            (true, _) => {
                let faster = if mean >= 0.0 { b } else { a };
                format!("{faster} ({})", signed_percent(mean.exp() - 1.0))
            }
        }
    };
    let head = |y: &String| format!("{} {}", axis::name(lines.y), axis::value(lines.y, y));
    let row = |grid: &Grid| {
        let cells = grid.values.iter().map(|row| crossing(row));
        std::iter::once(grid.name.clone()).chain(cells).collect()
    };
    let caption = panel.titled(&format!("{} at which the gain is zero; an arm's name where it is faster at all (with the mean gain)", axis::name(lines.x)));
    Table {
        caption,
        columns: std::iter::once(axis::name(lines.by).to_owned())
            .chain(ys.iter().map(head))
            .collect(),
        rows: grids.iter().map(row).collect(),
        names: 1,
        folded: true,
    }
}
