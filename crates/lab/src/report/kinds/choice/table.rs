//! Tables of the choices.

use super::super::View;
use super::{Row, reached};
use crate::experiment::{Axis as Swept, Cell};
use crate::report::axis;
use crate::report::content::Table;
use crate::report::figure::Choice;
use crate::report::metric::{percent, signed_percent, trimmed};
use crate::report::sample::{self, Certainty, Excess, Value};
use crate::report::stats;

/// Makes a table of one adaptive arm beside the fixed ones, with a row for each cell.
pub(super) fn table(
    view: &View,
    choice: &Choice,
    rows: &[&Row],
    fixed: &[&str],
    axes: &[Swept],
) -> Table {
    let arm = rows.first().map_or("", |row| row.arm);
    let chosen = format!("{} {}", choice.label, choice.value);
    let mut columns: Vec<String> = axes
        .iter()
        .map(|axis| axis::name(*axis).to_owned())
        .collect();
    columns.extend(fixed.iter().map(|arm| (*arm).to_owned()));
    columns.extend([arm, "excess", &chosen, "right choice", "paper's excess"].map(str::to_owned));
    columns.extend([format!("paper's {chosen}"), "n".to_owned()]);
    let median = |cell: &Cell, arm: &str| {
        let sample = view.sample(cell, arm);
        let median = sample.median();
        median.map_or(String::new(), |median| {
            view.metric.median(median, sample.interval())
        })
    };
    let line = |row: &&Row| {
        let value = |axis: &Swept| axis::value(*axis, row.cell.get(*axis).unwrap_or_default());
        let mut line: Vec<String> = axes.iter().map(value).collect();
        line.extend(fixed.iter().map(|arm| median(row.cell, arm)));
        let share = view
            .data
            .share(row.cell, row.arm, &choice.label, &choice.value);
        let paper_share = view
            .paper(row.cell, Some(row.arm))
            .and_then(|paper| paper.share);
        line.extend([
            median(row.cell, row.arm),
            excess_text(&row.excess),
            share_text(share),
            if row.best.differ {
                share_text(row.right)
            } else {
                "either".to_owned()
            },
            row.paper_excess.map_or(String::new(), signed_percent),
            paper_share.map_or(String::new(), |share| percent(share / 100.0)),
            view.sample(row.cell, row.arm).size(),
        ]);
        line
    };
    let shown = rows.iter().flat_map(|row| {
        let arms = fixed.iter().copied().chain([row.arm]);
        arms.map(|arm| view.sample(row.cell, arm))
    });
    let confidence = super::super::confidence(shown);
    Table {
        caption: format!(
            "{} of {arm} beside the fixed arms: median [{}]; excess [{}]; \"either\": the fixed arms differ by at most {} %{}",
            view.metric.label,
            confidence,
            sample::confidence(rows.iter().map(|row| row.excess.coverage)),
            trimmed(choice.differ),
            if rows.iter().any(|row| row.paper_excess.is_some()) {
                "; the paper's excess is that of means, not of medians"
            } else {
                ""
            }
        ),
        columns,
        rows: rows.iter().map(line).collect(),
        names: axes.len(),
        folded: false,
    }
    .without_empty_columns()
}

/// Formats an excess as `+1.2 % [−0.4 % to +2.9 %]`.
pub(in crate::report) fn excess_text(excess: &Excess) -> String {
    let value = signed_percent(excess.value);
    match (excess.certainty, excess.interval) {
        (Certainty::Unknown, _) => "both timed out".to_owned(),
        (Certainty::AtLeast, _) => format!("> {value}"),
        (Certainty::AtMost, _) => format!("< {value}"),
        (Certainty::Exact, None) => value,
        (Certainty::Exact, Some((low, high))) => {
            format!(
                "{value} [{} to {}]",
                signed_percent(low).trim_end_matches(" %"),
                signed_percent(high).trim_end_matches(" %")
            )
        }
    }
}

/// Formats a value as `+1.2 %` or `> +1.2 %`.
pub(in crate::report) fn excess_value(value: Value) -> String {
    match value {
        Value::Exact(value) => signed_percent(value),
        Value::Over(value) => format!("> {}", signed_percent(value)),
        Value::Failed => "failed".to_owned(),
    }
}

fn share_text((hits, all): (usize, usize)) -> String {
    match all {
        0 => String::new(),
        _ => percent(hits as f64 / all as f64),
    }
}

/// Makes a table of the mean, the worst, and the share of right choices.
pub(super) fn summary(choice: &Choice, rows: &[Row]) -> Table {
    let columns = [
        "arm",
        "mean excess",
        "worst excess",
        "right choice where arms differ",
        "95 % interval",
        "lowest cell",
    ];
    let line = |arm: &String| {
        let reached = reached(rows, arm);
        let signed = |value: Option<Value>| value.map_or(String::new(), excess_value);
        let share = reached.right.0 as f64 / reached.right.1 as f64;
        let interval = stats::share_interval(share, reached.deciding_runs);
        vec![
            arm.clone(),
            signed(reached.mean),
            signed(reached.worst),
            share_text(reached.right),
            interval.map_or(String::new(), |(low, high)| {
                format!("{} to {}", percent(low), percent(high))
            }),
            reached.right_worst.map_or(String::new(), percent),
        ]
    };
    Table {
        caption: "over all cells; the interval counts all sessions of a run as one".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: choice.adaptive.iter().map(line).collect(),
        names: 1,
        folded: false,
    }
}
