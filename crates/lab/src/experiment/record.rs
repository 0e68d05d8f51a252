//! The outcome of each session: one JSON line in `runs.jsonl`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hikyaku_units::{LossRate, Rate, duration};
use serde::{Deserialize, Serialize};
use toml::Table;

use super::axis::Cell;
use super::spec::Backend;

/// One session with its conditions and outcome, or with flows one run of all flows together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Name of the experiment.
    pub experiment: String,
    /// Cell of the sweep.
    pub cell: Cell,
    /// Name of the arm.
    pub arm: String,
    /// Repeat of the cell and arm, from 0.
    pub repeat: u32,
    /// Session of the repeat, from 0, with warm-up included.
    pub session: u32,
    /// Whether it is a session of the warm-up, before the measured ones.
    pub warmup: bool,
    /// Seed of the link's random streams. All arms of a cell share it.
    pub seed: u64,
    /// Number of earlier attempts at the repeat, because the machine disturbed it or a session
    /// failed. The last attempt counts ([`counted`]).
    pub attempt: u32,
    /// Backend on which it ran.
    pub backend: Backend,
    /// Time of its begin, RFC 3339.
    pub began: String,
    /// Outcome of the session.
    pub outcome: Outcome,
    /// Reason of a failure or time-out.
    pub error: Option<String>,
    /// Measured figures, with the unit in the name; unknown ones are absent.
    pub metrics: BTreeMap<String, f64>,
    /// Observations that are no numbers.
    pub labels: BTreeMap<String, String>,
    /// Values over time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Vec<Point>>,
    /// The link at the session's begin.
    pub link: Links,
    /// Further links by name, if the experiment has several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_links: BTreeMap<String, Links>,
    /// Figures of the emulator; `None` in simulation.
    pub emulator: Option<Emulator>,
    /// The machine's disturbance of the session, if any.
    pub disturbed: Option<String>,
    /// Conditions that all runs of a measurement share.
    pub conditions: Conditions,
}

/// Seconds since the session's begin, and the value at that time.
pub type Point = (f64, f64);

/// The outcome of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All content arrived.
    Complete,
    /// The session was given up at the time limit. `load_ms` is the time until then, and the
    /// session counts as slower than any complete one.
    TimedOut,
    /// The session could not be measured; `error` has the reason.
    Failed,
}

/// The link's two directions: keys and texts of a [`LinkConfig`](hikyaku_netsim::LinkConfig).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// Direction from client to server.
    pub up: Table,
    /// Direction from server to client.
    pub down: Table,
}

/// Figures of the emulated link and the machine during a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Emulator {
    /// Packets delivered to the client.
    pub delivered: u64,
    /// Packets to the client lost on the wire.
    pub lost: u64,
    /// Packets to the client dropped at the full queue.
    pub dropped: u64,
    /// Mean lateness of packets, µs.
    pub lateness_mean_us: u64,
    /// Lateness that 99 of 100 packets stayed below, µs.
    pub lateness_p99_us: u64,
    /// Greatest lateness, µs.
    pub lateness_max_us: u64,
    /// Packets that the kernel refused.
    pub faults: u64,
    /// Whether the pump ran with real-time priority.
    pub realtime: bool,
    /// Share of the machine's CPU time that its hypervisor gave to others.
    pub steal: f64,
    /// Share of the session for which the threads of the server or the client were runnable but had
    /// no CPU. It is the larger share of both.
    #[serde(default)]
    pub cpu_wait: f64,
}

/// Conditions that all runs of a measurement share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Commit of the measured binary by its own report, with `-dirty` if its sources were changed.
    /// It is `unknown` or empty if the binary does not know it.
    pub commit: String,
    /// SHA-256 of the measured binary.
    pub binary_sha256: String,
    /// Release of the running kernel.
    pub kernel: String,
    /// CPUs: their number and model.
    pub cpu: String,
    /// SHA-256 of the model that is built into the measured binary.
    pub model_sha256: String,
    /// SHA-256 of the experiment's file.
    pub experiment_sha256: String,
    /// Whether it was measured with `--quick`.
    pub quick: bool,
    /// Seed of the whole measurement.
    pub seed: u64,
    /// The experiment as it was named, a shipped one or a file, and further options that changed
    /// the measurement. Empty in records that do not have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

impl Conditions {
    /// Whether sessions are comparable: the same experiment, binary and seed.
    fn is_same(&self, other: &Self) -> bool {
        self.experiment_sha256 == other.experiment_sha256
            && self.binary_sha256 == other.binary_sha256
            && (self.quick, self.seed) == (other.quick, other.seed)
    }
}

/// The reason why records could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file could not be read.
    #[error("reading {}: run the experiment first (`hikyaku lab run`)", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A line is not a record.
    #[error("reading {}, line {line}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: usize,
        /// The parser's error.
        #[source]
        source: serde_json::Error,
    },
}

impl Run {
    /// Returns a metric by its name.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied()
    }

    /// Returns a label by its name.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }
}

impl Links {
    /// Rate towards the client; `None` without a limit.
    pub fn rate(&self) -> Option<Rate> {
        text(&self.down, "rate")?.parse().ok()
    }

    /// Delay of both directions together, without queues.
    pub fn rtt(&self) -> Duration {
        let delay = |direction| {
            text(direction, "one_way_delay").and_then(|text| duration::parse(text).ok())
        };
        delay(&self.up).unwrap_or_default() + delay(&self.down).unwrap_or_default()
    }

    /// Independent loss towards the client; zero if it has none or loses in bursts.
    pub fn loss(&self) -> LossRate {
        text(&self.down, "loss")
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    }
}

fn text<'a>(direction: &'a Table, key: &str) -> Option<&'a str> {
    direction.get(key)?.as_str()
}

/// Reads all records of a `runs.jsonl`. An incomplete last line of a killed run is skipped.
///
/// # Errors
/// If the file cannot be read, or a line is no record.
pub fn read(path: &Path) -> Result<Vec<Run>, RecordError> {
    let text = fs::read_to_string(path).map_err(|source| RecordError::Read {
        path: path.to_owned(),
        source,
    })?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty());
    lines
        .map(|(i, line)| {
            serde_json::from_str(line).map_err(|source| RecordError::Parse {
                path: path.to_owned(),
                line: i + 1,
                source,
            })
        })
        .collect()
}

/// Returns the sessions of the same conditions as the last one. A directory keeps earlier sessions
/// of another binary, text of the experiment or seed.
pub fn latest(mut runs: Vec<Run>) -> Vec<Run> {
    let Some(last) = runs.last().map(|run| run.conditions.clone()) else {
        return runs;
    };
    runs.retain(|run| run.conditions.is_same(&last));
    runs
}

/// Returns the sessions that count: of each repeat those of its last attempt.
pub fn counted(runs: Vec<Run>) -> Vec<Run> {
    by_attempt(runs).0
}

/// Returns the sessions that count, and those that were repeated.
pub(crate) fn by_attempt(runs: Vec<Run>) -> (Vec<Run>, Vec<Run>) {
    type Key = (String, Cell, String, u32, String, u64);
    let key = |run: &Run| -> Key {
        let Conditions {
            binary_sha256,
            seed,
            ..
        } = &run.conditions;
        let (experiment, arm) = (run.experiment.clone(), run.arm.clone());
        (
            experiment,
            run.cell.clone(),
            arm,
            run.repeat,
            binary_sha256.clone(),
            *seed,
        )
    };
    let mut last: BTreeMap<(Key, u32), u32> = BTreeMap::new();
    for run in &runs {
        let attempt = last.entry((key(run), run.session)).or_default();
        *attempt = run.attempt.max(*attempt);
    }
    let counts = |run: &Run| last.get(&(key(run), run.session)) == Some(&run.attempt);
    runs.into_iter().partition(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"experiment":"version-sweep","cell":{"loss":"1%","one_way_delay":"25ms","rate":"200Mbps"},"arm":"h2-cubic","repeat":0,"session":0,"warmup":false,"seed":123,"attempt":0,"backend":"link","began":"2026-11-21T21:00:00Z","outcome":"complete","error":null,"metrics":{"load_ms":812.3},"labels":{"http":"2"},"series":{"cwnd_bytes":[[0.0,14720.0],[0.1,29440.0]]},"link":{"up":{"one_way_delay":"25ms"},"down":{"one_way_delay":"25ms","loss":"1%","rate":"200Mbps"}},"emulator":null,"disturbed":null,"conditions":{"commit":"c","binary_sha256":"b","kernel":"k","cpu":"2 x c","model_sha256":"m","experiment_sha256":"e","quick":false,"seed":1}}"#;

    #[test]
    fn a_record_reads_as_it_was_written() {
        let run: Run = serde_json::from_str(LINE).unwrap();
        assert_eq!(run.metric("load_ms"), Some(812.3));
        assert_eq!(run.label("http"), Some("2"));
        assert_eq!(run.series["cwnd_bytes"][1], (0.1, 29440.0));
        assert_eq!(run.link.rtt(), Duration::from_millis(50));
        assert_eq!(run.link.rate(), Some(Rate::from_mbps(200)));
        let again: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(again, run);
    }

    #[test]
    fn half_a_line_is_passed_over_and_a_wrong_one_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.jsonl");
        fs::write(&path, format!("{LINE}\n{LINE}\n{}", &LINE[..40])).unwrap();
        assert_eq!(read(&path).unwrap().len(), 2);
        fs::write(&path, format!("{LINE}\nhello\n")).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.ends_with("runs.jsonl, line 2"), "{error}");
    }

    #[test]
    fn the_last_attempt_counts() {
        let run: Run = serde_json::from_str(LINE).unwrap();
        let attempt = |repeat, attempt| Run {
            repeat,
            attempt,
            ..run.clone()
        };
        let all = vec![attempt(0, 0), attempt(1, 0), attempt(0, 1)];
        let kept: Vec<_> = counted(all)
            .iter()
            .map(|run| (run.repeat, run.attempt))
            .collect();
        assert_eq!(kept, [(1, 0), (0, 1)]);
    }

    #[test]
    fn earlier_records_of_other_conditions_are_left_out() {
        let run: Run = serde_json::from_str(LINE).unwrap();
        let of = |binary: &str, commit: &str| {
            let mut run = run.clone();
            run.conditions.binary_sha256 = binary.to_owned();
            run.conditions.commit = commit.to_owned();
            run
        };
        let kept = latest(vec![of("old", "a"), of("new", "b"), of("new", "c")]);
        let commits: Vec<_> = kept.iter().map(|run| &run.conditions.commit).collect();
        assert_eq!(commits, ["b", "c"], "the same binary may have two names");
        assert_eq!(latest(Vec::new()), []);
    }
}
