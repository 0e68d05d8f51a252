//! Values over time.

use std::collections::BTreeMap;

use super::{Panel, View, size};
use crate::experiment::{Point, Run};
use crate::report::content::{Block, Chart, Key, Mark, Section, Table};
use crate::report::figure::{Repeat, Series};
use crate::report::metric::{self, Metric};
use crate::report::plot::{self, Axis, Frame, Scale};
use crate::report::stats;

/// Largest number of points of a line: a page has no more pixels.
const MAX_POINTS: usize = 1200;

/// One line of a plot.
struct Line {
    name: String,
    class: String,
    points: Vec<Point>,
}

pub(super) fn draw(view: &View, series: &Series, section: &mut Section) {
    let metric = Metric::named(&series.series);
    let panels = view.panels(&[], &series.panel, section);
    let mut plots: Vec<(String, Vec<Line>)> = vec![];
    for panel in &panels {
        plots.extend(plots_of(view, series, panel));
    }
    plots.retain(|(_, lines)| !lines.is_empty());
    if plots.is_empty() {
        section.note(format!(
            "Nothing to show: no session has the series `{}`.",
            series.series
        ));
        return;
    }
    let mut chart = Chart::default();
    for line in plots.iter().flat_map(|(_, lines)| lines) {
        if !chart.legend.iter().any(|key| key.text == line.name) {
            chart.legend.push(Key {
                mark: Mark::Line(line.class.clone()),
                text: line.name.clone(),
            });
        }
    }
    let shown = match series.repeat {
        Repeat::One(repeat) => format!("Repeat {repeat}"),
        Repeat::Median => "Median over all repeats at each time".to_owned(),
    };
    chart.legend.push(Key {
        mark: Mark::None,
        text: shown,
    });
    for (title, lines) in &plots {
        chart
            .panels
            .push(picture(series, &metric, title, lines, plots.len()));
    }
    section.blocks.push(Block::Chart(chart));
    section.blocks.push(Block::Table(table(&metric, &plots)));
}

/// Makes one plot of all arms; with several flows, one of each arm.
fn plots_of(view: &View, series: &Series, panel: &Panel) -> Vec<(String, Vec<Line>)> {
    let of_arms: Vec<(&str, BTreeMap<String, Vec<Point>>)> = view
        .arms
        .iter()
        .filter_map(|arm| {
            let cell = panel.cells.first()?;
            let runs: Vec<&Run> = match series.session {
                Some(session) => view
                    .data
                    .all_sessions(cell, arm)
                    .filter(|run| run.session == session)
                    .collect(),
                None => view.data.sessions(cell, arm).collect(),
            };
            Some((*arm, flows(&runs, series)))
        })
        .collect();
    if of_arms.iter().all(|(_, flows)| flows.len() <= 1) {
        let line = |(arm, flows): (&str, BTreeMap<String, Vec<Point>>)| {
            let (_, points) = flows.into_iter().next()?;
            Some(Line {
                name: arm.to_owned(),
                class: plot::series_class(view.data.arm_index(arm)),
                points,
            })
        };
        return vec![(
            panel.title.clone(),
            of_arms.into_iter().filter_map(line).collect(),
        )];
    }
    // A flow of the same name has the same colour in every plot.
    let mut names: Vec<String> = of_arms
        .iter()
        .flat_map(|(_, flows)| flows.keys().cloned())
        .collect();
    names.sort();
    names.dedup();
    let line = |(flow, points): (String, Vec<Point>)| {
        let index = names.iter().position(|name| *name == flow).unwrap_or(0);
        Line {
            name: if flow.is_empty() {
                "all".to_owned()
            } else {
                flow
            },
            class: plot::series_class(index),
            points,
        }
    };
    let plot = |(arm, flows): (&str, BTreeMap<String, Vec<Point>>)| {
        (panel.titled(arm), flows.into_iter().map(line).collect())
    };
    of_arms.into_iter().map(plot).collect()
}

/// Returns the series by flow; one without a flow has an empty name.
fn flows(runs: &[&Run], series: &Series) -> BTreeMap<String, Vec<Point>> {
    let mut found: BTreeMap<String, Vec<&[Point]>> = BTreeMap::new();
    let first = runs.iter().map(|run| run.session).min();
    for run in runs.iter().filter(|run| Some(run.session) == first) {
        if matches!(series.repeat, Repeat::One(repeat) if run.repeat != repeat) {
            continue;
        }
        for (name, points) in &run.series {
            let rest = name.strip_prefix(series.series.as_str());
            let flow = match rest {
                Some("") => Some(""),
                Some(rest) => rest.strip_prefix('.'),
                None => None,
            };
            if let Some(flow) = flow.filter(|_| !points.is_empty()) {
                found.entry(flow.to_owned()).or_default().push(points);
            }
        }
    }
    found
        .into_iter()
        .map(|(flow, repeats)| (flow, combined(&repeats)))
        .collect()
}

/// Returns the median of several series at each time; each keeps its value until its next point.
fn combined(repeats: &[&[Point]]) -> Vec<Point> {
    if let [one] = repeats {
        return thinned(one);
    }
    let end = repeats
        .iter()
        .filter_map(|points| points.last())
        .map(|(time, _)| *time);
    let end = end.fold(0.0, f64::max);
    let at = |points: &[Point], time: f64| {
        let after = points.partition_point(|(t, _)| *t <= time);
        let ended = points.last().is_none_or(|(last, _)| time > *last);
        (!ended && after > 0).then(|| points[after - 1].1)
    };
    let steps = MAX_POINTS / 2;
    let median = |step: usize| {
        let time = end * step as f64 / steps as f64;
        let mut values: Vec<f64> = repeats
            .iter()
            .filter_map(|points| at(points, time))
            .collect();
        values.sort_by(f64::total_cmp);
        Some((time, stats::quantile(&values, 0.5)?))
    };
    (0..=steps).filter_map(median).collect()
}

/// Returns fewer points with the same outline: the minimum and maximum of each stretch.
fn thinned(points: &[Point]) -> Vec<Point> {
    if points.len() <= MAX_POINTS {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(MAX_POINTS / 2);
    points
        .chunks(stretch)
        .flat_map(|chunk| {
            let by_value = |a: &&Point, b: &&Point| a.1.total_cmp(&b.1);
            let mut ends: Vec<Point> =
                [chunk.iter().min_by(by_value), chunk.iter().max_by(by_value)]
                    .into_iter()
                    .flatten()
                    .copied()
                    .collect();
            ends.sort_by(|a, b| a.0.total_cmp(&b.0));
            ends
        })
        .collect()
}

fn picture(series: &Series, metric: &Metric, title: &str, lines: &[Line], plots: usize) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let values: Vec<f64> = points().map(|(_, value)| *value).collect();
    let mut times: Vec<f64> = points().map(|(time, _)| *time).collect();
    times.push(0.0);
    let scale = if series.log_y {
        Scale::log(&values)
    } else {
        Scale::linear(&values)
    };
    let y = Axis::new(scale, metric.label.clone(), |tick| metric.unit.tick(tick));
    let x = Axis::new(Scale::tight(&times), "time (s)", metric::trimmed);
    let mut frame = Frame::new(size(plots), title, x, y);
    for line in lines {
        frame.line(&line.points, &format!("line thin {}", line.class));
    }
    frame.svg.finish()
}

/// Makes a table of each line's median and maximum.
fn table(metric: &Metric, plots: &[(String, Vec<Line>)]) -> Table {
    let row = |title: &String, line: &Line| {
        let mut values: Vec<f64> = line.points.iter().map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        let at = |p| stats::quantile(&values, p).map_or(String::new(), |v| metric.unit.text(v));
        let end = line.points.last().map_or(String::new(), |(time, _)| {
            format!("{} s", metric::digits(*time))
        });
        vec![
            title.clone(),
            line.name.clone(),
            at(0.0),
            at(0.5),
            at(1.0),
            end,
        ]
    };
    Table {
        caption: format!("{} over time", metric.label),
        columns: ["", "line", "min", "median", "max", "lasts"]
            .map(str::to_owned)
            .to_vec(),
        rows: plots
            .iter()
            .flat_map(|(title, lines)| lines.iter().map(move |line| row(title, line)))
            .collect(),
        names: 2,
        folded: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_extremes() {
        let points: Vec<Point> = (0..100_000)
            .map(|i| (f64::from(i), f64::from(i % 997)))
            .collect();
        let thin = thinned(&points);
        assert!(thin.len() <= MAX_POINTS + 2 && thin.is_sorted_by(|a, b| a.0 <= b.0));
        let extreme = |points: &[Point]| points.iter().map(|(_, v)| *v).fold(0.0, f64::max);
        assert_eq!(extreme(&thin), extreme(&points));
    }

    #[test]
    fn the_median_holds_values_between_points() {
        let (a, b, c) = (
            [(0.0, 1.0), (10.0, 1.0)],
            [(0.0, 2.0), (10.0, 2.0)],
            [(0.0, 9.0), (10.0, 9.0)],
        );
        let median = combined(&[&a, &b, &c]);
        assert!(median.iter().all(|(_, value)| *value == 2.0) && median.len() > 100);
    }
}
