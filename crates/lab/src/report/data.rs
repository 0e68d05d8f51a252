//! A directory of an experiment, loaded for reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hikyaku_netsim::derive_seed;

use super::error::ReportError;
use super::figure::{Common, Figure};
use super::metric::Metric;
use super::sample::{Sample, Value};
use crate::experiment::{self, Axis, Cell, Conditions, Outcome, Run, Spec};

/// An experiment with its measurements.
#[derive(Debug)]
pub(super) struct Data {
    /// Name of the experiment.
    pub(super) name: String,
    /// The experiment as it was run, with the changes of `--quick` if it was used.
    pub(super) spec: Spec,
    /// Figures of the report.
    pub(super) figures: Vec<Figure>,
    /// Number of sessions of other conditions than the latest, which are not shown.
    pub(super) other_conditions: usize,
    /// Number of attempts that were repeated because the machine disturbed them or another session
    /// of their run.
    pub(super) repeated: usize,
    /// Attempts that failed and were repeated.
    pub(super) failed_before: usize,
    /// Reason of the first of these failures.
    pub(super) failed_because: Option<String>,
    runs: Vec<Run>,
    index: BTreeMap<(String, Cell), Vec<usize>>,
}

/// Counts of sessions by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// All sessions, without warm-up.
    pub(super) sessions: usize,
    /// Sessions of warm-up.
    pub(super) warmup: usize,
    /// Sessions given up at the time limit.
    pub(super) timed_out: usize,
    /// Failed sessions.
    pub(super) failed: usize,
    /// Sessions that the machine disturbed in the last attempt, too.
    pub(super) disturbed: usize,
}

impl Data {
    /// Reads `experiment.toml` and `runs.jsonl` of a directory. `figures` is the text of an
    /// experiment whose figures replace those of the directory.
    ///
    /// # Errors
    /// If a file is missing or wrong, or no session exists.
    pub(super) fn load(dir: &Path, figures: Option<&str>) -> Result<Self, ReportError> {
        let path = dir.join("experiment.toml");
        let text =
            fs::read_to_string(&path).map_err(|source| ReportError::Experiment { path, source })?;
        let path = dir.join("runs.jsonl");
        let runs = experiment::read(&path)?;
        if runs.is_empty() {
            return Err(ReportError::Empty { path });
        }
        Self::new(&text, figures.unwrap_or(&text), runs)
    }

    /// Makes the data from an experiment's text and its records, of which at least one exists.
    ///
    /// # Errors
    /// If the text is wrong.
    pub(super) fn new(text: &str, figures: &str, runs: Vec<Run>) -> Result<Self, ReportError> {
        let all = runs.len();
        let runs = experiment::latest(runs);
        let last = runs.last().cloned();
        let (name, conditions) = last
            .map(|run| (run.experiment, run.conditions))
            .unwrap_or_default();
        let other_conditions = all - runs.len();
        let (runs, repeated) = experiment::by_attempt(runs);
        let failed = |run: &&Run| run.outcome == Outcome::Failed;
        let failed_before = repeated.iter().filter(failed).count();
        let mut errors = repeated.iter().filter(failed).map(|run| run.error.clone());
        let failed_because = errors.next().flatten();
        // Figures name the arms and values of the whole experiment, also after a run of a part.
        let whole = Spec::parse(&name, figures, false)?;
        let figures = Figure::all(&whole).map_err(|source| ReportError::Figure {
            name: name.clone(),
            source,
        })?;
        let mut index: BTreeMap<(String, Cell), Vec<usize>> = BTreeMap::new();
        for (i, run) in runs.iter().enumerate() {
            index
                .entry((run.arm.clone(), run.cell.clone()))
                .or_default()
                .push(i);
        }
        Ok(Self {
            spec: Spec::parse(&name, text, conditions.quick)?,
            other_conditions,
            repeated: repeated.len() - failed_before,
            failed_before,
            failed_because,
            name,
            figures,
            runs,
            index,
        })
    }

    /// Returns the common conditions of all sessions.
    pub(super) fn conditions(&self) -> Option<&Conditions> {
        self.runs.last().map(|run| &run.conditions)
    }

    /// Returns all sessions, warm-up included.
    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Counts the sessions by outcome.
    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for run in &self.runs {
            if run.warmup {
                tally.warmup += 1;
                continue;
            }
            tally.sessions += 1;
            tally.timed_out += usize::from(run.outcome == Outcome::TimedOut);
            tally.failed += usize::from(run.outcome == Outcome::Failed);
            tally.disturbed += usize::from(run.disturbed.is_some());
        }
        tally
    }

    /// Returns the sessions of an arm in a cell, warm-up included.
    pub(super) fn all_sessions(&self, cell: &Cell, arm: &str) -> impl Iterator<Item = &Run> {
        let found = self.index.get(&(arm.to_owned(), cell.clone()));
        found.into_iter().flatten().map(|i| &self.runs[*i])
    }

    /// Returns the sessions of an arm in a cell, without warm-up.
    pub(super) fn sessions(&self, cell: &Cell, arm: &str) -> impl Iterator<Item = &Run> {
        self.all_sessions(cell, arm).filter(|run| !run.warmup)
    }

    /// Returns a metric of the sessions of an arm in a cell.
    pub(super) fn sample(&self, cell: &Cell, arm: &str, metric: &Metric) -> Sample {
        sample(self.sessions(cell, arm), metric)
    }

    /// Returns the number of these sessions with this value of a label, and of those with the
    /// label.
    pub(super) fn share(&self, cell: &Cell, arm: &str, label: &str, value: &str) -> (usize, usize) {
        let labels = self.sessions(cell, arm).filter_map(|run| run.label(label));
        labels.fold((0, 0), |(hits, all), found| {
            (hits + usize::from(found == value), all + 1)
        })
    }

    /// Returns the measured arms of a figure, in its order.
    pub(super) fn arms<'a>(&'a self, common: &'a Common) -> Vec<&'a str> {
        let names: Vec<&str> = match common.arms.is_empty() {
            true => self.spec.arms.iter().map(|arm| arm.name.as_str()).collect(),
            false => common.arms.iter().map(String::as_str).collect(),
        };
        let measured = |name: &&str| self.index.keys().any(|(arm, _)| arm == name);
        names.into_iter().filter(measured).collect()
    }

    /// Returns the index of an arm in the experiment, which gives its colour on the whole page.
    pub(super) fn arm_index(&self, name: &str) -> usize {
        let found = self.spec.arms.iter().position(|arm| arm.name == name);
        found.unwrap_or(self.spec.arms.len())
    }

    /// Returns the cells of a figure, in the order of the file.
    pub(super) fn cells(&self, common: &Common) -> Vec<Cell> {
        let seed = self
            .conditions()
            .map_or(self.spec.seed, |conditions| conditions.seed);
        let mut cells = self.spec.cells(seed);
        cells.retain(|cell| common.cells.matches(cell));
        cells
    }

    /// Returns the values of an axis in `cells`, in the order of the file.
    pub(super) fn values(&self, axis: Axis, cells: &[Cell]) -> Vec<String> {
        let all = self.spec.axes.get(&axis).map_or(&[][..], Vec::as_slice);
        let has = |value: &&String| cells.iter().any(|cell| cell.get(axis) == Some(value));
        all.iter().filter(has).cloned().collect()
    }

    /// Returns the axes with several values in `cells`.
    pub(super) fn varied(&self, cells: &[Cell]) -> Vec<Axis> {
        let axes = self.spec.axes.keys().copied();
        axes.filter(|axis| self.values(*axis, cells).len() > 1)
            .collect()
    }
}

/// Returns the seed of a comparison's bootstrap in a cell: the same data give the same report.
pub(super) fn bootstrap_seed(cell: &Cell, arms: &[&str]) -> u64 {
    let text = format!("{cell} {}", arms.join(" "));
    let words: Vec<u64> = text.bytes().map(u64::from).collect();
    derive_seed(0, &words)
}

/// Returns a metric of these sessions, by their run.
pub(super) fn sample<'a>(runs: impl IntoIterator<Item = &'a Run>, metric: &Metric) -> Sample {
    let of_run = |run: &Run| Some((run.repeat, value(run, metric)?));
    runs.into_iter().filter_map(of_run).collect()
}

/// Returns a session's value of a metric, if it has one.
fn value(run: &Run, metric: &Metric) -> Option<Value> {
    let measured = run.metric(&metric.name);
    match run.outcome {
        Outcome::TimedOut if metric.name == "load_ms" => {
            Some(measured.map_or(Value::Failed, Value::Over))
        }
        Outcome::Failed if metric.ranks_failures() => Some(Value::Failed),
        Outcome::Failed if metric.name == "goodput_mbps" => {
            Some(Value::Exact(measured.unwrap_or(0.0)))
        }
        Outcome::TimedOut if metric.ranks_failures() => {
            Some(measured.map_or(Value::Failed, Value::Exact))
        }
        _ => measured.map(Value::Exact),
    }
}
