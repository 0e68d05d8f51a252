//! Medians of arms as a share of other arms' sum: two paths together against each alone.

use super::View;
use crate::experiment::Cell;
use crate::report::axis;
use crate::report::content::{Block, Section, Table};
use crate::report::figure::Ratio;
use crate::report::goal::Goal;
use crate::report::metric::percent;
use crate::report::sample::{Sample, Value};

pub(super) fn draw(view: &View, ratio: &Ratio, section: &mut Section) {
    let axes = view.data.varied(&view.cells);
    let arms: Vec<&str> = match view.common.arms.is_empty() {
        // The arms of the sum have no ratio of their own.
        true => {
            let others = view
                .arms
                .iter()
                .filter(|arm| !ratio.of.iter().any(|of| of == *arm));
            others.copied().collect()
        }
        false => view.arms.clone(),
    };
    let mut columns: Vec<String> = axes
        .iter()
        .map(|axis| axis::name(*axis).to_owned())
        .collect();
    columns.push(ratio.of.join(" + "));
    for arm in &arms {
        columns.push((*arm).to_owned());
        columns.push(format!("{arm}, of that"));
    }
    columns.push("n".to_owned());
    let (mut rows, mut ratios) = (Vec::new(), Vec::new());
    for cell in &view.cells {
        let Some(base) = sum(view, ratio, cell) else {
            continue;
        };
        let names = axes
            .iter()
            .map(|axis| axis::value(*axis, cell.get(*axis).unwrap_or_default()));
        let mut row: Vec<String> = names.collect();
        row.push(view.metric.value(Value::Exact(base)));
        let mut sizes = Vec::new();
        for arm in &arms {
            let sample = view.sample(cell, arm);
            let median = sample.median();
            row.push(median.map_or(String::new(), |median| {
                view.metric.median(median, sample.interval())
            }));
            let share = median.map(|median| median.map(|value| value / base));
            row.push(share.and_then(Value::exact).map_or(String::new(), percent));
            ratios.extend(share);
            sizes.extend((!sample.is_empty()).then(|| sample.size()));
        }
        sizes.dedup();
        row.push(sizes.join(", "));
        rows.push(row);
    }
    if rows.is_empty() {
        return;
    }
    let samples = view.samples(&view.metric);
    let caption = format!(
        "{}: median [{}]",
        view.metric.label,
        super::confidence(samples)
    );
    section.blocks.push(Block::Table(Table {
        caption,
        columns,
        rows,
        names: axes.len(),
        folded: false,
    }));
    // With several goals, none is for one cell alone.
    for (name, bound) in &view.common.goal {
        let all = ratios.iter().copied();
        let (word, result) = match name.as_str() {
            "ratio_most" => ("most", all.max_by(Value::rank_cmp)),
            _ => ("least", all.min_by(Value::rank_cmp)),
        };
        let what = format!("{}, of {}, {word}", view.metric.label, ratio.of.join(" + "));
        section.goals.push(Goal::of(what, bound, result));
    }
}

/// Returns the sum of the medians; `None` unless all are known.
fn sum(view: &View, ratio: &Ratio, cell: &Cell) -> Option<f64> {
    let median = |arm: &String| -> Option<f64> {
        let sample: Sample = view.sample(cell, arm);
        sample.median().and_then(Value::exact)
    };
    let sum: f64 = ratio.of.iter().map(median).sum::<Option<f64>>()?;
    (sum > 0.0).then_some(sum)
}
