//! Values from session to session: learning, and following changes of the link.

mod adaptation;
mod per_hour;
mod phase;

use self::phase::{Phase, change_text};
use super::{Panel, View, size};
use crate::experiment::Run;
use crate::report::content::{Block, Chart, Key, Mark, Section, Table};
use crate::report::data;
use crate::report::figure::Sessions;
use crate::report::metric::{self, percent};
use crate::report::plot::{self, Axis, Frame, Marker, Scale};
use crate::report::sample::{self, Value};
use crate::report::stats;

/// One arm's value at a session: over all repeats, with its interval.
struct Step {
    session: u32,
    value: f64,
    interval: Option<(f64, f64)>,
    /// Confidence of the interval.
    coverage: f64,
    ended: bool,
}

pub(super) fn draw(view: &View, sessions: &Sessions, section: &mut Section) {
    let arms = arms(view, sessions);
    let panels = view.panels(&[], &sessions.panel, section);
    let mut chart = Chart {
        legend: vec![],
        panels: vec![],
    };
    let mut coverages = vec![];
    for panel in &panels {
        let lines: Vec<(&str, Vec<Step>)> = arms
            .iter()
            .map(|arm| (*arm, steps(view, sessions, panel, arm)))
            .filter(|(_, steps)| !steps.is_empty())
            .collect();
        if !lines.is_empty() {
            let steps = lines.iter().flat_map(|(_, steps)| steps);
            coverages.extend(steps.map(|step| step.coverage));
            let drawn = picture(view, sessions, panel, &lines, panels.len());
            chart.panels.push(drawn);
        }
    }
    if chart.panels.is_empty() {
        return;
    }
    let phases = phases_of(view, &arms);
    // A single session needs no plot, since the tables show it.
    if phases.last().is_some_and(|phase| phase.end > 1) {
        chart.legend = legend(view, sessions, &arms, coverages);
        section.blocks.push(Block::Chart(chart));
    }
    let medians = table(view, sessions, &panels, &phases, &arms);
    section.blocks.push(Block::Table(medians));
    if let (Some(share), Some(clock)) = (&sessions.share, sessions.clock) {
        per_hour::draw(view, share, clock, (&panels, &arms), section);
    }
    if sessions.adaptive.is_empty() || sessions.fixed.is_empty() {
        return;
    }
    let adaptations = adaptation::adaptations(view, sessions, &panels, &phases);
    let mut table = adaptation::table(view, &panels, &adaptations);
    table.folded = sessions.share.is_some();
    section.blocks.push(Block::Table(table));
    adaptation::goals(view, sessions, &adaptations, section);
}

/// Returns the arms of `arms`, or those that are compared, or all.
fn arms<'a>(view: &View<'a>, sessions: &Sessions) -> Vec<&'a str> {
    let compared = |arm: &&str| {
        let mut named = sessions.adaptive.iter().chain(&sessions.fixed);
        named.any(|name| name == arm)
    };
    let mut arms = view.arms.clone();
    if view.common.arms.is_empty() && !sessions.adaptive.is_empty() {
        arms.retain(compared);
    }
    arms
}

/// Returns the phases of the runs of these arms.
fn phases_of(view: &View, arms: &[&str]) -> Vec<Phase> {
    let runs = view
        .data
        .runs()
        .iter()
        .filter(|run| arms.contains(&run.arm.as_str()));
    let end = runs.map(|run| run.session + 1).max();
    phase::phases(&view.data.spec.workload.change, end.unwrap_or(0))
}

/// Makes a table of the median, or share, of each arm in each phase.
fn table(
    view: &View,
    sessions: &Sessions,
    panels: &[Panel],
    phases: &[Phase],
    arms: &[&str],
) -> Table {
    let text = |panel: &Panel, phase: &Phase, arm: &str| {
        let cell = panel.cells.first()?;
        let runs = || {
            let all = view.data.all_sessions(cell, arm);
            all.filter(|run| phase.has(run.session))
        };
        if let Some(share) = &sessions.share {
            let labels = runs().filter_map(|run| run.label(&share.label));
            let hits: Vec<bool> = labels.map(|label| label == share.value).collect();
            let count = hits.iter().filter(|hit| **hit).count();
            return (!hits.is_empty()).then(|| percent(count as f64 / hits.len() as f64));
        }
        let sample = data::sample(runs(), &view.metric);
        Some(view.metric.median(sample.median()?, sample.interval()))
    };
    let row = |panel: &Panel, phase: &Phase| {
        let from = format!("{} to {}", phase.first, phase.end - 1);
        let mut row = vec![panel.title.clone(), from, phase.name.clone()];
        row.extend(
            arms.iter()
                .map(|arm| text(panel, phase, arm).unwrap_or_default()),
        );
        row
    };
    let mut columns = ["cell", "sessions", "phase"].map(str::to_owned).to_vec();
    columns.extend(arms.iter().map(|arm| (*arm).to_owned()));
    Table {
        caption: match &sessions.share {
            Some(share) => format!("share of sessions with {} {}", share.label, share.value),
            None => format!("{} of all sessions of a phase, median", view.metric.label),
        },
        columns,
        rows: panels
            .iter()
            .flat_map(|panel| phases.iter().map(move |phase| row(panel, phase)))
            .collect(),
        names: 3,
        folded: true,
    }
    .without_empty_columns()
}

fn steps(view: &View, sessions: &Sessions, panel: &Panel, arm: &str) -> Vec<Step> {
    let Some(cell) = panel.cells.first() else {
        return vec![];
    };
    let runs: Vec<&Run> = view.data.all_sessions(cell, arm).collect();
    let last = runs.iter().map(|run| run.session).max();
    let step = |session: u32| {
        let at = || runs.iter().filter(|run| run.session == session);
        if let Some(share) = &sessions.share {
            let labels: Vec<&str> = at().filter_map(|run| run.label(&share.label)).collect();
            let hits = labels.iter().filter(|label| **label == share.value).count();
            let value = hits as f64 / labels.len() as f64;
            let interval = stats::share_interval(value, labels.len())?;
            return Some(Step {
                session,
                value,
                interval: Some(interval),
                coverage: stats::CONFIDENCE,
                ended: true,
            });
        }
        let sample = data::sample(at().copied(), &view.metric);
        let median = sample
            .median()
            .filter(|median| median.at_least().is_finite())?;
        let interval = sample.interval();
        let coverage = interval.map_or(0.0, |interval| interval.coverage);
        let interval = interval.map(|i| (i.low.at_least(), i.high.at_least()));
        Some(Step {
            session,
            value: median.at_least(),
            interval: interval.filter(|(_, high)| high.is_finite()),
            coverage,
            ended: median.exact().is_some(),
        })
    };
    last.map_or_else(Vec::new, |last| (0..=last).filter_map(step).collect())
}

fn legend(view: &View, sessions: &Sessions, arms: &[&str], coverages: Vec<f64>) -> Vec<Key> {
    let mut keys: Vec<Key> = arms
        .iter()
        .map(|arm| Key {
            mark: Mark::Line(plot::series_class(view.data.arm_index(arm))),
            text: (*arm).to_owned(),
        })
        .collect();
    let text = match &sessions.share {
        Some(share) => format!("Share of runs with {} {}", share.label, share.value),
        None => format!(
            "{}: median over the runs [{}]",
            view.metric.label,
            sample::confidence(coverages)
        ),
    };
    keys.push(Key {
        mark: Mark::None,
        text,
    });
    keys
}

fn picture(
    view: &View,
    sessions: &Sessions,
    panel: &Panel,
    lines: &[(&str, Vec<Step>)],
    panels: usize,
) -> String {
    let all = || lines.iter().flat_map(|(_, steps)| steps);
    let last = all().map(|step| step.session).max().unwrap_or(0);
    let x = Axis::new(
        Scale::Linear {
            low: -0.5,
            high: f64::from(last) + 0.5,
        },
        "session",
        metric::trimmed,
    );
    let x = Axis {
        ticks: x
            .ticks
            .into_iter()
            .filter(|(at, _)| at.fract() == 0.0)
            .collect(),
        ..x
    };
    let y = if let Some(share) = &sessions.share {
        let title = format!("share of runs with {} {}", share.label, share.value);
        Axis::new(
            Scale::Linear {
                low: 0.0,
                high: 1.0,
            },
            title,
            percent,
        )
    } else {
        let values: Vec<f64> = all()
            .flat_map(|step| [Some(step.value), step.interval.map(|i| i.1)])
            .flatten()
            .collect();
        let scale = if sessions.log_y {
            Scale::log(&values)
        } else {
            Scale::linear(&values)
        };
        Axis::new(scale, view.metric.label.clone(), |tick| {
            view.metric.unit.tick(tick)
        })
    };
    let mut frame = Frame::new(size(panels), &panel.title, x, y);
    for change in &view.data.spec.workload.change {
        let within = if change.at.is_some() { 0.0 } else { -0.5 };
        frame.rule(f64::from(change.session) + within, &change_text(change));
    }
    // Intervals of shares are wide and would hide each other, so the hints show them.
    let banded = lines.iter().filter(|_| sessions.share.is_none());
    for (arm, steps) in banded {
        let class = plot::series_class(view.data.arm_index(arm));
        let band: Vec<(f64, f64, f64)> = steps
            .iter()
            .filter_map(|step| {
                step.interval
                    .map(|(low, high)| (f64::from(step.session), low, high))
            })
            .collect();
        if band.len() > 1 {
            frame.area(&band, &format!("band {class}"));
        }
    }
    for (arm, steps) in lines {
        let class = plot::series_class(view.data.arm_index(arm));
        let points: Vec<(f64, f64)> = steps
            .iter()
            .map(|step| (f64::from(step.session), step.value))
            .collect();
        frame.line(&points, &format!("line {class}"));
        for step in steps {
            let text = match (&sessions.share, step.interval) {
                (Some(_), Some((low, high))) => {
                    let [value, low, high] = [step.value, low, high].map(percent);
                    format!("{value} [{low} to {high}]")
                }
                (Some(_), None) => percent(step.value),
                (None, _) => view.metric.value(Value::Exact(step.value)),
            };
            let hint = format!(
                "{arm}, session {}: {}{text}",
                step.session,
                if step.ended { "" } else { "> " }
            );
            let shape = if step.ended { Marker::Dot } else { Marker::Up };
            frame.marker(
                (f64::from(step.session), step.value),
                shape,
                &format!("dot {class}"),
                &hint,
            );
        }
    }
    frame.svg.finish()
}
