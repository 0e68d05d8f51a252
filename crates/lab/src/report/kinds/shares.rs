//! Each crowd client's goodput as a share of its goodput alone.

use super::cdf::{distribution, steps};
use super::{Panel, View, size};
use crate::report::content::{Block, Chart, Key, Mark, Section, Table};
use crate::report::figure::{Axes, Shares};
use crate::report::goal::Goal;
use crate::report::metric::{Metric, percent};
use crate::report::plot::{self, Axis, Scale};
use crate::report::sample::{Sample, Value};

/// Metric of a client's goodput in records, with its name behind it.
const GOODPUT: &str = "goodput_mbps";

/// The clients of one kind.
struct Kind {
    name: String,
    alone: Sample,
    crowd: Sample,
    /// Goodput of each client of the crowd, divided by the median alone.
    shares: Sample,
}

pub(super) fn draw(view: &View, shares: &Shares, section: &mut Section) {
    let panels = view.panels(&[], &Axes::default(), section);
    let drawn: Vec<(&Panel, Vec<Kind>)> = panels
        .iter()
        .map(|panel| (panel, kinds(view, shares, panel)))
        .filter(|(_, kinds)| kinds.iter().any(|kind| !kind.shares.is_empty()))
        .collect();
    if drawn.is_empty() {
        section.note("Nothing to show: no client was measured both alone and in the crowd.");
        return;
    }
    let names = drawn[0].1.iter().map(|kind| &kind.name).enumerate();
    let mut chart = Chart {
        legend: names
            .map(|(i, name)| Key {
                mark: Mark::Line(plot::series_class(i)),
                text: name.clone(),
            })
            .collect(),
        panels: vec![],
    };
    for (panel, kinds) in &drawn {
        chart.panels.push(picture(panel, kinds, drawn.len()));
    }
    section.blocks.push(Block::Chart(chart));
    for (panel, kinds) in &drawn {
        section.blocks.push(Block::Table(table(panel, kinds)));
    }
    let all: Vec<Sample> = drawn.iter().map(|(_, kinds)| all(kinds)).collect();
    goals(view, &all, section);
}

/// Returns all kinds in the cells of a panel, of which there is one.
fn kinds(view: &View, shares: &Shares, panel: &Panel) -> Vec<Kind> {
    let kinds = view.data.spec.client_kinds().into_iter();
    kinds
        .map(|(name, ..)| {
            let metric = Metric::named(&format!("{GOODPUT}.{name}"));
            let alone = panel.cells.iter();
            let alone = alone.flat_map(|cell| view.data.sessions(cell, &shares.alone));
            let alone =
                alone.filter_map(|run| Some((run.repeat, Value::Exact(run.metric(&metric.name)?))));
            let alone: Sample = alone.collect();
            let crowd = panel.cells.iter();
            let crowd = crowd.flat_map(|cell| view.data.sessions(cell, &shares.crowd));
            let crowd: Sample = crowd
                .flat_map(|run| {
                    let own = run
                        .metrics
                        .iter()
                        .filter(|(key, _)| is_one_of(key, &metric.name));
                    own.map(|(_, mbps)| (run.repeat, Value::Exact(*mbps)))
                })
                .collect();
            let median = alone
                .median()
                .and_then(Value::exact)
                .filter(|mbps| *mbps > 0.0);
            let share = |mbps: f64| Some(Value::Exact(mbps / median?));
            Kind {
                shares: crowd.exact().into_iter().filter_map(share).collect(),
                name,
                alone,
                crowd,
            }
        })
        .collect()
}

/// Whether a metric belongs to a client of a kind: the kind's name, and a number.
fn is_one_of(metric: &str, kind: &str) -> bool {
    let number = metric
        .strip_prefix(kind)
        .and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Returns the shares of all clients.
fn all(kinds: &[Kind]) -> Sample {
    kinds
        .iter()
        .flat_map(|kind| kind.shares.values().to_vec())
        .collect()
}

fn picture(panel: &Panel, kinds: &[Kind], panels: usize) -> String {
    let values: Vec<f64> = kinds.iter().flat_map(|kind| kind.shares.exact()).collect();
    let x = Axis::new(Scale::tight(&values), "goodput, of that alone", percent);
    let lines = kinds.iter().enumerate();
    let lines: Vec<_> = lines
        .map(|(i, kind)| (plot::series_class(i), steps(&kind.shares)))
        .collect();
    distribution(size(panels), &panel.title, x, "share of clients", &lines)
}

fn table(panel: &Panel, kinds: &[Kind]) -> Table {
    let columns = [
        "clients",
        "alone",
        "alone, least",
        "crowd",
        "share",
        "p5",
        "least",
        "n",
    ];
    let metric = Metric::named(GOODPUT);
    let shares = |shares: &Sample| -> Vec<String> {
        let text = |p| {
            let value = shares.quantile(p).and_then(Value::exact);
            value.map_or(String::new(), percent)
        };
        vec![text(0.5), text(0.05), text(0.0), shares.len().to_string()]
    };
    let row = |kind: &Kind| {
        let median = kind.alone.median();
        let mut row = vec![kind.name.clone()];
        row.push(median.map_or(String::new(), |mbps| {
            metric.median(mbps, kind.alone.interval())
        }));
        let least = kind
            .alone
            .exact()
            .first()
            .copied()
            .zip(median.and_then(Value::exact));
        row.push(least.map_or(String::new(), |(least, median)| percent(least / median)));
        let crowd = kind.crowd.median();
        row.push(crowd.map_or(String::new(), |mbps| metric.value(mbps)));
        row.extend(shares(&kind.shares));
        row
    };
    let mut rows: Vec<Vec<String>> = kinds.iter().map(row).collect();
    let mut sum = vec![
        "all".to_owned(),
        String::new(),
        String::new(),
        String::new(),
    ];
    sum.extend(shares(&all(kinds)));
    rows.push(sum);
    let coverage = super::confidence(kinds.iter().map(|kind| kind.alone.clone()));
    Table {
        caption: panel.titled(&format!(
            "goodput: medians [{coverage}]; shares of the median alone: median, p5 and least of all clients"
        )),
        columns: columns.map(str::to_owned).into(),
        rows,
        names: 1,
        folded: false,
    }
}

/// Adds the goals, which apply to every cell.
fn goals(view: &View, cells: &[Sample], section: &mut Section) {
    for (name, bound) in &view.common.goal {
        let (what, p) = match name.as_str() {
            "share_median" => ("median", 0.5),
            "share_p5" => ("p5", 0.05),
            _ => ("least", 0.0),
        };
        let reached = cells.iter().filter_map(|cell| cell.quantile(p));
        let worst = reached.min_by(Value::rank_cmp);
        let what = format!("goodput of that alone, {what} of all clients");
        section.goals.push(Goal::of(what, bound, worst));
    }
}
