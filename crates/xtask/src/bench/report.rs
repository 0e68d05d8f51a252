//! The report in Markdown.

mod conditions;

use std::fmt::Write;

use super::arms::{Arm, MEASURED, Program};
use super::core_bench::Core;
use super::figures::{Figure, Runs};
use super::host::Machine;
use super::rounds::{Failure, Run};
use super::rows::Row;
use super::stats::Spread;

/// All measurements.
pub(super) struct Results<'a> {
    pub(super) machine: &'a Machine,
    pub(super) rows: &'a [Row],
    pub(super) arms: &'a [Arm],
    pub(super) runs: Vec<Run>,
    pub(super) failures: Vec<Failure>,
    /// `None` if it was not requested.
    pub(super) core: Option<Core>,
}

/// A figure of this build that is worse than that of a build before.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Worse {
    pub(super) row: String,
    pub(super) figure: Figure,
    pub(super) build: String,
    /// By how much: 0.08 is 8 %.
    pub(super) share: f64,
}

impl Results<'_> {
    fn of<'a>(&'a self, row: &'a Row) -> Runs<'a> {
        Runs::of(&self.runs, &row.id)
    }

    /// The builds that the measured one is compared with.
    fn before(&self) -> impl Iterator<Item = &Arm> {
        let build = |arm: &&Arm| arm.program == Program::Hikyaku && arm.name != MEASURED;
        self.arms.iter().filter(build)
    }

    /// The first figures of rows that are clearly worse than a build's before, by more than `limit`.
    pub(super) fn worse(&self, limit: f64) -> Vec<Worse> {
        let mut all = Vec::new();
        for row in self.rows {
            let (figure, _) = row.figures[0];
            for build in self.before() {
                let share = self.of(row).clearly_worse(MEASURED, &build.name, figure);
                all.extend(share.filter(|&share| share > limit).map(|share| Worse {
                    row: row.id.clone(),
                    figure,
                    build: build.name.clone(),
                    share,
                }));
            }
        }
        all
    }

    /// The peer with the best median.
    fn best_peer<'a>(&'a self, row: &'a Row, figure: Figure) -> Option<(&'a Arm, f64)> {
        let peers = self.arms.iter().filter(|arm| !arm.is_hikyaku());
        let medians = peers.filter_map(|arm| {
            let spread = self.of(row).spread(&arm.name, figure)?;
            Some((arm, spread.median))
        });
        match figure.more_is_better() {
            true => medians.max_by(|one, other| one.1.total_cmp(&other.1)),
            false => medians.min_by(|one, other| one.1.total_cmp(&other.1)),
        }
    }
}

/// The whole report. Writing into a `String` does not fail.
pub(super) fn markdown(results: &Results<'_>, raw: &str) -> String {
    let mut out = String::from("# What the edge server costs\n\n");
    let rounds = results.runs.iter().map(|run| run.round + 1).max();
    let _ = writeln!(
        out,
        "Medians over {} paired round(s), with the smallest and largest in parentheses. In each \
         round of a row every server runs once, in an order that turns from round to round; \
         ratios are made within a round. `docs/benchmarks.md` says how everything is measured; \
         every run is in [{raw}]({raw}).\n",
        rounds.unwrap_or(0)
    );
    summary(&mut out, results);
    before(&mut out, results);
    for row in results.rows {
        table(&mut out, results, row);
    }
    core(&mut out, results);
    conditions::failures(&mut out, &results.failures);
    conditions::disturbances(&mut out, &results.runs);
    conditions::conditions(&mut out, results.machine);
    out
}

fn summary(out: &mut String, results: &Results<'_>) {
    out.push_str(
        "## Summary\n\nThe goals were set on one machine: elsewhere only the ratios mean \
         something.\n\n| row | figure | best peer | hikyaku | of the peer's | goal | |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in results.rows {
        for &(figure, goal) in &row.figures {
            let Some(ours) = results.of(row).spread(MEASURED, figure) else {
                continue;
            };
            let decimals = figure.decimals();
            let peer = results.best_peer(row, figure);
            let ratio = peer.and_then(|(arm, _)| ratio(results, row, MEASURED, &arm.name, figure));
            let peer = peer.map(|(arm, median)| format!("{arm} {median:.decimals$}"));
            let met = goal.map(|goal| match figure.meets(ours.median, goal) {
                true => "yes",
                false => "**no**",
            });
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                row.id,
                figure.name(),
                peer.unwrap_or_default(),
                cell(Some(ours), decimals),
                cell(ratio, 2),
                goal.map(|goal| format!("{goal}")).unwrap_or_default(),
                met.unwrap_or_default()
            );
        }
    }
}

fn ratio(
    results: &Results<'_>,
    row: &Row,
    one: &str,
    other: &str,
    figure: Figure,
) -> Option<Spread> {
    Spread::of(results.of(row).ratios(one, other, figure))
}

/// This build beside those before it (`--before`).
fn before(out: &mut String, results: &Results<'_>) {
    for build in results.before() {
        let _ = writeln!(
            out,
            "\n## Beside {build}\n\nThis build's figure, of that of {build} in the same round. \
             Bold is worse in at least three quarters of the rounds.\n\n\
             | row | figure | ratio |\n| --- | --- | --- |"
        );
        for row in results.rows {
            for &(figure, _) in &row.figures {
                let Some(ratio) = ratio(results, row, MEASURED, &build.name, figure) else {
                    continue;
                };
                let worse = results.of(row).clearly_worse(MEASURED, &build.name, figure);
                let mark = if worse.is_some() { "**" } else { "" };
                let (ratio, figure) = (cell(Some(ratio), 3), figure.name());
                let _ = writeln!(out, "| {} | {figure} | {mark}{ratio}{mark} |", row.id);
            }
        }
    }
}

/// Every server's figures of a row.
fn table(out: &mut String, results: &Results<'_>, row: &Row) {
    let names: Vec<&str> = row
        .figures
        .iter()
        .map(|(figure, _)| figure.name())
        .collect();
    let _ = writeln!(
        out,
        "\n## {}\n\n{}.\n\n| server | {} | of hikyaku's | server busy | client busy |\n\
         | --- | {}--- | --- | --- |",
        row.id,
        row.describe(),
        names.join(" | "),
        "--- | ".repeat(names.len())
    );
    let runs = results.of(row);
    let mut absent = Vec::new();
    for arm in results.arms {
        let name = arm.name.as_str();
        if runs.by(name).next().is_none() {
            absent.push(name);
            continue;
        }
        let figures = row.figures.iter().map(|&(figure, _)| {
            let spread = runs.spread(name, figure);
            cell(spread, figure.decimals())
        });
        let figures: Vec<String> = figures.collect();
        let ours = ratio(results, row, name, MEASURED, row.figures[0].0);
        let ours = ours.filter(|_| name != MEASURED);
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {} | {} |",
            figures.join(" | "),
            cell(ours, 2),
            percent(Spread::of(runs.by(name).map(Run::server_busy))),
            percent(Spread::of(runs.by(name).filter_map(Run::client_busy)))
        );
    }
    if !absent.is_empty() {
        let _ = writeln!(out, "\nNot measured: {}.", absent.join("; "));
    }
}

fn core(out: &mut String, results: &Results<'_>) {
    let Some(core) = &results.core else {
        return;
    };
    let decision = &core.decision;
    let _ = writeln!(
        out,
        "\n## Decisions and estimates\n\nOne decision: median {:.0} ns (goal: at most 1,000), 99th \
         percentile {:.0} ns (5,000); looking the client up: {:.0} ns on average (`cargo bench -p \
         hikyaku-core --bench decide`).\n\nMemory of the client table, at most 256 bytes a client \
         (`cargo run --release -p hikyaku-core --example memory`):\n\n\
         | clients | | bytes a client | while it grows |\n| --- | --- | --- | --- |",
        decision.median_ns, decision.p99_ns, decision.view_ns
    );
    for case in &core.estimates {
        let _ = writeln!(
            out,
            "| {} | {} | {:.1} | {:.1} |",
            case.clients, case.case, case.bytes_per_client, case.peak_bytes_per_client
        );
    }
}

/// Prints a run in one line, for progress.
pub(super) fn progress(run: &Run, row: &Row) -> String {
    let figures = row.figures.iter().filter_map(|&(figure, _)| {
        let (value, decimals) = (figure.of(run)?, figure.decimals());
        Some(format!("{value:.decimals$} {}", figure.name()))
    });
    let figures: Vec<String> = figures.collect();
    let mark = match run.disturbed() {
        true => " (disturbed)",
        false => "",
    };
    let (round, server) = (run.round + 1, &run.server);
    format!(
        "{} round {round}: {server}: {}{mark}",
        run.row,
        figures.join(", ")
    )
}

/// Prints `0.98 (0.97-1.02)`.
fn cell(spread: Option<Spread>, decimals: usize) -> String {
    let Some(Spread { median, min, max }) = spread else {
        return String::new();
    };
    format!("{median:.decimals$} ({min:.decimals$}-{max:.decimals$})")
}

fn percent(share: Option<Spread>) -> String {
    share.map_or_else(String::new, |share| {
        format!("{:.0} %", 100.0 * share.median)
    })
}
