//! What happens from session to session: learning, and following changes of the link.

use super::compare::{self, Best};
use super::{Panel, View, size};
use crate::experiment::{Cell, Change, Run};
use crate::report::content::{Block, Chart, Key, Mark, Section, Table};
use crate::report::data;
use crate::report::figure::Sessions;
use crate::report::goal::Goal;
use crate::report::metric::{self, percent};
use crate::report::plot::{self, Axis, Frame, Marker, Scale};
use crate::report::sample::{Sample, Value};
use crate::report::stats;

/// One arm's value at a session: over all repeats, with its interval.
struct Step {
    session: u32,
    value: f64,
    interval: Option<(f64, f64)>,
    ended: bool,
}

/// Sessions between two changes of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Phase {
    name: String,
    first: u32,
    /// Behind the last.
    end: u32,
}

pub(super) fn draw(view: &View, sessions: &Sessions, section: &mut Section) {
    let panels = view.panels(&[], &sessions.panel, section);
    let mut chart = Chart {
        legend: legend(view, sessions),
        panels: vec![],
    };
    for panel in &panels {
        let lines: Vec<(&str, Vec<Step>)> = view
            .arms
            .iter()
            .map(|arm| (*arm, steps(view, sessions, panel, arm)))
            .filter(|(_, steps)| !steps.is_empty())
            .collect();
        if !lines.is_empty() {
            chart
                .panels
                .push(picture(view, sessions, panel, &lines, panels.len()));
        }
    }
    if chart.panels.is_empty() {
        return;
    }
    section.blocks.push(Block::Chart(chart));
    if sessions.adaptive.is_empty() {
        return;
    }
    let adaptations = adaptations(view, sessions, &panels);
    section
        .blocks
        .push(Block::Table(table(view, &panels, &adaptations)));
    goals(view, sessions, &adaptations, section);
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
            let interval = stats::share_interval(hits, labels.len())?;
            let value = hits as f64 / labels.len() as f64;
            return Some(Step {
                session,
                value,
                interval: Some(interval),
                ended: true,
            });
        }
        let sample: Sample = at()
            .filter_map(|run| data::value(run, &view.metric))
            .collect();
        let median = sample
            .median()
            .filter(|median| median.at_least().is_finite())?;
        let interval = sample
            .interval()
            .map(|i| (i.low.at_least(), i.high.at_least()));
        Some(Step {
            session,
            value: median.at_least(),
            interval: interval.filter(|(_, high)| high.is_finite()),
            ended: median.exact().is_some(),
        })
    };
    last.map_or_else(Vec::new, |last| (0..=last).filter_map(step).collect())
}

fn legend(view: &View, sessions: &Sessions) -> Vec<Key> {
    let mut keys: Vec<Key> = view
        .arms
        .iter()
        .map(|arm| Key {
            mark: Mark::Line(plot::series_class(view.data.arm_index(arm))),
            text: (*arm).to_owned(),
        })
        .collect();
    let text = match &sessions.share {
        Some(share) => format!(
            "Share of runs with {} {}, with Wilson's 95 % interval",
            share.label, share.value
        ),
        None => format!(
            "{}: median over the runs, with its 95 % confidence interval",
            view.metric.label
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
        let title = format!("{} {}", share.label, share.value);
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
    for (arm, steps) in lines {
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
            let text = match sessions.share {
                Some(_) => percent(step.value),
                None => view.metric.value(Value::Exact(step.value)),
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

/// `loss 5%`, `down: rate 20Mbps`.
fn change_text(change: &Change) -> String {
    let direction = |name: &str, table: &toml::Table| {
        let keys = table.iter().map(|(key, value)| {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            format!("{} {text}", key.replace('_', " "))
        });
        let keys: Vec<String> = keys.collect();
        (!keys.is_empty()).then(|| format!("{name}{}", keys.join(", ")))
    };
    let parts = [
        direction("", &change.both),
        direction("up: ", &change.up),
        direction("down: ", &change.down),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("; ")
}

/// How an adaptive arm found the right choice in one phase of a cell.
struct Adaptation<'a> {
    panel: usize,
    phase: Phase,
    arm: &'a str,
    best: Best<'a>,
    /// Of each run: sessions before the first that chose right; all of the phase if none did.
    until: Vec<usize>,
    never: usize,
    /// How much longer the phase's first session took than the best arm's median.
    first_excess: Option<f64>,
}

/// The changes cut a run into phases; a change within a session belongs to the next.
fn phases(changes: &[Change], sessions: u32) -> Vec<Phase> {
    let mut phases = vec![Phase {
        name: "start".to_owned(),
        first: 0,
        end: sessions,
    }];
    for change in changes {
        let first = change.session + u32::from(change.at.is_some());
        let name = change_text(change);
        let Some(last) = phases.last_mut() else { break };
        if first == last.first {
            last.name = match last.name.as_str() {
                "start" => name,
                before => format!("{before}; {name}"),
            };
        } else if first < sessions {
            last.end = first;
            phases.push(Phase {
                name,
                first,
                end: sessions,
            });
        }
    }
    phases
}

fn adaptations<'a>(
    view: &View<'a>,
    sessions: &'a Sessions,
    panels: &[Panel],
) -> Vec<Adaptation<'a>> {
    let last = view
        .data
        .runs()
        .iter()
        .map(|run| run.session + 1)
        .max()
        .unwrap_or(0);
    let phases = phases(&view.data.spec.workload.change, last);
    let mut all = vec![];
    for (panel, cell) in panels
        .iter()
        .enumerate()
        .filter_map(|(i, panel)| Some((i, panel.cells.first()?)))
    {
        for phase in &phases {
            for arm in &sessions.adaptive {
                all.extend(adaptation(view, sessions, (panel, cell), phase, arm));
            }
        }
    }
    all
}

fn adaptation<'a>(
    view: &View<'a>,
    sessions: &'a Sessions,
    (panel, cell): (usize, &Cell),
    phase: &Phase,
    arm: &'a str,
) -> Option<Adaptation<'a>> {
    let in_phase = |run: &&Run| (phase.first..phase.end).contains(&run.session);
    let candidates: Vec<compare::Candidate> = view
        .fixed(&sessions.fixed, &sessions.adaptive)
        .into_iter()
        .map(|fixed| {
            let runs = || view.data.all_sessions(cell, fixed).filter(in_phase);
            compare::Candidate {
                arm: fixed,
                sample: runs()
                    .filter_map(|run| data::value(run, &view.metric))
                    .collect(),
                label: compare::most_frequent(runs().filter_map(|run| run.label(&sessions.label))),
            }
        })
        .collect();
    let best = compare::best(&candidates, sessions.differ)?;
    let runs: Vec<&Run> = view.data.all_sessions(cell, arm).filter(in_phase).collect();
    let mut repeats: Vec<u32> = runs.iter().map(|run| run.repeat).collect();
    repeats.sort_unstable();
    repeats.dedup();
    let is_right = |run: &Run| {
        run.label(&sessions.label)
            .is_some_and(|label| best.right.iter().any(|right| right == label))
    };
    let mut until = vec![];
    let mut never = 0;
    for repeat in &repeats {
        let mut of_repeat: Vec<&&Run> = runs.iter().filter(|run| run.repeat == *repeat).collect();
        of_repeat.sort_by_key(|run| run.session);
        let found = of_repeat.iter().position(|run| is_right(run));
        never += usize::from(found.is_none());
        until.push(found.unwrap_or(of_repeat.len()));
    }
    let first = runs.iter().filter(|run| run.session == phase.first);
    let first: Sample = first
        .filter_map(|run| data::value(run, &view.metric))
        .collect();
    let medians = first
        .median()
        .zip(best.sample.median().and_then(Value::exact));
    (!repeats.is_empty()).then(|| Adaptation {
        panel,
        phase: phase.clone(),
        arm,
        first_excess: medians.map(|(first, best)| first.at_least() - best),
        best,
        until,
        never,
    })
}

fn median_of(until: &[usize]) -> Option<f64> {
    let mut values: Vec<f64> = until.iter().map(|n| *n as f64).collect();
    values.sort_by(f64::total_cmp);
    stats::quantile(&values, 0.5)
}

fn table(view: &View, panels: &[Panel], adaptations: &[Adaptation]) -> Table {
    let titled = panels.len() > 1;
    let mut columns: Vec<String> = if titled {
        vec!["cell".to_owned()]
    } else {
        vec![]
    };
    columns.extend(
        [
            "from session",
            "phase",
            "arm",
            "best fixed arm",
            "wrong sessions first, median",
            "most",
            "never right",
            "first session over the best",
        ]
        .map(str::to_owned),
    );
    let row = |adaptation: &Adaptation| {
        let best = &adaptation.best;
        let mut row: Vec<String> = if titled {
            vec![panels[adaptation.panel].title.clone()]
        } else {
            vec![]
        };
        let most = adaptation.until.iter().max();
        let first = adaptation.first_excess.map_or(String::new(), |excess| {
            if excess.is_infinite() {
                "failed".to_owned()
            } else {
                view.metric.unit.text(excess)
            }
        });
        row.extend([
            adaptation.phase.first.to_string(),
            adaptation.phase.name.clone(),
            adaptation.arm.to_owned(),
            if best.differ {
                format!("{} (others up to {} slower)", best.arm, spread(best.spread))
            } else {
                "either".to_owned()
            },
            median_of(&adaptation.until).map_or(String::new(), metric::trimmed),
            most.map_or(String::new(), usize::to_string),
            format!("{} of {}", adaptation.never, adaptation.until.len()),
            first,
        ]);
        row
    };
    Table {
        caption: "how long until the right choice".to_owned(),
        columns,
        rows: adaptations.iter().map(row).collect(),
        names: if titled { 4 } else { 3 },
        folded: false,
    }
}

fn spread(share: f64) -> String {
    if share.is_infinite() {
        "without end".to_owned()
    } else {
        percent(share)
    }
}

fn goals(view: &View, sessions: &Sessions, adaptations: &[Adaptation], section: &mut Section) {
    for arm in sessions
        .adaptive
        .iter()
        .filter(|arm| view.arms.contains(&arm.as_str()))
    {
        let of_arm = || {
            adaptations
                .iter()
                .filter(|adaptation| adaptation.arm == arm)
        };
        for (name, bound) in &view.common.goal {
            let (words, result) = match name.as_str() {
                "until_worst" => {
                    let most = of_arm().flat_map(|a| &a.until).max();
                    (
                        "wrong sessions before the right choice, most",
                        most.map(|n| *n as f64),
                    )
                }
                "until_median" => {
                    let all: Vec<usize> = of_arm().flat_map(|a| a.until.clone()).collect();
                    (
                        "wrong sessions before the right choice, median",
                        median_of(&all),
                    )
                }
                _ => {
                    let worst = of_arm().filter_map(|a| a.first_excess).reduce(f64::max);
                    ("first session over the best fixed arm, worst", worst)
                }
            };
            section
                .goals
                .push(Goal::of(format!("{arm}: {words}"), bound, result));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str) -> Change {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn changes_cut_phases() {
        let changes = [
            change("session = 10\nboth.loss = '5%'"),
            change("session = 20\nat = '2s'\ndown.loss = '0%'"),
        ];
        let phases: Vec<(String, u32, u32)> = phases(&changes, 30)
            .into_iter()
            .map(|p| (p.name, p.first, p.end))
            .collect();
        let want = [
            ("start", 0, 10),
            ("loss 5%", 10, 21),
            ("down: loss 0%", 21, 30),
        ];
        assert_eq!(
            phases,
            want.map(|(name, first, end)| (name.to_owned(), first, end))
        );
    }

    #[test]
    fn a_change_before_the_first_session_names_the_first_phase() {
        let phases = phases(&[change("session = 0\nboth.udp = 'drop'")], 5);
        assert_eq!(phases.len(), 1);
        assert_eq!(phases[0].name, "udp drop");
    }
}
