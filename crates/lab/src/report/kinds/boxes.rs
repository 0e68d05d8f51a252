//! Boxes and whiskers (Tukey): quartiles, median, and the farthest values within 1.5 times the
//! interquartile range.

use super::{Panel, View, size};
use crate::report::axis;
use crate::report::content::{Block, Chart, Key, Mark, Section, Table};
use crate::report::figure::Boxes;
use crate::report::metric::{Metric, Unit};
use crate::report::plot::{self, Axis, Frame, Marker, Scale};
use crate::report::sample::{Sample, Value};

/// One box.
struct Drawn<'a> {
    group: usize,
    arm: &'a str,
    sample: Sample,
    paper: Option<f64>,
}

pub(super) fn draw(view: &View, boxes: &Boxes, section: &mut Section) {
    let view = &View {
        metric: metric(view, boxes),
        cells: view.cells.clone(),
        arms: view.arms.clone(),
        ..*view
    };
    let shown: Vec<_> = boxes.x.into_iter().collect();
    let panels = view.panels(&shown, &boxes.panel, section);
    let groups = match boxes.x {
        Some(axis) => view.values(axis),
        None => boxes.metrics.clone(),
    };
    let drawn: Vec<(&Panel, Vec<Drawn>)> = panels
        .iter()
        .map(|panel| (panel, boxes_of(view, boxes, panel, &groups)))
        .filter(|(_, drawn)| !drawn.is_empty())
        .collect();
    if drawn.is_empty() {
        return;
    }
    let mut chart = Chart {
        legend: legend(view, boxes, &drawn),
        panels: vec![],
    };
    for (panel, of_panel) in &drawn {
        // Logarithmic plots share their scale for comparison; others differ too much.
        let scope: Vec<&Drawn> = match boxes.log_y {
            true => drawn.iter().flat_map(|(_, drawn)| drawn).collect(),
            false => of_panel.iter().collect(),
        };
        let y = (y_axis(view, boxes, &scope), drawn.len());
        let picture = picture(view, boxes, panel, of_panel, &groups, y);
        chart.panels.push(picture);
    }
    section.blocks.push(Block::Chart(chart));
    for (panel, of_panel) in &drawn {
        section
            .blocks
            .push(Block::Table(table(view, boxes, panel, of_panel, &groups)));
    }
}

fn boxes_of<'a>(
    view: &View<'a>,
    boxes: &Boxes,
    panel: &Panel,
    groups: &[String],
) -> Vec<Drawn<'a>> {
    let one = |group: usize, arm: &&'a str| {
        let cell = match boxes.x {
            Some(axis) => panel.cell(&[(axis, &groups[group])])?,
            None => panel.cells.first()?,
        };
        let sample = match boxes.metrics.get(group) {
            Some(metric) => view.data.sample(cell, arm, &Metric::named(metric)),
            None => view.sample(cell, arm),
        };
        let paper = view.paper(cell, Some(arm)).map(|paper| paper.value);
        // Without groups every arm has a band of its own.
        let group = if is_grouped(boxes) {
            group
        } else {
            view.arms.iter().position(|a| a == arm)?
        };
        (!sample.is_empty()).then_some(Drawn {
            group,
            arm,
            sample,
            paper,
        })
    };
    let count = groups.len().max(1);
    (0..count)
        .flat_map(|group| view.arms.iter().filter_map(move |arm| one(group, arm)))
        .collect()
}

fn legend(view: &View, boxes: &Boxes, drawn: &[(&Panel, Vec<Drawn>)]) -> Vec<Key> {
    let all = || drawn.iter().flat_map(|(_, drawn)| drawn);
    let mut keys = vec![];
    if is_grouped(boxes) {
        keys.extend(view.arms.iter().map(|arm| Key {
            mark: Mark::Line(plot::series_class(view.data.arm_index(arm))),
            text: (*arm).to_owned(),
        }));
    }
    if all().any(|drawn| drawn.paper.is_some()) {
        keys.push(Key {
            mark: Mark::Paper,
            text: "paper".to_owned(),
        });
    }
    if all().any(|drawn| drawn.sample.exact().len() < drawn.sample.len()) {
        keys.push(Key {
            mark: Mark::Up,
            text: "timed out: more than shown".to_owned(),
        });
    }
    keys.push(Key {
        mark: Mark::None,
        text: "Box: quartiles and median; whiskers: farthest values within 1.5 times the box; dots: values beyond".to_owned(),
    });
    keys
}

fn y_axis(view: &View, boxes: &Boxes, drawn: &[&Drawn]) -> Axis {
    let of_box = |drawn: &&Drawn| {
        let values = drawn.sample.values().iter().map(|value| value.at_least());
        values.chain(drawn.paper).collect::<Vec<f64>>()
    };
    let mut values: Vec<f64> = drawn.iter().flat_map(of_box).collect();
    values.retain(|value| value.is_finite());
    let scale = match boxes.log_y {
        true => Scale::log(&values),
        false => Scale::linear(&values),
    };
    Axis::new(scale, view.metric.label.clone(), |tick| {
        view.metric.unit.tick(tick)
    })
}

/// Whether arms stand side by side in groups.
fn is_grouped(boxes: &Boxes) -> bool {
    boxes.x.is_some() || !boxes.metrics.is_empty()
}

/// Returns the metric, or the common part of several.
fn metric(view: &View, boxes: &Boxes) -> Metric {
    let Some(first) = boxes.metrics.first() else {
        return view.metric.clone();
    };
    let first = Metric::named(first);
    match first.unit {
        Unit::Millis | Unit::Seconds => Metric {
            label: "time".to_owned(),
            ..first
        },
        _ => first,
    }
}

/// Returns the names of the groups, and the name of their axis.
fn group_names(boxes: &Boxes, groups: &[String]) -> Option<(&'static str, Vec<String>)> {
    match boxes.x {
        Some(axis) => {
            let names = groups.iter().map(|group| axis::value(axis, group));
            Some((axis::name(axis), names.collect()))
        }
        None if boxes.metrics.is_empty() => None,
        None => {
            let names = groups.iter().map(|group| Metric::named(group).label);
            Some(("metric", names.collect()))
        }
    }
}

fn picture(
    view: &View,
    boxes: &Boxes,
    panel: &Panel,
    drawn: &[Drawn],
    groups: &[String],
    (y, panels): (Axis, usize),
) -> String {
    let x = match boxes.x {
        Some(axis) => {
            let names: Vec<String> = groups.iter().map(|group| axis::tick(axis, group)).collect();
            Axis::bands(&names, axis::title(axis, groups))
        }
        None => {
            let arms = || view.arms.iter().map(|arm| (*arm).to_owned()).collect();
            let names: Vec<String> =
                group_names(boxes, groups).map_or_else(arms, |(_, names)| names);
            Axis::bands(&names, "")
        }
    };
    let mut frame = Frame::new(size(panels), &panel.title, x, y);
    let side_by_side = if is_grouped(boxes) {
        view.arms.len()
    } else {
        1
    };
    for drawn in drawn {
        let slot = 0.8 / side_by_side as f64;
        let place = view
            .arms
            .iter()
            .position(|arm| *arm == drawn.arm)
            .unwrap_or(0)
            % side_by_side;
        let centre = drawn.group as f64 - 0.4 + slot * (place as f64 + 0.5);
        draw_box(view, &mut frame, drawn, centre, (slot * 0.36).min(0.16));
    }
    frame.svg.finish()
}

fn draw_box(view: &View, frame: &mut Frame, drawn: &Drawn, centre: f64, half: f64) {
    let class = plot::series_class(view.data.arm_index(drawn.arm));
    let exact = drawn.sample.exact();
    let [q1, q2, q3] =
        [0.25, 0.5, 0.75].map(|p| drawn.sample.quantile(p).map_or(f64::NAN, Value::at_least));
    let top = exact.last().copied().unwrap_or(q1);
    let hint = format!("{}: {}", drawn.arm, summary(view, &drawn.sample).join(", "));
    // A quartile of failed sessions has no place on the axis.
    let [q1, q2, q3] = [q1, q2, q3].map(|q| if q.is_finite() { q } else { top });
    if q1.is_finite() {
        let reach = 1.5 * (q3 - q1);
        let inside = || {
            exact
                .iter()
                .copied()
                .filter(|v| (q1 - reach..=q3 + reach).contains(v))
        };
        let (low, high) = (inside().fold(q1, f64::min), inside().fold(q3, f64::max));
        let line = format!("whisker {class}");
        frame.line(&[(centre, low), (centre, q1)], &line);
        frame.line(&[(centre, q3), (centre, high)], &line);
        for end in [low, high] {
            frame.line(
                &[(centre - half / 2.0, end), (centre + half / 2.0, end)],
                &line,
            );
        }
        let corner = (frame.x(centre - half), frame.y(q3));
        let size = (
            frame.x(centre + half) - corner.0,
            (frame.y(q1) - corner.1).max(1.0),
        );
        frame
            .svg
            .rect(corner, size, &format!("box {class}"), None, &hint);
        frame.line(
            &[(centre - half, q2), (centre + half, q2)],
            &format!("line {class}"),
        );
        for value in exact.iter().copied().filter(|v| *v < low || *v > high) {
            frame.marker(
                (centre, value),
                Marker::Dot,
                &format!("outlier {class}"),
                &view.metric.value(Value::Exact(value)),
            );
        }
    }
    for value in drawn
        .sample
        .values()
        .iter()
        .filter(|value| matches!(value, Value::Over(_)))
    {
        frame.marker(
            (centre, value.at_least()),
            Marker::Up,
            &format!("dot {class}"),
            &view.metric.value(*value),
        );
    }
    if let Some(paper) = drawn.paper {
        let hint = format!(
            "{}, paper: {}",
            drawn.arm,
            view.metric.value(Value::Exact(paper))
        );
        frame.marker(
            (centre, paper),
            Marker::Diamond,
            &format!("hollow {class}"),
            &hint,
        );
    }
}

/// Returns minimum, quartiles and maximum in words.
fn summary(view: &View, sample: &Sample) -> Vec<String> {
    let at = |p| {
        sample
            .quantile(p)
            .map_or(String::new(), |value| view.metric.value(value))
    };
    [0.0, 0.25, 0.5, 0.75, 1.0].map(at).to_vec()
}

fn table(view: &View, boxes: &Boxes, panel: &Panel, drawn: &[Drawn], groups: &[String]) -> Table {
    let has_paper = drawn.iter().any(|drawn| drawn.paper.is_some());
    let named = group_names(boxes, groups);
    let mut columns: Vec<String> = named.iter().map(|(of, _)| (*of).to_owned()).collect();
    let names = columns.len() + 1;
    columns.extend(["arm", "n", "min", "q1", "median", "q3", "max"].map(str::to_owned));
    if has_paper {
        columns.push("paper".to_owned());
    }
    let row = |drawn: &Drawn| {
        let mut row: Vec<String> = named
            .iter()
            .map(|(_, names)| names[drawn.group].clone())
            .collect();
        row.extend([drawn.arm.to_owned(), drawn.sample.len().to_string()]);
        row.extend(summary(view, &drawn.sample));
        if has_paper {
            row.push(
                drawn
                    .paper
                    .map_or(String::new(), |value| view.metric.unit.text(value)),
            );
        }
        row
    };
    Table {
        caption: panel.title.clone(),
        columns,
        rows: drawn.iter().map(row).collect(),
        names,
        folded: true,
    }
}
