//! Distribution functions: the share of sessions up to each value.

use super::{Panel, View, size};
use crate::report::content::{Block, Chart, Key, Mark, Section, Table};
use crate::report::figure::Cdf;
use crate::report::plot::{self, Axis, Frame, Scale};
use crate::report::sample::{Sample, Value};

/// Quantiles of the table, per cent.
const QUANTILES: [u32; 5] = [10, 50, 90, 95, 99];

pub(super) fn draw(view: &View, cdf: &Cdf, section: &mut Section) {
    let panels = view.panels(&[], &cdf.panel, section);
    let samples = |panel: &Panel| -> Vec<(&str, Sample)> {
        let of = |arm: &&str| -> Sample {
            let all = panel.cells.iter().map(|cell| view.sample(cell, arm));
            all.flat_map(|sample| sample.values().to_vec()).collect()
        };
        let samples = view.arms.iter().map(|arm| (*arm, of(arm)));
        samples.filter(|(_, sample)| !sample.is_empty()).collect()
    };
    let drawn: Vec<_> = panels
        .iter()
        .map(|panel| (panel, samples(panel)))
        .filter(|(_, samples)| !samples.is_empty())
        .collect();
    if drawn.is_empty() {
        return;
    }
    let legend = view.arms.iter().map(|arm| Key {
        mark: Mark::Line(plot::series_class(view.data.arm_index(arm))),
        text: (*arm).to_owned(),
    });
    let mut chart = Chart {
        legend: legend.collect(),
        panels: vec![],
    };
    let ended = |sample: &Sample| sample.exact().len() == sample.len();
    if !drawn
        .iter()
        .flat_map(|(_, samples)| samples)
        .all(|(_, sample)| ended(sample))
    {
        chart.legend.push(Key {
            mark: Mark::None,
            text: "Sessions that did not end keep a line below 100 %".to_owned(),
        });
    }
    for (panel, samples) in &drawn {
        chart
            .panels
            .push(picture(view, cdf, panel, samples, drawn.len()));
    }
    section.blocks.push(Block::Chart(chart));
    for (panel, samples) in &drawn {
        section
            .blocks
            .push(Block::Table(table(view, panel, samples)));
    }
}

fn picture(
    view: &View,
    cdf: &Cdf,
    panel: &Panel,
    samples: &[(&str, Sample)],
    panels: usize,
) -> String {
    let values: Vec<f64> = samples
        .iter()
        .flat_map(|(_, sample)| sample.exact())
        .collect();
    let scale = if cdf.log_x {
        Scale::log(&values)
    } else {
        Scale::linear(&values)
    };
    let x = Axis::new(scale, view.metric.label.clone(), |tick| {
        view.metric.unit.tick(tick)
    });
    let lines: Vec<(String, Vec<(f64, f64)>)> = samples
        .iter()
        .map(|(arm, sample)| (plot::series_class(view.data.arm_index(arm)), steps(sample)))
        .collect();
    distribution(size(panels), &panel.title, x, "share of sessions", &lines)
}

/// Draws distribution functions.
pub(super) fn distribution(
    size: (f64, f64),
    title: &str,
    x: Axis,
    y: &str,
    lines: &[(String, Vec<(f64, f64)>)],
) -> String {
    let y = Axis::new(
        Scale::Linear {
            low: 0.0,
            high: 1.0,
        },
        y,
        |tick| format!("{:.0} %", tick * 100.0),
    );
    let mut frame = Frame::new(size, title, x, y);
    for (class, points) in lines {
        frame.line(points, &format!("line {class}"));
    }
    frame.svg.finish()
}

/// Returns the corners of a distribution function.
pub(super) fn steps(sample: &Sample) -> Vec<(f64, f64)> {
    let n = sample.len() as f64;
    let corners = sample.exact().into_iter().enumerate();
    corners
        .flat_map(|(i, value)| [(value, i as f64 / n), (value, (i + 1) as f64 / n)])
        .collect()
}

fn table(view: &View, panel: &Panel, samples: &[(&str, Sample)]) -> Table {
    let mut columns = vec!["arm".to_owned(), "n".to_owned()];
    columns.extend(QUANTILES.iter().map(|p| format!("p{p}")));
    let row = |(arm, sample): &(&str, Sample)| {
        let at = |p: &u32| sample.quantile(f64::from(*p) / 100.0);
        let text = |p| at(p).map_or(String::new(), |value: Value| view.metric.value(value));
        let mut row = vec![(*arm).to_owned(), sample.len().to_string()];
        row.extend(QUANTILES.iter().map(text));
        row
    };
    Table {
        caption: panel.title.clone(),
        columns,
        rows: samples.iter().map(row).collect(),
        names: 1,
        folded: true,
    }
}
