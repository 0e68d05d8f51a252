//! A value or gain over two axes.

mod palette;

use self::palette::Palette;
use super::{Panel, View};
use crate::report::axis;
use crate::report::content::{Block, Chart, Section, Table};
use crate::report::data::bootstrap_seed;
use crate::report::figure::Heatmap;
use crate::report::metric::signed_percent;
use crate::report::plot::{self, Anchor, Axis, Frame};
use crate::report::sample::{Certainty, Excess, Value};

/// One square of a map.
struct Square {
    /// Value behind its colour; `NaN` if unknown.
    value: f64,
    text: String,
    hint: String,
}

/// The squares of a map by row, from below.
struct Map {
    title: String,
    rows: Vec<Vec<Option<Square>>>,
}

pub(super) fn draw(view: &View, map: &Heatmap, section: &mut Section) {
    let panels = view.panels(&[map.x, map.y], &map.panel, section);
    let maps: Vec<Map> = match &map.gain {
        Some(gain) => panels
            .iter()
            .map(|panel| gain_map(view, map, panel, gain))
            .collect(),
        None => {
            let of = |panel| {
                view.arms
                    .iter()
                    .map(move |arm| arm_map(view, map, panel, arm))
            };
            panels.iter().flat_map(of).collect()
        }
    };
    let squares = || maps.iter().flat_map(|map| &map.rows).flatten().flatten();
    if squares().next().is_none() {
        return;
    }
    let values: Vec<f64> = squares()
        .map(|square| square.value)
        .filter(|v| v.is_finite())
        .collect();
    let palette = Palette::new(&values, map.gain.is_some());
    let mut chart = Chart {
        legend: palette.legend(view, map),
        panels: vec![],
    };
    let (xs, ys) = (view.values(map.x), view.values(map.y));
    for drawn in &maps {
        chart.panels.push(picture(map, drawn, &palette, &xs, &ys));
    }
    section.blocks.push(Block::Chart(chart));
    for drawn in &maps {
        section
            .blocks
            .push(Block::Table(table(map, drawn, &xs, &ys)));
    }
}

fn gain_map(view: &View, map: &Heatmap, panel: &Panel, [a, b]: &[String; 2]) -> Map {
    let square = |x: &String, y: &String| {
        let cell = panel.cell(&[(map.x, x), (map.y, y)])?;
        let (one, other) = (view.sample(cell, a), view.sample(cell, b));
        let excess = one.excess(&other, bootstrap_seed(cell, &[a, b]))?;
        let median = |sample: &crate::report::sample::Sample| {
            let median = sample.median().unwrap_or(Value::Failed);
            format!(
                "{} (n = {})",
                view.metric.median(median, sample.interval()),
                sample.size()
            )
        };
        let place = axis::cell(cell, &view.data.varied(&view.cells));
        Some(Square {
            value: ratio_logarithm(&excess),
            text: gain_text(&excess),
            hint: format!(
                "{place}\n{a}: {}\n{b}: {}\ngain {}",
                median(&one),
                median(&other),
                gain_words(&excess)
            ),
        })
    };
    Map {
        title: panel.title.clone(),
        rows: rows(view, map, square),
    }
}

fn arm_map(view: &View, map: &Heatmap, panel: &Panel, arm: &str) -> Map {
    let square = |x: &String, y: &String| {
        let cell = panel.cell(&[(map.x, x), (map.y, y)])?;
        let sample = view.sample(cell, arm);
        let median = sample.median()?;
        let text = view.metric.median(median, sample.interval());
        Some(Square {
            value: median.exact().unwrap_or(f64::NAN),
            text: view.metric.value(median),
            hint: format!("{arm}: {text} (n = {})", sample.size()),
        })
    };
    Map {
        title: panel.titled(arm),
        rows: rows(view, map, square),
    }
}

fn rows(
    view: &View,
    map: &Heatmap,
    square: impl Fn(&String, &String) -> Option<Square>,
) -> Vec<Vec<Option<Square>>> {
    let xs = view.values(map.x);
    let row = |y: &String| xs.iter().map(|x| square(x, y)).collect();
    view.values(map.y).iter().map(row).collect()
}

/// Returns the logarithm of the ratio, for the colour and the contour. Twice and half as long are
/// equally far from zero.
pub(super) fn ratio_logarithm(excess: &Excess) -> f64 {
    match excess.certainty {
        Certainty::Unknown => f64::NAN,
        _ => (1.0 + excess.value).max(1e-3).ln(),
    }
}

/// Formats a gain: `+3.1`; `(−0.4)` if the interval includes zero; `>+320` if one arm timed out.
fn gain_text(excess: &Excess) -> String {
    let number = signed_percent(excess.value);
    let number = number.trim_end_matches(" %");
    match excess.certainty {
        Certainty::Unknown => "–".to_owned(),
        Certainty::AtLeast => format!(">{number}"),
        Certainty::AtMost => format!("<{number}"),
        Certainty::Exact if excess.is_significant() => number.to_owned(),
        Certainty::Exact => format!("({number})"),
    }
}

fn gain_words(excess: &Excess) -> String {
    let value = signed_percent(excess.value);
    match (excess.certainty, excess.interval) {
        (Certainty::Unknown, _) => "unknown: both timed out".to_owned(),
        (Certainty::AtLeast, _) => format!("{value} or more"),
        (Certainty::AtMost, _) => format!("{value} or less"),
        (_, Some((low, high))) => {
            format!(
                "{value} [{} to {}]",
                signed_percent(low),
                signed_percent(high)
            )
        }
        _ => value,
    }
}

fn picture(map: &Heatmap, drawn: &Map, palette: &Palette, xs: &[String], ys: &[String]) -> String {
    let names = |axis_name, values: &[String]| -> Vec<String> {
        values
            .iter()
            .map(|value| axis::tick(axis_name, value))
            .collect()
    };
    let longest = drawn
        .rows
        .iter()
        .flatten()
        .flatten()
        .map(|s| s.text.chars().count())
        .max();
    let room = longest.unwrap_or(4) as f64 * 7.0 + 8.0;
    // Two maps side by side, unless they have many columns.
    let column = (400.0 / xs.len() as f64).clamp(46.0, 80.0).max(room);
    let size = (
        70.0 + column * xs.len() as f64,
        92.0 + 34.0 * ys.len() as f64,
    );
    let x = Axis::bands(&names(map.x, xs), axis::title(map.x, xs));
    let y = Axis::bands(&names(map.y, ys), axis::title(map.y, ys));
    let mut frame = Frame::new(size, &drawn.title, x, y);
    let (width, height) = (frame.band(), frame.y(0.0) - frame.y(1.0));
    for (j, row) in drawn.rows.iter().enumerate() {
        for (i, square) in row.iter().enumerate() {
            let centre = (frame.x(i as f64), frame.y(j as f64));
            let corner = (centre.0 - width / 2.0 + 0.5, centre.1 - height / 2.0 + 0.5);
            let size = (width - 1.0, height - 1.0);
            let Some(square) = square else {
                frame
                    .svg
                    .rect(corner, size, "missing", None, "not measured");
                continue;
            };
            let color = palette.color(square.value);
            let text_class = color.as_deref().map_or("value", plot::on);
            let class = if color.is_some() { "square" } else { "missing" };
            frame
                .svg
                .rect(corner, size, class, color.as_deref(), &square.hint);
            let at = (centre.0, centre.1 + 4.0);
            frame.svg.text(
                at,
                Anchor::Middle,
                &format!("value {text_class}"),
                &square.text,
            );
        }
    }
    if palette.diverging {
        draw_zero_line(&mut frame, drawn);
    }
    frame.svg.finish()
}

fn draw_zero_line(frame: &mut Frame, drawn: &Map) {
    let values: Vec<Vec<f64>> = drawn
        .rows
        .iter()
        .map(|row| {
            row.iter()
                .map(|square| square.as_ref().map_or(f64::NAN, |s| s.value))
                .collect()
        })
        .collect();
    let indices = |n: usize| (0..n).map(|i| i as f64).collect::<Vec<f64>>();
    let (xs, ys) = (
        indices(values.first().map_or(0, Vec::len)),
        indices(values.len()),
    );
    let segments = plot::zero_line(&xs, &ys, &values);
    frame.lines(&segments, "zero-halo");
    frame.lines(&segments, "zero");
}

fn table(map: &Heatmap, drawn: &Map, xs: &[String], ys: &[String]) -> Table {
    let corner = format!("{} \\ {}", axis::name(map.y), axis::name(map.x));
    let heads = xs.iter().map(|x| axis::value(map.x, x));
    let row = |(y, row): (&String, &Vec<Option<Square>>)| {
        let squares = row
            .iter()
            .map(|square| square.as_ref().map_or(String::new(), |s| s.text.clone()));
        std::iter::once(axis::value(map.y, y))
            .chain(squares)
            .collect()
    };
    Table {
        caption: drawn.title.clone(),
        columns: std::iter::once(corner).chain(heads).collect(),
        rows: ys.iter().zip(&drawn.rows).map(row).collect(),
        names: 1,
        folded: true,
    }
}
