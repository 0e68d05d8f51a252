//! The results as a document.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use crate::arms::Arm;
use crate::case::{Case, Kind};
use crate::runner::Outcome;

/// The outcomes of an arm, in the order of all cases.
pub(crate) struct Results {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Results {
    pub(crate) fn new(arm: &Arm, outcomes: Vec<Outcome>) -> Self {
        Self {
            name: arm.name,
            version: arm.version.clone(),
            outcomes,
        }
    }

    /// The cases of a kind that passed.
    pub(crate) fn passed(&self, cases: &[Case], kind: Kind) -> usize {
        let mine = cases.iter().zip(&self.outcomes);
        let passed =
            mine.filter(|(case, outcome)| case.kind == kind && matches!(outcome, Outcome::Passed));
        passed.count()
    }

    pub(crate) fn outcome<'a>(&'a self, cases: &[Case], id: &str) -> &'a Outcome {
        let at = cases.iter().position(|case| case.id == id).unwrap();
        &self.outcomes[at]
    }
}

/// Writes the document.
pub(crate) fn document(subjects: &[(&'static str, Vec<Case>)], results: &[Results]) -> String {
    let cases: Vec<Case> = subjects
        .iter()
        .flat_map(|(_, cases)| cases.clone())
        .collect();
    let mut text = String::from(HEADING);
    text += &scores(&cases, results);
    text += "\n## Faults\n\n";
    text += "Required cases that a cache does not pass, with what was seen; of hikyaku the optimal ones, too.\n\n";
    text += &faults(&cases, results);
    text += "\n## All cases\n";
    let mut first = 0;
    for (subject, of_subject) in subjects {
        writeln!(text, "\n### {subject}\n").unwrap();
        text += &table(of_subject, first, results);
        first += of_subject.len();
    }
    text + &conditions(results)
}

const HEADING: &str = "# Caching by the specifications

Cases of RFC 9111, 9110, 9213, 9211 and 5861: requests to a cache in front of an origin that answers by a programme. `required` means that the specification says so. `optimal` means that the origin is spared a request. `check` means that a cache may do either: the column says what it does. A dash means that the cache never came to the point of the case, for example since it stored nothing.

";

fn scores(cases: &[Case], results: &[Results]) -> String {
    let mut text = row(["kind".to_owned(), "cases".to_owned()]
        .into_iter()
        .chain(results.iter().map(|arm| arm.name.to_owned())));
    text += &row(vec!["---".to_owned(); results.len() + 2]);
    for kind in Kind::ALL {
        let all = cases.iter().filter(|case| case.kind == kind).count();
        let passed = results
            .iter()
            .map(|arm| arm.passed(cases, kind).to_string());
        let kind = [kind.name().to_owned(), all.to_string()];
        text += &row(kind.into_iter().chain(passed));
    }
    text
}

fn faults(cases: &[Case], results: &[Results]) -> String {
    let mut text = String::new();
    for arm in results {
        let mine = cases.iter().zip(&arm.outcomes);
        let counts =
            |kind| kind == Kind::Required || kind == Kind::Optimal && arm.name == "hikyaku";
        for (case, outcome) in mine.filter(|(case, _)| counts(case.kind)) {
            if let Outcome::Failed(why) = outcome {
                let why = why.replace('|', "\\|").replace('`', "'");
                writeln!(text, "- {}: `{}`: {why}", arm.name, case.id).unwrap();
            }
        }
    }
    text
}

fn table(cases: &[Case], first: usize, results: &[Results]) -> String {
    let names = ["case", "of", "kind", "behaviour"].map(str::to_owned);
    let mut text = row(names
        .into_iter()
        .chain(results.iter().map(|arm| arm.name.to_owned())));
    text += &row(vec!["---".to_owned(); results.len() + 4]);
    for (at, case) in cases.iter().enumerate() {
        let cells = [
            format!("`{}`", case.id),
            case.section.to_owned(),
            case.kind.name().to_owned(),
            case.claim.clone(),
        ];
        let outcomes = results.iter().map(|arm| {
            let word = match &arm.outcomes[first + at] {
                Outcome::Passed => "yes",
                Outcome::Failed(_) if case.kind == Kind::Check => "no",
                Outcome::Failed(_) => "**no**",
                Outcome::Untried(_) => "–",
            };
            word.to_owned()
        });
        text += &row(cells.into_iter().chain(outcomes));
    }
    text
}

fn conditions(results: &[Results]) -> String {
    let mut text = String::from("\n## Conditions\n\n");
    for arm in results.iter().filter(|arm| !arm.version.is_empty()) {
        writeln!(text, "- {}: {}", arm.name, arm.version).unwrap();
    }
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let cpus = std::thread::available_parallelism().unwrap();
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty", "--exclude=*"])
        .output()
        .unwrap();
    let commit = String::from_utf8(commit.stdout).unwrap();
    writeln!(
        text,
        "- Linux {}, {cpus} CPUs; commit {}",
        kernel.trim(),
        commit.trim()
    )
    .unwrap();
    text += "- nginx and Varnish with the settings in `crates/cli/tests/cache_cases`; Varnish without grace, lifetime or gzip of its own, and with validation for an hour\n";
    text + "- command: `make cache-cases`\n"
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells
        .into_iter()
        .map(|cell| cell.replace('|', "\\|"))
        .collect();
    format!("| {} |\n", cells.join(" | "))
}
