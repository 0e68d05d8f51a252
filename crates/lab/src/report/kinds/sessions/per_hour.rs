//! Number of sessions with a label in an hour of a server with a faster clock.

use std::time::Duration;

use super::super::{Panel, View};
use crate::experiment::Run;
use crate::report::content::{Block, Section, Table};
use crate::report::figure::Share;
use crate::report::goal::Goal;
use crate::report::metric::digits;
use crate::report::sample::{Sample, Value, confidence};

/// Adds a table of the sessions an hour with a label, and the goal.
pub(super) fn draw(
    view: &View,
    share: &Share,
    clock: f64,
    (panels, arms): (&[Panel], &[&str]),
    section: &mut Section,
) {
    let mut rows = vec![];
    let mut coverages = vec![];
    let mut worst: Option<f64> = None;
    for panel in panels {
        for arm in arms {
            let rates = rates(view, panel, arm, share, clock);
            let sample: Sample = rates.iter().copied().map(Value::Exact).collect();
            let Some(median) = sample.median() else {
                continue;
            };
            let interval = sample.interval();
            coverages.extend(interval.map(|interval| interval.coverage));
            let most = rates.iter().copied().fold(0.0, f64::max);
            worst = Some(worst.map_or(most, |worst| worst.max(most)));
            rows.push(vec![
                panel.title.clone(),
                (*arm).to_owned(),
                view_rate(median, interval.map(|i| (i.low, i.high))),
                digits(most),
                sample.size(),
            ]);
        }
    }
    let what = format!("sessions with {} {} per hour", share.label, share.value);
    let columns = ["cell", "arm", "median", "most", "runs"];
    if !rows.is_empty() {
        section.blocks.push(Block::Table(
            Table {
                caption: format!(
                    "{what} of the server's clock, {} times as fast as ours: their number over the time of a run's loads and pauses; median over the runs [{}]",
                    crate::report::metric::trimmed(clock),
                    confidence(coverages)
                ),
                columns: columns.map(str::to_owned).to_vec(),
                rows,
                names: 2,
                folded: false,
            }
            .without_empty_columns(),
        ));
    }
    for (_, bound) in view.common.goal.iter().filter(|(name, _)| *name == RESULT) {
        let what = format!("{what}, most of a run");
        let reached = worst.map(Value::Exact);
        section.goals.push(Goal::of(what, bound, reached));
    }
}

/// Name of the result in `goal`.
const RESULT: &str = "per_hour_worst";

fn view_rate(median: Value, limits: Option<(Value, Value)>) -> String {
    let text = |value: Value| digits(value.at_least());
    match limits {
        Some((low, high)) => format!("{} [{}–{}]", text(median), text(low), text(high)),
        None => text(median),
    }
}

/// Returns for each run the sessions with the label in an hour of the server.
fn rates(view: &View, panel: &Panel, arm: &str, share: &Share, clock: f64) -> Vec<f64> {
    let Some(cell) = panel.cells.first() else {
        return vec![];
    };
    let mut runs: Vec<&Run> = view.data.all_sessions(cell, arm).collect();
    runs.sort_by_key(|run| (run.repeat, run.session));
    let pause = view.data.spec.workload.pause;
    runs.chunk_by(|a, b| a.repeat == b.repeat)
        .filter_map(|run| rate(run, share, (clock, pause)))
        .collect()
}

/// Returns the rate of a run, which lasts as long as its loads and the pauses behind them.
fn rate(sessions: &[&Run], share: &Share, (clock, pause): (f64, Duration)) -> Option<f64> {
    let loads = sessions.iter().filter_map(|run| run.metric("load_ms"));
    let seconds = loads.sum::<f64>() / 1e3 + pause.as_secs_f64() * sessions.len() as f64;
    let hours = seconds / 3600.0 * clock;
    let hits = sessions
        .iter()
        .filter(|run| run.label(&share.label) == Some(share.value.as_str()))
        .count();
    (hours > 0.0).then(|| hits as f64 / hours)
}
