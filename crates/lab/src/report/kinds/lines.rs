//! Medians over an axis, with confidence bands.

use super::{Panel, View, size};
use crate::experiment::Cell;
use crate::report::axis;
use crate::report::content::{Block, Chart, Key, Mark, Section, Table};
use crate::report::figure::Lines;
use crate::report::metric;
use crate::report::plot::{self, Axis, Frame, Marker, Scale};
use crate::report::sample::{Sample, Value};

/// One line of a plot.
struct Line<'a> {
    arm: &'a str,
    name: String,
    class: String,
    points: Vec<Point>,
}

struct Point {
    x: f64,
    sample: Sample,
    paper: Option<f64>,
}

pub(super) fn draw(view: &View, lines: &Lines, section: &mut Section) {
    let xs = view.values(lines.x);
    // Texts without a number stand side by side.
    let numbers = axis::numbers(lines.x, &xs).map(|(numbers, _)| numbers);
    let positions = numbers
        .clone()
        .unwrap_or_else(|| (0..xs.len()).map(|i| i as f64).collect());
    let shown: Vec<_> = std::iter::once(lines.x).chain(lines.by).collect();
    let panels = view.panels(&shown, &lines.panel, section);
    let drawn: Vec<(&Panel, Vec<Line>)> = panels
        .iter()
        .map(|panel| (panel, lines_of(view, lines, panel, &xs, &positions)))
        .filter(|(_, lines)| !lines.is_empty())
        .collect();
    if drawn.is_empty() {
        return;
    }
    let scale = match numbers {
        None => Scale::Bands(xs.len()),
        Some(_) if lines.log_x => Scale::log(&positions),
        Some(_) => Scale::tight(&positions),
    };
    let x_axis = x_axis(lines, scale, &xs, &positions);
    let mut chart = Chart {
        legend: legend(view, &drawn),
        panels: vec![],
    };
    for (panel, of_panel) in &drawn {
        // Logarithmic plots share their scale for comparison; others differ too much.
        let scope: Vec<&Line> = match lines.log_y {
            true => drawn.iter().flat_map(|(_, lines)| lines).collect(),
            false => of_panel.iter().collect(),
        };
        let y = y_axis(view, lines, &scope);
        let frame = Frame::new(size(drawn.len()), &panel.title, x_axis.clone(), y);
        chart.panels.push(picture(view, frame, of_panel));
    }
    section.blocks.push(Block::Chart(chart));
    for (panel, of_panel) in &drawn {
        section
            .blocks
            .push(Block::Table(table(view, lines, panel, of_panel, &xs)));
    }
}

fn lines_of<'a>(
    view: &View<'a>,
    lines: &Lines,
    panel: &Panel,
    xs: &[String],
    positions: &[f64],
) -> Vec<Line<'a>> {
    let by: Vec<Option<String>> = match lines.by {
        Some(by) => view.values(by).into_iter().map(Some).collect(),
        None => vec![None],
    };
    let mut all = vec![];
    for arm in &view.arms {
        for (i, value) in by.iter().enumerate() {
            let cell = |x: &String| -> Option<&Cell> {
                let mut wanted = vec![(lines.x, x.as_str())];
                wanted.extend(lines.by.zip(value.as_deref()));
                panel.cell(&wanted)
            };
            let point = |(x, position): (&String, &f64)| {
                let cell = cell(x)?;
                let sample = view.sample(cell, arm);
                (!sample.is_empty()).then(|| Point {
                    x: *position,
                    sample,
                    paper: view.paper(cell, Some(arm)).map(|paper| paper.value),
                })
            };
            let points: Vec<Point> = xs.iter().zip(positions).filter_map(point).collect();
            if points.is_empty() {
                continue;
            }
            let by_name = lines
                .by
                .zip(value.as_ref())
                .map(|(by, value)| axis::value(by, value));
            let single = view.arms.len() == 1;
            let (name, class) = match by_name {
                None => (
                    (*arm).to_owned(),
                    plot::series_class(view.data.arm_index(arm)),
                ),
                Some(by_name) if single => (by_name, plot::series_class(i)),
                Some(by_name) => {
                    let class = format!("s{} d{}", view.data.arm_index(arm) % 8, i % 4);
                    (format!("{arm}, {by_name}"), class)
                }
            };
            all.push(Line {
                arm,
                name,
                class,
                points,
            });
        }
    }
    all
}

fn x_axis(lines: &Lines, scale: Scale, xs: &[String], positions: &[f64]) -> Axis {
    let title = axis::title(lines.x, xs);
    // A few values are marked themselves, many by round numbers.
    if xs.len() <= 14 {
        let ticks = positions
            .iter()
            .zip(xs)
            .map(|(position, text)| (*position, axis::tick(lines.x, text)));
        return Axis {
            ticks: ticks.collect(),
            title,
            scale,
        };
    }
    Axis::new(scale, title, metric::trimmed)
}

fn y_axis(view: &View, lines: &Lines, drawn: &[&Line]) -> Axis {
    let points = || drawn.iter().flat_map(|line| &line.points);
    let limits = points().flat_map(|point| {
        let interval = point.sample.interval();
        let ends = interval.map(|interval| [interval.low, interval.high]);
        ends.into_iter()
            .flatten()
            .chain(point.sample.median())
            .map(Value::at_least)
    });
    let values: Vec<f64> = limits
        .chain(points().filter_map(|point| point.paper))
        .filter(|value| value.is_finite())
        .collect();
    let scale = if lines.log_y {
        Scale::log(&values)
    } else {
        Scale::linear(&values)
    };
    Axis::new(scale, view.metric.label.clone(), |tick| {
        view.metric.unit.tick(tick)
    })
}

fn legend(view: &View, drawn: &[(&Panel, Vec<Line>)]) -> Vec<Key> {
    let lines = || drawn.iter().flat_map(|(_, lines)| lines);
    let mut keys: Vec<Key> = vec![];
    for line in lines() {
        if !keys.iter().any(|key| key.text == line.name) {
            keys.push(Key {
                mark: Mark::Line(line.class.clone()),
                text: line.name.clone(),
            });
        }
    }
    let points = || lines().flat_map(|line| &line.points);
    if points().any(|point| point.paper.is_some()) {
        keys.push(Key {
            mark: Mark::Paper,
            text: "paper".to_owned(),
        });
    }
    if points().any(|point| point.sample.median().and_then(Value::exact).is_none()) {
        keys.push(Key {
            mark: Mark::Up,
            text: "timed out: more than shown".to_owned(),
        });
    }
    keys.push(Key {
        mark: Mark::None,
        text: format!(
            "{}: medians [{}]",
            view.metric.label,
            super::confidence(points().map(|point| point.sample.clone()))
        ),
    });
    keys
}

fn picture(view: &View, mut frame: Frame, lines: &[Line]) -> String {
    for line in lines {
        let band: Vec<(f64, f64, f64)> = line
            .points
            .iter()
            .filter_map(|point| {
                let interval = point.sample.interval()?;
                let (low, high) = (interval.low.at_least(), interval.high.at_least());
                (low.is_finite() && high.is_finite()).then_some((point.x, low, high))
            })
            .collect();
        if band.len() > 1 {
            frame.area(&band, &format!("band {}", line.class));
        }
    }
    for line in lines {
        let paper: Vec<(f64, f64)> = line
            .points
            .iter()
            .filter_map(|point| Some((point.x, point.paper?)))
            .collect();
        frame.line(&paper, &format!("paper-line {}", line.class));
        for at in paper {
            let hint = format!(
                "{}, paper: {}",
                line.name,
                view.metric.value(Value::Exact(at.1))
            );
            frame.marker(
                at,
                Marker::Diamond,
                &format!("hollow {}", line.class),
                &hint,
            );
        }
    }
    for line in lines {
        let known = |point: &Point| {
            let median = point.sample.median()?;
            median.at_least().is_finite().then_some((point.x, median))
        };
        let points: Vec<(f64, Value)> = line.points.iter().filter_map(known).collect();
        let path: Vec<(f64, f64)> = points
            .iter()
            .map(|(x, value)| (*x, value.at_least()))
            .collect();
        frame.line(&path, &format!("line {}", line.class));
        for (point, (x, median)) in line
            .points
            .iter()
            .filter(|point| known(point).is_some())
            .zip(&points)
        {
            let shape = if median.exact().is_some() {
                Marker::Dot
            } else {
                Marker::Up
            };
            let text = view.metric.median(*median, point.sample.interval());
            let hint = format!("{}: {text} (n = {})", line.name, point.sample.size());
            frame.marker(
                (*x, median.at_least()),
                shape,
                &format!("dot {}", line.class),
                &hint,
            );
        }
    }
    frame.svg.finish()
}

fn table(view: &View, lines: &Lines, panel: &Panel, drawn: &[Line], xs: &[String]) -> Table {
    let mut columns = vec![axis::name(lines.x).to_owned()];
    for line in drawn {
        columns.push(line.name.clone());
        if view.is_in_paper(line.arm) {
            columns.push("paper".to_owned());
        }
    }
    let numbers = axis::numbers(lines.x, xs).map(|(numbers, _)| numbers);
    let row = |(i, x): (usize, &String)| {
        let position = numbers.as_ref().map_or(i as f64, |numbers| numbers[i]);
        let mut row = vec![axis::value(lines.x, x)];
        for line in drawn {
            let point = line.points.iter().find(|point| point.x == position);
            let median =
                point.and_then(|point| Some((point.sample.median()?, point.sample.interval())));
            row.push(median.map_or(String::new(), |(median, interval)| {
                view.metric.median(median, interval)
            }));
            if view.is_in_paper(line.arm) {
                let paper = point.and_then(|point| point.paper);
                row.push(paper.map_or(String::new(), |value| {
                    view.metric.value(Value::Exact(value))
                }));
            }
        }
        row
    };
    Table {
        caption: panel.title.clone(),
        columns,
        rows: xs.iter().enumerate().map(row).collect(),
        names: 1,
        folded: true,
    }
}
