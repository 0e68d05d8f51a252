//! The content of a report on an experiment.

use super::content::{Section, Table};
use super::data::{Data, Tally};
use super::goal::{Goal, Verdict};
use super::kinds;
use crate::experiment::{Backend, Conditions, Outcome, Run};

/// A report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Page {
    /// Name of the experiment.
    pub(super) name: String,
    /// Title of the experiment.
    pub(super) title: String,
    /// Question that the experiment answers.
    pub(super) question: String,
    /// Part of a paper that it repeats.
    pub(super) paper: Option<String>,
    /// Counts of the sessions by outcome.
    pub(super) tally: Tally,
    /// Warnings at the beginning of the report.
    pub(super) warnings: Vec<String>,
    /// The figures.
    pub(super) sections: Vec<Section>,
    /// Machine, versions, seed.
    pub(super) conditions: Table,
    /// Commands that run it again.
    pub(super) commands: Vec<String>,
}

impl Page {
    /// Makes the report on the data.
    pub(super) fn of(data: &Data) -> Self {
        let sections = data
            .figures
            .iter()
            .map(|figure| kinds::section(data, figure));
        Self {
            name: data.name.clone(),
            title: data.spec.title.clone(),
            question: data.spec.question.clone(),
            paper: data.spec.paper.clone(),
            tally: data.tally(),
            warnings: warnings(data),
            sections: sections.collect(),
            conditions: conditions(data),
            commands: commands(data),
        }
    }

    /// Returns the goals of all sections.
    pub(super) fn goals(&self) -> impl Iterator<Item = &Goal> + Clone {
        self.sections.iter().flat_map(|section| &section.goals)
    }

    /// Returns the number of reached goals, and that of all that were judged.
    pub(super) fn judged(&self) -> (usize, usize) {
        let judged = |goal: &&Goal| goal.verdict != Verdict::NotJudged;
        let reached = |goal: &&Goal| goal.verdict == Verdict::Reached;
        let goals = self.goals().filter(judged);
        (goals.clone().filter(reached).count(), goals.count())
    }

    /// Formats the counts as `1,234 sessions, 12 of warm-up, 3 timed out`.
    pub(super) fn sessions(&self) -> String {
        let tally = &self.tally;
        let mut parts = vec![plural(tally.sessions, "session")];
        let others = [
            (tally.warmup, "of warm-up"),
            (tally.timed_out, "timed out"),
            (tally.failed, "failed"),
            (tally.disturbed, "disturbed"),
        ];
        parts.extend(
            others
                .iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, what)| format!("{n} {what}")),
        );
        parts.join(", ")
    }
}

/// Returns the commands that measure the same again: one for each call that has added sessions. The
/// measured commit is a comment of the shell.
fn commands(data: &Data) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for run in data.runs() {
        let command = command(data, &run.conditions);
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    if commands.is_empty() {
        let unknown = Conditions {
            seed: data.spec.seed,
            ..Conditions::default()
        };
        commands.push(command(data, &unknown));
    }
    commands
}

fn command(data: &Data, conditions: &Conditions) -> String {
    let mut command = backend(data).command().to_owned();
    if conditions.arguments.is_empty() {
        command = format!("{command} {}", data.name);
    }
    for argument in &conditions.arguments {
        command = format!("{command} {}", quoted(argument));
    }
    if conditions.quick {
        command += " --quick";
    }
    command += &format!(" --seed {}", conditions.seed);
    if !conditions.commit.is_empty() {
        command += &format!("  # hikyaku of commit {}", conditions.commit);
    }
    command
}

/// Returns the backend of the sessions, which in a cross-check is not the experiment's.
fn backend(data: &Data) -> Backend {
    let run = data.runs().first();
    run.map_or(data.spec.backend, |run| run.backend)
}

/// Quotes an argument for a shell.
fn quoted(argument: &str) -> String {
    let plain =
        |character: char| character.is_ascii_alphanumeric() || "-_=.,/%:+".contains(character);
    match !argument.is_empty() && argument.chars().all(plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
}

fn plural(n: usize, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s}")
}

/// Returns the facts that reduce the value of the figures.
fn warnings(data: &Data) -> Vec<String> {
    let tally = data.tally();
    let mut warnings = vec![];
    if data.conditions().is_some_and(|conditions| conditions.quick) {
        warnings.push(
            "Measured with --quick: a part of the experiment, to see that it works. Only the whole \
             experiment is judged by its goals."
                .to_owned(),
        );
    }
    if tally.failed > 0 {
        let failed = data
            .runs()
            .iter()
            .filter(|run| run.outcome == Outcome::Failed);
        let example = failed.filter_map(|run| run.error.as_deref()).next();
        let example = example.unwrap_or("none given");
        warnings.push(format!(
            "{} failed; a failed session ranks behind all others. One reason: {example}",
            plural(tally.failed, "session")
        ));
    }
    if data.failed_before > 0 {
        warnings.push(format!(
            "Failed, then repeated: {}. The last attempt counts. One reason: {}",
            plural(data.failed_before, "session"),
            data.failed_because.as_deref().unwrap_or("none given")
        ));
    }
    if tally.disturbed > 0 {
        let mut reasons = data
            .runs()
            .iter()
            .filter_map(|run| run.disturbed.as_deref());
        let example = reasons.next().unwrap_or_default();
        warnings.push(format!(
            "Shown although the machine disturbed every attempt: {}. One reason: {example}",
            plural(tally.disturbed, "session")
        ));
    }
    if data.other_conditions > 0 {
        warnings.push(format!(
            "{} of another binary, seed or version of the experiment are in the same file and not shown.",
            plural(data.other_conditions, "record")
        ));
    }
    warnings
}

fn conditions(data: &Data) -> Table {
    let unknown = Conditions::default();
    let conditions = data.conditions().unwrap_or(&unknown);
    let mut rows = vec![
        ("machine", conditions.cpu.clone()),
        ("kernel", conditions.kernel.clone()),
        ("commit", conditions.commit.clone()),
        ("binary", sha(&conditions.binary_sha256)),
        ("model", sha(&conditions.model_sha256)),
        ("experiment", sha(&conditions.experiment_sha256)),
        ("seed", conditions.seed.to_string()),
        ("measured", period(data.runs())),
        (
            "repeated because disturbed",
            plural(data.repeated, "session"),
        ),
        (
            "failed, then repeated",
            plural(data.failed_before, "session"),
        ),
    ];
    rows.push((
        "where",
        match backend(data) {
            Backend::Link => {
                "real programs in network namespaces, joined by emulated links".to_owned()
            }
            Backend::Simulation => "simulation in virtual time".to_owned(),
        },
    ));
    if let Some(lateness) = lateness(data.runs()) {
        rows.push(("lateness of the emulator", lateness));
    }
    Table {
        columns: vec![String::new(), String::new()],
        rows: rows
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| vec![name.to_owned(), value])
            .collect(),
        names: 1,
        ..Table::default()
    }
}

fn sha(hash: &str) -> String {
    match hash.get(..16) {
        Some(start) => format!("SHA-256 {start}…"),
        None => hash.to_owned(),
    }
}

/// Returns the first and last begin of a session, in whole seconds.
fn period(runs: &[Run]) -> String {
    let begins = || {
        runs.iter()
            .map(|run| run.began.get(..19).unwrap_or(&run.began))
    };
    match (begins().min(), begins().max()) {
        (Some(first), Some(last)) => format!("{first}Z to {last}Z"),
        _ => String::new(),
    }
}

fn lateness(runs: &[Run]) -> Option<String> {
    let mut p99: Vec<f64> = runs
        .iter()
        .filter_map(|run| run.emulator.map(|emulator| emulator.lateness_p99_us as f64))
        .collect();
    p99.sort_by(f64::total_cmp);
    let median = super::stats::quantile(&p99, 0.5)?;
    let worst = p99.last()?;
    Some(format!(
        "p99 of a session: median {median:.0} µs, at most {worst:.0} µs"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_where_a_shell_needs_it() {
        let cases = [
            ("rate=50Mbps", "rate=50Mbps"),
            ("loss=1%", "loss=1%"),
            ("my own.toml", "'my own.toml'"),
            ("it's", r"'it'\''s'"),
        ];
        for (argument, want) in cases {
            assert_eq!(quoted(argument), want);
        }
    }
}
