//! Medians of all cells in numbers, beside the paper's.

use super::View;
use crate::experiment::{Axis, Cell};
use crate::report::axis;
use crate::report::content::{Block, Section, Table};
use crate::report::figure::{Numbers, Share};
use crate::report::goal::{Goal, Of};
use crate::report::metric::{self, Metric};
use crate::report::sample::{Sample, Value};

pub(super) fn draw(view: &View, numbers: &Numbers, section: &mut Section) {
    let axes = view.data.varied(&view.cells);
    let metrics = metrics(view, numbers);
    let table = if metrics.len() > 1 {
        by_metric(view, numbers, &metrics, &axes)
    } else {
        by_arm(view, numbers, &metrics, &axes)
    };
    if !table.rows.is_empty() {
        section.blocks.push(Block::Table(table));
    }
    goals(view, &metrics, section);
}

/// Returns the requested metrics; `NAME.*` stands for the measured ones.
fn metrics(view: &View, numbers: &Numbers) -> Vec<Metric> {
    let found = |name: &str| -> Vec<String> {
        let Some(prefix) = name.strip_suffix('*') else {
            return vec![name.to_owned()];
        };
        let runs = view
            .data
            .runs()
            .iter()
            .filter(|run| view.cells.contains(&run.cell));
        let mut names: Vec<String> = runs
            .flat_map(|run| run.metrics.keys())
            .filter(|key| key.starts_with(prefix))
            .cloned()
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let names = numbers.metrics(view.common).into_iter().flat_map(found);
    names.map(|name| Metric::named(&name)).collect()
}

fn heads(axes: &[Axis]) -> Vec<String> {
    axes.iter()
        .map(|axis| axis::name(*axis).to_owned())
        .collect()
}

fn names(cell: &Cell, axes: &[Axis]) -> Vec<String> {
    let value = |axis: &Axis| axis::value(*axis, cell.get(*axis).unwrap_or_default());
    axes.iter().map(value).collect()
}

fn median(metric: &Metric, sample: &Sample) -> String {
    let median = sample.median();
    median.map_or(String::new(), |median| {
        metric.median(median, sample.interval())
    })
}

/// Makes a table with a row for each cell and a column for each arm.
fn by_arm(view: &View, numbers: &Numbers, metrics: &[Metric], axes: &[Axis]) -> Table {
    let metric = metrics.first().unwrap_or(&view.metric);
    let mut columns = heads(axes);
    for arm in &view.arms {
        columns.push((*arm).to_owned());
        if view.is_in_paper(arm) {
            columns.push(format!("{arm}, mean"));
            columns.push(format!("{arm}, paper"));
        }
        if let Some(share) = &numbers.share {
            columns.push(share_head(share));
        }
    }
    columns.push("n".to_owned());
    let row = |cell: &Cell| {
        let mut row = names(cell, axes);
        let mut counts = vec![];
        for arm in &view.arms {
            let sample = view.data.sample(cell, arm, metric);
            counts.push(sample.size());
            row.push(median(metric, &sample));
            let paper = view.paper(cell, Some(arm));
            if view.is_in_paper(arm) {
                let mean = sample.mean().filter(|_| paper.is_some());
                row.push(mean.map_or(String::new(), |mean| metric.value(mean)));
                row.push(paper.map_or(String::new(), |paper| metric.unit.text(paper.value)));
            }
            if let Some(share) = &numbers.share {
                row.push(share_text(view, cell, arm, share));
            }
        }
        counts.retain(|n| n != "0");
        row.push(count(&counts));
        (!counts.is_empty()).then_some(row)
    };
    Table {
        caption: format!(
            "{}: median [{}]{}",
            metric.label,
            confidence(view, metrics),
            if view.common.paper_values.is_empty() {
                ""
            } else {
                "; the paper has means, ours stand beside them"
            }
        ),
        columns,
        rows: view.cells.iter().filter_map(row).collect(),
        names: axes.len(),
        folded: false,
    }
    .without_empty_columns()
}

/// Makes a table with a row for each cell and arm, and a column for each metric.
fn by_metric(view: &View, numbers: &Numbers, metrics: &[Metric], axes: &[Axis]) -> Table {
    let mut columns = heads(axes);
    columns.push("arm".to_owned());
    columns.extend(metrics.iter().map(|metric| metric.label.clone()));
    columns.extend(numbers.share.as_ref().map(share_head));
    columns.push("n".to_owned());
    let row = |cell: &Cell, arm: &str| {
        let mut row = names(cell, axes);
        row.push(arm.to_owned());
        let samples: Vec<Sample> = metrics
            .iter()
            .map(|metric| view.data.sample(cell, arm, metric))
            .collect();
        row.extend(
            metrics
                .iter()
                .zip(&samples)
                .map(|(metric, sample)| median(metric, sample)),
        );
        row.extend(
            numbers
                .share
                .as_ref()
                .map(|share| share_text(view, cell, arm, share)),
        );
        let most = samples.iter().max_by_key(|sample| sample.len())?;
        row.push(most.size());
        (!most.is_empty()).then_some(row)
    };
    let rows = view
        .cells
        .iter()
        .flat_map(|cell| view.arms.iter().filter_map(move |arm| row(cell, arm)));
    Table {
        caption: format!("medians [{}]", confidence(view, metrics)),
        columns,
        rows: rows.collect(),
        names: axes.len() + 1,
        folded: false,
    }
    .without_empty_columns()
}

fn share_head(share: &Share) -> String {
    format!("{} {}", share.label, share.value)
}

fn share_text(view: &View, cell: &Cell, arm: &str, share: &Share) -> String {
    match view.data.share(cell, arm, &share.label, &share.value) {
        (_, 0) => String::new(),
        (hits, all) => metric::percent(hits as f64 / all as f64),
    }
}

/// Describes the intervals of all medians, and the meaning of `3 × 10`.
fn confidence(view: &View, metrics: &[Metric]) -> String {
    let samples = metrics.iter().flat_map(|metric| view.samples(metric));
    super::confidence(samples)
}

/// Formats a count as `30`, or as `5, 30` if arms differ.
fn count(counts: &[String]) -> String {
    let mut different: Vec<&str> = vec![];
    for count in counts {
        if !different.contains(&count.as_str()) {
            different.push(count);
        }
    }
    different.join(", ")
}

/// Adds the goals of a metric, which apply to every sample.
fn goals(view: &View, metrics: &[Metric], section: &mut Section) {
    for (name, bound) in &view.common.goal {
        let (base, of) = Of::split(name);
        let Some(metric) = metrics.iter().find(|metric| metric.name == base) else {
            continue;
        };
        let values: Vec<Value> = view
            .samples(metric)
            .filter_map(|sample| of.value(&sample))
            .collect();
        let what = format!("{}, {}", metric.label, of.name());
        let worst = bound.worst(&values);
        section.goals.push(Goal::of(what, bound, worst));
    }
}
