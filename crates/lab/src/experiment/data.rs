//! The records of an experiment on disk, and its progress.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::axis::Cell;
use super::record::{Conditions, Outcome, Run};
use super::run::{Attempt, RunError};

/// `OUT/runs.jsonl`, and its records of the present conditions.
#[derive(Debug)]
pub(crate) struct Data {
    path: PathBuf,
    stop_after_timeout: bool,
    foreign: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    sessions: HashMap<Key, Progress>,
}

/// The key of a session to measure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) cell: Cell,
    pub(crate) arm: String,
    pub(crate) repeat: u32,
    pub(crate) session: u32,
}

/// The progress of a session. All but the first two fields are those of the last attempt alone. A
/// good session may be measured again with other sessions of its run.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    attempts: u32,
    /// Failed attempts before the last.
    failed_before: usize,
    good: bool,
    timed_out: bool,
    outcome: Option<Outcome>,
    disturbed: bool,
}

/// Counts of sessions by the outcome of their last attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) complete: usize,
    pub(crate) timed_out: usize,
    pub(crate) failed: usize,
    pub(crate) disturbed: usize,
    /// Attempts that failed and were repeated.
    pub(crate) failed_before: usize,
}

/// Largest number of attempts at a session that fails or is disturbed.
pub(crate) const ATTEMPTS: u32 = 3;

impl Data {
    /// Opens or creates the records in the directory `out`, beside a copy of the experiment's text.
    /// Records of other conditions stay unchanged.
    ///
    /// # Errors
    /// Where another lab writes records there, which would count twice.
    pub(crate) fn open(
        out: &Path,
        text: &str,
        conditions: &Conditions,
        stop_after_timeout: bool,
    ) -> Result<Self, RunError> {
        let what = || format!("writing to {}", out.display());
        fs::create_dir_all(out).attempt(what)?;
        let path = out.join("runs.jsonl");
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .append(true)
            .open(&path)
            .attempt(what)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let why = format!(
                    "another lab writes its records to {}; wait for its end, or name another directory by `--out`",
                    out.display()
                );
                return Err(RunError::Arguments(why));
            }
            Err(TryLockError::Error(source)) => Err(source).attempt(what)?,
        }
        fs::write(out.join("experiment.toml"), text).attempt(what)?;
        repair(&path)?;
        let mut state = State {
            file,
            sessions: HashMap::new(),
        };
        let mut foreign = 0;
        for run in super::record::read(&path)? {
            if same(&run.conditions, conditions) {
                state.note(&run);
            } else {
                foreign += 1;
            }
        }
        Ok(Self {
            path,
            stop_after_timeout,
            foreign,
            state: Mutex::new(state),
        })
    }

    /// Number of records of another binary, experiment or seed.
    pub(crate) fn foreign(&self) -> usize {
        self.foreign
    }

    /// Appends the sessions of one run together, so that a kill leaves all or none.
    pub(crate) fn add(&self, runs: &[Run]) -> Result<(), RunError> {
        let mut lines = Vec::new();
        for run in runs {
            serde_json::to_writer(&mut lines, run)
                .map_err(std::io::Error::from)
                .attempt(|| "writing a record as JSON".to_owned())?;
            lines.push(b'\n');
        }
        let mut state = self.lock();
        let written = state.file.write_all(&lines);
        written.attempt(|| format!("appending to {}", self.path.display()))?;
        runs.iter().for_each(|run| state.note(run));
        Ok(())
    }

    /// Whether a session needs no (further) measurement.
    pub(crate) fn is_done(&self, key: &Key) -> bool {
        let state = self.lock();
        let progress = |repeat| {
            let key = Key {
                repeat,
                ..key.clone()
            };
            state.sessions.get(&key).copied().unwrap_or_default()
        };
        let own = progress(key.repeat);
        own.good
            || own.attempts >= ATTEMPTS
            || (self.stop_after_timeout && (0..key.repeat).any(|repeat| progress(repeat).timed_out))
    }

    /// Whether a run of these sessions needs no (further) measurement. In a long run a tenth may be
    /// disturbed, since the next attempt would have as many others.
    pub(crate) fn is_run_done(&self, keys: &[Key]) -> bool {
        let open = keys.iter().filter(|key| !self.is_done(key));
        let mut tried = 0;
        for key in open {
            if self.attempts(key) == 0 {
                return false;
            }
            tried += 1;
        }
        tried <= keys.len() / 10
    }

    /// Number of attempts at a session.
    pub(crate) fn attempts(&self, key: &Key) -> u32 {
        self.lock()
            .sessions
            .get(key)
            .map_or(0, |progress| progress.attempts)
    }

    /// Counts the sessions so far by outcome.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for progress in self.lock().sessions.values() {
            tally.disturbed += usize::from(progress.disturbed);
            tally.failed_before += progress.failed_before;
            match progress.outcome {
                Some(Outcome::Complete) => tally.complete += 1,
                Some(Outcome::TimedOut) => tally.timed_out += 1,
                Some(Outcome::Failed) => tally.failed += 1,
                None => {}
            }
        }
        tally
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a record belongs to the same measurement. A commit may change without the binary, and
/// the machine's name without the machine.
fn same(one: &Conditions, other: &Conditions) -> bool {
    let key = |conditions: &Conditions| {
        let Conditions {
            binary_sha256,
            experiment_sha256,
            quick,
            seed,
            ..
        } = conditions.clone();
        (binary_sha256, experiment_sha256, quick, seed)
    };
    key(one) == key(other)
}

/// Cuts off an incomplete last line of a killed run.
fn repair(path: &Path) -> Result<(), RunError> {
    let what = || format!("repairing {}", path.display());
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        read => read.attempt(what)?,
    };
    let whole = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |end| end + 1);
    if whole < bytes.len() {
        let file = OpenOptions::new().write(true).open(path).attempt(what)?;
        file.set_len(whole as u64).attempt(what)?;
    }
    Ok(())
}

impl State {
    fn note(&mut self, run: &Run) {
        let key = Key {
            cell: run.cell.clone(),
            arm: run.arm.clone(),
            repeat: run.repeat,
            session: run.session,
        };
        let progress = self.sessions.entry(key).or_default();
        progress.attempts += 1;
        progress.failed_before += usize::from(progress.outcome == Some(Outcome::Failed));
        progress.disturbed = run.disturbed.is_some();
        progress.outcome = Some(run.outcome);
        progress.timed_out = run.outcome == Outcome::TimedOut && !progress.disturbed;
        progress.good = run.outcome != Outcome::Failed && !progress.disturbed;
    }
}

#[cfg(test)]
mod tests;
