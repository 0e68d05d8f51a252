//! Time until an adaptive arm chooses right, in each phase of a run.

use super::super::compare::{self, Best};
use super::super::{Panel, View};
use super::phase::Phase;
use crate::experiment::{Cell, Run};
use crate::report::content::{Section, Table};
use crate::report::data;
use crate::report::figure::Sessions;
use crate::report::goal::Goal;
use crate::report::metric::{self, percent};
use crate::report::sample::Value;
use crate::report::stats;

/// An adaptive arm's sessions until the right choice in one phase of a cell.
pub(super) struct Adaptation<'a> {
    panel: usize,
    phase: Phase,
    arm: &'a str,
    best: Best<'a>,
    /// Number of sessions before the first right choice in each run; all of the phase if none was
    /// right.
    until: Vec<usize>,
    never: usize,
    /// How much longer the phase's first session took than the best arm's median.
    first_excess: Option<Value>,
}

pub(super) fn adaptations<'a>(
    view: &View<'a>,
    sessions: &'a Sessions,
    panels: &[Panel],
    phases: &[Phase],
) -> Vec<Adaptation<'a>> {
    let mut all = vec![];
    for (i, panel) in panels.iter().enumerate() {
        let Some(cell) = panel.cells.first() else {
            continue;
        };
        for phase in phases {
            let of_arm = |arm: &'a String| adaptation(view, sessions, (i, cell), phase, arm);
            all.extend(sessions.adaptive.iter().filter_map(of_arm));
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
    let runs = |arm: &str| -> Vec<&Run> {
        let all = view.data.all_sessions(cell, arm);
        all.filter(|run| phase.has(run.session)).collect()
    };
    let sample = |runs: &[&Run]| data::sample(runs.iter().copied(), &view.metric);
    let candidate = |fixed: &'a String| {
        let runs = runs(fixed);
        let labels = runs.iter().filter_map(|run| run.label(&sessions.label));
        compare::Candidate {
            arm: fixed,
            sample: sample(&runs),
            label: compare::most_frequent(labels),
        }
    };
    let candidates: Vec<compare::Candidate> = sessions.fixed.iter().map(candidate).collect();
    let best = compare::best(&candidates, sessions.differ)?;
    let mut runs = runs(arm);
    runs.sort_by_key(|run| (run.repeat, run.session));
    let first: Vec<&Run> = runs
        .iter()
        .copied()
        .filter(|run| run.session == phase.first)
        .collect();
    let medians = sample(&first)
        .median()
        .zip(best.sample.median().and_then(Value::exact));
    let right = match &sessions.right {
        Some(right) => std::slice::from_ref(right),
        None => best.right.as_slice(),
    };
    let is_right = |run: &Run| {
        let label = run.label(&sessions.label);
        label.is_some_and(|label| right.iter().any(|right| right == label))
    };
    let of_repeats = || runs.chunk_by(|a, b| a.repeat == b.repeat);
    let found = of_repeats().map(|repeat| {
        repeat
            .iter()
            .position(|run| is_right(run))
            .ok_or(repeat.len())
    });
    let found: Vec<Result<usize, usize>> = found.collect();
    (!found.is_empty()).then(|| Adaptation {
        panel,
        phase: phase.clone(),
        arm,
        first_excess: medians.map(|(first, best)| first.map(|first| first - best)),
        never: found.iter().filter(|found| found.is_err()).count(),
        until: found
            .into_iter()
            .map(|found| found.unwrap_or_else(|all| all))
            .collect(),
        best,
    })
}

fn median_of<'n>(until: impl Iterator<Item = &'n usize>) -> Option<f64> {
    let mut values: Vec<f64> = until.map(|n| *n as f64).collect();
    values.sort_by(f64::total_cmp);
    stats::quantile(&values, 0.5)
}

pub(super) fn table(view: &View, panels: &[Panel], adaptations: &[Adaptation]) -> Table {
    let columns = [
        "cell",
        "from session",
        "phase",
        "arm",
        "best fixed arm",
        "others slower by up to",
        "wrong sessions first, median",
        "most",
        "never right",
        "first session over the best",
    ];
    let row = |adaptation: &Adaptation| {
        let best = &adaptation.best;
        vec![
            panels[adaptation.panel].title.clone(),
            adaptation.phase.first.to_string(),
            adaptation.phase.name.clone(),
            adaptation.arm.to_owned(),
            best.arm.to_owned(),
            slower(best),
            median_of(adaptation.until.iter()).map_or(String::new(), metric::trimmed),
            adaptation
                .until
                .iter()
                .max()
                .map_or(String::new(), usize::to_string),
            format!("{} of {}", adaptation.never, adaptation.until.len()),
            adaptation
                .first_excess
                .map_or(String::new(), |excess| view.metric.value(excess)),
        ]
    };
    Table {
        caption: "how long until the right choice".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: adaptations.iter().map(row).collect(),
        names: 4,
        folded: false,
    }
    .without_empty_columns()
}

fn slower(best: &Best) -> String {
    match best.spread {
        _ if best.alone => String::new(),
        spread if spread.is_infinite() => "timed out".to_owned(),
        spread => percent(spread),
    }
}

pub(super) fn goals(
    view: &View,
    sessions: &Sessions,
    adaptations: &[Adaptation],
    section: &mut Section,
) {
    let measured = |arm: &&String| view.arms.contains(&arm.as_str());
    for arm in sessions.adaptive.iter().filter(measured) {
        let of_arm = || {
            adaptations
                .iter()
                .filter(|adaptation| adaptation.arm == arm)
        };
        let until = || of_arm().flat_map(|adaptation| &adaptation.until);
        for (name, bound) in &view.common.goal {
            let (words, result) = match name.as_str() {
                "until_worst" => (
                    "wrong sessions before the right choice, most",
                    until().max().map(|n| Value::Exact(*n as f64)),
                ),
                "until_median" => (
                    "wrong sessions before the right choice, median",
                    median_of(until()).map(Value::Exact),
                ),
                _ => {
                    let excesses = of_arm().filter_map(|adaptation| adaptation.first_excess);
                    (
                        "first session over the best fixed arm, worst",
                        excesses.max_by(Value::rank_cmp),
                    )
                }
            };
            section
                .goals
                .push(Goal::of(format!("{arm}: {words}"), bound, result));
        }
    }
}
